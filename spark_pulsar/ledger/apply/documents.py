"""Applies the records of documents to the durable state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.ledger.records.base import Record
from spark_pulsar.ledger.records.documents import DocumentDeleted, DocumentSet

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.durable_state import DurableState


def _set(state: DurableState, record: DocumentSet) -> None:
    state.documents.setdefault(record.kind, {})[record.name] = record.text
    state.dirty["documents"].add((record.kind, record.name))


def _deleted(state: DurableState, record: DocumentDeleted) -> None:
    if state.documents.get(record.kind, {}).pop(record.name, None) is not None:
        state.dirty["documents"].add((record.kind, record.name))


TRANSITIONS: Final[dict[type[Record], Callable[[DurableState, Any], None]]] = {
    DocumentSet: _set,
    DocumentDeleted: _deleted,
}
"""What each record does to the state."""
