"""The compaction of a topic as durable state."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from spark_pulsar.model.positions.ids import EARLIEST, Position

from .ledger import LedgerInfo


@dataclass(slots=True)
class Compaction:
    """The compaction of a topic.

    | attribute | meaning |
    | --- | --- |
    | `horizon` | the last entry that was looked at; what comes after it is held for the next time (CMP-C4) |
    | `ledger` | the compacted ledger, None before the first one is done |
    | `index` | for every block of it: ledger and entry id of its first entry's source, its first entry's id; flat |
    | `last` | source and batch index (-1: no batch) of the last message that is left, -1:-1 when none is |
    | `finished_ms`, `begun_ms`, `removed` | of the last one that was done; messages that it took out |
    | `writing` | a ledger that is being written |
    """

    horizon: Position = EARLIEST
    ledger: LedgerInfo | None = None
    index: Sequence[int] = ()
    last: tuple[int, int, int] = (-1, -1, -1)
    begun_ms: int = 0
    finished_ms: int = 0
    removed: int = 0
    writing: LedgerInfo | None = None
    starts: list[Position] = field(default_factory=list, compare=False)

    def note_index(self) -> None:
        """Makes what `entry_before` searches in."""
        index = self.index
        self.starts = [Position(index[at], index[at + 1]) for at in range(0, len(index), 3)]

    def entry_before(self, position: Position) -> int:
        """The id of an entry of the compacted ledger not far before the first one from `position` on."""
        block = bisect_right(self.starts, position) - 1
        return self.index[3 * block + 2] if block >= 0 else 0

    def ledgers(self) -> list[LedgerInfo]:
        """The ledgers that exist."""
        return [info for info in (self.ledger, self.writing) if info is not None]


SOURCE: Final = Struct(">qq")
"""Ledger id and entry id that an entry of a compacted ledger had, in front of it."""
