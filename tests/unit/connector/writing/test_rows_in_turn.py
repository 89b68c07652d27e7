"""Rows of several topics or schema versions in turn: none is encoded for itself, and all keep their order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.writing import task_writing
from spark_pulsar.connector.writing.encoded_values import KnownVersions
from spark_pulsar.connector.writing.task_writing import by_topic
from spark_pulsar.wire.columns.encode import encode_batches, message_columns

ROWS = 1_000


def test_topics_in_turn() -> None:
    # covers SINK-18
    names = [f"t{i % 7}" for i in range(ROWS)]
    table = pa.table({"value": [str(i).encode() for i in range(ROWS)], "__topic": names})
    found = {topic.rpartition("/")[2]: part.column("value").to_pylist() for topic, part in by_topic(table, None, 0)}
    assert found == {f"t{k}": [str(i).encode() for i in range(k, ROWS, 7)] for k in range(7)}


def test_schema_versions_in_turn() -> None:
    # covers SINK-18
    registry: Any = SimpleNamespace(schema_of=lambda topic, version: object() if version[-1] < 2 else None)
    numbers = [None, 0, 0, 1] * (ROWS // 4)
    table = pa.table({"value": [b"x"] * ROWS, "__schemaVersion": pa.array(numbers, pa.int64())})
    versions = KnownVersions(registry, "t").of_rows(table)
    assert versions is not None
    cuts = versions.cuts(np.arange(ROWS))
    batches = list(
        encode_batches(message_columns(table.column("value")), cuts=cuts, max_messages=100, max_bytes=10_000)
    )
    assert [batch.message_count for batch in batches] == [1, 2, 1] * (ROWS // 4)
    assert [versions.of_row(int(batch.rows[0])) for batch in batches[:3]] == [b"", bytes(8), bytes([*bytes(7), 1])]
    with pytest.raises(SchemaError, match="__schemaVersion is 2"):
        KnownVersions(registry, "t").of_rows(pa.table({"__schemaVersion": [0, 2]}))
    with pytest.raises(SchemaError, match="__schemaVersion is -1"):
        KnownVersions(registry, "t").of_rows(pa.table({"__schemaVersion": [0, -1]}))
    assert KnownVersions(registry, "t").of_rows(pa.table({"value": [b""]})) is None


def _gathered(batches: list[pa.RecordBatch], **settings: str) -> list[int]:
    options = parse_options({"service.url": "pulsar://127.0.0.1:1", **settings})
    return [table.num_rows for table in task_writing._gathered(iter(batches), options)]


def test_rows_of_topics_are_gathered_until_each_has_a_full_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers SINK-18
    monkeypatch.setattr(task_writing, "GATHER_ROWS", 100)
    batches = [
        pa.RecordBatch.from_pydict({"value": [b"x" * 10] * 50, "__topic": [f"t{i % 7}" for i in range(50)]})
        for _ in range(20)
    ]
    assert _gathered(batches, batchingMaxMessages="50") == [350, 350, 300]
    assert _gathered(batches, batchingMaxMessages="50", topic="t") == [100] * 10
    assert _gathered([batch.slice(0, 1) for batch in batches], batchingMaxMessages="50") == [20]
    monkeypatch.setattr(task_writing, "GATHER_BYTES_OF_TOPICS", 4 * batches[0].nbytes)
    assert _gathered(batches, batchingMaxMessages="50") == [200] * 5
    monkeypatch.setattr(task_writing, "GATHER_BYTES_OF_TOPICS", 4 * batches[0].nbytes + 1)
    assert _gathered(batches, batchingMaxMessages="50") == [250] * 4
