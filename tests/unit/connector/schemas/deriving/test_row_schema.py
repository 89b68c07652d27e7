"""Schemas derived from the columns of a DataFrame, and the bytes of primitives and KEY_VALUE."""

from __future__ import annotations

import datetime
import json
import pickle
import struct
from typing import Any

import pyarrow as pa
import pytest

from spark_pulsar.connector.errors import OptionError, SchemaError
from spark_pulsar.connector.options.options import SCHEMA_TYPES
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.table import BATCH_WRITE
from spark_pulsar.connector.schemas.definition import Definition, KeyValueEncoding
from spark_pulsar.connector.schemas.deriving.avro_definition import derive_record
from spark_pulsar.connector.schemas.deriving.row_schema import PRIMITIVES, RECORDS, RowSchema, derive_row_schema
from spark_pulsar.connector.schemas.encoding.columns import binary_array
from spark_pulsar.connector.schemas.encoding.primitive_payloads import encode_primitive
from spark_pulsar.model.schemas import Schema, SchemaType


def field(name: str, kind: Any, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": {}}


def struct_of(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def array_of(kind: Any, nullable: bool = True) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": nullable}


def derived(*fields: dict[str, Any], **options: str) -> RowSchema:
    given = {"service.url": "pulsar://localhost:6650", "topic": "t", **options}
    found = derive_row_schema(fields, parse_options(given).for_write(BATCH_WRITE))
    assert found is not None
    return pickle.loads(pickle.dumps(found))


def avro(definition: Any) -> Schema:
    return Schema(SchemaType.AVRO, json.dumps(definition).encode())


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("boolean", "boolean"),
        ("byte", "int"),
        ("short", "int"),
        ("integer", "int"),
        ("long", "long"),
        ("float", "float"),
        ("double", "double"),
        ("string", "string"),
        ("string collate UNICODE", "string"),
        ("varchar(10)", "string"),
        ("char(10)", "string"),
        ("binary", "bytes"),
        ("date", {"type": "int", "logicalType": "date"}),
        ("time(6)", {"type": "long", "logicalType": "time-micros"}),
        ("timestamp", {"type": "long", "logicalType": "timestamp-micros"}),
        ("timestamp_ntz", {"type": "long", "logicalType": "local-timestamp-micros"}),
        ("decimal(10,2)", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
        (array_of("long", False), {"type": "array", "items": "long"}),
        (array_of("long"), {"type": "array", "items": ["null", "long"]}),
        (
            {"type": "map", "keyType": "string", "valueType": "date", "valueContainsNull": False},
            {"type": "map", "values": {"type": "int", "logicalType": "date"}},
        ),
        ({"type": "udt", "class": "c", "sqlType": "double"}, "double"),
        (
            array_of(struct_of(field("y", "long", False)), False),
            {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "x",
                    "namespace": "topLevelRecord",
                    "fields": [{"name": "y", "type": "long"}],
                },
            },
        ),
    ],
)
def test_types(kind: Any, expected: Any) -> None:
    assert derive_record(struct_of(field("x", kind, False)))["fields"] == [{"name": "x", "type": expected}]
    nullable = {"name": "x", "type": ["null", expected], "default": None}
    definition = derive_record(struct_of(field("x", kind)))
    assert definition["fields"] == [nullable]
    assert Definition(avro(definition)).avro().kind == "record"


def test_nested_records_have_names_of_their_own() -> None:
    inner = struct_of(field("a", struct_of(field("z", "long"))), field("b", struct_of(field("z", "string"))))
    definition = derive_record(struct_of(field("a", inner), field("b", array_of(inner))))
    parsed = Definition(avro(definition)).avro()
    a = parsed.fields[0].type.branches[1]
    assert a.name == "topLevelRecord.a"
    assert a.fields[0].type.branches[1].name == "topLevelRecord.a.a"


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("void", "x"),
        ("variant", "x"),
        ("interval day to second", "x"),
        ("interval year to month", "x"),
        ("decimal(5,-2)", "x"),
        ("time(9)", "x"),
        ({"type": "map", "keyType": "integer", "valueType": "long", "valueContainsNull": True}, "x"),
        (struct_of(), "x"),
        (struct_of(field("y", array_of("variant"))), "x.y"),
        (struct_of(field("1y", "long")), "x.1y"),
    ],
)
def test_what_cannot_be_expressed_names_the_column(kind: Any, column: str) -> None:
    with pytest.raises(SchemaError, match=rf"column {column} (is|cannot) "):
        derive_record(struct_of(field("x", kind)))


def test_options_and_schemas_have_the_same_names() -> None:
    names = ["NONE", "AUTO", *(kind.name for kind in RECORDS), *(kind.name for kind in PRIMITIVES)]
    names += ["KEY_VALUE", "AUTO_PRODUCE_BYTES"]
    assert list(SCHEMA_TYPES) == names


