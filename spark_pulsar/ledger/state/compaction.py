"""Compaction of topics (CMP-C1 … CMP-C4): a ledger beside a topic's chain that holds the last message of each key.

An entry of a compacted ledger is 16 bytes that name its origin, then the entry itself, perhaps with fewer
messages. It takes entries as any other ledger does, by `EntriesAppended`. While it is written it is not read; one
record lets it replace the one before it, or a crash leaves it unfinished and it is dropped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Final

from spark_pulsar.ledger.managed_ledgers.ledger import LedgerInfo
from spark_pulsar.ledger.records import DeclaredRecord, InvalidRecord, Record, Table, i64s_from, i64s_packed
from spark_pulsar.model.positions.ids import EARLIEST, Position

if TYPE_CHECKING:
    from .durable_state import DurableState


@dataclass(slots=True)
class Compaction:
    """The compaction of a topic.

    | attribute | meaning |
    | --- | --- |
    | `horizon` | the last compacted entry; later ones are kept for the next compaction (CMP-C4) |
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


@dataclass(frozen=True, slots=True)
class CompactionPrepared(DeclaredRecord):
    """The topic is to be compacted some time: from now on what lies after the horizon is kept for it."""

    topic_id: int
    ledger_id: int
    entry_id: int
    TYPE: ClassVar[int] = 80


@dataclass(frozen=True, slots=True)
class CompactionBegun(DeclaredRecord):
    """A compacted ledger, empty, is written from now on. The topic was prepared."""

    topic_id: int
    ledger_id: int
    begun_ms: int
    TYPE: ClassVar[int] = 81


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


@dataclass(frozen=True, slots=True)
class CompactionAbandoned(DeclaredRecord):
    """The ledger that was written is gone; everything is as it was before it."""

    topic_id: int
    TYPE: ClassVar[int] = 83


@dataclass(frozen=True, slots=True)
class CompactionForgotten(DeclaredRecord):
    """Nothing of the topic is compacted any more, and nothing is kept for it: the topic is about to go."""

    topic_id: int
    TYPE: ClassVar[int] = 84


def _compaction(state: DurableState, topic_id: int) -> Compaction:
    compaction = state.topic(topic_id).compaction
    if compaction is None:
        raise InvalidRecord(f"topic {topic_id} is not compacted")
    state.dirty["compactions"].add(topic_id)
    return compaction


def _prepared(state: DurableState, record: CompactionPrepared) -> None:
    topic = state.topic(record.topic_id)
    if topic.compaction is None:
        topic.compaction = Compaction(Position(record.ledger_id, record.entry_id))
        state.dirty["compactions"].add(record.topic_id)


def _begun(state: DurableState, record: CompactionBegun) -> None:
    compaction = _compaction(state, record.topic_id)
    if compaction.writing is not None:
        raise InvalidRecord(f"topic {record.topic_id} is being compacted already")
    state.use_ledger_id(record.ledger_id)
    info = LedgerInfo(record.ledger_id, record.topic_id, 0, record.begun_ms)
    compaction.writing = state.ledgers[record.ledger_id] = info
    state.dirty_ledgers.add(record.ledger_id)


def _finished(state: DurableState, record: CompactionFinished) -> None:
    compaction = _compaction(state, record.topic_id)
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
    compaction = _compaction(state, record.topic_id)
    _drop(state, compaction.writing)
    compaction.writing = None


def _removed(state: DurableState, record: CompactionForgotten) -> None:
    compaction = _compaction(state, record.topic_id)
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
    CompactionForgotten: _removed,
}
"""Effects of the records, by type."""

_NONE = -1


def _values(state: DurableState, topic_id: int) -> tuple[Any, ...] | None:
    """The columns of a topic's compaction after its id; None when it has none."""
    topic = state.topics.get(topic_id)
    compaction = None if topic is None else topic.compaction
    if compaction is None:
        return None
    return (
        _NONE if compaction.ledger is None else compaction.ledger.ledger_id,
        _NONE if compaction.writing is None else compaction.writing.ledger_id,
        *compaction.horizon,
        *compaction.last,
        compaction.begun_ms,
        compaction.finished_ms,
        compaction.removed,
        i64s_packed(compaction.index),
    )


def load(state: DurableState, rows: Iterable[tuple[Any, ...]]) -> dict[int, bool]:
    """Gives topics what their rows say. The ids of the ledgers that `add_compacted_ledger` is to be called with, and
    whether each is done (True) or was being written."""
    ids: dict[int, bool] = {}
    for topic_id, ledger_id, writing_id, horizon_ledger, horizon_entry, *rest in rows:
        last_ledger, last_entry, last_index, begun_ms, finished_ms, removed, block_index = rest
        compaction = state.topics[topic_id].compaction = Compaction(
            Position(horizon_ledger, horizon_entry),
            index=tuple(i64s_from(block_index)),
            last=(last_ledger, last_entry, last_index),
            begun_ms=begun_ms,
            finished_ms=finished_ms,
            removed=removed,
        )
        compaction.note_index()
        ids |= {known: known == ledger_id for known in (ledger_id, writing_id) if known != _NONE}
    return ids


def add_compacted_ledger(state: DurableState, info: LedgerInfo, *, done: bool) -> None:
    """Gives a topic a ledger of its compaction."""
    compaction = state.topics[info.topic_id].compaction
    assert compaction is not None, "its row named the ledger"
    state.ledgers[info.ledger_id] = info
    if done:
        compaction.ledger = info
    else:
        compaction.writing = info


TABLES: Final = (
    Table(
        "compactions",
        1,
        (
            "topic_id INTEGER",
            "ledger_id INTEGER",
            "writing_ledger_id INTEGER",
            "horizon_ledger_id INTEGER",
            "horizon_entry_id INTEGER",
            "last_ledger_id INTEGER",
            "last_entry_id INTEGER",
            "last_index INTEGER",
            "begun_ms INTEGER",
            "finished_ms INTEGER",
            "removed INTEGER",
            "block_index BLOB",
        ),
        _values,
    ),
)
