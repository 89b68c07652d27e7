"""Payloads by column: what does not decode is found by row, and no row ever takes the place of another."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.decoding.key_value_payloads import split_inline
from spark_pulsar.connector.schemas.decoding.messages import MessageDecoder
from spark_pulsar.connector.schemas.decoding.primitive_payloads import primitive_decoder
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.payloads.decoder import UndecodablePayload, decode_rows
from spark_pulsar.connector.schemas.types.arrow_types import arrow_type
from spark_pulsar.connector.schemas.types.columns import value_columns
from spark_pulsar.connector.schemas.types.spark_types import spark_name
from spark_pulsar.model.schemas import Schema, SchemaType, join_key_and_value

A: dict[str, Any] = {"name": "a", "type": "int"}


def record(*fields: dict[str, Any], kind: SchemaType = SchemaType.JSON, version: int = 0) -> Definition:
    data = json.dumps({"type": "record", "name": "R", "fields": list(fields)}).encode()
    return Definition(Schema(kind, data), "R", version.to_bytes(8, "big"))


def decoded(
    reader: Definition, payloads: list[bytes | None], *older: Definition, versions: list[int] | None = None
) -> Any:
    """Rows as tuples, and errors by row."""
    numbers = pa.array([-1] * len(payloads) if versions is None else versions, pa.int64())
    decoder = MessageDecoder(reader, value_columns(reader), lambda version: older[version] if older else None)
    out = decoder.decode(pa.array(payloads, pa.binary()), None, numbers)
    columns = [column.to_pylist() for column in out.columns.values()]
    return list(zip(*columns, strict=True)), out.errors


@pytest.mark.parametrize(
    ("kind", "payload", "told"),
    [
        (SchemaType.INT32, b"\0\0\0", "INT32 has 4 bytes, not 3"),
        (SchemaType.LOCAL_TIME, struct.pack(">q", 86_400_000_000_000), "no time of a day"),
        (SchemaType.TIMESTAMP, struct.pack(">q", 2**62), "no time that Spark has"),
        (SchemaType.LOCAL_DATE, struct.pack(">q", 2**40), "no date that Spark has"),
        (SchemaType.INSTANT, struct.pack(">qi", 0, -1), "no part of a second"),
        (SchemaType.STRING, b"\xff", "no UTF-8"),
    ],
)
def test_a_primitive_that_is_none_is_found_among_others(kind: SchemaType, payload: bytes, told: str) -> None:
    decoder = primitive_decoder(kind)
    good = (
        b""
        if kind is SchemaType.STRING
        else bytes(12 if kind is SchemaType.INSTANT else 8)[: 4 if kind is SchemaType.INT32 else 12]
    )
    array, errors = decode_rows(decoder, pa.array([good, None, payload, good, payload], pa.binary()))
    assert sorted(errors) == [2, 4]
    assert told in errors[2]
    assert array.is_null().to_pylist() == [False, True, True, False, True]
    assert array.type == decoder.type


def test_json_rows_never_shift() -> None:
    payloads = [
        b'{"a":1}', b'{"a":2}{"a":3}', b'{"a":', b'4}', b'{"s":"}', b'{"a":"}', b'{"a":5,"x":{}}', b"{}", b"",
        b'\n{"a":\n6}', b'{"a":7.0}', b'{"a":2147483648}', b'{"a":1,"a":8}', b"null", b'{"a":null}', b'[{"a":9}]',
        b'{"a":true}',
    ]  # fmt: skip
    rows, errors = decoded(record(A), payloads)
    good = {0: 1, 6: 5, 7: None, 9: 6, 10: 7, 12: 8, 14: None}
    assert sorted(errors) == sorted(set(range(len(payloads))) - set(good))
    assert {row: rows[row][0] for row in good} == good


def test_json_that_only_python_reads() -> None:
    fields = [
        {"name": "m", "type": {"type": "map", "values": "int"}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}},
        {"name": "b", "type": "bytes"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "f", "type": "float"},
    ]
    payload = b'{"m":{"k":1},"d":12.34,"b":"AAE=","day":[2026,1,2],"at":"2026-01-02T00:00:00Z","f":"NaN"}'
    rows, errors = decoded(record(*fields), [payload, b'{"d":123456}', b'{"b":"?"}', b'{"day":"2026-01-02"}'])
    assert (sorted(errors), "decimal" in errors[1], "field b" in errors[2]) == ([1, 2], True, True)
    m, d, b, day, at, f = rows[0]
    assert (m, str(d), b, str(day), at.isoformat()) == (
        [("k", 1)],
        "12.34",
        b"\0\1",
        "2026-01-02",
        "2026-01-02T00:00:00+00:00",
    )
    assert f != f
    assert rows[3][3] == day


def avro(definition: Definition, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(definition.schema.data)), value)
    return out.getvalue()


def test_avro_of_many_versions_and_none() -> None:
    old = record(A, kind=SchemaType.AVRO)
    new = record(A, {"name": "b", "type": "int", "default": 5}, kind=SchemaType.AVRO, version=1)
    narrow = record({"name": "b", "type": "int"}, kind=SchemaType.AVRO)
    payloads = [
        avro(old, {"a": 1}),
        avro(new, {"a": 2, "b": 3}),
        b"",
        None,
        b"\xff" * 12,
        avro(old, {"a": 4}) + b"\0",
        b"\2",
    ]
    rows, errors = decoded(new, payloads, old, new, narrow, versions=[0, 1, 1, 1, 1, 0, 2])
    assert rows[:2] == [(1, 5), (2, 3)]
    assert rows[2:] == [(None, None)] * 5
    assert sorted(errors) == [2, 4, 5, 6]
    assert "left over" in errors[5]
    rows, errors = decoded(new, [b"\2\2"], versions=[7])
    assert "version 7 that it carries is not in the registry" in errors[0]


def test_a_union_that_cannot_be_told_apart_is_refused() -> None:
    either = {"name": "u", "type": ["null", "string", {"type": "enum", "name": "E", "symbols": ["X"]}]}
    column = value_columns(record(either, kind=SchemaType.AVRO)).field("u").type
    with pytest.raises(SchemaError, match=r"field u: a union of string and enum .* their values"):
        spark_name(column)


def test_inline_key_values_have_lengths_that_fit() -> None:
    def pair(key: bytes, value: bytes) -> bytes:
        return struct.pack(">i", len(key)) + key + struct.pack(">i", len(value)) + value

    null = struct.pack(">i", -1)
    payloads = [
        pair(b"k", b"v"),
        None,
        null + null,
        pair(b"k", b"v") + b"x",
        b"\0\0",
        struct.pack(">i", 2**31 - 1) + b"k" * 9,
        struct.pack(">i", -2) * 2,
    ]
    keys, values, errors = split_inline(pa.array(payloads, pa.binary()))
    assert keys.to_pylist() == [b"k"] + [None] * 6
    assert values.to_pylist() == [b"v"] + [None] * 6
    assert sorted(errors) == [3, 4, 5, 6]


def test_types_are_bounded_and_named_in_ddl() -> None:
    levels: dict[str, Any] = {"type": "record", "name": "L0", "fields": [A]}
    for level in range(1, 15):
        inner = f"L{level - 1}"
        levels = {
            "type": "record",
            "name": f"L{level}",
            "fields": [{"name": "x", "type": levels}, {"name": "y", "type": inner}],
        }
    kinds = arrow_type(Definition(Schema(SchemaType.AVRO, json.dumps(levels).encode())).avro())
    with pytest.raises(SchemaError, match="field x: with it the schema has more than 10000 types"):
        spark_name(kinds.field("x").type)
    wide = record(
        {"name": "p", "type": {"type": "fixed", "name": "F", "size": 20, "logicalType": "decimal", "precision": 40}}
    )
    with pytest.raises(SchemaError, match=r"field p: decimal\(40,0\) has more digits than the 38 of Spark"):
        spark_name(value_columns(wide).field("p").type)
    nested = record(
        {"name": "r", "type": {"type": "record", "name": "N", "fields": [{"name": "s", "type": ["null", "long"]}]}}
    )
    assert spark_name(value_columns(nested).field("r").type) == "struct<s:bigint>"
    with pytest.raises(SchemaError, match="PROTOBUF cannot be read; set useTopicSchema"):
        value_columns(Definition(Schema(SchemaType.PROTOBUF, b"{}")))
    with pytest.raises(SchemaError, match=r"PROTOBUF_NATIVE schema cannot be read: .*set useTopicSchema"):
        value_columns(Definition(Schema(SchemaType.PROTOBUF_NATIVE, b"{}")))


@pytest.mark.parametrize(("kind", "payload"), [(SchemaType.AVRO, b"\x02\x02x"), (SchemaType.JSON, b'{"u":"x"}')])
def test_branches_of_a_union_are_picked_by_name(kind: SchemaType, payload: bytes) -> None:
    reader = record({"name": "u", "type": ["int", "string", "boolean"]}, kind=kind)
    other = b"\x00\x0e" if kind is SchemaType.AVRO else b'{"u":7}'
    picked = pa.schema([pa.field("u", pa.struct([("member2", pa.bool_()), ("member1", pa.string())]))])
    decoder = MessageDecoder(reader, picked, lambda version: None)
    out = decoder.decode(pa.array([payload, other], pa.binary()), None, pa.array([-1, -1]))
    assert out.columns["u"].to_pylist() == [{"member2": None, "member1": "x"}, {"member2": None, "member1": None}]
    assert out.errors == {}


def test_numbers_of_huge_exponents_and_lengths_are_refused_at_once() -> None:
    rows, errors = decoded(record(A), [b'{"a":1e999999999}', b'{"a":1e2}', b'{"a":-1e999999999}', b'{"a":1.0}'])
    assert [row[0] for row in rows] == [None, 100, None, 1]
    assert sorted(errors) == [0, 2]
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    long = io.BytesIO()
    fastavro.schemaless_writer(long, "bytes", b"\x7f" * 4_000_000)
    rows, errors = decoded(
        record({"name": "d", "type": kind}, kind=SchemaType.AVRO), [long.getvalue(), b"\x02\x64", b"\x02\xff"]
    )
    assert [row[0] and int(row[0] * 100) for row in rows] == [None, 100, -1]
    assert "more than 127 bits" in errors[0]


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("bytes", "\u00ff", b"\xff"),
        ({"type": "fixed", "name": "F", "size": 1}, "\u00ff", b"\xff"),
        (["bytes", "null"], "\u00ff", b"\xff"),
        ({"type": "array", "items": "bytes"}, ["\u00ff"], [b"\xff"]),
        ({"type": "record", "name": "N", "fields": [{"name": "x", "type": "int", "default": 5}]}, {}, {"x": 5}),
        (
            {"type": "record", "name": "N", "fields": [{"name": "x", "type": ["int", "string"], "default": 5}]},
            {},
            {"x": {"member0": 5, "member1": None}},
        ),
        (["double", "string"], 1, {"member0": 1.0, "member1": None}),
    ],
)
def test_defaults_of_fields_that_a_version_lacks_are_values_of_their_type(kind: Any, default: Any, value: Any) -> None:
    older = record(A, kind=SchemaType.AVRO)
    newer = record(A, {"name": "b", "type": kind, "default": default}, kind=SchemaType.AVRO, version=1)
    rows, errors = decoded(newer, [b"\x02"], older, versions=[0])
    assert rows == [(1, value)]
    assert errors == {}


def test_a_decimal_default_has_the_digits_of_its_bytes() -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 0}
    newer = record(A, {"name": "b", "type": kind, "default": "\0\u00c8"}, kind=SchemaType.AVRO, version=1)
    rows, _ = decoded(newer, [b"\x02"], record(A, kind=SchemaType.AVRO), versions=[0])
    assert [(a, int(b)) for a, b in rows] == [(1, 200)]


def test_most_rows_may_be_undecodable_without_each_being_paid_by_all() -> None:
    class Counting:
        type = pa.int32()
        rows = 0

        def decode(self, payloads: Any) -> Any:
            self.rows += len(payloads)
            for row, payload in enumerate(payloads.to_pylist()):
                if payload == b"":
                    raise UndecodablePayload("empty", row)
            return pa.array([int(each) for each in payloads.to_pylist()], pa.int32())

    decoder = Counting()
    payloads = [b"" if 100 < row < 4_900 and row % 7 else str(row).encode() for row in range(5_000)]
    array, errors = decode_rows(decoder, pa.array(payloads, pa.binary()))
    assert array.to_pylist() == [int(each) if each else None for each in payloads]
    assert sorted(errors) == [row for row, each in enumerate(payloads) if each == b""]
    assert decoder.rows < 50 * len(payloads)


def key_value(encoding: str, version: int) -> Definition:
    types = {"key.schema.type": "STRING", "value.schema.type": "STRING", "kv.encoding.type": encoding}
    data = join_key_and_value(b"", b"")
    return Definition(Schema(SchemaType.KEY_VALUE, data, types), "", version.to_bytes(8, "big"))


INLINE = b"\0\0\0\1k\0\0\0\1v"


@pytest.mark.parametrize(
    ("writer", "told"),
    [
        (key_value("INLINE", 0), "written INLINE (schema version 0), not SEPARATED"),
        (Definition(Schema(SchemaType.KEY_VALUE, b"\0")), "cannot be read"),
    ],
)
def test_a_key_value_of_another_encoding_is_refused_by_row(writer: Definition, told: str) -> None:
    reader = key_value("SEPARATED", 1)
    decoder = MessageDecoder(reader, value_columns(reader), [writer, reader].__getitem__)
    payloads, keys = pa.array([INLINE, b"w"], pa.binary()), pa.array([b"x", b"y"], pa.binary())
    out = decoder.decode(payloads, keys, pa.array([0, 1]))
    assert {name: column.to_pylist() for name, column in out.columns.items()} == {
        "key": [None, "y"],
        "value": [None, "w"],
    }
    assert told in out.errors[0]
    assert list(out.errors) == [0]


def test_a_row_whose_key_does_not_decode_is_null_as_a_whole() -> None:
    reader = key_value("INLINE", 0)
    decoder = MessageDecoder(reader, value_columns(reader), lambda version: None)
    payloads = pa.array([b"\0\0\0\1\xff\0\0\0\1v", INLINE], pa.binary())
    out = decoder.decode(payloads, None, pa.array([-1, -1]))
    assert {name: column.to_pylist() for name, column in out.columns.items()} == {
        "key": [None, "k"],
        "value": [None, "v"],
    }
    assert list(out.errors) == [0]


def test_a_fixed_of_a_size_that_no_client_has_is_no_definition() -> None:
    huge = record({"name": "f", "type": {"type": "fixed", "name": "F", "size": 2**63}}, kind=SchemaType.AVRO)
    with pytest.raises(SchemaError, match="size"):
        value_columns(huge)


def test_a_payload_of_an_older_recursive_schema_may_not_exhaust_the_stack() -> None:
    older = record(A, {"name": "next", "type": ["null", "R"], "default": None}, kind=SchemaType.AVRO)
    newer = record(A, kind=SchemaType.AVRO, version=1)
    payloads: list[bytes | None] = [b"\x02\x02" * depth + b"\x04\x00" for depth in (0, 20, 1_000_000)]
    rows, errors = decoded(newer, payloads, older, versions=[0, 0, 0])
    assert [row[0] for row in rows] == [2, 1, None]
    assert "recursion" in errors[2]


class CountingDecoder:
    """Decoder of a version that counts its calls."""

    calls = 0

    def __init__(self, decoder: Any) -> None:
        self.type = decoder.type
        self._decoder = decoder

    def decode(self, payloads: Any) -> Any:
        CountingDecoder.calls += 1
        return self._decoder.decode(payloads)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts the calls of decoders."""
    make = MessageDecoder._make

    def counted(self: MessageDecoder, version: int) -> dict[str, Any]:
        return {name: CountingDecoder(each) for name, each in make(self, version).items()}

    monkeypatch.setattr(MessageDecoder, "_make", counted)
    CountingDecoder.calls = 0


