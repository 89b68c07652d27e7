"""Every record type by its number, and by type its effect on the durable state; each noun has a part of both tables.

The core applies a record when it makes it, recovery applies the same record again when it replays the journal. Applying
reads no clock, chooses no id and never fails halfway: a record that does not fit the state is an `InvalidRecord` before
anything changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.ledger.records import Record, UnknownRecord

from . import (
    appending,
    compaction,
    damage,
    deduplication,
    delays,
    documents,
    durable_state,
    ledgers,
    schemas,
    topics,
    transactions,
)
from .cursors import records as cursors

if TYPE_CHECKING:
    from .durable_state import DurableState

TRANSITIONS: Final[Mapping[type[Record], Callable[[DurableState, Any], None]]] = {
    **appending.TRANSITIONS,
    **durable_state.TRANSITIONS,
    **topics.TRANSITIONS,
    **documents.TRANSITIONS,
    **ledgers.TRANSITIONS,
    **cursors.TRANSITIONS,
    **damage.TRANSITIONS,
    **schemas.TRANSITIONS,
    **delays.TRANSITIONS,
    **deduplication.TRANSITIONS,
    **compaction.TRANSITIONS,
    **transactions.TRANSITIONS,
}
"""The effect of every record type."""

RECORD_TYPES: Final[Mapping[int, type[Record]]] = {known.TYPE: known for known in TRANSITIONS}
"""Every record that this program writes, by its `TYPE`."""

_DECODE: Final[Mapping[tuple[int, int], Callable[[bytes, int, int], Record]]] = {
    **{(known.TYPE, known.VERSION): known.decode for known in RECORD_TYPES.values()},
    (1, 1): appending.EntriesAppended.decode_old_run,
    (3, 1): appending.EntriesAppended.decode,
}
"""Decoders by type and version, with the forms that older programs wrote."""


def decode_record(record_type: int, version: int, body: bytes, at: int, end: int) -> Record:
    """The record whose body is `body[at:end]`. UnknownRecord for a type or version from elsewhere, RecordDamaged for
    a body of another form."""
    decode = _DECODE.get((record_type, version))
    if decode is None:
        known = RECORD_TYPES.get(record_type)
        if known is None:
            raise UnknownRecord(f"record type {record_type} is unknown to this version of the program")
        raise UnknownRecord(f"{known.__name__} version {version} is unknown to this program (it knows {known.VERSION})")
    return decode(body, at, end)


def apply(state: DurableState, record: Record) -> None:
    """Gives a record its effect on the durable state. InvalidRecord when it does not fit."""
    TRANSITIONS[type(record)](state, record)
