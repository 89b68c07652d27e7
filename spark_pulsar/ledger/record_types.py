"""The table of record types, and bytes to records by it."""

from __future__ import annotations

from typing import Final

from . import (
    activity_records,
    compaction_records,
    cursor_records,
    damage_records,
    delay_records,
    document_records,
    records,
    scattered,
    schema_records,
    sequence_records,
    topic_records,
)
from .records import Record, UnknownRecord

RECORD_TYPES: Final[dict[int, type[Record]]] = {
    record_type.TYPE: record_type
    for record_type in (
        records.EntriesAppended,
        scattered.EntriesScattered,
        records.CounterSet,
        records.TopicCreated,
        records.TopicDeleted,
        records.TopicPropertiesSet,
        topic_records.TopicEpochSet,
        topic_records.TopicTerminated,
        topic_records.TopicChunked,
        records.PartitionedTopicSet,
        records.PartitionedTopicDeleted,
        records.NamespaceSet,
        records.NamespaceDeleted,
        records.LedgerOpened,
        records.LedgerSealed,
        records.LedgersTrimmed,
        records.EntriesDropped,
        cursor_records.CursorCreated,
        cursor_records.CursorDeleted,
        cursor_records.CursorAcked,
        cursor_records.CursorMarkDeleted,
        cursor_records.CursorReset,
        cursor_records.CursorRedelivered,
        cursor_records.CursorPropertiesSet,
        cursor_records.CursorAckProperties,
        activity_records.CursorIdle,
        document_records.DocumentSet,
        document_records.DocumentDeleted,
        sequence_records.SequencesReached,
        sequence_records.SequencesForgotten,
        compaction_records.CompactionPrepared,
        compaction_records.CompactionBegun,
        compaction_records.CompactionFinished,
        compaction_records.CompactionAbandoned,
        compaction_records.CompactionForgotten,
        damage_records.TopicDamaged,
        damage_records.DamageAccepted,
        schema_records.SchemaAdded,
        schema_records.SchemasDeleted,
        schema_records.SchemasForgotten,
        delay_records.EntriesDelayed,
        delay_records.DelaysElapsed,
    )
}
"""Every record this program writes and reads, by its `TYPE`."""


def decode_record(record_type: int, version: int, body: bytes, at: int, end: int) -> Record:
    """The record whose body is `body[at:end]`. UnknownRecord for a type or version from elsewhere, RecordDamaged for
    a body of another form."""
    known = RECORD_TYPES.get(record_type)
    if known is None:
        raise UnknownRecord(f"record type {record_type} is unknown to this version of the program")
    if version != known.VERSION:
        raise UnknownRecord(f"{known.__name__} version {version} is unknown to this program (it knows {known.VERSION})")
    return known.decode(body, at, end)
