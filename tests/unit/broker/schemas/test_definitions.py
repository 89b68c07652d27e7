"""Definitions of schemas by type, and which may follow which."""

import base64
import json

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet

from spark_pulsar.broker.schemas import definitions
from spark_pulsar.broker.schemas.compatibility import MAX_SHOWN, are_equal, check_follows
from spark_pulsar.broker.schemas.definitions import InvalidSchema
from spark_pulsar.model.errors import IncompatibleSchema
from spark_pulsar.model.schemas import Compatibility as C
from spark_pulsar.model.schemas import Schema, SchemaType, join_key_and_value
from tests.cases import cases
from tests.unit.broker.schemas.records import B_REQUIRED, B_WITH_DEFAULT, A, native, record

ALL = list(C)[1:]
KEYED = {"key.schema.type": "STRING", "value.schema.type": "AVRO", "kv.encoding.type": "SEPARATED"}


def avro(*fields: dict[str, object]) -> Schema:
    return Schema(SchemaType.AVRO, record(*fields))


def key_value(value: bytes, key: bytes = b"", **more: str) -> Schema:
    return Schema(SchemaType.KEY_VALUE, join_key_and_value(key, value), KEYED | more)


def fits(existing: list[Schema], new: Schema, strategy: C) -> bool:
    try:
        check_follows(existing, new, strategy)
    except IncompatibleSchema:
        return False
    return True


@pytest.mark.parametrize(
    "schema",
    [
        *(Schema(kind) for kind in SchemaType if 5 <= kind <= 14 or 16 <= kind <= 19),
        Schema(SchemaType.STRING),
        Schema(SchemaType.STRING, b"null"),
        Schema(SchemaType.NONE, b"anything"),
        Schema(SchemaType.BYTES),
        avro(A),
        Schema(SchemaType.AVRO, b'"int"'),
        Schema(SchemaType.JSON, record(A)),
        Schema(SchemaType.JSON, b'{"type":"object","id":"x"}'),
        Schema(SchemaType.PROTOBUF, record(A)),
        Schema(SchemaType.PROTOBUF_NATIVE, native("p.M")),
        Schema(SchemaType.PROTOBUF_NATIVE, native("p.M.Inner")),
        key_value(record(A)),
        Schema(SchemaType.KEY_VALUE, join_key_and_value(b"k", b"v")),
    ],
    ids=lambda schema: schema.type.name,
)
def test_definitions_of_all_types(schema: Schema) -> None:
    # covers SC-2
    definitions.check(schema)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (Schema(SchemaType.INT32, b"zzz"), "length of schema data should be zero, but 3 bytes is found"),
        (Schema(SchemaType.STRING, b"xyz"), "Invalid schema definition data for string schema : 'xyz'"),
        (Schema(SchemaType.AVRO, b"{"), "Invalid schema definition data for AVRO schema caused by"),
        (Schema(SchemaType.AVRO, b""), "Invalid schema definition data for AVRO schema caused by"),
        (Schema(SchemaType.AVRO, b'["null","int"]'), "Avro schema typed [UNION] is not supported"),
        (Schema(SchemaType.JSON, b"{"), "Invalid schema definition data for JSON schema caused by"),
        (Schema(SchemaType.PROTOBUF, b"{}"), "Invalid schema definition data for PROTOBUF schema caused by"),
        (Schema(SchemaType.PROTOBUF_NATIVE, b"xx"), "deserialize ProtobufNative Schema failed caused by"),
        (Schema(SchemaType.PROTOBUF_NATIVE, b"[]"), "deserialize ProtobufNative Schema failed caused by"),
        (Schema(SchemaType.PROTOBUF_NATIVE, native("p.Other")), "deserialize ProtobufNative Schema failed caused by"),
        (Schema(SchemaType.KEY_VALUE, b"xx"), "Invalid schema definition data for KEY_VALUE schema caused by"),
        (Schema(SchemaType.KEY_VALUE, b"\xff" * 8), "Invalid schema definition data for KEY_VALUE schema caused by"),
        (Schema(SchemaType.KEY_VALUE, b"\0\0\0\x09abc"), "Invalid schema definition data for KEY_VALUE schema"),
        (key_value(b"{"), "Invalid schema definition data for AVRO schema caused by"),
        (key_value(record(A), **{"key.schema.type": "NOPE"}), "unknown type NOPE"),
        (Schema(SchemaType.AUTO_CONSUME), "Schema AUTO_CONSUME is a client-side schema type"),
        (Schema(SchemaType.EXTERNAL, b"x"), "Schemas of an external registry"),
    ],
)
def test_what_is_no_definition(schema: Schema, text: str) -> None:
    # covers SC-2
    with pytest.raises(InvalidSchema) as refused:
        definitions.check(schema)
    assert text in refused.value.message


def test_others_are_judged_by_type_alone() -> None:
    # covers SC-5
    assert fits([Schema(SchemaType.PROTOBUF, record(A))], Schema(SchemaType.PROTOBUF, record(B_REQUIRED)), C.FULL)
    old, new = Schema(SchemaType.STRING), Schema(SchemaType.STRING, b"null")
    assert fits([old], new, C.FULL)
    assert not fits([old], new, C.ALWAYS_INCOMPATIBLE)


def test_the_root_message_of_protobuf_native_stays() -> None:
    # covers SC-5
    old = Schema(SchemaType.PROTOBUF_NATIVE, native("p.M"))
    assert fits([old], Schema(SchemaType.PROTOBUF_NATIVE, native("p.M") + b" "), C.FULL)
    assert not fits([old], Schema(SchemaType.PROTOBUF_NATIVE, native("p.M.Inner")), C.FULL)
    assert fits([old], Schema(SchemaType.PROTOBUF_NATIVE, native("p.M.Inner")), C.ALWAYS_COMPATIBLE)


