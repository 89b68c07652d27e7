"""Singles: ranges of one entry each, as one list of entry ids, as a consumer acks that gets every tenth entry.

A tuple for each of them would cost more than everything that is done with it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import overload

EntryRange = tuple[int, int, int]


class Singles(Sequence[EntryRange]):
    """The ranges `(ledger_id, each, each + 1)` of some entries of one ledger, rising. Neighbours are not merged."""

    __slots__ = ("entry_ids", "ledger_id")

    def __init__(self, ledger_id: int, entry_ids: list[int]) -> None:
        """`entry_ids` rise and are not empty; the list is not changed any more."""
        self.ledger_id = ledger_id
        self.entry_ids = entry_ids

    def between(self, first: int, end: int) -> Singles | None:
        """Returns the entries from `first` up to `end` (exclusive), None when there are none."""
        entry_ids = self.entry_ids
        if first <= entry_ids[0] and entry_ids[-1] < end:
            return self
        some = entry_ids[bisect_left(entry_ids, first) : bisect_left(entry_ids, end)]
        return Singles(self.ledger_id, some) if some else None

    def flat(self) -> array[int]:
        """All numbers of all ranges, one after the other."""
        count = len(self.entry_ids)
        numbers = array("q", bytes(24 * count))
        numbers[0::3] = array("q", [self.ledger_id]) * count
        numbers[1::3] = array("q", self.entry_ids)
        numbers[2::3] = array("q", [entry_id + 1 for entry_id in self.entry_ids])
        return numbers

    @overload
    def __getitem__(self, index: int) -> EntryRange: ...

    @overload
    def __getitem__(self, index: slice) -> list[EntryRange]: ...

    def __getitem__(self, index: int | slice) -> EntryRange | list[EntryRange]:
        if isinstance(index, slice):
            return [(self.ledger_id, entry_id, entry_id + 1) for entry_id in self.entry_ids[index]]
        entry_id = self.entry_ids[index]
        return self.ledger_id, entry_id, entry_id + 1

    def __iter__(self) -> Iterator[EntryRange]:
        ledger_id = self.ledger_id
        return iter([(ledger_id, entry_id, entry_id + 1) for entry_id in self.entry_ids])

    def __len__(self) -> int:
        return len(self.entry_ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # equal to lists

    def __repr__(self) -> str:
        return f"Singles({self.ledger_id}, {self.entry_ids})"
