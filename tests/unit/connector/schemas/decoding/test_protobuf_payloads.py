"""PROTOBUF_NATIVE: messages by the descriptor in the schema."""

from __future__ import annotations

import base64
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.decoding.messages import MessageDecoder
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.types.columns import value_columns
from spark_pulsar.connector.schemas.types.protobuf_types import message_type, root_message
from spark_pulsar.connector.schemas.types.spark_types import spark_name
from spark_pulsar.model.schemas import Schema, SchemaType
from spark_pulsar.wire import pulsar_api_pb2
from spark_pulsar.wire.pulsar_api_pb2 import CommandGetOrCreateSchema, MessageIdData, MessageMetadata
from spark_pulsar.wire.pulsar_api_pb2 import Schema as WireSchema


def native(message: Any) -> Definition:
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
    definition = native(WireSchema)
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
    definition = native(CommandGetOrCreateSchema)
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
        spark_name(message_type(native(MessageIdData)))
    assert message_type(native(MessageMetadata)).num_fields > 20


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
