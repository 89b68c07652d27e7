"""Fields that Spark has no type for: only a column that is asked for fails, and each may be read as text or bytes."""

from __future__ import annotations

import base64
import datetime
import decimal
import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct
from pyspark.sql.types import StructType

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.options.decode_mode import BINARY, JSON, PERMISSIVE, DecodeMode
from spark_pulsar.connector.reading.projection import projection_of, read_schema
from spark_pulsar.connector.schemas.decoding.avro.decoder import plain_definition
from spark_pulsar.connector.schemas.decoding.messages import MessageDecoder
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.types.columns import value_columns
from spark_pulsar.connector.schemas.types.protobuf_types import message_type, root_message
from spark_pulsar.connector.schemas.types.spark_types import spark_name
from spark_pulsar.model.schemas import Schema, SchemaType
from spark_pulsar.wire import pulsar_api_pb2
from spark_pulsar.wire.pulsar_api_pb2 import CommandGetOrCreateSchema, MessageIdData, MessageMetadata
from spark_pulsar.wire.pulsar_api_pb2 import Schema as WireSchema

WIDE = {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}
AMOUNT = decimal.Decimal("12345678901234567890123456789012345678901234567.89")
LINE = {"type": "record", "name": "Line", "fields": [{"name": "amount", "type": WIDE}]}
TREE = {
    "type": "record",
    "name": "Order",
    "namespace": "n",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
        {"name": "next", "type": ["null", "n.Order"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "either", "type": ["null", "string", {"type": "enum", "name": "E", "symbols": ["X"]}]},
    ],
}
ROW: dict[str, Any] = {"id": 1, "lines": [{"amount": AMOUNT}], "next": None, "at": 1_700_000_000_123, "either": "s"}
NESTED: dict[str, Any] = {**ROW, "next": ROW}


def written(kind: SchemaType) -> bytes:
    if kind is SchemaType.AVRO:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(TREE), NESTED)
        return out.getvalue()
    return json.dumps(NESTED, default=str).encode()


def definition(kind: SchemaType) -> Definition:
    return Definition(Schema(kind, json.dumps(TREE).encode()))


def read(reader: Definition, schema: StructType, payload: bytes) -> dict[str, Any]:
    projection = projection_of(schema, reader)
    assert projection.decoding is not None
    wanted = pa.schema([pa.field(name, kind) for name, kind in projection.decoding.wanted])
    found = MessageDecoder(reader, wanted, lambda version: None).decode(
        pa.array([payload], pa.binary()), None, pa.array([-1], pa.int64())
    )
    assert not found.errors, found.errors
    return {name: column[0].as_py() for name, column in found.columns.items()}


def ddl(**kinds: str) -> StructType:
    """A schema of plain columns, of the types that strings name in JSON."""
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in kinds.items()]
    return StructType.fromJson({"fields": fields})


@pytest.mark.parametrize("kind", [SchemaType.AVRO, SchemaType.JSON])
def test_only_a_column_that_is_asked_for_fails(kind: SchemaType) -> None:
    # covers SCHEMA-14
    reader = definition(kind)
    assert read(reader, ddl(id="integer"), written(kind)) == {"id": 1}
    for schema in (ddl(value="binary"), ddl(__key="binary", __publishTime="timestamp")):
        projection = projection_of(schema, reader)
        assert projection.decoding is not None
        assert not projection.decoding.wanted
        assert projection_of(schema, reader, DecodeMode(PERMISSIVE)).decoding is not None
    told = r"field lines\[\]\.amount: decimal\(50,2\) has more digits than the 38 of Spark; .*unsupportedFields to JSON"
    with pytest.raises(SchemaError, match=told):
        read_schema(reader)
    with pytest.raises(SchemaError, match=r"field next: the record n\.Order contains itself"):
        projection_of(ddl(next="long"), reader)


