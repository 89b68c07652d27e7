"""Applies the records of when a cursor was last active to the durable state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.ledger.records.activity import CursorIdle
from spark_pulsar.ledger.records.base import Record

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.durable_state import DurableState


def _idle(state: DurableState, record: CursorIdle) -> None:
    cursor = state.cursors.get(record.cursor_id)
    if cursor is not None:
        cursor.idle_since_ms = record.since_ms
        state.dirty["cursors"].add(record.cursor_id)


TRANSITIONS: Final[dict[type[Record], Callable[[DurableState, Any], None]]] = {CursorIdle: _idle}
"""What the record does to the state."""
