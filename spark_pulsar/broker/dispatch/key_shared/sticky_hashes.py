"""Sticky hashes of the entries that a Key_Shared subscription has seen, so that each key is hashed once."""

from __future__ import annotations

from array import array
from typing import Final

_KEEP_BEHIND: Final = 65_536
"""Entries behind mark-delete that are kept, so that the front is seldom cut off."""


class StickyHashBook:
    """Sticky hash by entry: two bytes for each entry between the first and the last one seen of a ledger; 0 = not
    seen."""

    __slots__ = ("_firsts", "_sticky_hashes")

    def __init__(self) -> None:
        self._sticky_hashes: dict[int, array[int]] = {}
        self._firsts: dict[int, int] = {}

    def note(self, ledger_id: int, first: int, sticky_hashes: list[int]) -> None:
        """Notes the sticky hashes of entries from `first` on."""
        known = self._sticky_hashes.get(ledger_id)
        if known is None:
            self._sticky_hashes[ledger_id] = array("H", sticky_hashes)
            self._firsts[ledger_id] = first
            return
        at = first - self._firsts[ledger_id]
        if at < 0:
            known[:0] = array("H", bytes(-2 * at))
            self._firsts[ledger_id] = first
            at = 0
        elif at > len(known):
            known.frombytes(bytes(2 * (at - len(known))))
        known[at : at + len(sticky_hashes)] = array("H", sticky_hashes)

    def of(self, ledger_id: int, first: int, end: int) -> list[int]:
        """Looks up the sticky hashes of entries `first … end - 1`."""
        known = self._sticky_hashes.get(ledger_id)
        if known is None:
            return [0] * (end - first)
        at = first - self._firsts[ledger_id]
        wanted = at + end - first
        sticky_hashes = known[max(at, 0) : max(wanted, 0)].tolist()
        if at < 0:
            sticky_hashes = [0] * min(-at, end - first) + sticky_hashes
        return sticky_hashes + [0] * (end - first - len(sticky_hashes))

    def of_each(self, ledger_id: int, entry_ids: list[int]) -> list[int]:
        """Looks up the sticky hashes of rising entries."""
        known = self._sticky_hashes.get(ledger_id)
        if known is None:
            return [0] * len(entry_ids)
        first, end = self._firsts[ledger_id], self._firsts[ledger_id] + len(known)
        if first <= entry_ids[0] and entry_ids[-1] < end:
            return [known[entry_id - first] for entry_id in entry_ids]
        return [known[entry_id - first] if first <= entry_id < end else 0 for entry_id in entry_ids]

    def remove_before(self, ledger_id: int, entry_id: int) -> None:
        """Removes entries before a position."""
        for older in [older for older in self._sticky_hashes if older < ledger_id]:
            del self._sticky_hashes[older], self._firsts[older]
        behind = entry_id - self._firsts.get(ledger_id, entry_id)
        if behind > _KEEP_BEHIND:
            del self._sticky_hashes[ledger_id][:behind]
            self._firsts[ledger_id] = entry_id

    def clear(self) -> None:
        """Removes all entries."""
        self._sticky_hashes.clear()
        self._firsts.clear()
