"""The durable part of a topic, and of a partitioned topic's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_pulsar.model.ids import Position

from .compaction import Compaction
from .cursor import Cursor
from .damage import Damage
from .delay_index import Delays
from .managed_ledger import ManagedLedger


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
    """What storage lost of it, accepted or not."""

    epoch: int = -1
    """Of the last exclusive access; -1 = nobody ever had the topic alone (PR-7)."""
    is_terminated: bool = False
    """Whether it takes no more entries, for good (TN-13)."""
    has_chunks: bool = False
    """Whether it ever took a chunk of a large message (CHK-6)."""

    compaction: Compaction | None = None
    """What was compacted of it; None until it is to be."""
    delays: Delays | None = None
    """Which entries are not to be delivered yet; None until there was one (DEL-3)."""

    @property
    def damage(self) -> Damage | None:
        """The first damage that nobody has accepted: while there is one, the topic is read-only."""
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
