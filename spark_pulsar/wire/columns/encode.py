"""Arrow → batch payloads: rows of each group, in order, cut into batches that are ready to be compressed and sent."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from spark_pulsar.wire.columns.entries import ByteArray, IntArray
from spark_pulsar.wire.columns.flat import (
    NO_BYTES,
    NO_COLUMN,
    NO_INTS,
    NO_PROPERTIES,
    FlatBytes,
    FlatProperties,
    event_times_ms,
    flat_bytes,
    flat_properties,
)
from spark_pulsar.wire.columns.kernels import layout
from spark_pulsar.wire.columns.kernels.content_kernels import content_hashes
from spark_pulsar.wire.columns.kernels.encode_kernels import cut_batches, metadata_sizes, write_batches
from spark_pulsar.wire.columns.key_hashes import RowGroups, TextKeys, one_group

if TYPE_CHECKING:
    from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

DEFAULT_MAX_MESSAGES: Final = 1000
DEFAULT_MAX_BYTES: Final = 128 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class MessageColumns:
    """The columns of messages to be sent, in the form kernels take."""

    value: FlatBytes
    keys: FlatBytes
    keys_are_base64: bool
    ordering_keys: FlatBytes
    properties: FlatProperties
    event_times_ms: IntArray
    """0 = none; an empty array = none at all."""
    deliver_at_times_ms: IntArray
    """0 = none; an empty array = none at all. A message with a delivery time is never in a batch (DEL-1)."""

    def __len__(self) -> int:
        return len(self.value.offsets) - 1

    def describe(self, row: int, metadata: MessageMetadata) -> bytes:
        """Sets what ``metadata`` says of one row that is sent alone, not in a batch; returns its payload.

        This is for the rare row that is too large for a batch (chunks) or is to be delivered later.
        """
        self.describe_key(row, metadata)
        if len(self.properties.bounds):
            first, end = self.properties.bounds[2 * row : 2 * row + 2].tolist()
            for place in range(first, end):
                key, value = self.properties.keys.item(place), self.properties.values.item(place)
                metadata.properties.add(
                    key=(key or b"").decode(errors="replace"), value=(value or b"").decode(errors="replace")
                )
        if len(self.event_times_ms) and self.event_times_ms[row]:
            metadata.event_time = int(self.event_times_ms[row]) & 0xFFFFFFFFFFFFFFFF
        if self.is_delayed(row):
            metadata.deliver_at_time = int(self.deliver_at_times_ms[row])
        payload = self.value.item(row)
        if payload is None:
            metadata.null_value = True
        return payload or b""

    def content_hashes(self) -> IntArray:
        """Returns a hash of each row's content: value, key, ordering key, properties, event time; no delivery time,
        which may come from the clock. It is the same in every process and version."""
        hashes = np.empty(len(self), np.int64)
        value, keys, ordering_keys, properties = self.value, self.keys, self.ordering_keys, self.properties
        content_hashes(
            value.data, value.offsets, value.valid, keys.data, keys.offsets, keys.valid, int(self.keys_are_base64),
            ordering_keys.data, ordering_keys.offsets, ordering_keys.valid, properties.bounds, properties.keys.data,
            properties.keys.offsets, properties.values.data, properties.values.offsets, self.event_times_ms, hashes,
        )  # fmt: skip
        return hashes

    def is_delayed(self, row: int) -> bool:
        """Returns whether one row is to be delivered at a time."""
        return bool(len(self.deliver_at_times_ms) and self.deliver_at_times_ms[row])

    def describe_key(self, row: int, metadata: MessageMetadata) -> None:
        """Sets key and ordering key of one row in ``metadata``."""
        key = self.keys.item(row)
        if key is not None:
            metadata.partition_key = key.decode(errors="replace")
            if self.keys_are_base64:
                metadata.partition_key_b64_encoded = True
        ordering_key = self.ordering_keys.item(row)
        if ordering_key is not None:
            metadata.ordering_key = ordering_key


@dataclass(frozen=True, slots=True, eq=False)
class EncodedBatch:
    """One batch payload and the fields of its MessageMetadata."""

    columns: MessageColumns
    group: int
    """Index of the group (partition) its rows belong to."""
    rows: IntArray
    """Row numbers in the columns, in the order of the messages."""
    first_sequence_id: int
    last_sequence_id: int
    payload: memoryview
    """The batch items, before compression."""

    @property
    def message_count(self) -> int:
        """Number of messages, at least 1."""
        return len(self.rows)

    @property
    def is_delayed(self) -> bool:
        """Returns whether this is one message to be delivered at a time, which is to be sent alone."""
        return self.columns.is_delayed(int(self.rows[0]))

    def describe(self, metadata: MessageMetadata) -> None:
        """Sets the fields of ``metadata`` that depend on the batch: count, sequence ids, keys of the first message.

        Left to the caller: producer_name, publish_time, compression, uncompressed_size (= len(payload)).
        """
        metadata.num_messages_in_batch = self.message_count
        metadata.sequence_id = self.first_sequence_id
        if self.message_count > 1:
            metadata.highest_sequence_id = self.last_sequence_id
        self.columns.describe_key(int(self.rows[0]), metadata)


@dataclass(frozen=True, slots=True, eq=False)
class EncodedBatches:
    """All batches of some columns, group by group; iterating makes one small object per batch."""

    columns: MessageColumns
    groups: RowGroups
    sequence_ids: IntArray
    """Sequence id of each place in the rows of the groups."""
    buffer: ByteArray
    table: IntArray
    """``[BATCH_FIELDS, n]``, rows as in ``kernels.layout``."""

    def __len__(self) -> int:
        return int(self.table.shape[1])

    def __getitem__(self, i: int) -> EncodedBatch:
        group, first, stop, start, end = self.table[:, i].tolist()
        return EncodedBatch(
            columns=self.columns,
            group=group,
            rows=self.groups.rows[first:stop],
            first_sequence_id=int(self.sequence_ids[first]),
            last_sequence_id=int(self.sequence_ids[stop - 1]),
            payload=self.buffer[start:end].data,
        )

    def __iter__(self) -> Iterator[EncodedBatch]:
        return (self[i] for i in range(len(self)))

    def runs(self, *, most_batches: int, most_bytes: int, most_batch_bytes: int) -> Iterator[tuple[int, int]]:
        """Yields the first and the end of runs, of small batches of one group, and of each larger batch by itself.

        :param most_batches: batches of a run at most
        :param most_bytes: bytes of a run's payloads at most
        :param most_batch_bytes: bytes of a small batch's payload at most

        Batches that are delayed and those that are not are never in one run.
        """
        groups, starts, ends = self.table[[layout.BATCH_GROUP, layout.BATCH_START, layout.BATCH_END]]
        is_small = ends - starts <= most_batch_bytes
        may_join = is_small[1:] & is_small[:-1] & (groups[1:] == groups[:-1])
        times = self.columns.deliver_at_times_ms
        if len(times):
            is_delayed = times[self.groups.rows[self.table[layout.BATCH_FIRST]]] != 0
            may_join &= is_delayed[1:] == is_delayed[:-1]
        segment = np.concatenate(([0], np.flatnonzero(~may_join) + 1, [len(self)])).tolist()
        for first, end in itertools.pairwise(segment):
            while first < end:
                stop = min(end, first + most_batches)
                stop = min(stop, max(first + 1, int(np.searchsorted(ends[:stop], starts[first] + most_bytes, "right"))))
                yield first, stop
                first = stop

    def in_turns(self) -> Iterator[EncodedBatch]:
        """Yields the batches with groups in turn: the first of each group, then the second of each, and so on."""
        groups = self.table[layout.BATCH_GROUP]
        turns = np.arange(len(groups)) - np.searchsorted(groups, groups)
        return (self[i] for i in np.lexsort((groups, turns)).tolist())


def message_columns(
    value: Any,
    *,
    keys: TextKeys | None = None,
    ordering_keys: Any = None,
    properties: Any = None,
    event_times: Any = None,
    deliver_at_times: IntArray | None = None,
) -> MessageColumns:
    """Takes Arrow columns of equal length.

    :param value: strings or bytes (plain, large, view, dictionary, sliced, chunked); null = null_value
    :param keys: from ``hashes.text_keys``
    :param ordering_keys: strings or bytes; null = none
    :param properties: map of strings to strings; null = none
    :param event_times: timestamps, or integers in milliseconds; null or 0 = none
    :param deliver_at_times: in milliseconds; 0 = none
    :raises TypeError: a column of another type
    :raises ValueError: columns of different length; a property's value is null
    """
    columns = MessageColumns(
        value=flat_bytes(value),
        keys=NO_COLUMN if keys is None else keys.text,
        keys_are_base64=keys is not None and keys.is_base64,
        ordering_keys=NO_COLUMN if ordering_keys is None else flat_bytes(ordering_keys),
        properties=NO_PROPERTIES if properties is None else flat_properties(properties),
        event_times_ms=NO_INTS if event_times is None else event_times_ms(event_times),
        deliver_at_times_ms=NO_INTS if deliver_at_times is None else deliver_at_times,
    )
    lengths = {
        "keys": None if keys is None else len(keys),
        "ordering_keys": None if ordering_keys is None else len(ordering_keys),
        "properties": None if properties is None else len(properties),
        "event_times": None if event_times is None else len(event_times),
        "deliver_at_times": None if deliver_at_times is None else len(deliver_at_times),
    }
    for name, length in lengths.items():
        if length not in (None, len(columns)):
            raise ValueError(f"{name} has {length} rows, value has {len(columns)}")
    return columns


def encode_batches(
    columns: MessageColumns,
    *,
    groups: RowGroups | None = None,
    first_sequence_ids: Sequence[int] = (),
    cuts: ByteArray = NO_BYTES,
    sequence_ids: IntArray = NO_INTS,
    max_messages: int = DEFAULT_MAX_MESSAGES,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> EncodedBatches:
    """Encodes the rows of each group, in order, into batches. A row with a delivery time is a batch of its own.

    :param groups: rows by partition (``hashes.group_rows``); default: all rows in one group. Rows may be left
        out or repeated
    :param first_sequence_ids: per group, the sequence id of its first row; the next rows count on. Default: 0
    :param cuts: one for each place in the rows of the groups, not 0 where a batch must begin; empty = nowhere
    :param sequence_ids: in place of these, one for each place in the rows of the groups, growing in each group
    :param max_messages: messages of one batch at most
    :param max_bytes: bytes of one batch payload at most; a single row above that becomes a batch of its own, which
        the caller may send as chunks instead (``MessageColumns.describe``)
    :raises ValueError: limits below 1, a row number that does not exist, not one sequence id per group, or not one
        cut per row
    """
    groups = one_group(len(columns)) if groups is None else groups
    if max_messages < 1 or max_bytes < 1:
        raise ValueError("limits of a batch are 1 at least")
    firsts = np.array(first_sequence_ids if len(first_sequence_ids) else [0] * len(groups), np.int64)
    rows, offsets = np.ascontiguousarray(groups.rows, np.int64), np.ascontiguousarray(groups.offsets, np.int64)
    if len(firsts) != len(groups):
        raise ValueError(f"{len(groups)} groups need as many first sequence ids, not {len(firsts)}")
    if len(rows) and not (rows.min() >= 0 and rows.max() < len(columns)):
        raise ValueError("a group names a row that does not exist")
    if offsets[0] != 0 or offsets[-1] != len(rows) or (np.diff(offsets) < 0).any():
        raise ValueError("the offsets of the groups do not divide their rows")
    if len(cuts) not in (0, len(rows)):
        raise ValueError(f"{len(rows)} rows need as many cuts, not {len(cuts)}")
    cuts = _cuts_around_delayed(columns.deliver_at_times_ms, rows, cuts)
    ids = np.ascontiguousarray(sequence_ids, np.int64)
    if not len(ids):
        ids = np.arange(len(rows), dtype=np.int64) + np.repeat(firsts - offsets[:-1], np.diff(offsets))
    if len(ids) != len(rows):
        raise ValueError(f"{len(rows)} rows need as many sequence ids, not {len(ids)}")
    value, keys, ordering_keys, properties = columns.value, columns.keys, columns.ordering_keys, columns.properties
    base64 = int(columns.keys_are_base64)
    sizes = np.empty(len(columns), np.int64)
    metadata_sizes(
        value.offsets, value.valid, keys.offsets, keys.valid, base64, ordering_keys.offsets,
        ordering_keys.valid, properties.bounds, properties.keys.offsets, properties.values.offsets,
        columns.event_times_ms, sizes,
    )  # fmt: skip
    item_sizes, table = np.empty(len(rows), np.int64), np.empty((layout.BATCH_FIELDS, len(rows)), np.int64)
    count, size = cut_batches(
        rows, offsets, ids, value.offsets, value.valid, sizes, cuts, max_messages, max_bytes, item_sizes, table
    )
    buffer = np.empty(size, np.uint8)
    write_batches(
        rows, offsets, ids, item_sizes, value.data, value.offsets, value.valid, keys.data, keys.offsets, keys.valid,
        base64, ordering_keys.data, ordering_keys.offsets, ordering_keys.valid, properties.bounds, properties.keys.data,
        properties.keys.offsets, properties.values.data, properties.values.offsets, columns.event_times_ms, buffer,
    )  # fmt: skip
    return EncodedBatches(columns, groups, ids, buffer, np.ascontiguousarray(table[:, :count]))


def _cuts_around_delayed(deliver_at_times_ms: IntArray, rows: IntArray, cuts: ByteArray) -> ByteArray:
    """Returns the cuts with one before and one after each row that is to be delivered at a time."""
    if not deliver_at_times_ms.any():
        return cuts
    delayed = (deliver_at_times_ms[rows] != 0).astype(np.uint8)
    around: ByteArray = delayed.copy()
    around[1:] |= delayed[:-1]
    if len(cuts):
        around |= cuts
    return around
