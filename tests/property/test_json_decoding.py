"""JSON payloads of which some are unusual: those that are read at once are what Python reads, one by one."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.connector.schemas.decoding import json_payloads
from spark_pulsar.connector.schemas.decoding.json_lines import LineCheck
from spark_pulsar.connector.schemas.decoding.json_payloads import JsonDecoder
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
    names = random.sample(list(FIELDS), random.randrange(1, len(FIELDS) + 1))
    fields = [{"name": name, "type": FIELDS[name][0]} for name in names]
    definition = Definition(
        Schema(SchemaType.JSON, json.dumps({"type": "record", "name": "R", "fields": fields}).encode())
    )
    decoder = JsonDecoder(definition, definition, arrow_type(definition.avro()))
    payloads = pa.array([payload(random, names) for _ in range(40)], pa.binary())
    errors: dict[int, str] = {}
    expected: dict[int, str] = {}
    rows = decode_rows(decoder, payloads, errors)
    rows.validate(full=True)
    assert repr(rows.to_pylist()) == repr(decode_rows(RowByRow(decoder), payloads, expected).to_pylist())
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


def test_most_payloads_that_are_only_spaced_are_lines() -> None:
    # covers SCHEMA-18
    definition = Definition(
        Schema(SchemaType.JSON, b'{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}')
    )
    decoder = JsonDecoder(definition, definition, arrow_type(definition.avro()))
    texts = [b'{"a":1}\n', b' {\r\n"a" :\t1 , "b":{"c":[{}]}}', b'\xef\xbb\xbf{"a":null}', b'{"a":"1"}', b"[]", b""]
    lines = LineCheck(decoder._record).lines(pa.array(texts, pa.binary()))
    assert lines.is_line.tolist() == [True, True, True, False, False, False]
    assert bytes(lines.text).split(b"\n")[:-1] == [b'{"a":1} ', b' {  "a" : 1 , "b":{"c":[{}]}}', b'   {"a":null}']
