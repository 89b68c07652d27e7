"""Which schema may follow which (SC-3 ... SC-5)."""

from __future__ import annotations

import json
import struct

import pytest

from tests.brokers import Broker
from tests.conformance.schemas import (
    B_REQUIRED,
    B_WITH_DEFAULT,
    INCOMPATIBLE,
    A,
    Schemas,
    fresh_namespace,
    of_topic,
    record,
    set_policy,
    topic_in,
)


@pytest.fixture
def schemas(broker: Broker) -> Schemas:
    return Schemas(broker.raw())


@pytest.fixture
def namespace(broker: Broker) -> str:
    return fresh_namespace(broker)


CHANGES: dict[str, tuple[bytes, str]] = {
    "add required": (record(A, B_REQUIRED), "Avro"),
    "add optional": (record(A, B_WITH_DEFAULT), "Avro"),
    "drop": (record(), "Avro"),
    "widen": (record({"name": "a", "type": "long"}), "Avro"),
    "change": (record({"name": "a", "type": "string"}), "Avro"),
    "rename": (record(A, name="Other"), "Avro"),
    "other type": (b"", "String"),
}
FITTING = {
    "FULL": {"add optional", "rename"},
    "FULL_TRANSITIVE": {"add optional", "rename"},
    "BACKWARD": {"add optional", "drop", "widen", "rename"},
    "BACKWARD_TRANSITIVE": {"add optional", "drop", "widen", "rename"},
    "FORWARD": {"add required", "add optional", "rename"},
    "FORWARD_TRANSITIVE": {"add required", "add optional", "rename"},
    "ALWAYS_COMPATIBLE": set(CHANGES),
    "ALWAYS_INCOMPATIBLE": set(),
}


@pytest.mark.parametrize("strategy", FITTING)
def test_what_each_strategy_allows(broker: Broker, schemas: Schemas, namespace: str, strategy: str) -> None:
    # covers SC-3, SC-4, SC-5, ADM-66
    set_policy(broker, namespace, "schemaCompatibilityStrategy", strategy)
    fitting = set()
    for change, (data, type_) in CHANGES.items():
        topic = topic_in(namespace)
        assert schemas.produce(topic, record(A)) == 0
        if schemas.produce(topic, data, type_) == 1:
            fitting.add(change)
    assert fitting == FITTING[strategy]


def test_transitive_strategies_look_at_all_versions(broker: Broker, schemas: Schemas, namespace: str) -> None:
    # covers SC-4
    third = record(A, {"name": "b", "type": "string", "default": ""})
    for strategy, expected in (("FULL", 2), ("FULL_TRANSITIVE", INCOMPATIBLE)):
        set_policy(broker, namespace, "schemaCompatibilityStrategy", strategy)
        topic = topic_in(namespace)
        found = [schemas.produce(topic, data) for data in (record(A, B_WITH_DEFAULT), record(A), third)]
        assert found == [0, 1, expected]


ENUM = {"type": "enum", "name": "E", "symbols": ["X", "Y"]}
RESOLUTIONS = {
    "enum loses a symbol": (ENUM, ENUM | {"symbols": ["X"]}, True),
    "enum has another name": (ENUM, ENUM | {"name": "F"}, False),
    "enum has an alias": (ENUM, ENUM | {"name": "F", "aliases": ["E"]}, True),
    "fixed grows": ({"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 2}, False),
    "text to bytes": ("string", "bytes", True),
    "items widen": ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, True),
    "values narrow": ({"type": "map", "values": "long"}, {"type": "map", "values": "int"}, False),
    "becomes optional": ("int", ["null", "int"], True),
    "becomes required": (["null", "int"], "int", False),
    "branches change places": (["null", "int"], ["int", "null"], True),
    "branch goes": (["null", "int", "string"], ["null", "int"], False),
    "record in a union is found by its fields": (
        {"type": "record", "name": "S", "fields": [A]},
        ["null", {"type": "record", "name": "T", "fields": [A]}],
        True,
    ),
    "logical type": ("int", {"type": "int", "logicalType": "date"}, True),
}


@pytest.mark.parametrize("name", RESOLUTIONS)
def test_resolution(broker: Broker, schemas: Schemas, backward: str, name: str) -> None:
    # covers SC-5
    written, read, fits = RESOLUTIONS[name]
    topic = topic_in(backward)
    assert schemas.produce(topic, record({"name": "x", "type": written})) == 0
    assert schemas.produce(topic, record({"name": "x", "type": read})) == (1 if fits else INCOMPATIBLE)


@pytest.fixture(scope="module")
def backward(broker: Broker) -> str:
    """A namespace whose strategy is BACKWARD."""
    path = fresh_namespace(broker)
    set_policy(broker, path, "schemaCompatibilityStrategy", "BACKWARD")
    return path


def keyed(value: bytes, key: bytes = b"") -> bytes:
    return struct.pack(">i", len(key)) + key + struct.pack(">i", len(value)) + value


def test_keys_and_values(broker: Broker, topic: str, schemas: Schemas) -> None:
    # covers SC-2
    types = {"key_schema_type": "STRING", "value_schema_type": "AVRO"}
    assert schemas.produce(topic, keyed(record(A)), "KeyValue", **types) == 0
    assert schemas.produce(topic, keyed(record(A, B_REQUIRED)), "KeyValue", **types) == INCOMPATIBLE
    assert schemas.produce(topic, keyed(record(A, B_WITH_DEFAULT)), "KeyValue", **types) == 1
    assert schemas.produce(topic, keyed(b"{"), "KeyValue", **types) == INCOMPATIBLE
    others = types | {"key_schema_type": "INT32"}
    assert schemas.produce(topic, keyed(record(A, B_WITH_DEFAULT), b"x"), "KeyValue", **others) == INCOMPATIBLE
    shown = broker.rest("GET", f"{of_topic(topic)}/schema/0")[1]
    assert json.loads(shown["data"]) == {"key": "", "value": json.loads(record(A))}
    assert shown["properties"]["key.schema.type"] == "STRING"


@pytest.mark.parametrize(
    ("data", "type_"),
    [
        (b"{", "Avro"),
        (b"", "Avro"),
        (b'["null","int"]', "Avro"),
        (b"{", "Json"),
        (b"{", "Protobuf"),
        (b"xx", "ProtobufNative"),
        (b"xyz", "String"),
        (b"zzz", "Int32"),
        (b"", "AutoConsume"),
    ],
)
def test_definitions_that_are_none(topic: str, schemas: Schemas, data: bytes, type_: str) -> None:
    # covers SC-2
    assert schemas.produce(topic, data, type_) == INCOMPATIBLE
    assert schemas.get(topic)["error_code"] == "TopicNotFound"


PRIMITIVES = "Bool Int8 Int16 Int64 Float Double Date Time Timestamp Instant LocalDate LocalTime LocalDateTime"


@pytest.mark.parametrize("type_", PRIMITIVES.split())
def test_primitives(topic: str, schemas: Schemas, type_: str) -> None:
    # covers SC-2
    assert schemas.produce(topic, b"", type_) == 0
    assert schemas.get(topic)["schema"]["type"] == type_
