"""Small batches of one producer as a run: their entries, one behind the other, and the SENDs that carry them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

import numpy as np
from crc32c import crc32c

from spark_pulsar.wire.columns.encode import EncodedBatches
from spark_pulsar.wire.columns.entries import ByteArray, IntArray
from spark_pulsar.wire.columns.flat import NO_INTS
from spark_pulsar.wire.columns.kernels import frame_kernels as kernels
from spark_pulsar.wire.columns.kernels import layout
from spark_pulsar.wire.pulsar_api_pb2 import CommandSend, MessageMetadata

_CHECKSUM: Final = Struct(">I")
_CHECKSUM_AT: Final = 2
_CHECKED_FROM: Final = 6


@dataclass(frozen=True, slots=True, eq=False)
class RunMetadata:
    """Metadata that the entries of a run share, but for the schema version of each."""

    producer_name: str
    publish_time_ms: int
    schema_versions: Sequence[bytes]
    """Versions by number; empty: none."""
    row_versions: IntArray
    """Number of the version of each row; empty: all have the first."""
    transaction: tuple[int, int] | None = None
    """Most and least bits."""


@dataclass(frozen=True, slots=True, eq=False)
class EntryRun:
    """Entries of consecutive batches. The bytes do not change any more."""

    entries: list[memoryview]
    first_sequence_ids: IntArray
    last_sequence_ids: IntArray
    message_counts: IntArray
    _bytes: ByteArray
    _bounds: IntArray

    def sends(self, producer_id: int, transaction: tuple[int, int] | None) -> memoryview:
        """Returns the SENDs of all entries, for a producer."""
        fields = _fields(CommandSend, transaction)
        size = len(self._bytes) + len(self.entries) * (kernels.MOST_SEND_BYTES + len(fields))
        frames = np.empty(size, np.uint8)
        ids, counts = (self.first_sequence_ids, self.last_sequence_ids), self.message_counts
        used = kernels.write_sends(self._bytes, self._bounds, *ids, counts, producer_id, fields, frames)
        return frames[:used].data


def entry_run(
    batches: EncodedBatches, first: int, stop: int, metadata: RunMetadata, *, are_single: bool = False
) -> EntryRun | None:
    """Returns the entries of the batches from `first` to `stop`, neither compressed nor encrypted: batches, or single
    messages of one row each. None where a key or property is no text, of which `describe` makes some."""
    columns, table = batches.columns, batches.table[:, first:stop]
    places, lasts = table[layout.BATCH_FIRST], table[layout.BATCH_STOP] - 1
    rows = batches.groups.rows[places]
    keys, ordering_keys = columns.keys, columns.ordering_keys
    name = np.frombuffer(MessageMetadata(producer_name=metadata.producer_name).SerializePartialToString(), np.uint8)
    fields = [_version_field(version) for version in metadata.schema_versions] or [b""]
    version_bounds = np.cumsum([0, *map(len, fields)])
    tail = _fields(MessageMetadata, metadata.transaction)
    most = kernels.HEAD_BYTES + kernels.MOST_METADATA_BYTES + len(name) + len(tail) + max(map(len, fields))
    size = int((table[layout.BATCH_END] - table[layout.BATCH_START]).sum()) + most * (stop - first)
    for column in (keys, ordering_keys):
        if len(column.offsets):
            size += int((column.offsets[rows + 1] - column.offsets[rows]).sum())
    target, bounds = np.empty(size, np.uint8), np.empty(stop - first + 1, np.int64)
    places_of_rows = batches.table, first, stop, batches.groups.rows, batches.sequence_ids
    of_keys = *keys, int(columns.keys_are_base64), *ordering_keys
    versions = np.frombuffer(b"".join(fields), np.uint8), version_bounds
    row_versions = metadata.row_versions if metadata.schema_versions else NO_INTS
    shared = name, *versions, row_versions, tail, metadata.publish_time_ms, target, bounds
    if are_single:
        bounds_of_properties, property_keys, property_values = columns.properties
        code = kernels.write_single_entries(
            *places_of_rows, *columns.value, *of_keys, bounds_of_properties, property_keys.data, property_keys.offsets,
            property_values.data, property_values.offsets, columns.event_times_ms, columns.deliver_at_times_ms, *shared,
        )  # fmt: skip
    else:
        code = kernels.write_entries(batches.buffer, *places_of_rows, *of_keys, *shared)
    if code < 0:
        return None
    written = target[: bounds[-1]]
    ids = batches.sequence_ids
    return EntryRun(_checked(written, bounds), ids[places], ids[lasts], lasts + 1 - places, written, bounds)


def _checked(written: ByteArray, bounds: IntArray) -> list[memoryview]:
    """Sets the checksums of entries, and returns these."""
    view, pack, entries = written.data, _CHECKSUM.pack_into, []
    for start, end in itertools.pairwise(bounds.tolist()):
        pack(view, start + _CHECKSUM_AT, crc32c(view[start + _CHECKED_FROM : end]))
        entries.append(view[start:end])
    return entries


def _version_field(version: bytes) -> bytes:
    return MessageMetadata(schema_version=version).SerializePartialToString() if version else b""


def _fields(message: Any, transaction: tuple[int, int] | None) -> ByteArray:
    """Returns the fields that name a transaction."""
    if transaction is None:
        return np.zeros(0, np.uint8)
    most, least = transaction
    return np.frombuffer(message(txnid_most_bits=most, txnid_least_bits=least).SerializePartialToString(), np.uint8)