@pytest.mark.usefixtures("counting")
@pytest.mark.parametrize("kind", [SchemaType.AVRO, SchemaType.JSON])
def test_versions_in_turn_are_decoded_once_each(kind: SchemaType) -> None:
    # covers SCHEMA-17
    newer = record(A, {"name": "b", "type": ["null", "string"], "default": None}, kind=kind, version=1)
    older = record(A, kind=kind)
    rows: list[tuple[int, bytes | None]] = []
    for i in range(120):
        one: bytes | None = b"\x02" if kind is SchemaType.AVRO else b'{"a":1}'
        two: bytes | None = b"\x04\x02\x02x" if kind is SchemaType.AVRO else b'{"a":2,"b":"x"}'
        rows += [(0, one), (1, two), (0, b"\xff" if i % 7 == 0 else None), (i % 2, one if i % 2 == 0 else two)]
    found, errors = decoded(newer, [each for _, each in rows], older, newer, versions=[each for each, _ in rows])
    assert CountingDecoder.calls == 2  # a version each
    for row, (version, payload) in enumerate(rows):
        alone, wrong = decoded(newer, [payload], older, newer, versions=[version])
        assert found[row] == alone[0]
        assert errors.get(row) == wrong.get(0)


@pytest.mark.usefixtures("counting")
@pytest.mark.parametrize("kind", ["AVRO", "JSON", "INT64", "STRING", "KEY_VALUE"])
def test_every_second_message_is_undecodable_and_costs_no_decoding_of_its_own(kind: str) -> None:
    # covers SCHEMA-18
    schema = {
        "AVRO": record(A, kind=SchemaType.AVRO),
        "JSON": record(A),
        "INT64": Definition(Schema(SchemaType.INT64, b"")),
        "STRING": Definition(Schema(SchemaType.STRING, b"")),
        "KEY_VALUE": key_value("INLINE", 0),
    }[kind]
    good = {"AVRO": b"\x02", "JSON": b'{"a":1}', "INT64": bytes(8), "STRING": b"x", "KEY_VALUE": INLINE}[kind]
    rows, errors = decoded(schema, [good, INLINE[:-1] + b"\xff"] * 100)
    assert CountingDecoder.calls <= 2
    assert sorted(errors) == list(range(1, 200, 2))
    assert rows[1::2] == [(None,) * len(rows[0])] * 100
    assert all(None not in row for row in rows[0::2])


