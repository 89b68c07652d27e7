"""Columns that the schema of a topic gives to a read: fields of a record, `key` and `value`, or `value` alone
(SCHEMA-1)."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.types.arrow_types import PRIMITIVES, RAW, arrow_type
from spark_pulsar.model.schemas import SchemaType

VALUE: Final = "value"
KEY: Final = "key"


def value_type(definition: Definition) -> Any:
    """Returns the Arrow type of the payloads of a schema; a struct for a record, OddType where Spark lacks a type.
    Raises SchemaError for a schema that cannot be read."""
    kind = definition.type
    if kind in PRIMITIVES:
        return PRIMITIVES[kind]
    if kind is SchemaType.AVRO:
        return arrow_type(definition.avro())
    if kind is SchemaType.JSON:
        avro_type = definition.avro()
        if avro_type.kind != "record":
            raise SchemaError(f"a JSON schema must define a record, not {avro_type.kind}{RAW}")
        return arrow_type(avro_type, is_json=True)
    if kind is SchemaType.PROTOBUF_NATIVE:
        from spark_pulsar.connector.schemas.types.protobuf_types import message_type

        return message_type(definition)
    raise SchemaError(f"schemas of type {kind.name} cannot be read{RAW}")


def is_record(definition: Definition) -> bool:
    """Returns whether the columns are the fields of a record."""
    if definition.type is SchemaType.AVRO:
        return definition.avro().kind == "record"
    return definition.type in (SchemaType.JSON, SchemaType.PROTOBUF_NATIVE)


def has_fields(definition: Definition) -> bool:
    """Returns whether a schema names fields, of the record or of one half of KEY_VALUE, so that others may be new."""
    if definition.type is SchemaType.KEY_VALUE:
        key, value, _ = definition.key_value()
        return has_fields(key) or has_fields(value)
    return is_record(definition) and value_type(definition).num_fields > 0


def value_columns(definition: Definition | None) -> Any:
    """Returns the columns of a read that its schema gives, as Arrow fields; without a schema `value` as bytes."""
    if definition is None:
        return pa.schema([pa.field(VALUE, pa.binary())])
    if definition.type is SchemaType.KEY_VALUE:
        key, value, _ = definition.key_value()
        return pa.schema([pa.field(KEY, value_type(key)), pa.field(VALUE, value_type(value))])
    kind = value_type(definition)
    return pa.schema(list(kind) if pa.types.is_struct(kind) else [pa.field(VALUE, kind)])
