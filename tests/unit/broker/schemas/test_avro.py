"""Avro definitions: what is one, and which say the same."""

import json
from collections import OrderedDict
from typing import Any

import pytest

from spark_pulsar.model import avro
from spark_pulsar.model.avro import AvroType, InvalidAvro, meaning, parse
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import Schema
from tests.unit.broker.schemas.records import A, record
from tests.unit.broker.world import TOPIC, World


def of(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    "value",
    [
        "int",
        {"type": "int", "logicalType": "date"},
        ["null", "int", {"type": "array", "items": "string"}],
        {"type": "map", "values": {"type": "fixed", "name": "F", "size": 3}},
        {"type": "enum", "name": "a.b.E", "symbols": ["X", "Y"], "default": "X"},
        {"type": "error", "name": "E", "fields": []},
        {"type": {"type": "record", "name": "R", "fields": []}},
        {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]},
        {"type": "record", "name": "ü", "namespace": "a.b", "fields": [{"name": "x", "type": "int", "default": "no"}]},
    ],
)
def test_definitions(value: Any) -> None:
    assert meaning(of(value)) == meaning(of(value))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff",
        b"int",
        b"3",
        b"null",
        b'"nosuch"',
        b"{}",
        of({"type": "record", "name": "R"}),
        of({"type": "record", "fields": []}),
        of({"type": "record", "name": "1R", "fields": []}),
        of({"type": "record", "name": "R-", "fields": []}),
        of({"type": "record", "name": "", "fields": []}),
        of({"type": "record", "name": "R", "namespace": 3, "fields": []}),
        of({"type": "record", "name": "R", "fields": [{"name": "a"}]}),
        of({"type": "record", "name": "R", "fields": [A, A]}),
        of({"type": "record", "name": "R", "fields": [{**A, "order": "up"}]}),
        of({"type": "record", "name": "R", "fields": [{"name": "a", "type": "nosuch"}]}),
        of({"type": "record", "name": "R", "fields": [{**A, "aliases": "b"}]}),
        of({"type": "record", "name": "int", "fields": []}),
        of({"type": "array"}),
        of({"type": "map", "values": 1}),
        of({"type": "enum", "name": "E", "symbols": ["X", "X"]}),
        of({"type": "enum", "name": "E", "symbols": ["X"], "default": "Y"}),
        of({"type": "enum", "name": "E", "symbols": "X"}),
        of({"type": "fixed", "name": "F"}),
        of({"type": "fixed", "name": "F", "size": -1}),
        of(["int", "int"]),
        of(["int", ["null"]]),
        of([{"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 2}]),
        b"[" * 100_000,
        b'{"type":"array","items":' * 500 + b'"int"' + b"}" * 500,
    ],
)
def test_what_is_no_definition(data: bytes) -> None:
    with pytest.raises(InvalidAvro):
        parse(data)


SAME = [
    json.dumps(json.loads(record(A)), indent=3).encode(),
    of({"fields": [A], "name": "R", "type": "record"}),
    record(A, doc="what it is"),
    record(A, aliases=["Old"]),
    record({**A, "doc": "an a"}),
    record({**A, "order": "ascending"}),
    record({"name": "a", "type": {"type": "int"}}),
]
OTHERS = [
    record(A, extra="attribute"),
    record(A, namespace="x.y"),
    record(A, name="S"),
    record({**A, "default": 0}),
    record({**A, "order": "ignore"}),
    record({**A, "extra": 1}),
    record({"name": "a", "type": "long"}),
    record({"name": "a", "type": {"type": "int", "logicalType": "date"}}),
    record({"name": "a", "type": ["int"]}),
    record(),
    of("int"),
]


def test_definitions_that_say_the_same_and_that_differ() -> None:
    # covers SC-1 (seen on 4.0.8)
    assert {meaning(other) for other in SAME} == {meaning(record(A))}
    assert len({meaning(other) for other in (record(A), *OTHERS)}) == 1 + len(OTHERS)


def test_the_order_of_fields_matters() -> None:
    b = {"name": "b", "type": "int"}
    assert meaning(record(A, b)) != meaning(record(b, A))


def test_names_are_resolved_in_their_namespaces() -> None:
    inner = {"type": "record", "name": "I", "fields": []}
    full = record({"name": "x", "type": inner}, {"name": "y", "type": "n.I"}, namespace="n")
    parsed = parse(full)
    assert [field.type.name for field in parsed.fields] == ["n.I", "n.I"]
    assert parsed.fields[0].type is parsed.fields[1].type
    assert parsed.fields[0].type.short_name == "I"
    assert meaning(full) == meaning(record({"name": "x", "type": inner}, {"name": "y", "type": "I"}, namespace="n"))
    assert meaning(full) == meaning(record({"name": "x", "type": inner}, {"name": "y", "type": "I"}, name="n.R"))


def arrays(depth: int) -> bytes:
    return b'{"type":"array","items":' * depth + b'"int"' + b"}" * depth


def test_nesting_costs_no_more_than_its_length() -> None:
    # Hostile input: what is quoted once more on each level doubles on each level.
    assert meaning(arrays(90)) != meaning(arrays(89))
    for depth in (101, 100_000):
        with pytest.raises(InvalidAvro, match="nested too deep"):
            meaning(arrays(depth))


@pytest.mark.parametrize("depth", [50, 300, 900, 990, 100_000])
def test_values_may_be_nested_or_not_but_stop_nobody(depth: int) -> None:
    # Hostile input: what could just be read may be too deep to be written again.
    nested = b"[" * depth + b"]" * depth
    texts = [
        b'{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":%s}]}' % nested,
        b'{"type":"record","name":"R","fields":%s}' % nested,
        b'{"type":"record","name":"R","fields":[%s]}' % nested,
        b'{"type":"record","name":"R","fields":[],"x":%s}' % nested,
        b'{"type":"int","name":%s,"aliases":%s}' % (nested, nested),
    ]
    for text in texts:
        for ask in (parse, meaning):
            try:
                ask(text)
            except InvalidAvro:
                continue


def test_a_reason_is_short() -> None:
    with pytest.raises(InvalidAvro) as refused:
        parse(b'"' + b"x" * 100_000 + b'"')
    assert len(str(refused.value)) == 1_000


def test_a_large_definition_has_a_meaning_too() -> None:
    large = record(*({"name": f"field_{index}", "type": "int"} for index in range(3000)))
    assert len(large) > 1 << 16
    assert meaning(large) == meaning(large + b" ")


class Readings:
    """Counts the readings of definitions, with digests remembered from now on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._parse = avro.parse
        patch.setattr(avro, "parse", self._counted)
        patch.setattr(avro, "_meanings", OrderedDict())

    def _counted(self, data: bytes) -> AvroType:
        self.count += 1
        return self._parse(data)


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> Readings:
    return Readings(monkeypatch)


@pytest.mark.parametrize("size", [1, 3_000])
def test_a_meaning_is_told_again_without_reading_again(readings: Readings, size: int) -> None:
    data = record(*({"name": f"field_{index}", "type": "int"} for index in range(size)))
    assert meaning(data) == meaning(bytes(bytearray(data)))
    assert readings.count == 1


def test_what_is_no_definition_is_not_read_again_either(readings: Readings) -> None:
    for _ in range(3):
        with pytest.raises(InvalidAvro, match='"nosuch" is not a defined name'):
            meaning(b'"nosuch"')
    assert readings.count == 1


def test_the_last_meanings_are_remembered(readings: Readings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro, "_REMEMBERED", 2)
    for text in (b'"int"', b'"long"', b'"int"', b'"float"'):
        meaning(text)
    assert readings.count == 3
    meaning(b'"int"')
    meaning(b'"float"')
    assert readings.count == 3
    meaning(b'"long"')
    assert readings.count == 4


def test_a_new_version_costs_the_same_however_many_there_are(world: World, readings: Readings) -> None:
    # covers SC-1
    client = world.connect()
    fields = [{"name": f"field_{index}", "type": "int"} for index in range(1_800)]
    costs = []
    for number in range(6):
        before, data = readings.count, record(*fields, number=number)
        assert len(data) > 1 << 16
        command = requests.producer(client.request_id(), TOPIC, number)
        command.producer.schema.CopyFrom(Schema(name="n", schema_data=data, type=Schema.Avro))
        client.send(command)
        assert client.take().producer_success.schema_version == number.to_bytes(8, "big")
        costs.append(readings.count - before)
    assert len(set(costs[2:])) == 1  # the first is held against none, the second has the first's meaning read as well