@pytest.mark.parametrize("kind", [SchemaType.AVRO, SchemaType.JSON])
def test_such_fields_are_text_by_an_option(kind: SchemaType) -> None:
    # covers SCHEMA-14
    reader = definition(kind)
    schema = StructType.fromJson(read_schema(reader, DecodeMode(unsupported_fields=JSON)))
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    assert (types["lines"], types["next"]) == ("array<struct<amount:string>>", "string")
    value_columns = StructType([field for field in schema.fields if not field.name.startswith("__")])
    row = read(reader, value_columns, written(kind))
    assert row["lines"] == [{"amount": str(AMOUNT)}]
    assert row["either"] == ('"s"' if kind is SchemaType.AVRO else {"member0": "s", "member1": None})
    text = row["next"]
    inner = json.loads(text, parse_float=decimal.Decimal)
    assert (inner["id"], inner["next"], inner["either"]) == (1, None, "s")
    if kind is SchemaType.AVRO:
        assert inner["lines"] == [{"amount": AMOUNT}]
        assert inner["at"] == "2023-11-14T22:13:20.123000Z"


@pytest.mark.parametrize("kind", [SchemaType.AVRO, SchemaType.JSON])
def test_such_fields_are_bytes_by_an_option(kind: SchemaType) -> None:
    # covers SCHEMA-14
    reader = definition(kind)
    schema = StructType.fromJson(read_schema(reader, DecodeMode(unsupported_fields=BINARY)))
    assert schema["next"].dataType.simpleString() == "binary"
    row = read(reader, StructType([schema["next"], schema["lines"]]), written(kind))
    if kind is SchemaType.JSON:
        assert json.loads(row["next"])["id"] == 1
        return
    assert int.from_bytes(row["lines"][0]["amount"], "big") == int(AMOUNT.scaleb(2, decimal.Context(prec=60)))
    inner = fastavro.schemaless_reader(io.BytesIO(row["next"]), fastavro.parse_schema(TREE), None)
    assert inner["lines"] == [{"amount": AMOUNT}]


def test_times_of_a_day_are_text_where_spark_has_no_type_for_them() -> None:
    # covers SPARK-6
    time = {"type": "long", "logicalType": "time-micros"}
    stop = {"type": "record", "name": "Stop", "fields": [{"name": "at", "type": ["null", time]}]}
    fields = [
        {"name": "begins", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "stops", "type": {"type": "array", "items": stop}},
        {"name": "zones", "type": {"type": "map", "values": time}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    ]
    journey = {"type": "record", "name": "Journey", "fields": fields}
    reader, mode = Definition(Schema(SchemaType.AVRO, json.dumps(journey).encode())), DecodeMode(times_as_text=True)
    schema = StructType.fromJson(read_schema(reader, mode))
    columns = StructType([field for field in schema.fields if not field.name.startswith("__")])
    assert columns.simpleString() == (
        "struct<begins:string,stops:array<struct<at:string>>,zones:map<string,string>,day:date>"
    )
    projection = projection_of(columns, reader, mode)
    assert projection.decoding is not None
    wanted = pa.schema([pa.field(name, kind) for name, kind in projection.decoding.wanted])
    out = io.BytesIO()
    row = {"begins": 3_600_001, "stops": [{"at": None}, {"at": 5}], "zones": {"UTC": 86_399_999_999}, "day": 0}
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain_definition(journey)), row)
    payloads = pa.array([out.getvalue(), None], pa.binary())
    decoded = MessageDecoder(reader, wanted, lambda version: None).decode(payloads, None, pa.array([-1, -1]))
    batch = projection.fit(pa.RecordBatch.from_pydict(decoded.columns))
    assert batch.to_pylist() == [
        {
            "begins": "01:00:00.001000",
            "stops": [{"at": None}, {"at": "00:00:00.000005"}],
            "zones": [("UTC", "23:59:59.999999")],
            "day": datetime.date(1970, 1, 1),
        },
        dict.fromkeys(row),
    ]
    assert not projection_of(StructType([schema["day"]]), reader, mode).times_as_text
    with pytest.raises(SchemaError, match="column begins is string, it cannot be read as int"):
        projection_of(ddl(begins="integer"), reader, mode)


