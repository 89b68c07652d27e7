"""Entries → the record batches of the Spark connector: StreamNative's columns, in Spark's exact Arrow types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from spark_pulsar.wire.columns import arrays, metadata_arrays
from spark_pulsar.wire.columns.entries import Entries, EntrySlice, EntryTable, table_of
from spark_pulsar.wire.columns.key_set import KeySet
from spark_pulsar.wire.columns.metadata_arrays import encryption_context_array
from spark_pulsar.wire.columns.rows import Rows, entry_groups, read_rows, row_ranges

_FIELDS: Final = (
    pa.field("value", pa.binary()),
    pa.field("__key", pa.binary()),
    pa.field("__topic", pa.string()),
    pa.field("__messageId", pa.binary()),
    pa.field("__publishTime", arrays.TIMESTAMP),
    pa.field("__eventTime", arrays.TIMESTAMP),
    pa.field("__messageProperties", arrays.PROPERTIES),
)

RECORD_COLUMNS: Final = tuple(field.name for field in _FIELDS)

_ON_REQUEST: Final = (
    pa.field("__orderingKey", pa.binary()),
    pa.field("__producerName", pa.string()),
    pa.field("__sequenceId", pa.int64()),
    pa.field("__schemaVersion", pa.int64()),
    pa.field("__redeliveryCount", pa.int32()),
    pa.field("__partition", pa.int32()),
    pa.field("__ledgerId", pa.int64()),
    pa.field("__entryId", pa.int64()),
    pa.field("__batchIndex", pa.int32()),
    pa.field("__brokerPublishTime", arrays.TIMESTAMP),
    pa.field("__index", pa.int64()),
    pa.field("__encryptionContext", pa.string()),
)

METADATA_COLUMNS: Final = tuple(field.name for field in _ON_REQUEST)
"""Columns that come only where they are named."""

DEFAULT_MAX_ROWS: Final = 10_000
DEFAULT_MAX_BYTES: Final = 16 * 1024 * 1024


def record_schema(columns: Sequence[str] | None = None) -> Any:
    """Returns the Arrow schema of record batches: ``columns`` in the order given, or RECORD_COLUMNS. Every column is
    nullable.

    :raises ValueError: a column is unknown
    """
    fields = {field.name: field for field in (*_FIELDS, *_ON_REQUEST)}
    names = RECORD_COLUMNS if columns is None else columns
    if unknown := set(names) - set(fields):
        raise ValueError(f"unknown columns {sorted(unknown)}; there are {', '.join(fields)}")
    return pa.schema([fields[name] for name in names])


class RecordDecoder:
    """Makes record batches from the entries of one topic partition; what does not depend on them is made once.

    Small entries are put together, large ones are cut: a batch has at most ``max_rows`` rows and ``max_bytes`` of
    values (at least one row). Decoding works in groups of that size, which bounds memory. No batch is empty.

    :param topic: what ``__topic`` says (the full name of the partition)
    :param columns: as for ``record_schema``
    :param keys: leaves out rows with other keys, before anything of them is copied
    """

    def __init__(
        self,
        topic: str,
        columns: Sequence[str] | None = None,
        *,
        max_rows: int = DEFAULT_MAX_ROWS,
        max_bytes: int = DEFAULT_MAX_BYTES,
        keys: KeySet | None = None,
    ) -> None:
        self.schema = record_schema(columns)
        self._topic = topic
        self._topics = arrays.repeated_text_array(topic, 0)
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._keys = keys
        self._builders = self._make_builders()

    def _make_builders(self) -> list[Callable[[Rows], Any]]:
        """Makers of the arrays, one for each field of the schema."""
        builders: dict[str, Callable[[Rows], Any]] = {
            "value": arrays.value_array,
            "__key": arrays.key_array,
            "__topic": self._topic_array,
            "__messageId": arrays.message_id_array,
            "__publishTime": arrays.publish_time_array,
            "__eventTime": arrays.event_time_array,
            "__messageProperties": arrays.properties_array,
            "__orderingKey": metadata_arrays.ordering_key_array,
            "__producerName": metadata_arrays.producer_name_array,
            "__sequenceId": metadata_arrays.sequence_id_array,
            "__schemaVersion": metadata_arrays.schema_version_array,
            "__redeliveryCount": metadata_arrays.redelivery_count_array,
            "__partition": metadata_arrays.partition_array,
            "__ledgerId": metadata_arrays.ledger_id_array,
            "__entryId": metadata_arrays.entry_id_array,
            "__batchIndex": metadata_arrays.batch_index_array,
            "__brokerPublishTime": metadata_arrays.broker_publish_time_array,
            "__index": metadata_arrays.index_array,
            "__encryptionContext": encryption_context_array,
        }
        return [builders[name] for name in self.schema.names]

    def _topic_array(self, rows: Rows) -> Any:
        """Returns the topic for every row: a part of one array that all batches share."""
        if len(self._topics) < len(rows):
            self._topics = arrays.repeated_text_array(self._topic, len(rows))
        return self._topics.slice(0, len(rows))

    def batches(self, entries: Entries | EntryTable | Iterable[EntrySlice]) -> Iterator[Any]:
        """Yields the wanted messages of all entries, in order, as record batches of ``schema``.

        :raises MalformedBatch, EncryptedEntry, UnassembledChunk: groups before the entry were yielded
        """
        for group in entry_groups(table_of(entries), self._max_rows, self._max_bytes):
            rows = read_rows(group)
            if self._keys is not None:
                rows = self._keys.chosen(rows)
            for first, end in row_ranges(rows, self._max_rows, self._max_bytes):
                part = rows if end - first == len(rows) else rows.part(first, end)
                if self._builders:
                    yield pa.RecordBatch.from_arrays([build(part) for build in self._builders], schema=self.schema)
                else:
                    yield pa.RecordBatch.from_struct_array(pa.array([{}] * len(part), pa.struct([])))
