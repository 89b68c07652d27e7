"""Tasks that share the small ranges of many partitions."""

from __future__ import annotations

import pytest

from spark_pulsar.connector.errors import OffsetError
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.options.options import Split
from spark_pulsar.connector.planning.ranges import TopicRange
from spark_pulsar.connector.planning.sharing import shared, sharing_tasks
from spark_pulsar.connector.positions import EARLIEST, ReadPosition


def small(count: int, entries: int = 1) -> list[TopicRange]:
    """Ranges of so many partitions."""
    return [TopicRange(f"t-partition-{n}", ReadPosition(1, 4), ReadPosition(1, 4 + entries)) for n in range(count)]


def test_as_many_tasks_as_many_cores_can_use() -> None:
    # covers READ-48
    assert [sharing_tasks(small(count), Split()) for count in (0, 1, 32, 33, 1_000)] == [0, 0, 0, 32, 32]
    for count in (33, 100, 1_000):
        tasks = shared(small(count), 32)
        assert len(tasks) == 32
        assert [work for task in tasks for work in task] == small(count)
        assert {len(task) for task in tasks} <= {count // 32, count // 32 + 1}


def test_more_entries_are_more_tasks() -> None:
    # covers READ-48
    assert sharing_tasks(small(1_000, 16), Split()) == 63
    assert sharing_tasks(small(1_000, 17), Split()) == 0


def test_large_ranges_and_those_over_ledgers_have_their_own_tasks() -> None:
    # covers READ-48
    large = TopicRange("large", ReadPosition(1, 0), ReadPosition(1, 100))
    long = TopicRange("long", ReadPosition(1, 0), ReadPosition(2, 1))
    unknown = TopicRange("unknown", EARLIEST, ReadPosition(2, 1))
    inside = TopicRange("inside", ReadPosition(1, 0, 3), ReadPosition(1, 15, 5))
    ranges = [large, long, unknown, inside, *small(40)]
    assert sharing_tasks(ranges, Split()) == 32
    tasks = shared(ranges, 32)
    assert len(tasks) == 35
    assert tasks[32:] == [(large,), (long,), (unknown,)]
    assert tasks[0][0] == inside
    assert shared([large], 32) == [(large,)]


def test_options_that_ask_for_more_tasks() -> None:
    # covers READ-48
    assert sharing_tasks(small(1_000), Split(min_partitions=100)) == 100
    assert sharing_tasks(small(1_000), Split(min_partitions=1_000)) == 0
    assert sharing_tasks(small(1_000), Split(max_records=10)) == 0


def test_an_offset_notes_the_tasks() -> None:
    # covers READ-48
    offset = SourceOffset({"persistent://public/default/t": ReadPosition(1, 2)}, sharing_tasks=32)
    assert offset.to_json()["sharingTasks"] == 32
    assert SourceOffset.from_json(offset.to_json()) == offset
    for wrong in (-1, True, "32"):
        with pytest.raises(OffsetError, match="sharingTasks"):
            SourceOffset.from_json(offset.to_json() | {"sharingTasks": wrong})
