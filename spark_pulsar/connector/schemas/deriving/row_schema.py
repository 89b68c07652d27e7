"""Schemas of rows to be written: which columns make the message, and the schema that the topic gets for them
(SCHEMA-2).

`schemaType` decides. AVRO and JSON take all columns but those of the message itself (`__key`, `__topic`, …) as the
fields of a record, or the fields of the one column that is a struct; a primitive type takes the one column that there
is; KEY_VALUE takes the columns `key` and `value`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.options.decode_mode import BASE64, TEXT
from spark_pulsar.connector.options.options import AUTO_PRODUCE_BYTES, NO_SCHEMA, Options
from spark_pulsar.connector.schemas.definition import KEY_VALUE_ENCODING, KeyValueEncoding
from spark_pulsar.connector.schemas.deriving.avro_definition import derive_record
from spark_pulsar.connector.schemas.linked_definition import linked_text
from spark_pulsar.model.schemas import Schema, SchemaType, join_key_and_value

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_pulsar.wire.columns.flat import FlatBytes

META_PREFIX: Final = "__"
"""Beginning of the names of columns that are parts of the message, not of its value."""
AUTO: Final = "AUTO"
RECORDS: Final = (SchemaType.AVRO, SchemaType.JSON)

PRIMITIVES: Final[Mapping[SchemaType, tuple[str, ...]]] = {
    SchemaType.BYTES: ("binary",),
    SchemaType.STRING: ("string",),
    SchemaType.BOOLEAN: ("boolean",),
    SchemaType.INT8: ("byte",),
    SchemaType.INT16: ("short", "byte"),
    SchemaType.INT32: ("integer", "short", "byte"),
    SchemaType.INT64: ("long", "integer", "short", "byte"),
    SchemaType.FLOAT: ("float",),
    SchemaType.DOUBLE: ("double", "float"),
    SchemaType.DATE: ("date",),
    SchemaType.TIME: ("time",),
    SchemaType.TIMESTAMP: ("timestamp", "timestamp_ntz"),
    SchemaType.INSTANT: ("timestamp", "timestamp_ntz"),
    SchemaType.LOCAL_DATE: ("date",),
    SchemaType.LOCAL_TIME: ("time",),
    SchemaType.LOCAL_DATE_TIME: ("timestamp_ntz", "timestamp"),
}
"""Spark's types that each primitive schema takes without loss, by their names in JSON; the first is its own. AUTO takes
the first schema that has the column's type first."""


@dataclass(frozen=True, slots=True)
class PartSchema:
    """A key or a value: columns, and the schema of what they become. Picklable."""

    schema: Schema
    columns: tuple[str, ...]
    is_struct: bool = False
    """True when the one column is a struct whose fields are those of the record."""
    json_bytes: str = BASE64
    json_times: str = TEXT

    def encode(self, table: pa.Table) -> FlatBytes:
        """Encodes the rows; null where the one column is null."""
        from spark_pulsar.connector.schemas.encoding.avro_payloads import encode_avro
        from spark_pulsar.connector.schemas.encoding.json_payloads import JsonForm, encode_json
        from spark_pulsar.connector.schemas.encoding.primitive_payloads import encode_primitive

        if self.schema.type not in RECORDS:
            return encode_primitive(_column(table, self.columns[0]), self.schema.type)
        rows, definition = self._rows(table), linked_text(self.schema.data)
        if self.schema.type is SchemaType.AVRO:
            return encode_avro(rows, definition)
        return encode_json(rows, definition, JsonForm(self.json_bytes, self.json_times))

    def _rows(self, table: pa.Table) -> Any:
        import pyarrow as pa

        if self.is_struct:
            return _column(table, self.columns[0])
        return pa.StructArray.from_arrays([_column(table, name) for name in self.columns], names=self.columns)


