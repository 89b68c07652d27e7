"""Columnar encoders beside row-by-row ones: fastavro for Avro, the standard library for JSON."""

from __future__ import annotations

import base64
import datetime
import io
import json
import math
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.connector.schemas.deriving.avro_definition import derive_record
from spark_pulsar.connector.schemas.encoding.avro_payloads import encode_avro
from spark_pulsar.connector.schemas.encoding.columns import binary_array
from spark_pulsar.connector.schemas.encoding.json_payloads import encode_json

EPOCH = datetime.date(1970, 1, 1)
TEXT = st.text(max_size=12)
NOT_FINITE = {"None": "", "nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}
TYPES = (pa.int64(), pa.string())
SIGNS = st.sampled_from([-1, 1])
MICROS = st.integers(-(10**17), 10**17)

# Spark's type, Arrow's, a strategy of values
LEAVES: list[tuple[str, pa.DataType, st.SearchStrategy[Any]]] = [
    ("boolean", pa.bool_(), st.booleans()),
    ("byte", pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    ("short", pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    ("integer", pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    ("long", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    ("float", pa.float32(), st.floats(width=32, allow_nan=False)),
    ("double", pa.float64(), st.floats(allow_nan=False)),
    ("string", pa.string(), TEXT),
    ("string", pa.large_string(), TEXT),
    ("binary", pa.binary(), st.binary(max_size=12)),
    ("date", pa.date32(), st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31))),
    ("timestamp", pa.timestamp("us", "America/New_York"), MICROS),
    ("timestamp_ntz", pa.timestamp("us"), MICROS),
    ("time(6)", pa.time64("ns"), st.integers(0, 86_399_999_999).map(lambda us: us * 1000)),
    ("decimal(38,4)", pa.decimal128(38, 4), st.decimals(-(10**33), 10**33, places=4)),
]
Kind = tuple[Any, pa.DataType, st.SearchStrategy[Any]]


def _array(inner: tuple[Kind, bool]) -> Kind:
    (kind, arrow, values), nullable = inner
    items = st.one_of(st.none(), values) if nullable else values
    json_kind = {"type": "array", "elementType": kind, "containsNull": nullable}
    return json_kind, pa.list_(pa.field("element", arrow, nullable)), st.lists(items, max_size=3)


def _map(inner: tuple[Kind, bool]) -> Kind:
    (kind, arrow, values), nullable = inner
    items = st.one_of(st.none(), values) if nullable else values
    json_kind = {"type": "map", "keyType": "string", "valueType": kind, "valueContainsNull": nullable}
    entries = st.dictionaries(TEXT, items, max_size=3).map(lambda found: list(found.items()))
    return json_kind, pa.map_(pa.string(), pa.field("value", arrow, nullable)), entries


def _struct(members: list[tuple[Kind, bool]]) -> Kind:
    names = [f"f{index}" for index in range(len(members))]
    fields = [
        {"name": name, "type": kind, "nullable": nullable}
        for name, ((kind, _, _), nullable) in zip(names, members, strict=True)
    ]
    arrow = pa.struct([pa.field(name, m[0][1], m[1]) for name, m in zip(names, members, strict=True)])
    values = st.fixed_dictionaries(
        {name: st.one_of(st.none(), m[0][2]) if m[1] else m[0][2] for name, m in zip(names, members, strict=True)}
    )
    return {"type": "struct", "fields": fields}, arrow, values


KINDS: st.SearchStrategy[Kind] = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        st.tuples(inner, st.booleans()).map(_array),
        st.tuples(inner, st.booleans()).map(_map),
        st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=3).map(_struct),
    ),
    max_leaves=5,
)
RECORDS = st.lists(st.tuples(KINDS, st.booleans()), min_size=1, max_size=5).map(_struct)


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, Any], list[Any], pa.Array]:
    """A record's definition and some rows of it, as objects and as a column, now and then a slice of more."""
    kind, arrow, values = draw(RECORDS)
    rows = draw(st.lists(values, max_size=6))
    first = draw(st.integers(0, len(rows)))
    return derive_record(kind), rows[first:], pa.array(rows, arrow).slice(first)


def _stored(value: Any, kind: Any) -> Any:
    """A value as the definition says, times as numbers."""
    if isinstance(kind, list):
        return None if value is None else _stored(value, kind[1])
    name, logical = (kind["type"], kind.get("logicalType")) if isinstance(kind, dict) else (kind, None)
    if name == "record":
        return {field["name"]: _stored(value[field["name"]], field["type"]) for field in kind["fields"]}
    if name == "array":
        return [_stored(item, kind["items"]) for item in value]
    if name == "map":
        return {key: _stored(item, kind["values"]) for key, item in value}
    if logical == "date":
        return (value - EPOCH).days
    return value // 1000 if logical == "time-micros" else value


