"""Every column that a message has, as far as wanted: the kernels seen whole, also where the connector asks for less."""

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


def _field_32(rows: Rows, number: int) -> Any:
    return rows.field(number).astype(np.int32)


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
    "batch_index": (pa.int32(), lambda r: arrays.fixed_array(pa.int32(), _field_32(r, layout.ROW_BATCH_INDEX))),
    "ledger_id": (pa.int64(), lambda r: _id_array(r, 0)),
    "entry_id": (pa.int64(), lambda r: _id_array(r, 1)),
    "partition": (pa.int32(), lambda r: _id_array(r, 2).cast(pa.int32())),
    "message_id": (pa.binary(), arrays.message_id_array),
}

ALL_COLUMNS: Final = tuple(_BUILDERS)
"""Names of the columns of ``decode_entries``, in their order."""


def decode_entries(entries: Entries | EntryTable | Iterable[EntrySlice], wanted: Collection[str] = ALL_COLUMNS) -> Any:
    """All wanted messages of all entries, in order, as one RecordBatch with the wanted columns of `ALL_COLUMNS`.

    A value is null where null_value is set, an event time when it is 0 or absent, a key when there is none; of equal
    properties the last counts. Columns that are not wanted cost nothing.
    """
    rows = read_rows(table_of(entries))
    names = [name for name in ALL_COLUMNS if name in wanted]
    schema = pa.schema([(name, _BUILDERS[name][0]) for name in names])
    return pa.RecordBatch.from_arrays([_BUILDERS[name][1](rows) for name in names], schema=schema)


def record_batches(
    entries: Entries | EntryTable | Iterable[EntrySlice],
    topic: str,
    columns: Sequence[str] | None = None,
    **options: Any,
) -> Iterator[Any]:
    """The messages of entries as record batches: ``RecordDecoder``, with its options, for one use."""
    return RecordDecoder(topic, columns, **options).batches(entries)