def test_a_record_that_is_text_is_one_still() -> None:
    # covers SCHEMA-13, SCHEMA-14
    reader = definition(SchemaType.JSON)
    wanted = pa.schema([pa.field("next", pa.string())])
    payloads = [b'{"next":5}', b'{"next":[{}]}', b'{"next":null}', b'{"next":{}}']
    found = MessageDecoder(reader, wanted, lambda version: None).decode(
        pa.array(payloads, pa.binary()), None, pa.array([-1] * 4, pa.int64())
    )
    assert found.columns["next"].to_pylist() == [None, None, None, "{}"]
    assert "field next is 5, no record" in found.errors[0]
    assert sorted(found.errors) == [0, 1]


def native(*, with_imports: bool = True, dependency: str = "google/protobuf/struct.proto") -> Definition:
    """A message with itself inside, and google.protobuf.Struct, which has itself inside, too."""
    files = descriptor_pb2.FileDescriptorSet()
    if with_imports:
        Struct.DESCRIPTOR.file.CopyToProto(files.file.add())
    one = files.file.add(name="m.proto", package="m", syntax="proto3", dependency=[dependency])
    message = one.message_type.add(name="Node")
    message.field.add(name="id", number=1, type=5, label=1)
    message.field.add(name="next", number=2, type=11, label=1, type_name=".m.Node")
    message.field.add(name="all", number=3, type=11, label=3, type_name=".m.Node")
    message.field.add(name="any", number=4, type=11, label=1, type_name=".google.protobuf.Struct")
    text = base64.b64encode(files.SerializeToString()).decode()
    data = {"fileDescriptorSet": text, "rootMessageTypeName": "m.Node", "rootFileDescriptorName": "m.proto"}
    return Definition(Schema(SchemaType.PROTOBUF_NATIVE, json.dumps(data).encode()))


@pytest.mark.parametrize("with_imports", [True, False])
def test_messages_that_contain_themselves(with_imports: bool) -> None:
    # covers SCHEMA-14
    reader = native(with_imports=with_imports)
    node = GetMessageClass(root_message(reader))
    message = node(id=1, next=node(id=2), all=[node(id=3)])
    message.any.update({"k": [1, "x"]})
    payload = message.SerializeToString()
    assert read(reader, ddl(id="integer"), payload) == {"id": 1}
    with pytest.raises(SchemaError, match=r"field next: the message m\.Node contains itself"):
        read_schema(reader)
    schema = StructType.fromJson(read_schema(reader, DecodeMode(unsupported_fields=JSON)))
    row = read(reader, StructType(schema.fields[:4]), payload)
    assert json.loads(row["next"]) == {"id": 2}
    assert [json.loads(each) for each in row["all"]] == [{"id": 3}]
    assert '{"key": "k"' not in repr(row["any"])
    (pair,) = row["any"]["fields"]
    assert (pair[0], json.loads(pair[1]["list_value"]["values"][0])) == ("k", 1.0)
    schema = StructType.fromJson(read_schema(reader, DecodeMode(unsupported_fields=BINARY)))
    assert node.FromString(read(reader, StructType([schema["next"]]), payload)["next"]).id == 2


def test_a_schema_that_cannot_be_read_leaves_bytes_and_metadata() -> None:
    # covers SCHEMA-14
    reader = native(dependency="elsewhere/missing.proto")
    projection = projection_of(ddl(value="binary", __key="binary"), reader)
    assert projection.decoding is not None
    assert not projection.decoding.wanted
    with pytest.raises(SchemaError, match="cannot be read"):
        projection_of(ddl(id="integer"), reader)


