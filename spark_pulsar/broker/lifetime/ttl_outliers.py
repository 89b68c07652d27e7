"""Entries of a topic that expire out of order: ranges of them with deadlines of their own, a bounded number."""

from __future__ import annotations

from typing import Final, NamedTuple

MAX_RANGES: Final = 1_000
"""Bound of memory for one topic."""


class TtlOutlier(NamedTuple):
    """Entries `first … end - 1` of a ledger, none of which expires before `deadline_ms`."""

    deadline_ms: int
    ledger_id: int
    first: int
    end: int


def note(ranges: list[TtlOutlier], odd: TtlOutlier) -> bool:
    """Add a range; False when there are too many: entries of lagging clocks wait for the walk then, and the walk stops
    at entries of clocks that are ahead."""
    last = ranges[-1] if ranges else None
    if last is not None and (last.ledger_id, last.end) == (odd.ledger_id, odd.first):
        ranges[-1] = TtlOutlier(min(last.deadline_ms, odd.deadline_ms), odd.ledger_id, last.first, odd.end)
    elif len(ranges) >= MAX_RANGES:
        return False
    else:
        ranges.append(odd)
    return True


def note_surely(ranges: list[TtlOutlier], odd: TtlOutlier) -> None:
    """Add a range; when there are too many, one of them takes it in with all that is between."""
    if note(ranges, odd):
        return
    for index, each in enumerate(ranges):
        if each.ledger_id == odd.ledger_id:
            first, end = min(each.first, odd.first), max(each.end, odd.end)
            ranges[index] = TtlOutlier(min(each.deadline_ms, odd.deadline_ms), odd.ledger_id, first, end)
            return
    ranges.append(odd)  # at most one for each ledger
