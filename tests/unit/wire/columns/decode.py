"""Every column that a message has, as far as wanted: the kernels seen whole, also where the connector asks for less."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_pulsar.wire.columns import arrays
from spark_pulsar.wire.columns.entries import Entries, EntrySlice, EntryTable, table_of
from spark_pulsar.wire.columns.kernels import layout
from spark_pulsar.wire.columns.records import RecordDecoder
from spark_pulsar.wire.columns.rows import Rows, read_rows


def _entry_field(rows: Rows, number: int) -> Any:
    return rows.table.fields[number][rows.field(layout.ROW_ENTRY)]


def _producer_name(rows: Rows) -> Any:
    starts, lengths = _entry_field(rows, layout.PRODUCER_START), _entry_field(rows, layout.PRODUCER_LENGTH)
    return arrays.bytes_array(rows, starts, lengths, pa.string())


def _id_array(rows: Rows, number: int) -> Any:
    return arrays.fixed_array(pa.int64(), rows.table.entries.ids[number][rows.field(layout.ROW_ENTRY)])


def _event_time(rows: Rows) -> Any:
    times = rows.field(layout.ROW_EVENT_TIME)
    return arrays.fixed_array(pa.int64(), times, times != 0)


_BUILDERS: Final[dict[str, tuple[Any, Callable[[Rows], Any]]]] = {
    "value": (pa.binary(), lambda rows: arrays.value_array(rows)),
    "key": (pa.binary(), arrays.key_array),
    "properties": (arrays.PROPERTIES, arrays.properties_array),
    "publish_time": (pa.int64(), lambda r: arrays.fixed_array(pa.int64(), _entry_field(r, layout.PUBLISH_TIME))),
    "event_time": (pa.int64(), _event_time),
    "sequence_id": (pa.int64(), lambda r: arrays.fixed_array(pa.int64(), r.field(layout.ROW_SEQUENCE_ID))),
    "producer_name": (pa.string(), _producer_name),
    "batch_index": (
        pa.int32(),
        lambda r: arrays.fixed_array(pa.int32(), r.field(layout.ROW_BATCH_INDEX).astype(np.int32)),
    ),
    "ledger_id": (pa.int64(), lambda r: _id_array(r, 0)),
    "entry_id": (pa.int64(), lambda r: _id_array(r, 1)),
    "partition": (pa.int32(), lambda r: _id_array(r, 2).cast(pa.int32())),
    "message_id": (pa.binary(), arrays.message_id_array),
}

ALL_COLUMNS: Final = tuple(_BUILDERS)
"""Names of the columns of ``decode_entries``, in their order."""


def decode_entries(entries: Entries | EntryTable | Iterable[EntrySlice], wanted: Collection[str] = ALL_COLUMNS) -> Any:
    """All wanted messages of all entries, in order, as one RecordBatch; the caller bounds how many entries it passes.

    | column | type | remarks |
    | --- | --- | --- |
    | value | binary | null where null_value is set |
    | key | binary | UTF-8 of a text key, decoded base64 of a binary one; null without key, empty for an empty key |
    | properties | map<string, string> | empty without any; of equal keys the last counts; invalid UTF-8 is replaced |
    | publish_time, event_time | int64 | milliseconds since 1970; event time null when 0 or absent |
    | sequence_id | int64 | of the message, else of its entry |
    | producer_name | string | |
    | batch_index | int32 | -1 outside a batch |
    | ledger_id, entry_id | int64 | |
    | partition | int32 | as given with the entry |
    | message_id | binary | MessageIdData as official clients serialise it |

    Columns that are not wanted cost nothing. Properties are checked only when they are wanted.

    :param wanted: names out of ``ALL_COLUMNS``; the result has them in that order
    :raises MalformedBatch: an entry's bytes are not what they should be; the text names the entry
    :raises EncryptedEntry: an entry is encrypted
    :raises UnassembledChunk: an entry is a chunk
    :raises ValueError: an unknown column is wanted
    """
    if unknown := set(wanted) - set(ALL_COLUMNS):
        raise ValueError(f"unknown columns {sorted(unknown)}; there are {', '.join(ALL_COLUMNS)}")
    rows = read_rows(table_of(entries))
    names = [name for name in ALL_COLUMNS if name in wanted]
    schema = pa.schema([(name, _BUILDERS[name][0]) for name in names])
    columns = [_BUILDERS[name][1](rows) for name in names]
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def record_batches(
    entries: Entries | EntryTable | Iterable[EntrySlice],
    topic: str,
    columns: Sequence[str] | None = None,
    **options: Any,
) -> Iterator[Any]:
    """The messages of entries as record batches: ``RecordDecoder``, with its options, for one use."""
    return RecordDecoder(topic, columns, **options).batches(entries)