def test_auto_is_the_rule_of_streamnative() -> None:
    assert derived(field("a", "long"), schemaType="auto").schema.type is SchemaType.INT64
    assert derived(field("a", "binary"), schemaType="auto").schema.type is SchemaType.BYTES
    assert derived(field("a", "timestamp"), schemaType="auto").schema.type is SchemaType.TIMESTAMP
    assert derived(field("a", "decimal(3,1)"), schemaType="auto").schema.type is SchemaType.AVRO
    assert derived(field("a", array_of("long")), schemaType="auto").schema.type is SchemaType.AVRO
    rows = derived(field("a", struct_of(field("b", "long"))), field("__key", "string"), schemaType="auto")
    assert (rows.schema.type, rows.value.is_struct) == (SchemaType.AVRO, True)
    assert json.loads(rows.schema.data)["fields"][0]["name"] == "b"


def test_key_value_has_both_definitions() -> None:
    rows = derived(
        field("value", struct_of(field("b", "long"))),
        field("key", "integer"),
        schemaType="KEY_VALUE",
        keySchemaType="INT64",
        keyValueEncodingType="separated",
    )
    key, value, encoding = Definition(rows.schema).key_value()
    assert (key.type, value.type, encoding) == (SchemaType.INT64, SchemaType.AVRO, KeyValueEncoding.SEPARATED)
    assert value.schema.data == rows.value.schema.data
    with pytest.raises(SchemaError, match="drop __key"):
        derived(
            field("value", "string"),
            field("key", "integer"),
            field("__key", "string"),
            schemaType="KEY_VALUE",
            keyValueEncodingType="SEPARATED",
        )
    with pytest.raises(OptionError, match="keySchemaType is for schemaType KEY_VALUE only"):
        derived(field("value", "string"), schemaType="AVRO", keySchemaType="INT64")


def test_rows_of_one_topic_with_nulls() -> None:
    table = pa.table({"key": pa.array([1, None], pa.int32()), "value": pa.array([None, "v"])})
    columns = (field("key", "integer"), field("value", "string"))
    payloads, keys = derived(*columns, schemaType="KEY_VALUE").encode(table)
    one = struct.pack(">i", 1)
    assert payloads.to_pylist() == [
        struct.pack(">i", 4) + one + struct.pack(">i", -1),
        struct.pack(">ii", -1, 1) + b"v",
    ]
    assert keys is None
    payloads, keys = derived(*columns, schemaType="KEY_VALUE", keyValueEncodingType="SEPARATED").encode(table)
    assert (payloads.to_pylist(), keys.to_pylist()) == ([None, b"v"], [one, None])


AT = datetime.datetime(1969, 12, 31, 23, 59, 58, 500_001)


@pytest.mark.parametrize(
    ("kind", "value", "arrow", "expected"),
    [
        (SchemaType.BOOLEAN, True, pa.bool_(), b"\x01"),
        (SchemaType.INT8, -1, pa.int8(), b"\xff"),
        (SchemaType.INT16, -2, pa.int8(), b"\xff\xfe"),
        (SchemaType.INT32, 2**31 - 1, pa.int32(), b"\x7f\xff\xff\xff"),
        (SchemaType.INT64, -(2**63), pa.int64(), b"\x80" + b"\0" * 7),
        (SchemaType.FLOAT, 1.5, pa.float32(), struct.pack(">f", 1.5)),
        (SchemaType.DOUBLE, 1.5, pa.float32(), struct.pack(">d", 1.5)),
        (SchemaType.DATE, AT.date(), pa.date32(), struct.pack(">q", -86_400_000)),
        (SchemaType.LOCAL_DATE, AT.date(), pa.date32(), struct.pack(">q", -1)),
        (SchemaType.TIME, datetime.time(0, 0, 1, 2_999), pa.time64("ns"), struct.pack(">q", 1_002)),
        (SchemaType.LOCAL_TIME, datetime.time(0, 0, 1, 2_999), pa.time64("ns"), struct.pack(">q", 1_002_999_000)),
        (SchemaType.TIMESTAMP, AT, pa.timestamp("us", "UTC"), struct.pack(">q", -1_500)),
        (SchemaType.INSTANT, AT, pa.timestamp("us", "UTC"), struct.pack(">qi", -2, 500_001_000)),
        (SchemaType.LOCAL_DATE_TIME, AT, pa.timestamp("us"), struct.pack(">qq", -1, 86_398_500_001_000)),
        (SchemaType.STRING, "é", pa.string(), "é".encode()),
        (SchemaType.BYTES, b"x", pa.binary(), b"x"),
    ],
)
def test_primitives(kind: SchemaType, value: Any, arrow: pa.DataType, expected: bytes) -> None:
    rows = pa.array([None, None, value, None], arrow).slice(1)
    assert binary_array(encode_primitive(rows, kind)).to_pylist() == [None, expected, None]
    assert binary_array(encode_primitive(rows.slice(1, 1), kind)).to_pylist() == [expected]
    assert binary_array(encode_primitive(rows.slice(0, 0), kind)).to_pylist() == []
