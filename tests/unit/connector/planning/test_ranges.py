"""Planning: whole lists of ranges, from two offsets."""

from __future__ import annotations

from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.planning.ranges import Plan, TopicRange, plan, shrunken
from spark_pulsar.connector.positions import EARLIEST, ReadPosition


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


def test_a_range_says_what_was_known_of_it() -> None:
    def known(start: SourceOffset, end: SourceOffset) -> tuple[ReadPosition, ReadPosition | None]:
        [work] = plan(start, end).ranges
        return work.start, work.known_end

    begin, far = ReadPosition(1, 5), ReadPosition(7, 3)
    unknown = at(a=(1, 5))
    assert known(unknown, at(a=(1, 9))) == (begin, ReadPosition(1, 9))  # one ledger has no gaps
    assert known(unknown, at(a=(7, 3))) == (begin, None)
    assert known(SourceOffset(unknown.positions, newest={"a": far}), at(a=(2, 3))) == (begin, far)
    first = SourceOffset({"a": far}, first={"a": ReadPosition(4, 0)})
    assert known(unknown, first) == (ReadPosition(4, 0), far)
    assert known(at(), first) == (ReadPosition(4, 0), far)
    # A topic made again: what was known of the old one says nothing about the new one.
    again = SourceOffset({"a": ReadPosition(9, 5)}, newest={"a": ReadPosition(9, 8)})
    assert known(again, first) == (ReadPosition(4, 0), far)


def test_what_was_known_and_is_gone_is_a_loss() -> None:
    start = SourceOffset({"a": ReadPosition(4, 1)}, newest={"a": ReadPosition(4, 9)})
    assert shrunken(start, {"a": ReadPosition(4, 9)}) == []
    assert shrunken(start, {"a": ReadPosition(5, 0)}) == []
    assert shrunken(start, {}) == []  # it has vanished, which is told as such
    assert shrunken(start, {"a": ReadPosition(3, 0)}) == []  # as before its position
    [ended] = shrunken(start, {"a": ReadPosition(4, 7)})
    assert (
        ended == "a was known to reach 4:9:0, and ends at 4:7:0 now: at least 2 entries that were not read yet are gone"
    )
    [emptied] = shrunken(start, {"a": EARLIEST})
    assert "is empty now: at least 8 entries" in emptied
