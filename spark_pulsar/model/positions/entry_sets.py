"""Sets of single positions: what `ranges.RangeSet` is for entries that are seldom next to each other.

The entries of each ledger stand in one sorted list. Adding behind all others and taking out a stretch cost next to
nothing for each entry; anything else costs a bisection and a move in memory, so this is for some ten thousand entries.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence

from .ranges import RangeSet


class EntrySet:
    """A set of entry positions with the interface of `RangeSet`; its entries come out as ranges."""

    __slots__ = ("_count", "_ledgers")

    def __init__(self) -> None:
        self._ledgers: dict[int, list[int]] = {}
        self._count = 0

    # ---- changes ----

    def add_all(self, ledger_id: int, entry_ids: Sequence[int]) -> None:
        """Puts entries in, which rise and are not in yet."""
        known = self._ledgers.get(ledger_id)
        if known is None:
            self._ledgers[ledger_id] = list(entry_ids)
        elif known[-1] < entry_ids[0]:
            known.extend(entry_ids)
        elif len(entry_ids) == 1:
            insort(known, entry_ids[0])
        else:
            known.extend(entry_ids)
            known.sort()  # two rising stretches: one merge
        self._count += len(entry_ids)

    def add(self, ledger_id: int, first: int, end: int) -> None:
        """Puts a range in."""
        fresh = [piece for low, high in self.pieces_not_in(ledger_id, first, end) for piece in range(low, high)]
        if fresh:
            self.add_all(ledger_id, fresh)

    def remove(self, ledger_id: int, first: int, end: int) -> int:
        """Takes a range out; returns how many of its entries were in."""
        known = self._ledgers.get(ledger_id)
        if known is None:
            return 0
        low = bisect_left(known, first)
        high = (
            low + 1 if end == first + 1 and low < len(known) and known[low] == first else bisect_left(known, end, low)
        )
        if high > low:
            del known[low:high]
            self._count -= high - low
            if not known:
                del self._ledgers[ledger_id]
        return high - low

    def remove_each(self, ledger_id: int, entry_ids: list[int]) -> int:
        """Takes entries out, which rise; returns how many were in."""
        known = self._ledgers.get(ledger_id)
        if known is None:
            return 0
        low = bisect_left(known, entry_ids[0])
        high = low + len(entry_ids)
        if known[low:high] == entry_ids:  # the usual case: some in a row
            gone = len(entry_ids)
            del known[low:high]
        else:
            high = bisect_right(known, entry_ids[-1], low)
            out = set(entry_ids)
            left = [entry_id for entry_id in known[low:high] if entry_id not in out]
            gone = high - low - len(left)
            known[low:high] = left
        self._count -= gone
        if not known:
            del self._ledgers[ledger_id]
        return gone

    def remove_through(self, ledger_id: int, entry_id: int) -> int:
        """Takes out everything at or before a position; returns how many entries were in."""
        before = self._count
        for older in [older for older in self._ledgers if older < ledger_id]:
            self._count -= len(self._ledgers.pop(older))
        self.remove(ledger_id, -1, entry_id + 1)
        return before - self._count

    def clear(self) -> None:
        """Takes out everything."""
        self._ledgers.clear()
        self._count = 0

    # ---- questions ----

    def count(self) -> int:
        """Counts the entries of the set."""
        return self._count

    def first(self) -> tuple[int, int] | None:
        """Returns the lowest position, None when empty."""
        if not self._ledgers:
            return None
        ledger_id = min(self._ledgers)
        return ledger_id, self._ledgers[ledger_id][0]

    def between(self, ledger_id: int, first: int, end: int, limit: int = 1 << 62) -> list[int]:
        """Returns the entries of a range that the set holds, at most `limit` of them."""
        known = self._ledgers.get(ledger_id)
        if known is None:
            return []
        low = bisect_left(known, first)
        return known[low : min(bisect_left(known, end), low + limit)]

    def pieces_in(self, ledger_id: int, first: int, end: int) -> list[tuple[int, int]]:
        """Returns the parts of a range that the set holds."""
        return list(_stretches(self.between(ledger_id, first, end)))

    def pieces_not_in(self, ledger_id: int, first: int, end: int) -> list[tuple[int, int]]:
        """Returns the parts of a range that the set does not hold."""
        inside = RangeSet((ledger_id, low, high) for low, high in self.pieces_in(ledger_id, first, end))
        return inside.pieces_not_in(ledger_id, first, end)

    def intersects(self, ledger_id: int, first: int, end: int) -> bool:
        """Returns whether the set holds some entry of a range."""
        known = self._ledgers.get(ledger_id)
        return known is not None and bisect_left(known, first) < bisect_right(known, end - 1)

    def by_ledger(self) -> Iterator[tuple[int, list[int]]]:
        """Yields the entries of each ledger, rising. Treat the lists as immutable."""
        for ledger_id in self.ledgers():
            yield ledger_id, self._ledgers[ledger_id]

    def ledgers(self) -> list[int]:
        """Returns the ids of the ledgers that have entries in, ascending."""
        return sorted(self._ledgers)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        for ledger_id in self.ledgers():
            for first, end in _stretches(self._ledgers[ledger_id]):
                yield ledger_id, first, end

    def __bool__(self) -> bool:
        return self._count > 0


def _stretches(entry_ids: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Rising entry ids as half-open ranges."""
    if not entry_ids:
        return
    first = following = entry_ids[0]
    for entry_id in entry_ids:
        if entry_id != following:
            yield first, following
            first = entry_id
        following = entry_id + 1
    yield first, following
