"""Rows of delayed entries in the checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from spark_pulsar.ledger.records.codec import i64s_from, i64s_packed, u32s, u32s_from
from spark_pulsar.ledger.state.delay_index import BlockKey, Delays

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.durable_state import DurableState


DELAY_COLUMNS: Final = ("ledger_id INTEGER", "block INTEGER", "times_ms BLOB", "offsets BLOB")
"""Of table `delays`; the first two are its key."""


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
