"""Schema resolution, rule by rule of Avro's specification."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.broker.schemas import avro_compatibility
from spark_pulsar.broker.schemas.avro_compatibility import TooMuchToCompare, can_read
from spark_pulsar.model.avro import parse
from tests.cases import cases
from tests.unit.broker.schemas.records import B_REQUIRED, B_WITH_DEFAULT, A

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
WIDER = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}


def reads(reader: Any, writer: Any) -> bool:
    return can_read(parse(json.dumps(reader).encode()), parse(json.dumps(writer).encode()))


def rec(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def enum(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


@cases("writer", PRIMITIVES)
@cases("reader", PRIMITIVES)
def test_primitives_are_read_as_themselves_or_as_something_wider(reader: str, writer: str) -> None:
    # covers SC-5
    assert reads(reader, writer) == (reader == writer or (writer, reader) in WIDER)


@cases(
    "reader, writer, fits",
    [
        (rec(A, B_WITH_DEFAULT), rec(A), True),
        (rec(A, B_REQUIRED), rec(A), False),
        (rec(A), rec(A, B_REQUIRED), True),
        (rec(), rec(A), True),
        (rec(A), rec(), False),
        (rec({"name": "a", "type": "long"}), rec(A), True),
        (rec(A), rec({"name": "a", "type": "long"}), False),
        (rec(A, name="Other"), rec(A), True),
        (rec({"name": "new", "type": "int", "aliases": ["a"]}), rec(A), True),
        (rec({"name": "new", "type": "int"}), rec(A), False),
        (rec(B_REQUIRED, A), rec(A, B_REQUIRED), True),
        (enum("X", "Y"), enum("X"), True),
        (enum("X"), enum("X", "Y"), True),  # only data that holds Y cannot be read
        (enum("X", name="F"), enum("X"), False),
        (enum("X", name="F", aliases=["E"]), enum("X"), True),
        (enum("X"), "string", False),
        ({"type": "fixed", "name": "F", "size": 3}, {"type": "fixed", "name": "F", "size": 3}, True),
        ({"type": "fixed", "name": "F", "size": 3}, {"type": "fixed", "name": "F", "size": 4}, False),
        ({"type": "fixed", "name": "G", "size": 3}, {"type": "fixed", "name": "F", "size": 3}, False),
        ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, True),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, False),
        ({"type": "map", "values": "long"}, {"type": "map", "values": "int"}, True),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "string"}, False),
        ({"type": "map", "values": "int"}, {"type": "array", "items": "int"}, False),
        ({"type": "int", "logicalType": "date"}, "int", True),
        (["null", "int"], "int", True),
        (["null", "long"], "int", True),
        (["null", "string"], "int", False),
        ("int", ["int"], True),
        ("long", ["int", "long"], True),
        ("int", ["null", "int"], False),
        (["int", "null"], ["null", "int"], True),
        (["null"], ["null", "int"], False),
        (["null", rec(A)], rec(A, B_REQUIRED), True),
        (["null", rec(A, name="S")], rec(A), True),
        (["null", rec(B_REQUIRED, name="S")], rec(A), False),
        (["null", rec(B_REQUIRED), rec(A, name="S")], rec(A), False),  # the name decides
        ([rec(B_REQUIRED, name="x.S"), rec(A, name="y.S")], rec(A, name="z.S"), True),
        ([enum("X")], enum("X", "Y"), True),
        ([enum("X", name="F")], enum("X"), False),
        ([], "int", False),
        (["null"], [], True),
    ],
)
def test_records_other_types_and_unions(reader: Any, writer: Any, fits: bool) -> None:
    assert reads(reader, writer) == fits


def node(value: Any, name: str = "Node") -> dict[str, Any]:
    return rec({"name": "value", "type": value}, {"name": "next", "type": ["null", name]}, name=name)


def test_types_that_contain_themselves() -> None:
    assert reads(node("long"), node("int"))
    assert not reads(node("int"), node("long"))
    assert reads(node("int", "Other"), node("int")) is True


def test_what_relied_on_a_pair_that_failed_is_judged_again() -> None:
    # In both, B is first met inside A's trial, which fails at its last field; alone B does not fit either.
    def both(last: Any) -> dict[str, Any]:
        b = rec({"name": "up", "type": ["null", "A"]}, name="B")
        a = rec({"name": "b", "type": b}, {"name": "last", "type": last}, name="A")
        return rec({"name": "x", "type": ["null", a]}, {"name": "y", "type": "B"}, name="Top")

    assert reads(both("int"), both("int"))
    assert not reads(both("int"), both("string"))


FIELDS = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.sampled_from(["int", "long", "string", ["null", "int"], {"type": "array", "items": "int"}]),
        st.booleans(),
    ),
    unique_by=lambda each: each[0],
)


def build(fields: list[tuple[str, Any, bool]]) -> bytes:
    return json.dumps(rec(*({"name": n, "type": t, **({"default": None} if d else {})} for n, t, d in fields))).encode()


@given(FIELDS)
def test_everything_reads_what_it_wrote(fields: list[tuple[str, Any, bool]]) -> None:
    assert can_read(parse(build(fields)), parse(build(fields)))


@given(FIELDS, FIELDS)
def test_a_record_reads_another_when_each_of_its_fields_has_a_source(
    read: list[tuple[str, Any, bool]], written: list[tuple[str, Any, bool]]
) -> None:
    types = {name: kind for name, kind, _ in written}
    expected = all(reads(kind, types[name]) if name in types else has_default for name, kind, has_default in read)
    assert can_read(parse(build(read)), parse(build(written))) == expected


@given(FIELDS, FIELDS, FIELDS)
def test_fields_of_one_type_with_defaults_everywhere_fit_all_ways(
    one: list[tuple[str, Any, bool]], two: list[tuple[str, Any, bool]], three: list[tuple[str, Any, bool]]
) -> None:
    # covers SC-4 (what FULL_TRANSITIVE allows)
    schemas = [parse(build([(name, "int", True) for name, _, _ in fields])) for fields in (one, two, three)]
    assert all(can_read(reader, writer) for reader in schemas for writer in schemas)


def alternatives(prefix: str, count: int, field: str, *more: Any) -> dict[str, Any]:
    """A record with a union of `count` records that have no name of another such record, each with its own field."""
    branches = [rec({"name": field.format(i), "type": "int"}, name=f"{prefix}{i}") for i in range(count)]
    return rec({"name": "u", "type": [*branches, *more]})


def test_comparing_each_with_each_costs_no_more_than_that() -> None:
    # Hostile input of some 20 KB: minutes where each pair that does not fit looks at all pairs before it again.
    reader = alternatives("R", 250, "r{}", rec(name="All"))
    assert reads(reader, alternatives("W", 250, "w"))


def test_what_takes_too_long_is_not_compared_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    # The reader's last branch fits, so that nothing else ends the comparison of each with each.
    reader, writer = alternatives("R", 200, "r{}", rec(name="All")), alternatives("W", 200, "w")
    assert reads(reader, writer)
    monkeypatch.setattr(avro_compatibility, "MAX_STEPS", 10_000)
    with pytest.raises(TooMuchToCompare, match="too much to compare"):
        reads(reader, writer)


def test_a_long_record_is_not_too_much() -> None:
    fields = [{"name": f"f{i}", "type": "int"} for i in range(10_000)]
    assert reads(rec(*fields), rec(*fields))
