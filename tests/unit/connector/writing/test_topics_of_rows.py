"""Rows by their column `__topic`, and values there that name no topic."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_pulsar.connector.errors import OptionError
from spark_pulsar.connector.writing.task_writing import by_topic
from spark_pulsar.model.errors import InvalidTopicName


def table_of(*topics: str | None) -> pa.Table:
    return pa.table({"value": list(map(str, range(len(topics)))), "__topic": pa.array(topics, pa.string())})


def test_rows_by_topic() -> None:
    parts = by_topic(table_of("a", "b", "a"), None, 0)
    assert [(topic.rpartition("/")[2], part.column("value").to_pylist()) for topic, part in parts] == [
        ("a", ["0", "2"]),
        ("b", ["1"]),
    ]
    assert [topic for topic, _ in by_topic(table_of(None), "persistent://a/b/c", 0)] == ["persistent://a/b/c"]


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
