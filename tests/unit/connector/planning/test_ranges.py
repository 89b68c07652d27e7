"""Planning: whole lists of ranges, from two offsets, and cut points that tile them."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.options.options import Split
from spark_pulsar.connector.planning.ranges import Plan, TopicRange, plan, shrunken
from spark_pulsar.connector.planning.splitting import Extents, cut_points, may_be_cut, parts_of
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


# ---- cut points


def extents(*rows: tuple[int, int, int, int], is_exact: bool = False) -> Extents:
    """Of (ledger, first entry, entries, messages)."""
    ledgers, firsts, entries, messages = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Extents(ledgers, firsts, entries, messages, is_exact)


def work(topic: str = "t", start: tuple[int, ...] = (5, 0), end: tuple[int, ...] = (5, 100)) -> TopicRange:
    return TopicRange(topic, ReadPosition(*start), ReadPosition(*end), ReadPosition(*end))


ONE_LEDGER = extents((5, 0, 100, 100))
THREE_LEDGERS = extents((5, 4, 6, 6), (7, 0, 10, 10), (9, 0, 4, 4))


def test_entries_of_one_ledger_are_arithmetic() -> None:
    cuts = cut_points([work()], {"t": ONE_LEDGER}, Split(4))
    assert cuts == {"t": (ReadPosition(5, 25), ReadPosition(5, 50), ReadPosition(5, 75))}
    cuts = cut_points([work()], {"t": ONE_LEDGER}, Split(None, 40))
    assert cuts == {"t": (ReadPosition(5, 40), ReadPosition(5, 80))}
    assert cut_points([work()], {"t": ONE_LEDGER}, Split(None, 100)) == {}
    assert cut_points([work()], {"t": ONE_LEDGER}, Split(1)) == {}
    assert cut_points([work()], {}, Split(4)) == {}


def test_cuts_over_ledgers() -> None:
    long = work(start=(5, 4), end=(9, 4))
    cuts = cut_points([long], {"t": THREE_LEDGERS}, Split(5))
    assert cuts == {"t": (ReadPosition(5, 8), ReadPosition(7, 2), ReadPosition(7, 6), ReadPosition(9, 0))}
    assert cut_points([long], {"t": THREE_LEDGERS}, Split(None, 6))["t"][0] == ReadPosition(7, 0)


def test_partitions_are_cut_by_their_messages() -> None:
    ranges = [work("a"), work("b", end=(5, 10)), work("c", end=(5, 10))]
    known = {"a": ONE_LEDGER, "b": extents((5, 0, 10, 10)), "c": extents((5, 0, 10, 10))}
    assert {topic: len(cuts) for topic, cuts in cut_points(ranges, known, Split(12)).items()} == {"a": 9}
    assert cut_points(ranges, known, Split(3)) == {}
    assert {topic: len(cuts) for topic, cuts in cut_points(ranges, known, Split(12, 5)).items()} == {
        "a": 19,
        "b": 1,
        "c": 1,
    }


def test_no_part_of_what_was_counted_has_more() -> None:
    counted = extents((5, 0, 1, 3), (5, 1, 1, 0), (5, 2, 1, 9), (5, 3, 1, 2), is_exact=True)
    cuts = cut_points([work(end=(5, 4))], {"t": counted}, Split(None, 4))["t"]
    # The third entry has nine: cut inside of it. Its last one goes with those of the last entry.
    assert cuts == (ReadPosition(5, 2), ReadPosition(5, 2, 4), ReadPosition(5, 2, 8))
    inside = extents((5, 2, 1, 6), (5, 3, 1, 2), is_exact=True)  # from the fourth of nine on
    begun = work(start=(5, 2, 3), end=(5, 4))
    assert cut_points([begun], {"t": inside}, Split(None, 4))["t"] == (ReadPosition(5, 2, 7),)


def test_an_entry_that_is_estimated_is_not_cut() -> None:
    cuts = cut_points([work(end=(5, 3))], {"t": extents((5, 0, 3, 300))}, Split(None, 10))
    assert cuts == {"t": (ReadPosition(5, 1), ReadPosition(5, 2))}


def test_more_tasks_than_there_may_be_are_larger_ones(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    cuts = cut_points([work(end=(5, 10**6))], {"t": extents((5, 0, 10**6, 10**6))}, Split(None, 1))
    assert 4_000 < len(cuts["t"]) < 4_096
    assert "tasks get 245 rows" in caplog.text
    cuts = cut_points([work(end=(5, 10**6))], {"t": extents((5, 0, 10**6, 10**6))}, Split(2**31 - 1))
    assert len(cuts["t"]) == 4_095


def test_who_asks() -> None:
    two = [work("a"), work("b")]
    assert [may_be_cut(two, Split(*of)) for of in ((), (2,), (3,), (None, 9))] == [False, False, True, True]
    assert not may_be_cut([], Split(3))


def test_parts_tile_the_range() -> None:
    unknown = TopicRange("t", EARLIEST, ReadPosition(9, 4))
    cuts = (ReadPosition(5, 8), ReadPosition(7, 2, 3), ReadPosition(9, 4), ReadPosition(9, 9))
    assert parts_of(unknown, cuts) == [
        TopicRange("t", EARLIEST, cuts[0]),
        TopicRange("t", cuts[0], cuts[1]),
        TopicRange("t", cuts[1], ReadPosition(9, 4)),
    ]
    assert [part.known_end for part in parts_of(unknown, cuts)] == [None, cuts[1], cuts[2]]
    assert [part.known_end for part in parts_of(work(), (ReadPosition(5, 8),))] == [(5, 8, 0), (5, 100, 0)]
    assert parts_of(work(), ()) == [work()]


def test_cuts_in_a_checkpoint() -> None:
    offset = SourceOffset({"t": ReadPosition(9, 4)}, cuts={"t": (ReadPosition(5, 8), ReadPosition(7, 2, 3))})
    text = offset.to_json()
    assert text["cuts"] == {"t": ["5:8:0", "7:2:3"]}
    assert SourceOffset.from_json(text) == offset
