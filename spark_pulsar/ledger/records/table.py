"""The table of record types, and bytes to records by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from . import (
    base,
    compaction,
    cursors,
    damage,
    deduplication,
    delays,
    documents,
    schemas,
    topics,
)
from .base import Record, UnknownRecord

RECORD_TYPES: Final[dict[int, type[Record]]] = {
    record_type.TYPE: record_type
    for record_type in (
        base.EntriesAppended,
        base.CounterSet,
        base.TopicCreated,
        base.TopicDeleted,
        base.TopicPropertiesSet,
        topics.TopicEpochSet,
        topics.TopicTerminated,
        topics.TopicChunked,
        base.PartitionedTopicSet,
        base.PartitionedTopicDeleted,
        base.NamespaceSet,
        base.NamespaceDeleted,
        base.LedgerOpened,
        base.LedgerSealed,
        base.LedgersTrimmed,
        base.EntriesDropped,
        cursors.CursorCreated,
        cursors.CursorDeleted,
        cursors.CursorAcked,
        cursors.CursorMarkDeleted,
        cursors.CursorReset,
        cursors.CursorRedelivered,
        cursors.CursorPropertiesSet,
        cursors.CursorAckProperties,
        cursors.CursorIdle,
        documents.DocumentSet,
        documents.DocumentDeleted,
        deduplication.SequencesReached,
        deduplication.SequencesForgotten,
        compaction.CompactionPrepared,
        compaction.CompactionBegun,
        compaction.CompactionFinished,
        compaction.CompactionAbandoned,
        compaction.CompactionForgotten,
        damage.TopicDamaged,
        damage.DamageAccepted,
        schemas.SchemaAdded,
        schemas.SchemasDeleted,
        schemas.SchemasForgotten,
        delays.EntriesDelayed,
        delays.DelaysElapsed,
    )
}
"""Every record that this program writes, by its `TYPE`."""

_DECODE: Final[dict[tuple[int, int], Callable[[bytes, int, int], Record]]] = {
    **{(known.TYPE, known.VERSION): known.decode for known in RECORD_TYPES.values()},
    (1, 1): base.EntriesAppended.decode_old_run,
    (3, 1): base.EntriesAppended.decode,
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
