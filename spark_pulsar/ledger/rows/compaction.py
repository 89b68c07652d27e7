"""Row of a topic's compaction in the checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_pulsar.ledger.records.codec import i64s_from, i64s_packed
from spark_pulsar.ledger.state.compaction import Compaction
from spark_pulsar.model.positions.ids import Position

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_pulsar.ledger.state.durable_state import DurableState
    from spark_pulsar.ledger.state.ledger import LedgerInfo

_NONE = -1


def compaction_values(state: DurableState, topic_id: int) -> tuple[Any, ...] | None:
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


def load_compactions(state: DurableState, rows: Iterable[tuple[Any, ...]]) -> dict[int, bool]:
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