@dataclass(frozen=True, slots=True)
class RowSchema:
    """The schema of a topic for the rows of a DataFrame: of the value, and with a KEY_VALUE schema of the key."""

    value: PartSchema
    key: PartSchema | None = None
    encoding: KeyValueEncoding = KeyValueEncoding.INLINE

    @property
    def schema(self) -> Schema:
        """Schema as the registry has it."""
        if self.key is None:
            return self.value.schema
        key, value = self.key.schema, self.value.schema
        properties = {
            f"{name}.{what}": text
            for name, part in (("key", key), ("value", value))
            for what, text in (
                ("schema.name", part.type.name),
                ("schema.type", part.type.name),
                ("schema.properties", "{}"),
            )
        }
        properties[KEY_VALUE_ENCODING] = self.encoding.value
        return Schema(SchemaType.KEY_VALUE, join_key_and_value(key.data, value.data), properties)

    @property
    def is_registered(self) -> bool:
        """Returns whether topics get a schema of these rows: not of mere bytes."""
        return self.key is not None or self.value.schema.type is not SchemaType.BYTES

    def encode(self, table: pa.Table) -> tuple[Any, Any]:
        """Encodes rows: values, and the keys of messages (binary), or None where these are no part of the schema."""
        from spark_pulsar.connector.schemas.encoding.columns import binary_array
        from spark_pulsar.connector.schemas.encoding.key_value_payloads import encode_inline

        value = self.value.encode(table)
        if self.key is None:
            return binary_array(value), None
        key = self.key.encode(table)
        if self.encoding is KeyValueEncoding.INLINE:
            return encode_inline(key, value), None
        return binary_array(value), binary_array(key)

    def with_schemas(self, value: Schema, key: Schema | None = None) -> RowSchema:
        """Returns these rows written with other definitions, those of a topic."""
        return replace(
            self,
            value=replace(self.value, schema=value),
            key=self.key if self.key is None or key is None else replace(self.key, schema=key),
        )


def derive_row_schema(fields: Sequence[Mapping[str, Any]], options: Options) -> RowSchema | None:
    """Derives the schema of rows from the columns of a DataFrame, given as in `StructType.jsonValue()`; None when the
    option `schemaType` requests none, or takes encoded values. Raises SchemaError for a column that the schema cannot
    take."""
    if options.schema_type in (NO_SCHEMA, AUTO_PRODUCE_BYTES):
        return None
    values = [field for field in fields if not field["name"].startswith(META_PREFIX)]
    if options.schema_type == SchemaType.KEY_VALUE.name:
        rows = _key_value(values, options)
        if rows.encoding is KeyValueEncoding.SEPARATED and any(field["name"] == "__key" for field in fields):
            raise SchemaError("keyValueEncodingType SEPARATED makes the column key that of the message; drop __key")
        return rows
    if not values:
        raise SchemaError("there is no column for the value, only columns of the message")
    return RowSchema(_part(values, options.schema_type, "schemaType", options))


def _key_value(fields: Sequence[Mapping[str, Any]], options: Options) -> RowSchema:
    by_name = {field["name"]: field for field in fields}
    if set(by_name) != {"key", "value"}:
        raise SchemaError(
            f"schemaType KEY_VALUE takes the columns key and value, not {', '.join(by_name) or 'none'}; "
            "put several into one: struct(...) AS value"
        )
    return RowSchema(
        value=_part([by_name["value"]], options.value_schema_type, "valueSchemaType", options),
        key=_part([by_name["key"]], options.key_schema_type, "keySchemaType", options),
        encoding=KeyValueEncoding(options.key_value_encoding_type),
    )


def _part(fields: Sequence[Mapping[str, Any]], schema_type: str, option: str, options: Options) -> PartSchema:
    names = tuple(field["name"] for field in fields)
    kind = fields[0]["type"]
    is_struct = len(fields) == 1 and isinstance(kind, dict) and kind["type"] == "struct"
    chosen = _chosen(fields, is_struct) if schema_type == AUTO else SchemaType[schema_type]
    if chosen in RECORDS:
        definition = derive_record(kind if is_struct else {"fields": fields})
        schema = Schema(chosen, json.dumps(definition).encode())
        return PartSchema(schema, names, is_struct, options.json_bytes, options.json_times)
    if len(fields) > 1:
        raise SchemaError(
            f"{option} {chosen.name} takes one column, not {', '.join(names)}; use AVRO or JSON for several"
        )
    if not isinstance(kind, str) or _family(kind) not in PRIMITIVES[chosen]:
        shown = kind if isinstance(kind, str) else kind["type"]
        raise SchemaError(
            f"column {names[0]} is {shown}, but {option} {chosen.name} takes {' or '.join(PRIMITIVES[chosen])}; cast it"
        )
    return PartSchema(Schema(chosen), names)


def _chosen(fields: Sequence[Mapping[str, Any]], is_struct: bool) -> SchemaType:
    if len(fields) > 1 or is_struct:
        return SchemaType.AVRO
    kind = fields[0]["type"]
    for schema_type, families in PRIMITIVES.items():
        if isinstance(kind, str) and _family(kind) == families[0]:
            return schema_type
    return SchemaType.AVRO


def _family(kind: str) -> str:
    """Returns a type's name without its parameters; every kind of text is a string."""
    name = kind.partition("(")[0].partition(" ")[0]
    return "string" if name in ("varchar", "char") else name


def _column(table: pa.Table, name: str) -> Any:
    from spark_pulsar.wire.columns.flat import one_array

    return one_array(table.column(name))
