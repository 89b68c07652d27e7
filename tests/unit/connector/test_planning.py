"""Planning: whole lists of ranges, from two offsets."""

from __future__ import annotations

from spark_pulsar.connector.offsets import EARLIEST, ReadPosition, SourceOffset
from spark_pulsar.connector.planning import Plan, TopicRange, plan


def at(**positions: tuple[int, ...]) -> SourceOffset:
    return SourceOffset({name: ReadPosition(*position) for name, position in positions.items()})


def test_one_range_a_partition_in_the_order_of_names() -> None:
    planned = plan(at(b=(1, 0), a=(1, 5, 2)), at(a=(1, 6), b=(2, 3)))
    assert planned == Plan(
        (
            TopicRange("a", ReadPosition(1, 5, 2), ReadPosition(1, 6)),
            TopicRange("b", ReadPosition(1, 0), ReadPosition(2, 3)),
        ),
        (),
    )


def test_nothing_new_is_nothing_to_read() -> None:
    assert plan(at(a=(1, 5)), at(a=(1, 5))) == Plan((), ())
    assert plan(at(), at()) == Plan((), ())


def test_a_new_partition_is_read_from_its_beginning() -> None:
    assert plan(at(a=(1, 5)), at(a=(1, 5), b=(7, 2))).ranges == (TopicRange("b", EARLIEST, ReadPosition(7, 2)),)


def test_a_vanished_partition_is_a_loss() -> None:
    planned = plan(at(a=(1, 5), b=(1, 1)), at(b=(1, 1)))
    assert planned.ranges == ()
    assert planned.losses == (
        "a no longer exists, or is no longer among the topics to read; it had been read up to 1:5:0",
    )


def test_a_replaced_partition_is_a_loss_and_read_from_its_beginning() -> None:
    planned = plan(at(a=(8, 5)), at(a=(2, 1)))
    assert planned.ranges == (TopicRange("a", EARLIEST, ReadPosition(2, 1)),)
    assert planned.losses[0].startswith("a ends at 2:1:0, before 8:5:0 where reading stood")


def test_a_new_and_empty_partition_is_not_read() -> None:
    assert plan(at(), SourceOffset({"a": EARLIEST})) == Plan((), ())
