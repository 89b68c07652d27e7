"""Columns as texts of JSON: the values that `json` reads back."""

import datetime as dt
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest

from spark_pulsar.cli.tables.json_text import NoText, json_lines, json_text

NOON = dt.datetime(2026, 11, 27, 12, 0, 0, 250_000, tzinfo=dt.UTC)
TEXTS = ["plain", "", None, 'a "quote" \\ and \n\r\t', "\x00\x01\x1f", "žluťoučký 🐎", "</script>\u2028"]
NESTED = pa.list_(pa.struct([("item", pa.string()), ("prices", pa.list_(pa.float64()))]))
PAIRS = pa.map_(pa.string(), pa.string())


@pytest.mark.parametrize(
    ("array", "values"),
    [
        (pa.array(TEXTS), TEXTS),
        (pa.array([text and text.encode() for text in TEXTS]), TEXTS),
        (pa.array(TEXTS).dictionary_encode(), TEXTS),
        (pa.array([1, None, -(1 << 62)]), [1, None, -(1 << 62)]),
        (pa.array([1.5, None, float("nan"), float("inf"), 1e300]), [1.5, None, None, None, 1e300]),
        (pa.array([True, None, False]), [True, None, False]),
        (pa.array([decimal.Decimal("1.50"), None]), [1.5, None]),
        (pa.array([NOON, None], pa.timestamp("us", "UTC")), ["2026-11-27T12:00:00.250000Z", None]),
        (pa.array([dt.date(2026, 11, 27), None]), ["2026-11-27", None]),
        (pa.nulls(2), [None, None]),
        (pa.array([[("a", "1"), ("b", None)], [], None], PAIRS), [{"a": "1", "b": None}, {}, None]),
        (
            pa.array([[{"item": "x", "prices": [1.5, None]}, None], [], None], NESTED),
            [[{"item": "x", "prices": [1.5, None]}, None], [], None],
        ),
        (pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2)), [[1, 2], None, [3, 4]]),
    ],
)
def test_each_value_is_json(array: pa.Array, values: list[Any]) -> None:
    assert [json.loads(text) for text in json_text(array, "c").to_pylist()] == values
    assert [json.loads(text) for text in json_text(array.slice(1), "c").to_pylist()] == values[1:]


def test_a_row_is_an_object() -> None:
    batch = pa.RecordBatch.from_pydict({"a": [1, None], 'odd "name"': ["x", "y"]})
    assert [json.loads(line) for line in json_lines(batch).to_pylist()] == batch.to_pylist()
    assert json_lines(batch.slice(2)).to_pylist() == []


def test_bytes_that_are_no_text_are_an_error() -> None:
    with pytest.raises(NoText, match=r"column c has bytes that are not UTF-8: choose a file \.parquet"):
        json_text(pa.array([b"\xff"]), "c")
