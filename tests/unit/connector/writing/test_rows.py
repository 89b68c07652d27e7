"""Columns of rows: topics and schema versions in turn, of which none is encoded for itself, and delivery times."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_pulsar.connector.errors import OptionError, SchemaError
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.writing import task_writing
from spark_pulsar.connector.writing.encoded_values import KnownVersions
from spark_pulsar.connector.writing.topic_column import by_topic
from spark_pulsar.connector.writing.topic_writer import delivery_times_ms
from spark_pulsar.model.errors import InvalidTopicName
from spark_pulsar.wire.columns.encode import encode_batches, message_columns

ROWS = 1_000


def test_topics_in_turn() -> None:
    # covers SINK-18
    names = [f"t{i % 7}" for i in range(ROWS)]
    table = pa.table({"value": [str(i).encode() for i in range(ROWS)], "__topic": names})
    found = {topic.rpartition("/")[2]: part.column("value").to_pylist() for topic, part in by_topic(table, None, 0)}
    assert found == {f"t{k}": [str(i).encode() for i in range(k, ROWS, 7)] for k in range(7)}
    assert [topic for topic, _ in by_topic(table_of(None), "persistent://a/b/c", 0)] == ["persistent://a/b/c"]


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


def table_of(*topics: str | None) -> pa.Table:
    return pa.table({"value": list(map(str, range(len(topics)))), "__topic": pa.array(topics, pa.string())})


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ("", r"__topic is '' in row 12 of the task: Invalid topic name"),
        ("bad://x/y/z", r"__topic is 'bad://x/y/z' in row 12 of the task: .*unknown domain 'bad'"),
        ("persistent://x", r"__topic is 'persistent://x' in row 12 of the task: "),
        ("x" * 9_000, r"__topic is 'x{200}' in row 12"),
    ],
)
def test_a_bad_topic_is_named_with_its_row(bad: str, text: str) -> None:
    # covers SINK-19
    if len(bad) < 9_000:
        with pytest.raises(InvalidTopicName, match=text):
            by_topic(table_of("a", bad, "b"), None, 10)
    with pytest.raises(InvalidTopicName, match=r"row 12 of the task and 1 more of the 4 rows here"):
        by_topic(table_of("a", "a/b", "c", "a/b"), None, 10)


def test_a_null_topic_is_named_with_its_row() -> None:
    # covers SINK-19
    with pytest.raises(OptionError, match=r"__topic is null in row 3 of the task and 1 more of the 4 rows here, and"):
        by_topic(table_of("a", "b", None, None), None, 0)


AT = [datetime(1970, 1, 1, 0, 0, 2, 500, tzinfo=UTC), None, datetime(1969, 1, 1, tzinfo=UTC)]
TIMES = pa.array(AT, pa.timestamp("us", "UTC"))


def test_times_are_milliseconds_and_delays_count_from_now() -> None:
    # covers SINK-5
    assert delivery_times_ms(pa.table({"value": ["x"]}), 7) is None
    assert delivery_times_ms(pa.table({"__deliverAt": TIMES}), 7).tolist() == [2000, 0, 0]
    delays = pa.array([None, 5, -5, 0, 2**63 - 1], pa.int64())
    assert delivery_times_ms(pa.table({"__deliverAfterMs": delays}), 7).tolist() == [0, 12, 0, 0, 2**63 - 1]
    both = pa.table({"__deliverAt": TIMES, "__deliverAfterMs": pa.array([None, 5, 6], pa.int32())})
    assert delivery_times_ms(both, 7).tolist() == [2000, 12, 13]


def test_a_row_with_both_is_refused() -> None:
    both = pa.table({"__deliverAt": [1, 1], "__deliverAfterMs": [None, 5]})
    with pytest.raises(SchemaError, match=r"__deliverAt and __deliverAfterMs \(5\)"):
        delivery_times_ms(both, 7)
