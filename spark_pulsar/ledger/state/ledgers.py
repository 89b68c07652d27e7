"""Ledgers of topics: the records that open, seal and trim them, their effect, and their rows in the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from spark_pulsar.ledger.managed_ledgers.ledger import LedgerInfo
from spark_pulsar.ledger.records import DeclaredRecord, InvalidRecord, Record, Table
from spark_pulsar.model.positions.ids import Position

from . import compaction, damage, delays, transactions

if TYPE_CHECKING:
    from spark_pulsar.ledger.managed_ledgers.managed_ledger import ManagedLedger

    from .durable_state import DurableState


@dataclass(frozen=True, slots=True)
class LedgerOpened(DeclaredRecord):
    """The topic's next ledger, empty, takes entries from now on. The one before it was sealed."""

    topic_id: int
    ledger_id: int
    opened_ms: int
    TYPE: ClassVar[int] = 20


@dataclass(frozen=True, slots=True)
class LedgerSealed(DeclaredRecord):
    """The ledger takes no more entries. An empty one vanishes (ML-1)."""

    topic_id: int
    ledger_id: int
    sealed_ms: int
    TYPE: ClassVar[int] = 21


@dataclass(frozen=True, slots=True)
class LedgersTrimmed(DeclaredRecord):
    """Ledgers of the topic and all their entries are gone; storage gives their space back."""

    topic_id: int
    ledger_ids: tuple[int, ...]
    TYPE: ClassVar[int] = 22


@dataclass(frozen=True, slots=True)
class EntriesDropped(DeclaredRecord):
    """Entries of the ledger below `first_entry_id` cannot be read any more: all cursors have left the ledger, and
    settling does not copy them."""

    topic_id: int
    ledger_id: int
    first_entry_id: int
    TYPE: ClassVar[int] = 23


def _ledger_opened(state: DurableState, record: LedgerOpened) -> None:
    ledger = state.topic(record.topic_id).ledger
    if ledger.current is not None:
        raise InvalidRecord(f"topic {record.topic_id} has an open ledger")
    state.use_ledger_id(record.ledger_id)
    info = LedgerInfo(record.ledger_id, record.topic_id, ledger.total_entries, record.opened_ms)
    state.add_ledger(info)
    ledger.open_ledger = info
    state.follow_open(ledger)
    state.dirty_ledgers.add(record.ledger_id)


def _ledger_sealed(state: DurableState, record: LedgerSealed) -> None:
    ledger = state.topic(record.topic_id).ledger
    info = ledger.current
    if info is None or info.ledger_id != record.ledger_id:
        raise InvalidRecord(f"ledger {record.ledger_id} is not open")
    info.sealed_ms = record.sealed_ms
    if info.marks is not None:
        info.marks.thin(info.entries)
    ledger.open_ledger = None
    state.follow_open(ledger)
    if info.entries == 0:
        _remove_ledgers(state, ledger, (record.ledger_id,))
    state.dirty_ledgers.add(record.ledger_id)


def _ledgers_trimmed(state: DurableState, record: LedgersTrimmed) -> None:
    topic = state.topic(record.topic_id)
    ledger = topic.ledger
    front = ledger.ledger_ids()[: len(record.ledger_ids)]
    if list(record.ledger_ids) != front:
        raise InvalidRecord(f"ledgers {record.ledger_ids} are not the oldest of topic {topic.name}: {front}")
    if not front:
        return
    last = ledger.ledgers[front[-1]]
    for cursor in topic.cursors.values():
        # No consumer can read removed entries: a cursor inside stands behind them from now on.
        if cursor.mark_delete.ledger_id <= last.ledger_id:
            cursor.advance_mark_delete(Position(last.ledger_id, last.entries - 1))
            state.dirty["cursors"].add(cursor.cursor_id)
    delays.remove_ledgers(state, topic, front)
    transactions.remove_ledgers(state, topic, front)
    _remove_ledgers(state, ledger, front)
    if topic.damages:
        damage.remove_ledgers(state, topic, set(front))
    for cursor in topic.cursors.values():
        mark_delete = cursor.mark_delete
        cursor.absorb()
        if cursor.mark_delete != mark_delete:
            state.dirty["cursors"].add(cursor.cursor_id)


def _remove_ledgers(state: DurableState, ledger: ManagedLedger, ledger_ids: Iterable[int]) -> None:
    removed = ledger.remove(ledger_ids)
    state.follow_open(ledger)
    for ledger_id in removed:
        del state.ledgers[ledger_id]
        state.dirty_ledgers.add(ledger_id)
        state.dirty["topics"].add(ledger.topic_id)


def _entries_dropped(state: DurableState, record: EntriesDropped) -> None:
    ledger = state.topic(record.topic_id).ledger
    if record.ledger_id not in ledger.ledgers:
        raise InvalidRecord(f"ledger {record.ledger_id} does not exist")
    ledger.drop_before(record.ledger_id, record.first_entry_id)
    state.dirty_ledgers.add(record.ledger_id)


def _values(state: DurableState, ledger_id: int) -> tuple[Any, ...] | None:
    info = state.ledgers.get(ledger_id)
    return None if info is None else info.row()[1:]


def load(state: DurableState, rows: Iterable[tuple[Any, ...]], compacted: Mapping[int, bool]) -> None:
    """Gives topics the ledgers of their rows. `compacted`: ids of compacted ledgers, and whether each is done."""
    for row in sorted(rows):
        info = LedgerInfo(*row)
        if info.ledger_id in compacted:
            compaction.add_compacted_ledger(state, info, done=compacted[info.ledger_id])
            continue
        state.add_ledger(info)
        state.topics[info.topic_id].ledger.drop_before(info.ledger_id, info.first_entry_id)


TRANSITIONS: Final[Mapping[type[Record], Callable[[DurableState, Any], None]]] = {
    LedgerOpened: _ledger_opened,
    LedgerSealed: _ledger_sealed,
    LedgersTrimmed: _ledgers_trimmed,
    EntriesDropped: _entries_dropped,
}
"""Effects of the records, by type."""

TABLES: Final = (
    Table(
        "ledgers",
        1,
        (
            "ledger_id INTEGER",
            "topic_id INTEGER",
            "base INTEGER",
            "opened_ms INTEGER",
            "entries INTEGER",
            "first_entry_id INTEGER",
            "size_bytes INTEGER",
            "messages INTEGER",
            "sealed_ms INTEGER",
        ),
        _values,
    ),
)
