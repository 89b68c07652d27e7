"""Schemas with the public face of Spark's `StructType`, for callers that have Arrow tables and no pyspark. The columns
that a topic's schema gives to a read are in `types.columns` (SCHEMA-1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from .spark_types import JSON_NAMES, json_field

_DDL_NAMES: Final = {json_name: name for name, json_name in JSON_NAMES.items()}


class SparkType:
    """A Spark type that is no struct, array or map."""

    def __init__(self, name: str) -> None:
        self._name = name

    def simpleString(self) -> str:
        """Returns its name in DDL."""
        return self._name


class SparkArray(SparkType):
    """An array."""

    def __init__(self, json: Mapping[str, Any]) -> None:
        self.elementType: Final = spark_type(json["elementType"])
        self.containsNull: Final = bool(json["containsNull"])
        super().__init__(f"array<{self.elementType.simpleString()}>")


class SparkMap(SparkType):
    """A map."""

    def __init__(self, json: Mapping[str, Any]) -> None:
        self.keyType: Final = spark_type(json["keyType"])
        self.valueType: Final = spark_type(json["valueType"])
        self.valueContainsNull: Final = bool(json["valueContainsNull"])
        super().__init__(f"map<{self.keyType.simpleString()},{self.valueType.simpleString()}>")


@dataclass(frozen=True)
class SparkField:
    """A column, or a field of a struct."""

    name: str
    dataType: SparkType
    nullable: bool


class SparkSchema(SparkType):
    """A struct, or the columns of a table; `json` is as of `StructType.jsonValue()`."""

    def __init__(self, json: Mapping[str, Any]) -> None:
        self._json = json
        self.fields: Final = [
            SparkField(field["name"], spark_type(field["type"]), bool(field["nullable"])) for field in json["fields"]
        ]
        members = ",".join(f"{field.name}:{field.dataType.simpleString()}" for field in self.fields)
        super().__init__(f"struct<{members}>")

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [field.name for field in self.fields]

    def jsonValue(self) -> Mapping[str, Any]:
        """Returns the schema as Spark writes it into JSON."""
        return self._json


def spark_type(json: Any) -> SparkType:
    """Makes the type that a value of `DataType.jsonValue()` describes."""
    if isinstance(json, str):
        return SparkType(_DDL_NAMES.get(json, json))
    return {"struct": SparkSchema, "array": SparkArray, "map": SparkMap}[json["type"]](json)


def of_arrow(schema: pa.Schema) -> SparkSchema:
    """Returns the Spark schema of an Arrow table. Raises SchemaError for a column whose type Spark lacks."""
    return of_fields(json_field(field.name, field.type) for field in schema)


def of_fields(fields: Iterable[Mapping[str, Any]]) -> SparkSchema:
    """Makes a schema of its columns as in `StructType.jsonValue()`."""
    return SparkSchema({"type": "struct", "fields": list(fields)})
