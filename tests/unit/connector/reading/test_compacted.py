"""The latest row of each key, beside a dict that does the same."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from spark_pulsar.connector.reading import compacted
from spark_pulsar.connector.reading.compacted import LatestByKey

Row = tuple[bytes | None, bytes | None, int]


def batch(rows: list[Row]) -> pa.RecordBatch:
    keys, values, numbers = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.record_batch(
        {
            "__key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "n": pa.array(numbers, pa.int64()),
        }
    )


def rows_of(latest: LatestByKey) -> list[Row]:
    return [(row["__key"], row["value"], row["n"]) for each in latest.batches() for row in each.to_pylist()]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("least", [1, 10, 1_000])
def test_as_a_dict_does(seed: int, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacted, "_LEAST_ROWS", least)
    monkeypatch.setattr(compacted, "_ROWS_A_BATCH", 7)
    chance = random.Random(seed)
    latest, model = LatestByKey(), {}
    for number in range(60):
        rows: list[Row] = []
        for place in range(chance.randrange(12)):
            key = None if chance.random() < 0.1 else b"k%d" % chance.randrange(15)
            value = None if chance.random() < 0.2 else b"v%d" % number
            rows.append((key, value, 100 * number + place))
        latest.add(batch(rows))
        for row in rows:
            model[row[0] if row[0] is not None else row[2]] = row
    expected = sorted((row for row in model.values() if row[0] is None or row[1] is not None), key=lambda row: row[2])
    assert rows_of(latest) == expected
    assert rows_of(latest) == expected


def test_nothing_at_all() -> None:
    assert rows_of(LatestByKey()) == []
    latest = LatestByKey()
    latest.add(batch([]))
    assert rows_of(latest) == []
    latest.add(batch([(b"k", b"v", 1), (b"k", None, 2)]))
    assert rows_of(latest) == []