def _plain(definition: Any) -> Any:
    """The definition without logical types but decimals."""
    if isinstance(definition, list):
        return [_plain(each) for each in definition]
    if not isinstance(definition, dict):
        return definition
    if definition.get("logicalType", "decimal") != "decimal":
        return definition["type"]
    types = {key: _plain(definition[key]) for key in ("type", "items", "values") if key in definition}
    fields = [{**field, "type": _plain(field["type"])} for field in definition.get("fields", ())]
    return {**definition, **types, **({"fields": fields} if fields else {})}


@given(tables())
def test_avro_is_what_fastavro_writes(table: tuple[dict[str, Any], list[Any], pa.Array]) -> None:
    definition, rows, column = table
    schema = fastavro.parse_schema(_plain(definition))
    expected = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, _stored(row, definition))
        expected.append(out.getvalue())
    assert binary_array(encode_avro(column, definition)).to_pylist() == expected


@given(tables())
def test_json_is_what_the_rows_say(table: tuple[dict[str, Any], list[Any], pa.Array]) -> None:
    definition, rows, column = table
    texts = binary_array(encode_json(column, definition)).to_pylist()
    read = [_numbers_as_floats(json.loads(text, parse_float=Decimal)) for text in texts]
    assert read == [_numbers_as_floats(_as_json(_stored(row, definition), definition)) for row in rows]


NUMBERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-101, 101), st.sampled_from([2**63 - 1, -(2**63)]))
POWERS = st.builds(lambda power, more, sign: sign * (10**power + more), st.integers(0, 18), st.integers(-1, 1), SIGNS)
WHOLE = st.integers(-(10**20), 10**20).map(float)
FLOATS = st.one_of(st.floats(), WHOLE, st.sampled_from([0.0, -0.0, 1e16, 1e15, -1e300]))


@given(st.lists(st.tuples(st.one_of(st.none(), NUMBERS, POWERS), st.one_of(st.none(), TEXT)), max_size=8))
def test_members_of_json_are_as_the_standard_library_writes_them(rows: list[tuple[int | None, str | None]]) -> None:
    numbers, texts = (pa.array(column, arrow) for column, arrow in zip(_columns(rows), TYPES, strict=True))
    fields = [{"name": name, "type": ["null", kind]} for name, kind in (("n", "long"), ("t", "string"), ("m", "long"))]
    column = pa.StructArray.from_arrays([numbers, texts, numbers], names=["n", "t", "m"])
    written = binary_array(encode_json(column, {"type": "record", "fields": fields})).to_pylist()
    objects = [{"n": number, "t": text, "m": number} for number, text in rows]
    present = [{name: value for name, value in each.items() if value is not None} for each in objects]
    assert [text.decode() for text in written] == [_dumped(each) for each in present]


@given(st.lists(st.one_of(st.none(), FLOATS), max_size=8))
def test_floats_of_json_have_a_point_an_exponent_or_a_name(values: list[float | None]) -> None:
    fields = [{"name": "x", "type": ["null", "double"]}]
    column = pa.StructArray.from_arrays([pa.array(values, pa.float64())], names=["x"])
    written = binary_array(encode_json(column, {"type": "record", "fields": fields})).to_pylist()
    for text, value in zip(written, values, strict=True):
        shown = text.decode().removeprefix("{").removesuffix("}").removeprefix('"x":')
        if value is None or not math.isfinite(value):
            assert shown == NOT_FINITE[str(value)]
        else:
            assert (float(shown), math.copysign(1, float(shown))) == (value, math.copysign(1, value))
            assert set(shown) & set(".e")


def _columns(rows: list[tuple[int | None, str | None]]) -> tuple[list[int | None], list[str | None]]:
    return [number for number, _ in rows], [text for _, text in rows]


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _as_json(value: Any, kind: Any) -> Any:
    if isinstance(kind, list):
        return None if value is None else _as_json(value, kind[1])
    name = kind["type"] if isinstance(kind, dict) else kind
    if name == "record":
        found = {field["name"]: _as_json(value[field["name"]], field["type"]) for field in kind["fields"]}
        return {key: item for key, item in found.items() if item is not None}
    if name == "array":
        return [_as_json(item, kind["items"]) for item in value]
    if name == "map":
        return {key: _as_json(item, kind["values"]) for key, item in value.items()}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float(str(np.float32(value))) if kind == "float" else value


def _numbers_as_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _numbers_as_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers_as_floats(item) for item in value]
    return float(value) if isinstance(value, Decimal | int) and not isinstance(value, bool) else value
