"""JSON payloads of which some are unusual: those that are read at once are what Python reads, one by one."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.connector.schemas.decoding import json_payloads
from spark_pulsar.connector.schemas.decoding.json_payloads import JsonDecoder
from spark_pulsar.connector.schemas.decoding.json_program import Program
from spark_pulsar.connector.schemas.decoding.json_tables import JsonRows
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.payloads.decoder import UndecodablePayload, decode_rows
from spark_pulsar.connector.schemas.types.arrow_types import arrow_type
from spark_pulsar.model.schemas import Schema, SchemaType

INNER = {"type": "record", "name": "N", "fields": [{"name": "a", "type": "int"}, {"name": "m", "type": "string"}]}
FIELDS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "a": ("int", ("0", "-5", "123456789", "1234567890", "2147483648", "1.0", "01", "-0")),
    "l": (["null", "long"], ("0", "-123456789012345678", "9223372036854775808", "null")),
    "d": ("double", ("1", "1.5", "-2e10", "-0", "-0.0", "1.", ".5", "1E+2", '"NaN"')),
    "s": ("string", ('""', '"日本é"', r'"\ud83d\ude00\n"', r'"\ud800"', '"\x01"', r'"\x"', '"open')),
    "é": ("boolean", ("true", "false", "tru", "True")),
    "r": (INNER, ('{"a":1,"m":"x"}', '{"m":null}', "{}", "[]", '{"a":1,"a":2}', '{"a"}', "{,}", '{"z":{"y":[1]}}')),
    "x": ({"type": "array", "items": ["null", "long"]}, ("[1,null]", "[]", "[1,]", "[[1]]", "{}", "[1")),
    "n": ("null", ("null", "0")),
    "m": ({"type": "map", "values": "long"}, ('{"k":1}', "{}", '{"k":1,"k":2}', '{"k":"x"}', "[]", '{"k"')),
}
FIELDS |= {
    "by": (
        "bytes",
        ('""', '"YWI="', '"YWJj"', '"YWI"', '"YW I="', '"YQ==YQ=="', r'"YWI\u003d"', '"YWJ="', '"=AAA"', '"A==="', "1"),
    ),
    "fx": ({"type": "fixed", "name": "F", "size": 2}, ('"YWI="', '"YWJj"', '"YWI"', '""', "null", '"ab"', '"é"')),
    "de": (
        {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
        (
            "1.25",
            "-0",
            '"3"',
            "123.4",
            "999.99",
            "1000",
            "0.001",
            "1.500",
            "1e2",
            '"1_0"',
            "00",
            '"-.5"',
            '"x"',
            "-1.5",
        ),
    ),
    "dw": (
        ["null", {"type": "fixed", "name": "D", "size": 16, "logicalType": "decimal", "precision": 38, "scale": 10}],
        ("1.25", "null", "-1234567890123456789012345678.0123456789", "12345678901234567890123456789", '"0.5"'),
    ),
    "dz": ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 2}, ("0.05", "-0.5", "0", "1", "0.5")),
    "u": (
        ["null", "long", "string"],
        ("1", '"x"', "null", '"5"', "5.0", "true", "9223372036854775808", "1e3", "[]", "{}"),
    ),
    "ud": (["null", "string", "double"], ('"NaN"', '"x"', "1.5", "NaN", "-0", "true")),
    "du": (["double", "string"], ("1.5", '"x"', '"NaN"', '"\\u004eaN"', '"-Infinity"', '"Nah"', "7", r'"\n"')),
    "ul": (["long", "string", "double"], ("7", '"x"', "5.5", "5.0", "1e400", "-0")),
    "ub": (["boolean", "bytes", "string"], ("true", '"YWI="', "null", '"x"', "false")),
    "ur": (
        [
            "null",
            INNER | {"name": "U"},
            {"type": "map", "values": "int"},
            {"type": "array", "items": ["int", "string"]},
        ],
        ('{"a":1}', '[1,"x",null]', "null", '{"a":"y"}', '{"k":1}', "[]", "{}", "[[1]]", '{"a":1,"a":2}', '{"z":[{}]}'),
    ),
    "ut": (
        ["string", {"type": "long", "logicalType": "timestamp-millis"}],
        ('"x"', "5", "null", '"2020-01-01T00:00:00Z"'),
    ),
    "uc": ([{"type": "int", "java-class": "java.lang.Character"}, "string"], ("65", '"xy"', "null", '"x"')),
    "mr": (
        {"type": "map", "values": ["null", INNER | {"name": "V"}]},
        (
            '{"k":{"a":1}}',
            '{"":null,"l":{}}',
            "{ }",
            '{"k":{"a":1},"k":{"a":2},"l":null}',
            r'{"k":{},"\u006b":null}',
            '{"k":[]}',
        ),
    ),
    "mm": (
        ["null", {"type": "map", "values": {"type": "map", "values": ["null", "string", "bytes"]}}],
        (
            '{"k":{"k":"v"},"l":{"k":"w"}}',
            "null",
            '{"k":null,"é":{}}',
            '{"k":{"k":"v","k":"w"}}',
            '{"k":{"k"}}',
            '{"k":1}',
        ),
    ),
    "am": (
        {"type": "array", "items": {"type": "map", "values": "bytes"}},
        ('[{"k":"YQ=="},null,{}]', "[]", '[{"k":null,"l":"YWI="},{"m":"YWJj"}]', '[{"k":"Y"}]', '[{"k":"YQ==",}]'),
    ),
    "ma": (
        {"type": "map", "values": {"type": "array", "items": "int"}},
        ('{"k":[1,2],"l":[]}', "{}", '{"k":[null]}', '{"k":[1},"l":[]}', '{"k":[1]]'),
    ),
    "en": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, ('"A"', '"B"', '"C"', "1")),
    **{
        name: (
            {"type": "long", "logicalType": logical},
            (
                "1700000000000",
                f'"2020-02-29T23:59:59.5{end}"',
                f'"1969-12-31T23:59:59{end}"',
                "null",
                "-1",
                "0",
                f'"0001-01-01T00:00:00.000001{end}"',
                f'"9999-12-31T23:59:59.999999{end}"',
                f'"2021-02-29T00:00:00{end}"',
                f'"2020-01-01T24:00:00{end}"',
                f'"2020-01-01T00:00:60{end}"',
                f'"2020-01-01 00:00:00{end}"',
                f'"2020-1-01T00:00:00{end}"',
                f'"2020-01-01T00:00:00.1234567{end}"',
                f'"2020-01-01T00:00:00.{end}"',
                '"2020-01-01T00:00:00+01:00"',
                '"2020-01-01T00:00"',
                f'"0000-01-01T00:00:00{end}"',
            ),
        )
        for name, logical, end in (
            ("ts", "timestamp-millis", "Z"),
            ("tu", "timestamp-micros", "Z"),
            ("tl", "local-timestamp-millis", ""),
        )
    },
    "tc": (
        {"type": "long", "logicalType": "time-micros"},
        (
            '"00:00:00"',
            '"23:59:59"',
            '"02:46:40.5"',
            "86399999999",
            '"00:00:00.000001"',
            '"24:00:00"',
            '"1:00:00"',
            "-1",
        ),
    ),
    "da": ({"type": "int", "logicalType": "date"}, ("19000", "-5", "null", '"2020-01-01"', "[2020,1,1]", "1e1")),
    "rr": (
        {
            "type": "record",
            "name": "R2",
            "fields": [
                {"name": "t", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
                {"name": "b", "type": {"type": "array", "items": ["null", "bytes"]}},
                {"name": "m", "type": {"type": "map", "values": ["int", "string"]}},
            ],
        },
        (
            '{"t":"2020-02-29T23:59:59.5Z","b":["YQ==",null],"m":{"x":1,"y":"z"}}',
            '{"t":5,"m":{}}',
            "null",
            '{"b":["Y"]}',
            '{"m":{"x":true}}',
        ),
    ),
}
OTHERS = ("{}", "[]", "null", '"x"', "1", "NaN", "", "{", "]", '[{"a":[1,{"b":[]}]}]')


def space(random: Random) -> str:
    return random.choice(("", "", "", " ", "\n", "\t \r\n"))


def payload(random: Random, names: list[str]) -> bytes:
    """An object of fields, most of them right, and sometimes damaged."""
    members = []
    for name in random.sample([*names, "other", ""], random.randrange(len(names) + 1)):
        values = FIELDS[name][1] if name in FIELDS else OTHERS
        value = random.choice(OTHERS) if random.random() < 0.05 else random.choice(values[:3] or values)
        if random.random() < 0.1:
            value = random.choice(values)
        key = '"\\u0061"' if random.random() < 0.02 else json.dumps(name, ensure_ascii=False)
        members.append(space(random) + key + space(random) + ":" + space(random) + value + space(random))
    if members and random.random() < 0.05:
        members.append(random.choice(members))
    data = bytearray((space(random) + "{" + ",".join(members) + "}" + space(random)).encode())
    kind = random.randrange(15)
    if kind == 0:
        del data[random.randrange(len(data)) :]
    elif kind == 1:
        data[random.randrange(len(data))] = random.randrange(256)
    elif kind == 2:
        data += b'{"a":1}'
    elif kind == 3:
        data[:0] = b"\xef\xbb\xbf"
    return bytes(data)


class RowByRow:
    """Decoder that has every payload read by Python, by itself."""

    def __init__(self, decoder: JsonDecoder) -> None:
        self.type, self._decoder = decoder.type, decoder

    def decode(self, payloads: Any) -> Any:
        parts, errors = [], {}
        for row in range(len(payloads)):
            try:
                parts.append(self._decoder._one_by_one(payloads.slice(row, 1)))
            except UndecodablePayload as error:
                errors[row] = error.reason
        if errors:
            raise UndecodablePayload.of(errors)
        return pa.concat_arrays(parts)


def check(random: Random) -> None:
    names = random.sample(list(FIELDS), random.choice((1, 1, 2, 3, random.randrange(1, len(FIELDS) + 1))))
    fields = [{"name": name, "type": FIELDS[name][0]} for name in names]
    definition = Definition(
        Schema(SchemaType.JSON, json.dumps({"type": "record", "name": "R", "fields": fields}).encode())
    )
    decoder = JsonDecoder(definition, definition, arrow_type(definition.avro()))
    payloads = pa.array([payload(random, names) for _ in range(40)], pa.binary())
    rows, errors = decode_rows(decoder, payloads)
    rows.validate(full=True)
    of_python, expected = decode_rows(RowByRow(decoder), payloads)
    assert repr(rows.to_pylist()) == repr(of_python.to_pylist())
    assert errors == expected


@given(st.integers(0, 2**63))
def test_payloads_that_are_told_apart_are_what_python_reads(seed: int) -> None:
    # covers SCHEMA-18
    limit, can_compile = json_payloads.LEAST_ROWS, json_payloads.COMPILED
    json_payloads.LEAST_ROWS, json_payloads.COMPILED = 1, True  # type: ignore[misc]
    try:
        check(Random(seed))
    finally:
        json_payloads.LEAST_ROWS, json_payloads.COMPILED = limit, can_compile  # type: ignore[misc]


def test_most_payloads_that_are_only_spaced_are_read_at_once() -> None:
    # covers SCHEMA-18
    definition = Definition(
        Schema(SchemaType.JSON, b'{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}')
    )
    decoder = JsonDecoder(definition, definition, arrow_type(definition.avro()))
    texts = [b'{"a":1}\n', b' {\r\n"a" :\t1 , "b":{"c":[{}]}}', b'\xef\xbb\xbf{"a":null}', b'{"a":"1"}', b"[]", b""]
    program = Program(decoder._record, (), "BASE64")
    tables = JsonRows(program).read(pa.array(texts, pa.binary()))
    assert tables.is_read.tolist() == [True, True, True, False, False, False]
    assert tables.array(program.root.members["a"]).to_pylist() == [1, 1, None, None, None, None]


def test_hostile_payloads_are_what_python_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers SCHEMA-18
    monkeypatch.setattr(json_payloads, "LEAST_ROWS", 1)
    monkeypatch.setattr(json_payloads, "COMPILED", True)
    names = ("x", "mr", "ur", "am", "d", "l", "s", "by", "dw", "tu")
    fields = [{"name": name, "type": FIELDS[name][0]} for name in names]
    schema = Schema(SchemaType.JSON, json.dumps({"type": "record", "name": "R", "fields": fields}).encode())
    definition = Definition(schema)
    whole = (
        b'{"x":[1,null],"mr":{"k":{"a":1},"l":null},"ur":[1,"x"],"am":[{"k":"YQ=="}],"d":1.5e-7,"l":-5,'
        rb'"s":"\u00e9\ud83d\ude00\\","by":"YWI=","dw":-1.5,"tu":"2020-02-29T23:59:59.5Z"}'
    )
    keys = [f'"k{i}":{{"a":{i}}}' for i in range(100)]
    texts = [whole[:end] for end in range(len(whole) + 1)]
    texts += [whole[:at] + bytes([whole[at] ^ 0x80]) + whole[at + 1 :] for at in range(0, len(whole), 3)]
    texts += [
        b'{"x":[' + b"1," * 5_000 + b"2]}",  # more items than there is room for
        b'{"am":[' + b'{"k":null,"l":"YQ=="},' * 3_000 + b"{}]}",
        f'{{"mr":{{{",".join(keys)}}}}}'.encode(),
        f'{{"mr":{{{",".join([*keys, keys[70]])}}}}}'.encode(),  # equal keys, too far apart to be compared
        b'{"other":' + b"[" * 500 + b"]" * 500 + b',"l":1}',  # deeper than the kernel goes
        b'{"other":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"d":' + b"9" * 199 + b'e99,"l":2}',
        b'{"d":' + b"9" * 400 + b"}",
        b'{"d":0.' + b"0" * 150 + b'1,"l":3}',
        b'{"d":1234567890123456,"l":4}',
        b'{"d":0.30000000000000004,"dw":' + b"9" * 28 + b"}",
        b'{"l":' + b"9" * 300 + b"}",
        b'{"dw":' + b"9" * 29 + b"}",
        b'{"by":"' + b"YWJj" * 5_000 + b'"}',
        b'{"s":"' + rb"\u0041" * 5_000 + b'"}',
    ]
    payloads = pa.array(texts, pa.binary())
    decoder = JsonDecoder(definition, definition, arrow_type(definition.avro()))
    rows, errors = decode_rows(decoder, payloads)
    rows.validate(full=True)
    of_python, expected = decode_rows(RowByRow(decoder), payloads)
    assert errors == expected
    assert rows.equals(of_python)
