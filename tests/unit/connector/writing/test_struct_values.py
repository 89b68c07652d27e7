"""Structs as JSON text."""

from __future__ import annotations

import datetime
import decimal
import json

import pyarrow as pa
import pytest

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.writing.struct_values import struct_to_json


def one(value: object, kind: pa.DataType) -> str:
    array = pa.array([{"v": value}], pa.struct([("v", kind)]))
    text: str = struct_to_json(array).to_pylist()[0]
    json.loads(text)
    return text


def test_null_fields_are_left_out_and_null_rows_stay_null() -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.string())])
    assert struct_to_json(pa.array([{"a": 1, "b": None}, None, {}], kind)).to_pylist() == ['{"a":1}', None, "{}"]


def test_scalars() -> None:
    assert one(True, pa.bool_()) == '{"v":true}'
    assert one('ü"\n', pa.string()) == '{"v":"ü\\"\\n"}'
    assert one(b"\x00\xff", pa.binary()) == '{"v":"AP8="}'
    assert one(decimal.Decimal("123456789012345678.90"), pa.decimal128(38, 2)) == '{"v":123456789012345678.90}'
    assert one(float("nan"), pa.float64()) == '{"v":"NaN"}'
    assert one(float("-inf"), pa.float64()) == '{"v":"-Infinity"}'
    assert one(1.5, pa.float64()) == '{"v":1.5}'
    assert one(datetime.date(2013, 1, 2), pa.date32()) == '{"v":"2013-01-02"}'


def test_timestamps_carry_their_zone() -> None:
    at = datetime.datetime(2013, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    assert one(at, pa.timestamp("us", "UTC")) == '{"v":"2013-01-02T03:04:05.000Z"}'
    assert one(at, pa.timestamp("us", "Asia/Tokyo")) == '{"v":"2013-01-02T12:04:05.000+09:00"}'
    assert one(at.replace(microsecond=7), pa.timestamp("us", "UTC")) == '{"v":"2013-01-02T03:04:05.000007Z"}'


def test_times_beyond_pythons_are_named() -> None:
    # covers SCHEMA-15
    far = pa.array([{"v": 10**18}], pa.struct([("v", pa.int64())])).cast(pa.struct([("v", pa.timestamp("us", "UTC"))]))
    with pytest.raises(SchemaError, match="not in the years 1 to 9999; write to_json"):
        struct_to_json(far)


def test_nested() -> None:
    assert one([("a", 1), ("b", None)], pa.map_(pa.string(), pa.int32())) == '{"v":{"a":1,"b":null}}'
    assert one([(1, "x")], pa.map_(pa.int32(), pa.string())) == '{"v":{"1":"x"}}'
    assert one([{"x": 1}, None], pa.list_(pa.struct([("x", pa.int8())]))) == '{"v":[{"x":1},null]}'
