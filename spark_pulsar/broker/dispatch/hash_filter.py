"""Hash ranges of an Exclusive consumer: it gets the entries whose sticky hash is in one of them, no others (RD-6)."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, ClassVar

from spark_pulsar.wire.keys.hashes import range_hash
from spark_pulsar.wire.keys.sticky_hashes import StickyHashes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spark_pulsar.ledger.entries import EntryRun


class HashFilter:
    """Filter of runs by hash ranges, which may overlap or be empty."""

    _sticky_hashes: ClassVar = StickyHashes(range_hash)

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(ranges):
            if start > end:
                continue
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def stretches(self, run: EntryRun, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Finds the parts of entries `low … high - 1` of a run that are wanted, as long as they may be."""
        hashes = self._sticky_hashes.of(run.buffer, run.starts[low:high], run.ends[low:high])
        begin = -1
        for index, sticky_hash in enumerate(hashes, low):
            is_wanted = self._holds(sticky_hash)
            if is_wanted and begin < 0:
                begin = index
            elif not is_wanted and begin >= 0:
                yield begin, index
                begin = -1
        if begin >= 0:
            yield begin, high

    def _holds(self, sticky_hash: int) -> bool:
        index = bisect_right(self._starts, sticky_hash) - 1
        return index >= 0 and sticky_hash <= self._ends[index]
