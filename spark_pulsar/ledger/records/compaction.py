"""Records of compaction (CMP-C1 … CMP-C4): a ledger beside a topic's chain that holds the last message of each key.

An entry of a compacted ledger is 16 bytes that tell where it comes from, then the entry itself, perhaps with fewer
messages. It takes entries as any other ledger does, by `EntriesAppended`. While it is written nobody reads it; one
record lets it replace the one before it, or a crash leaves it unfinished and it is dropped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Final

from spark_pulsar.ledger.state.ledger import LedgerInfo
from spark_pulsar.model.ids import EARLIEST, Position

from .base import DeclaredRecord, InvalidRecord, Record
from .codec import I64, I64S

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.durable_state import DurableState
    from spark_pulsar.ledger.state.topics import TopicState

SOURCE: Final = Struct(">qq")
"""Ledger id and entry id that an entry of a compacted ledger had, in front of it."""


@dataclass(slots=True)
class Compaction:
    """What was compacted of a topic.

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
        """Make what `entry_before` searches in."""
        index = self.index
        self.starts = [Position(index[at], index[at + 1]) for at in range(0, len(index), 3)]

    def entry_before(self, position: Position) -> int:
        """The id of an entry of the compacted ledger not far before the first one from `position` on."""
        block = bisect_right(self.starts, position) - 1
        return self.index[3 * block + 2] if block >= 0 else 0

    def ledgers(self) -> list[LedgerInfo]:
        """The ledgers that exist."""
        return [info for info in (self.ledger, self.writing) if info is not None]


@dataclass(frozen=True, slots=True)
class CompactionPrepared(DeclaredRecord):
    """The topic is to be compacted some time: from now on what lies after the horizon is kept for it."""

    topic_id: int
    ledger_id: int
    entry_id: int
    TYPE: ClassVar[int] = 80
    LAYOUT: ClassVar = (("topic_id", I64), ("ledger_id", I64), ("entry_id", I64))


@dataclass(frozen=True, slots=True)
class CompactionBegun(DeclaredRecord):
    """A compacted ledger, empty, is written from now on. The topic was prepared."""

    topic_id: int
    ledger_id: int
    begun_ms: int
    TYPE: ClassVar[int] = 81
    LAYOUT: ClassVar = (("topic_id", I64), ("ledger_id", I64), ("begun_ms", I64))


@dataclass(frozen=True, slots=True)
class CompactionFinished(DeclaredRecord):
    """The ledger that was written is the compacted one, and the one before it is gone. See `Compaction`."""

    topic_id: int
    ledger_id: int
    horizon_ledger_id: int
    horizon_entry_id: int
    finished_ms: int
    removed: int
    last: tuple[int, ...]
    index: tuple[int, ...]
    TYPE: ClassVar[int] = 82
    LAYOUT: ClassVar = (
        ("topic_id", I64),
        ("ledger_id", I64),
        ("horizon_ledger_id", I64),
        ("horizon_entry_id", I64),
        ("finished_ms", I64),
        ("removed", I64),
        ("last", I64S),
        ("index", I64S),
    )


@dataclass(frozen=True, slots=True)
class CompactionAbandoned(DeclaredRecord):
    """The ledger that was written is gone; everything is as it was before it."""

    topic_id: int
    TYPE: ClassVar[int] = 83
    LAYOUT: ClassVar = (("topic_id", I64),)


@dataclass(frozen=True, slots=True)
class CompactionForgotten(DeclaredRecord):
    """Nothing of the topic is compacted any more, and nothing is kept for it: the topic is about to go."""

    topic_id: int
    TYPE: ClassVar[int] = 84
    LAYOUT: ClassVar = (("topic_id", I64),)


def _topic(state: DurableState, topic_id: int) -> TopicState:
    topic = state.topics.get(topic_id)
    if topic is None:
        raise InvalidRecord(f"topic {topic_id} does not exist")
    return topic


def _of(state: DurableState, topic_id: int) -> Compaction:
    compaction = _topic(state, topic_id).compaction
    if compaction is None:
        raise InvalidRecord(f"topic {topic_id} is not compacted")
    state.dirty["compactions"].add(topic_id)
    return compaction


def _prepared(state: DurableState, record: CompactionPrepared) -> None:
    topic = _topic(state, record.topic_id)
    if topic.compaction is None:
        topic.compaction = Compaction(Position(record.ledger_id, record.entry_id))
        state.dirty["compactions"].add(record.topic_id)


def _begun(state: DurableState, record: CompactionBegun) -> None:
    compaction = _of(state, record.topic_id)
    if compaction.writing is not None:
        raise InvalidRecord(f"topic {record.topic_id} is being compacted already")
    state.use_ledger_id(record.ledger_id)
    info = LedgerInfo(record.ledger_id, record.topic_id, 0, record.begun_ms)
    compaction.writing = state.ledgers[record.ledger_id] = info
    state.dirty_ledgers.add(record.ledger_id)


def _finished(state: DurableState, record: CompactionFinished) -> None:
    compaction = _of(state, record.topic_id)
    info = compaction.writing
    if info is None or info.ledger_id != record.ledger_id:
        raise InvalidRecord(f"ledger {record.ledger_id} is not being written by a compaction")
    _drop(state, compaction.ledger)
    info.sealed_ms = record.finished_ms
    state.dirty_ledgers.add(info.ledger_id)
    compaction.ledger, compaction.writing = info, None
    compaction.horizon = Position(record.horizon_ledger_id, record.horizon_entry_id)
    compaction.index, compaction.removed = record.index, record.removed
    compaction.last = record.last[0], record.last[1], record.last[2]
    compaction.begun_ms, compaction.finished_ms = info.opened_ms, record.finished_ms
    compaction.note_index()


def _abandoned(state: DurableState, record: CompactionAbandoned) -> None:
    compaction = _of(state, record.topic_id)
    _drop(state, compaction.writing)
    compaction.writing = None


def _forgotten(state: DurableState, record: CompactionForgotten) -> None:
    compaction = _of(state, record.topic_id)
    _drop(state, compaction.writing)
    _drop(state, compaction.ledger)
    state.topics[record.topic_id].compaction = None


def _drop(state: DurableState, info: LedgerInfo | None) -> None:
    if info is not None:
        del state.ledgers[info.ledger_id]
        state.dirty_ledgers.add(info.ledger_id)


TRANSITIONS: Final[dict[type[Record], Callable[[DurableState, Any], None]]] = {
    CompactionPrepared: _prepared,
    CompactionBegun: _begun,
    CompactionFinished: _finished,
    CompactionAbandoned: _abandoned,
    CompactionForgotten: _forgotten,
}
"""What each record does to the state."""