@pytest.mark.usefixtures("counting")
def test_values_that_spark_has_no_room_for_are_found_at_once() -> None:
    # covers SCHEMA-18
    time = {"type": "int", "logicalType": "time-millis"}
    at = {"type": "long", "logicalType": "timestamp-millis"}
    digits = {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}
    fields = [
        {"name": "t", "type": time},
        {"name": "at", "type": ["null", at]},
        {"name": "d", "type": {"type": "array", "items": digits}},
        {"name": "m", "type": {"type": "map", "values": "string"}},
    ]
    schema = record(*fields, kind=SchemaType.AVRO)

    def row(t: int = 1, at: int | None = 1, d: tuple[bytes, ...] = (b"\1", b"\2"), m: str = "x") -> bytes:
        plain = [{**each, "type": kind} for each, kind in zip(fields, PLAIN, strict=True)]
        return avro(record(*plain, kind=SchemaType.AVRO), {"t": t, "at": at, "d": list(d), "m": {"k": m}})

    wrong = [row(t=-1), row(at=2**62), row(d=(b"\1", b"\x7f")), row(m="y")[:-2] + b"\xff\0"]
    rows, errors = decoded(schema, [row(), *wrong] * 20)
    assert sorted(errors) == [i for i in range(100) if i % 5]
    assert CountingDecoder.calls <= 5
    told = ("time-millis is out of range: -1", "timestamp-millis is out of range", "decimal is out of range", "UTF-8")
    for i, text in enumerate(told, 1):
        assert text.lower() in errors[i].lower()
    assert (str(rows[0][0]), [int(each) for each in rows[0][2]], rows[0][3]) == (
        "00:00:00.001000",
        [1, 2],
        [("k", "x")],
    )


PLAIN: list[Any] = [
    "int",
    ["null", "long"],
    {"type": "array", "items": "bytes"},
    {"type": "map", "values": "string"},
]
