"""Record of who uses a subscription: since when nobody does (CUR-17)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from .base import DeclaredRecord, Record
from .codec import I64

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.durable_state import DurableState

IN_USE: Final = -1
"""In place of a time: a consumer is connected."""


@dataclass(frozen=True, slots=True)
class CursorIdle(DeclaredRecord):
    """Since this time no consumer is connected, or `IN_USE`. Nothing happens when the cursor is gone."""

    cursor_id: int
    since_ms: int
    TYPE: ClassVar[int] = 60
    LAYOUT: ClassVar = (("cursor_id", I64), ("since_ms", I64))


def _idle(state: DurableState, record: CursorIdle) -> None:
    cursor = state.cursors.get(record.cursor_id)
    if cursor is not None:
        cursor.idle_since_ms = record.since_ms
        state.dirty["cursors"].add(record.cursor_id)


TRANSITIONS: Final[dict[type[Record], Callable[[DurableState, Any], None]]] = {CursorIdle: _idle}
"""What the record does to the state."""
