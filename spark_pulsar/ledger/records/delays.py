"""Records of delayed entries (section 10 of the rules), and their rows in the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from spark_pulsar.ledger.state.delay_index import BlockKey, Delays

from .base import DeclaredRecord, InvalidRecord, Record
from .codec import I64, I64S, i64s_from, i64s_packed, u32s, u32s_from

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.durable_state import DurableState
    from spark_pulsar.ledger.state.topics import TopicState

DELAY_COLUMNS: Final = ("ledger_id INTEGER", "block INTEGER", "times_ms BLOB", "offsets BLOB")
"""Of table `delays`; the first two are its key."""


@dataclass(frozen=True, slots=True)
class EntriesDelayed(DeclaredRecord):
    """Entries of a ledger, ascending and appended just before, are not to be delivered before their times."""

    ledger_id: int
    entry_ids: Sequence[int]
    times_ms: Sequence[int]
    TYPE: ClassVar[int] = 100
    LAYOUT: ClassVar = (("ledger_id", I64), ("entry_ids", I64S), ("times_ms", I64S))


@dataclass(frozen=True, slots=True)
class DelaysElapsed(DeclaredRecord):
    """What a block of entries was to be held back until this time is free. Nothing happens when the block is gone."""

    ledger_id: int
    block: int
    through_ms: int
    TYPE: ClassVar[int] = 101
    LAYOUT: ClassVar = (("ledger_id", I64), ("block", I64), ("through_ms", I64))


def _entries_delayed(state: DurableState, record: EntriesDelayed) -> None:
    info = state.ledgers.get(record.ledger_id)
    entry_ids = record.entry_ids
    if info is None or len(entry_ids) != len(record.times_ms) or not entry_ids:
        raise InvalidRecord(f"delays for ledger {record.ledger_id}, which does not exist, or without entries")
    topic = state.topics[info.topic_id]
    delays = Delays() if topic.delays is None else topic.delays
    last = delays.held.last() or (-1, -1)
    if entry_ids[-1] >= info.entries or (record.ledger_id, entry_ids[0]) <= last:
        raise InvalidRecord(f"delays for entries {entry_ids[0]} … {entry_ids[-1]} of {info} after those of {last}")
    topic.delays = delays
    state.dirty["delays"].update(delays.add(record.ledger_id, entry_ids, record.times_ms))


def _delays_elapsed(state: DurableState, record: DelaysElapsed) -> None:
    info = state.ledgers.get(record.ledger_id)
    delays = None if info is None else state.topics[info.topic_id].delays
    if delays is not None:
        key = (record.ledger_id, record.block)
        delays.elapse(key, record.through_ms)
        state.dirty["delays"].add(key)


def forget_ledgers(state: DurableState, topic: TopicState, ledger_ids: Iterable[int]) -> None:
    """Ledgers of a topic are gone."""
    if topic.delays is not None:
        for ledger_id in ledger_ids:
            state.dirty["delays"].update(topic.delays.forget_ledger(ledger_id))


TRANSITIONS: Final[dict[type[Record], Callable[[DurableState, Any], None]]] = {
    EntriesDelayed: _entries_delayed,
    DelaysElapsed: _delays_elapsed,
}
"""What each record does to the state."""


def delay_values(state: DurableState, key: BlockKey) -> tuple[bytes, bytes] | None:
    """The row of a block of delayed entries after its key; None when it has none."""
    info = state.ledgers.get(key[0])
    delays = None if info is None else state.topics[info.topic_id].delays
    columns = None if delays is None else delays.columns(key)
    return None if columns is None else (i64s_packed(columns[0]), u32s(columns[1]))


def load_delays(state: DurableState, rows: Iterable[tuple[int, int, bytes, bytes]]) -> None:
    """Give topics the blocks of their rows. ValueError when a row holds something else."""
    for ledger_id, block, times_ms, offsets in sorted(rows):
        topic = state.topics[state.ledgers[ledger_id].topic_id]
        if topic.delays is None:
            topic.delays = Delays()
        topic.delays.load((ledger_id, block), i64s_from(times_ms), u32s_from(offsets))
