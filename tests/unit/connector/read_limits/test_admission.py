"""Admission: shares of a limit, what is to be counted, and how far the micro-batch goes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.connector.read_limits.admission import (
    Ahead,
    Counting,
    CountMore,
    Limits,
    Wanted,
    admit,
    earliest,
    has_at_least,
    share,
)


def test_shares_are_in_proportion_to_backlog_and_exact() -> None:
    assert share(10, {"a": 4, "b": 6, "c": 0}) == {"a": 4, "b": 6}
    assert share(100, {"a": 900, "b": 100}) == {"a": 90, "b": 10}
    assert share(10, {"a": 1_000_000, "b": 1}) == {"a": 9, "b": 1}
    assert sum(share(2**62, {"a": 2**63, "b": 2**63 - 1}).values()) == 2**62
    count = 20_000
    granted = share(count + 10, {"large": 10**12} | {f"small-{index}": 1 for index in range(count - 1)})
    assert (sum(granted.values()), granted["large"]) == (count + 10, 11)


def ahead(entries: Sequence[tuple[int, int, int]], *, size: int = 100, is_all: bool = True) -> Ahead:
    """Entries of (ledger, entry, messages), of `size` bytes where there are messages, published one after another."""
    ledgers, numbers, counts = (np.array(column, np.int64) for column in zip(*entries, strict=True))
    return Ahead(ledgers, numbers, counts, np.where(counts > 0, size, 0), np.arange(len(counts)), is_all)


ENTRIES = [(5, 0, 1), (5, 1, 10), (5, 2, 0), (5, 3, 1), (6, 0, 3)]
END = ReadPosition(6, 1)


def counting(start: ReadPosition = EARLIEST, backlog: int = 15, **more: bool) -> Counting:
    """A partition of which all was counted, unless told otherwise."""
    is_all = more.pop("is_all", True)
    return Counting(start, END, ahead(ENTRIES, is_all=is_all), backlog, **more)


def test_positions_after_whole_entries_and_inside_them() -> None:
    entries = ahead(ENTRIES)
    after = [entries.after(EARLIEST, grant) for grant in (0, 1, 4, 11, 12, 15)]
    assert after == [
        EARLIEST,
        ReadPosition(5, 1),
        ReadPosition(5, 1, 3),
        ReadPosition(5, 2),
        ReadPosition(5, 4),
        ReadPosition(6, 1),
    ]
    inside = ahead([(5, 1, 7), (5, 3, 1)])
    begin = ReadPosition(5, 1, 3)
    assert inside.after(begin, 6) == ReadPosition(5, 1, 9)
    assert inside.after(begin, 7) == ReadPosition(5, 2)


def test_no_limit_is_everything() -> None:
    assert admit({"a": counting()}, Limits()) == {"a": END}
    done = Counting(END, END, ahead(ENTRIES), 0)
    assert admit({"a": counting(), "done": done}, Limits(99)) == {"a": END, "done": END}


def test_messages_and_bytes_together() -> None:
    assert admit({"a": counting()}, Limits(3)) == {"a": ReadPosition(5, 1, 2)}
    assert admit({"a": counting()}, Limits(None, 100)) == {"a": ReadPosition(5, 1)}
    assert admit({"a": counting()}, Limits(None, 130)) == {"a": ReadPosition(5, 1, 3)}  # 3 of 10 of 100 bytes
    assert admit({"a": counting()}, Limits(3, 130)) == {"a": ReadPosition(5, 1, 2)}
    assert admit({"a": counting()}, Limits(99, 130)) == {"a": ReadPosition(5, 1, 3)}
    assert admit({"a": counting()}, Limits(None, 10**9)) == {"a": END}


def test_less_than_a_message_is_one_of_each() -> None:
    both = {"a": counting(), "b": counting()}
    assert admit(both, Limits(None, 1)) == dict.fromkeys("ab", ReadPosition(5, 1))
    assert admit(both, Limits(1)) == dict.fromkeys("ab", ReadPosition(5, 1))


def test_what_was_not_counted_is_counted_first() -> None:
    nothing = Counting(EARLIEST, END, ahead(ENTRIES[2:3], is_all=False), 4_000)
    answer = admit({"a": counting(), "b": nothing}, Limits(1_000))
    assert isinstance(answer, CountMore)
    assert answer.wanted == {"b": Wanted(996)}
    again = admit({"a": counting(is_all=False, backlog=500), "b": counting()}, Limits(1_000))
    assert isinstance(again, CountMore)
    assert answer.wanted.keys() == {"b"}
    assert again.wanted["a"].messages > 15


def test_bytes_say_how_far_to_count() -> None:
    nothing = Counting(EARLIEST, END, ahead(ENTRIES[2:3], is_all=False), 10**6)
    answer = admit({"a": nothing, "b": nothing}, Limits(None, 10 << 20))
    assert isinstance(answer, CountMore)
    assert set(answer.wanted.values()) == {Wanted(256, 5 << 20)}
    some = counting(is_all=False, backlog=10**6)  # 15 messages of 400 bytes
    answer = admit({"a": some}, Limits(None, 1 << 20))
    assert isinstance(answer, CountMore)
    [wanted] = answer.wanted.values()
    assert 30_000 < wanted.messages < 40_000
    assert wanted.size_bytes == 1 << 20


def test_who_is_silent_holds_up_no_other() -> None:
    quiet = Counting(EARLIEST, END, ahead(ENTRIES[2:3], is_all=False), 99, is_silent=True)
    assert admit({"a": counting(), "b": quiet}, Limits(99)) == {"a": END, "b": EARLIEST}


def test_a_range_whose_end_is_gone_is_taken_whole_when_nothing_is_left_of_it() -> None:
    gone = counting(is_all=False, is_silent=True, is_cut_short=True)
    assert admit({"a": gone}, Limits(99)) == {"a": END}
    assert admit({"a": gone}, Limits(3)) == {"a": ReadPosition(5, 1, 2)}
    empty = Counting(EARLIEST, END, ahead(ENTRIES[2:3], is_all=False), 9, is_silent=True, is_cut_short=True)
    assert admit({"a": empty, "b": counting()}, Limits(1)) == {"a": END, "b": ReadPosition(5, 1)}


def test_enough_messages_or_not() -> None:
    assert has_at_least({"a": counting(), "b": counting()}, 30) is True
    assert has_at_least({"a": counting(), "b": counting()}, 31) is False
    goes_on = counting(is_all=False, backlog=1_000)
    answer = has_at_least({"a": goes_on, "b": counting()}, 40)
    assert answer == CountMore({"a": Wanted(25)})
    assert has_at_least({"a": counting(is_all=False, is_silent=True), "b": counting()}, 40) is False
    assert has_at_least({}, 1) is False


# ---- messages that were published first go first, from all partitions


def published(*entries: tuple[int, int], is_all: bool = True) -> Ahead:
    """Entries of (messages, publish time)."""
    counts, times = (np.array([entry[place] for entry in entries], np.int64) for place in range(2))
    ids = np.arange(len(entries))
    return Ahead(ids, ids, counts, counts, times, is_all)


def granted(limit: int, partitions: dict[str, Ahead], unawaited: set[str] | None = None) -> dict[str, int]:
    return earliest(Limits(limit), partitions, unawaited or set())[0]


def test_nothing_ahead() -> None:
    assert earliest(Limits(5), {}) == ({}, False)
    assert earliest(Limits(5), {"a": published(), "b": published((0, 7))}) == ({"a": 0, "b": 0}, False)


def test_the_earliest_are_all_where_they_fit() -> None:
    fits = {"a": published((3, 1), (1, 9)), "b": published((6, 5))}
    assert earliest(Limits(11), fits) == ({"a": 4, "b": 6}, False)
    assert earliest(Limits(10), fits) == ({"a": 4, "b": 6}, True)
    assert earliest(Limits(None, 10), fits) == ({"a": 4, "b": 6}, True)  # one byte each
    assert earliest(Limits(), fits) == ({"a": 4, "b": 6}, False)


def test_the_oldest_first_and_the_last_entry_in_part() -> None:
    assert granted(9, {"a": published((5, 1), (5, 3)), "b": published((5, 2), (5, 4))}) == {"a": 5, "b": 4}
    assert granted(9, {"b": published((5, 1)), "a": published((5, 1))}) == {"a": 5, "b": 4}


def test_one_of_each_before_all_others() -> None:
    partitions = {"a": published((0, 1), (8, 1)), "b": published((8, 2)), "c": published((8, 3))}
    assert granted(9, partitions) == {"a": 7, "b": 1, "c": 1}
    assert granted(2, partitions) == {"a": 1, "b": 1, "c": 1}


def test_nothing_newer_than_where_the_counting_of_another_stopped() -> None:
    newer = published((2, 1), (2, 5), (2, 6))
    goes_on = published((1, 3), (1, 5), is_all=False)
    assert granted(99, {"a": newer, "b": goes_on}) == {"a": 4, "b": 2}
    assert granted(99, {"a": newer, "b": published((1, 3), (1, 5))}) == {"a": 6, "b": 2}
    assert granted(99, {"a": newer, "b": goes_on}, {"b"}) == {"a": 6, "b": 2}


def test_a_clock_ahead_does_not_hold_up_what_comes_behind_it() -> None:
    hasty = published((1, 1), (1, 10**15), (1, 2), (1, 5))
    assert granted(4, {"a": hasty, "b": published((9, 3))}) == {"a": 3, "b": 1}


def test_a_message_that_does_not_fit_ends_the_micro_batch() -> None:
    ids = np.arange(3)
    sizes = np.array([10, 1_000, 1])
    large = Ahead(ids, ids, np.ones(3, np.int64), sizes, np.array([1, 2, 3]), is_all=True)
    small = Ahead(ids, ids, np.ones(3, np.int64), np.ones(3, np.int64), np.array([1, 1, 4]), is_all=True)
    assert earliest(Limits(None, 100), {"a": large, "b": small}) == ({"a": 1, "b": 2}, True)
