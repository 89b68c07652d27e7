"""Definitions of a topic and of rows held against each other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_pulsar.connector.schemas.deriving.definition_differences import differences
from spark_pulsar.connector.schemas.extended_definition import fits
from spark_pulsar.model import avro
from spark_pulsar.model.schemas import Compatibility

MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
NODE = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def record(name: str = "R", **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}


@pytest.mark.parametrize(
    ("topic", "rows"),
    [
        (record(a="int", b="string"), record("Other", b="string", a="int")),
        (record(a=["string", "null"]), record(a=["null", "string"])),
        (record(a=["null", "string"]), record(a="string")),
        (record(a="long"), record(a="int")),
        (record(a="double"), record(a="float")),
        (record(a=MILLIS), record(a=MICROS)),
        (record(a=decimal(9, 2)), record(a=decimal(9, 2))),
        (record(a={"type": "array", "items": "long"}), record(a={"type": "array", "items": "int"})),
        (record(a={"type": "map", "values": ["null", "long"]}), record(a={"type": "map", "values": "int"})),
        (record(a=["null", record("N", x="int")]), record(a=record("M", x="int"))),
        (record(a={"type": "string", "avro.java.string": "String"}), record(a="string")),
        (record(a={"type": "string", "logicalType": "uuid"}), record(a="string")),
        (record(a="int"), record(a=["null", "int"])),  # a null is refused when it comes
        (record(a={"type": "array", "items": "int"}), record(a={"type": "array", "items": ["null", "int"]})),
        (record(a="int", b=["null", "int"]), record(a="int")),
        (record(a=["null", "int", "string"]), record(a="int")),
        (record(a=["int", "string"]), record(a=record("S", member1="string"))),
        (record(a={"type": "enum", "name": "E", "symbols": ["x"]}), record(a="string")),
        (record(a={"type": "fixed", "name": "F", "size": 2}), record(a="bytes")),
        (record(a=decimal(9, 3)), record(a=decimal(7, 2))),
        (
            record(a={"type": "fixed", "name": "F", "size": 8} | decimal(9, 2) | {"type": "fixed"}),
            record(a=decimal(9, 2)),
        ),
        (
            record(a={"type": "int", "logicalType": "time-millis"}),
            record(a={"type": "long", "logicalType": "time-micros"}),
        ),
        (record(a=record("N", x="int"), b="N"), record(a=record("N", x="int"), b=record("M", x="int"))),
        (NODE, record(next=record("M", next=["null", record("K")]))),
    ],
)
def test_what_says_the_same_fits(topic: Any, rows: Any) -> None:
    assert fits(topic, rows)


@pytest.mark.parametrize(
    ("topic", "rows"),
    [
        (record(a="int"), record(a="long")),
        (record(a="int"), record(a="int", b="int")),
        (record(a="int", b="int"), record(a="int")),
        (record(a="string"), record(a="bytes")),
        (record(a="long"), record(a=MICROS)),
        (record(a=MICROS), record(a="long")),
        (record(a=decimal(9, 2)), record(a=decimal(9, 3))),
        (record(a=decimal(9, 2)), record(a=decimal(9, 1))),
        (record(a=decimal(9, 2)), record(a="bytes")),
        (record(a=["null", "int", "string"]), record(a="boolean")),
        (record(a=["int", "string"]), record(a=record("S", member2="string"))),
        (record(a={"type": "enum", "name": "E", "symbols": ["x"]}), record(a="int")),
        (record(a=record("N", x="int")), record(a=record("N", x="string"))),
        ("string", record(a="int")),
    ],
)
def test_what_does_not_fit(topic: Any, rows: Any) -> None:
    assert not fits(topic, rows)


def told(topic: Any, rows: Any, strategy: Compatibility | None = None) -> list[str]:
    return differences(avro.parse(json.dumps(topic).encode()), avro.parse(json.dumps(rows).encode()), strategy)


TOPIC = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "kept", "type": "int"},
        {"name": "gone", "type": "int"},
        {"name": "gone_with_default", "type": ["null", "int"], "default": None},
        {"name": "wider", "type": "int"},
        {"name": "other", "type": "int"},
        {"name": "nullable", "type": "int"},
        {"name": "inner", "type": record("N", x={"type": "array", "items": "int"})},
    ],
}
ROWS = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "kept", "type": "int"},
        {"name": "wider", "type": "long"},
        {"name": "other", "type": "string"},
        {"name": "nullable", "type": ["null", "int"], "default": None},
        {"name": "inner", "type": record("N", x={"type": "array", "items": ["null", "int"]})},
        {"name": "new", "type": "string"},
        {"name": "new_with_default", "type": ["null", "string"], "default": None},
    ],
}


def test_each_strategy_forbids_its_own() -> None:
    gone = "gone (int, no default) is on the topic, but not in the DataFrame"
    gone_with_default = "gone_with_default (int or null, default null) is on the topic, but not in the DataFrame"
    wider = "wider is int on the topic, but long in the DataFrame"
    other = "other is int on the topic, but string in the DataFrame"
    nullable = "nullable is not null on the topic, but may be null in the DataFrame"
    inner = "inner.x[] is not null on the topic, but may be null in the DataFrame"
    new = "new (string, no default) is in the DataFrame, but not on the topic: a new field must be nullable"
    new_with_default = "new_with_default (string or null, default null) is in the DataFrame, but not on the topic"
    everything = [gone, gone_with_default, wider, other, nullable, inner, new, new_with_default]
    assert sorted(told(TOPIC, ROWS)) == sorted(everything)
    assert sorted(told(TOPIC, ROWS, Compatibility.ALWAYS_INCOMPATIBLE)) == sorted(everything)
    assert sorted(told(TOPIC, ROWS, Compatibility.BACKWARD)) == sorted([other, new])
    forward = [gone, wider, other, nullable, inner]
    assert sorted(told(TOPIC, ROWS, Compatibility.FORWARD_TRANSITIVE)) == sorted(forward)
    assert sorted(told(TOPIC, ROWS, Compatibility.FULL)) == sorted([*forward, new])


def test_units_and_many_differences() -> None:
    assert told(record(a=decimal(9, 2)), record(a=decimal(9, 3))) == [
        "a is decimal(9,2) on the topic, but decimal(9,3) in the DataFrame"
    ]
    many = told(record(a="int"), record(a="int", **{f"f{number}": "int" for number in range(40)}))
    assert len(many) == 13
    assert many[-1] == "and 28 more"


def test_types_that_contain_themselves_end() -> None:
    assert told(NODE, NODE) == []
    assert fits(NODE, record(next=record("M")))


def test_types_of_one_name_are_told_by_what_differs() -> None:
    # covers SCHEMA-15
    fixed = {**decimal(10, 2), "type": "fixed", "name": "F", "size": 5}
    assert told(record(a=fixed), record(a=decimal(10, 2))) == [
        "a is decimal(10,2) in fixed(5) on the topic, but decimal(10,2) in bytes in the DataFrame"
    ]
    older, newer = ({"type": "enum", "name": "E", "symbols": symbols} for symbols in (["x"], ["x", "y"]))
    text = "a is enum of x on the topic, but enum of x, y in the DataFrame"
    assert told(record(a=older), record(a=newer)) == [text]
    assert told(record(a=older), record(a=newer), Compatibility.BACKWARD) == []
    assert told(record(a=older), record(a=newer), Compatibility.FORWARD) == [text]