# ---- PROTOBUF_NATIVE: messages by the descriptor in the schema


def own_message(message: Any) -> Definition:
    """The schema of a message of Pulsar's own protocol."""
    found = FileDescriptorSet()
    pulsar_api_pb2.DESCRIPTOR.CopyToProto(found.file.add())  # type: ignore[attr-defined]
    told = {
        "fileDescriptorSet": base64.b64encode(found.SerializeToString()).decode(),
        "rootMessageTypeName": message.DESCRIPTOR.full_name,
        "rootFileDescriptorName": found.file[0].name,
    }
    return Definition(Schema(SchemaType.PROTOBUF_NATIVE, json.dumps(told).encode()))


def test_messages_become_columns() -> None:
    definition = own_message(WireSchema)
    columns = value_columns(definition)
    assert spark_name(columns.field("type").type) == "string"
    assert spark_name(columns.field("properties").type) == "array<struct<key:string,value:string>>"
    message = WireSchema(name="n", schema_data=b"\0", type=WireSchema.Json)
    message.properties.add(key="k", value="v")
    payloads = pa.array(
        [message.SerializeToString(), None, b"\xff\xff", WireSchema(name="o").SerializePartialToString()]
    )
    decoder = MessageDecoder(definition, columns, lambda version: None)
    found = decoder.decode(payloads, None, pa.array([-1] * 4, pa.int64()))
    assert sorted(found.errors)[0] == 2
    row = {name: column[0].as_py() for name, column in found.columns.items()}
    assert row == {"name": "n", "schema_data": b"\0", "type": "Json", "properties": [{"key": "k", "value": "v"}]}
    assert found.columns["name"].to_pylist()[1:3] == [None, None]


def test_unset_fields_nested_messages_and_unsigned_numbers() -> None:
    definition = own_message(CommandGetOrCreateSchema)
    columns = value_columns(definition)
    wanted = pa.schema([columns.field(name) for name in ("request_id", "topic", "schema")])
    message = CommandGetOrCreateSchema(request_id=2**64 - 1, schema=WireSchema(name="n"))
    decoder = MessageDecoder(definition, wanted, lambda version: None)
    payloads = pa.array([message.SerializePartialToString()], pa.binary())
    found = decoder.decode(payloads, None, pa.array([-1], pa.int64()))
    row = {name: column[0].as_py() for name, column in found.columns.items()}
    assert (row["request_id"], row["topic"]) == (decimal.Decimal(2**64 - 1), None)
    assert (row["schema"]["name"], row["schema"]["schema_data"], row["schema"]["properties"]) == ("n", None, [])


def test_a_message_that_contains_itself_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"the message \S+MessageIdData contains itself"):
        spark_name(message_type(own_message(MessageIdData)))
    assert message_type(own_message(MessageMetadata)).num_fields > 20


def chain(length: int) -> FileDescriptorSet:
    files = FileDescriptorSet()
    for number in range(length, 0, -1):
        each = files.file.add(name=f"f{number}")
        if number > 1:
            each.dependency.append(f"f{number - 1}")
    files.file[-1].message_type.add(name="M").field.add(name="a", number=1, type=5, label=1)
    return files


def of_files(files: FileDescriptorSet) -> Definition:
    text = base64.b64encode(files.SerializeToString()).decode()
    data = json.dumps({"fileDescriptorSet": text, "rootMessageTypeName": "M"}).encode()
    return Definition(Schema(SchemaType.PROTOBUF_NATIVE, data))


def test_a_long_chain_of_imports_is_read_in_one_pass() -> None:
    found = root_message(of_files(chain(20_000)))
    assert [field.name for field in found.fields] == ["a"]


def test_files_that_import_each_other_are_refused() -> None:
    files = chain(3)
    files.file[-1].dependency.append("f3")
    with pytest.raises(SchemaError, match="files import each other: f1, f2, f3"):
        root_message(of_files(files))
