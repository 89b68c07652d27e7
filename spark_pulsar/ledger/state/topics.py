"""The durable part of a topic, and of a partitioned topic's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from spark_pulsar.model.positions.ids import Position, TransactionId
from spark_pulsar.model.positions.ranges import RangeSet

from .compaction import Compaction
from .cursor import Cursor
from .delay_index import Delays
from .managed_ledger import ManagedLedger


class Damage(NamedTuple):
    """Something of a topic that was durable and is not there any more.

    Entries `first … end - 1` of the ledger cannot be read; none when they are equal: then something else may be
    missing (acks, the newest entries). `place` is `file:offset`, `text` says what was found there. With `accepted`,
    consumers skip the entries and producers go on.
    """

    ledger_id: int
    first: int
    end: int
    place: str
    text: str
    accepted: bool = False

    def holds(self, ledger_id: int, entry_id: int) -> bool:
        """Returns whether the entry is among the lost ones."""
        return ledger_id == self.ledger_id and self.first <= entry_id < self.end

    @property
    def loss(self) -> str:
        """The loss in words."""
        if self.end == self.first:
            return "its last changes may be lost"
        return f"entries {self.ledger_id}:{self.first} to {self.ledger_id}:{self.end - 1} are lost"

    def __str__(self) -> str:
        return f"{self.loss} ({self.place}: {self.text})"


@dataclass(slots=True)
class TopicState:
    """A topic, or one partition of one: its managed ledger and its durable cursors by subscription name."""

    topic_id: int
    name: str
    created_ms: int
    properties: dict[str, str]
    ledger: ManagedLedger
    cursors: dict[str, Cursor] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)
    """Highest sequence id taken of each producer name, with de-duplication (DED-2)."""
    damages: list[Damage] = field(default_factory=list)
    """Damage that storage found, accepted or not."""

    epoch: int = -1
    """Epoch of the last exclusive access; -1 = no producer ever had it (PR-7)."""
    is_terminated: bool = False
    """True if the topic takes no more entries, for good (TN-13)."""
    has_chunks: bool = False
    """True if the topic ever took a chunk of a large message (CHK-6)."""

    compaction: Compaction | None = None
    """The compaction; None until the topic is to be compacted."""
    delays: Delays | None = None
    """The delayed entries; None until there was one (DEL-3)."""
    open_transactions: dict[TransactionId, RangeSet] = field(default_factory=dict)
    """Entries of each open transaction that has some here, in the order of their first ones (TX-9)."""

    @property
    def damage(self) -> Damage | None:
        """The first damage that is not accepted: while there is one, the topic is read-only."""
        return next((damage for damage in self.damages if not damage.accepted), None)

    def slowest_mark_delete(self) -> Position | None:
        """The lowest mark-delete of the durable cursors, None when there is none. Compaction counts as one that stands
        at its horizon (CMP-C4)."""
        slowest = min((cursor.mark_delete for cursor in self.cursors.values()), default=None)
        if self.compaction is not None and (slowest is None or self.compaction.horizon < slowest):
            return self.compaction.horizon
        return slowest


@dataclass(frozen=True, slots=True)
class PartitionedTopic:
    """Metadata of a partitioned topic."""

    name: str
    partitions: int
    properties: Mapping[str, str]