def test_json_schemas_of_old_clients_are_known_by_their_id() -> None:
    old = Schema(SchemaType.JSON, b'{"type":"object","id":"x"}')
    same_id = Schema(SchemaType.JSON, b'{"type":"object","id":"x","more":1}')
    other_id = Schema(SchemaType.JSON, b'{"type":"object","id":"y"}')
    assert fits([old], same_id, C.FULL)
    assert not fits([old], other_id, C.FULL)
    assert fits([old], Schema(SchemaType.JSON, record(A)), C.FULL)
    assert fits([Schema(SchemaType.JSON, record(A))], old, C.FULL)


def test_a_refusal_shows_both_definitions() -> None:
    # covers SC-4
    with pytest.raises(IncompatibleSchema) as refused:
        check_follows([avro(A)], avro(A, B_REQUIRED), C.FULL)
    text = refused.value.message
    assert text.startswith("Error during schema compatibility check with strategy FULL: Unable to read schema: \n{")
    assert "using schema:\n{" in text


def test_types_that_refer_to_each_other_stop_nobody() -> None:
    # Hostile input: each of these is as deep as two levels, and all together make one way of 900.
    def link(name: str, following: str) -> dict[str, object]:
        return {"type": "record", "name": name, "fields": [{"name": "next", "type": following}]}

    chain = [link("W0", "null"), *(link(f"W{number}", f"W{number - 1}") for number in range(1, 900))]
    fields = [{"name": f"f{number}", "type": each} for number, each in enumerate(chain)]
    writer = record(*fields, {"name": "next", "type": "W899"})
    reader = record({"name": "next", "type": "R"})
    schemas = [Schema(SchemaType.AVRO, data) for data in (writer, reader)]
    for schema in schemas:
        definitions.check(schema)
    with pytest.raises(IncompatibleSchema, match="nested too deep"):
        check_follows(schemas[:1], schemas[1], C.BACKWARD)


def test_a_refusal_is_short_however_deep_a_definition_is() -> None:
    # Hostile input: indented by two for each level, this is a hundred times as long.
    default = b"[" * 200 + b"0," * 20_000 + b"0" + b"]" * 200
    text = b'{"type":"record","name":"R","fields":[{"name":"%s","type":"int","default":%s}]}'
    both = [Schema(SchemaType.AVRO, text % (name, default)) for name in (b"a", b"b")]
    with pytest.raises(IncompatibleSchema) as refused:
        check_follows(both[:1], both[1], C.ALWAYS_INCOMPATIBLE)
    assert len(refused.value.message) < 3 * MAX_SHOWN


def test_a_long_name_with_many_messages_inside_is_not_put_together() -> None:
    # Hostile input: full names of 500 MB.
    inside = DescriptorProto(name="x" * 100_000, nested_type=[DescriptorProto(name="m")] * 5_000)
    files = FileDescriptorSet(file=[FileDescriptorProto(name="f", package="p", message_type=[inside])])

    def schema(root: str) -> Schema:
        fields = {
            "fileDescriptorSet": base64.b64encode(files.SerializeToString()).decode(),
            "rootMessageTypeName": root,
            "rootFileDescriptorName": "f",
        }
        return Schema(SchemaType.PROTOBUF_NATIVE, json.dumps(fields).encode())

    definitions.check(schema(f"p.{inside.name}.m"))
    definitions.check(schema(f"p.{inside.name}"))
    for wrong in ("p", "p.x", f"p.{inside.name}.", f"p.{inside.name}.n", f"{inside.name}.m", "", "p."):
        with pytest.raises(InvalidSchema, match="no descriptor"):
            definitions.check(schema(wrong))


def test_equal_schemas() -> None:
    # covers SC-1
    assert are_equal(avro(A), Schema(SchemaType.AVRO, record(A) + b" ", {"k": "v"}))
    assert not are_equal(avro(A), Schema(SchemaType.JSON, record(A)))
    assert not are_equal(avro(A), avro(A, B_WITH_DEFAULT))
    assert not are_equal(Schema(SchemaType.STRING), Schema(SchemaType.STRING, b"null"))
    assert not are_equal(Schema(SchemaType.JSON, b'{"id":"x"}'), Schema(SchemaType.JSON, b'{"id": "x"}'))


@cases("strategy", ALL)
@cases(
    "new, fitting",
    [
        ((A, B_REQUIRED), {C.FORWARD, C.FORWARD_TRANSITIVE}),
        ((A, B_WITH_DEFAULT), set(ALL)),
        ((), {C.BACKWARD, C.BACKWARD_TRANSITIVE}),
        (({"name": "a", "type": "long"},), {C.BACKWARD, C.BACKWARD_TRANSITIVE}),
        (({"name": "a", "type": "string"},), set()),
    ],
)
def test_the_parts_of_a_pair_follow_the_strategy(
    new: tuple[dict[str, object], ...], fitting: set[C], strategy: C
) -> None:
    # covers SC-4
    strict = strategy not in (C.ALWAYS_COMPATIBLE, C.ALWAYS_INCOMPATIBLE)
    is_fitting = strategy in fitting if strict else strategy is C.ALWAYS_COMPATIBLE
    assert fits([key_value(record(A))], key_value(record(*new)), strategy) == is_fitting


@cases("strategy", ALL)
def test_the_parts_of_a_pair_keep_their_types(strategy: C) -> None:
    # covers SC-3
    other = key_value(record(A), **{"key.schema.type": "INT32"})
    assert not fits([key_value(record(A))], other, strategy)
