"""Entry tables after decryption: some payloads replaced, some entries left out, some taken as they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spark_pulsar.wire.columns.entries import EntryTable, Kind
from spark_pulsar.wire.columns.kernels import layout


def with_payloads(table: EntryTable, places: Sequence[int], payloads: Sequence[bytes]) -> EntryTable:
    """Returns the table with other payloads, not encrypted, for the entries at ``places``; they stand behind the bytes
    that are there."""
    if not places:
        return table
    entries, fields = table.entries, table.fields.copy()
    sizes = np.fromiter(map(len, payloads), np.int64, len(payloads))
    at = np.asarray(places, np.int64)
    fields[layout.PAYLOAD_START, at] = len(entries.data) + np.cumsum(sizes) - sizes
    fields[layout.PAYLOAD_LENGTH, at] = sizes
    fields[layout.ENCRYPTION_KEYS, at] *= -1
    data = np.frombuffer(b"".join((entries.data.data, *payloads)), np.uint8)
    return EntryTable(entries.over_bytes(data), fields)


def without_entries(table: EntryTable, places: Sequence[int]) -> EntryTable:
    """Returns the table in which the entries at ``places`` have no message."""
    fields = table.fields.copy()
    at = np.asarray(places, np.int64)
    fields[layout.KIND, at] = Kind.MARKER
    fields[layout.COUNT, at] = 0
    return EntryTable(table.entries, fields)


def as_stored(table: EntryTable, places: Sequence[int]) -> EntryTable:
    """Returns the table in which each entry at ``places`` is one message with the stored payload as its value."""
    fields = table.fields.copy()
    at = np.asarray(places, np.int64)
    for field, value in (
        (layout.KIND, Kind.SINGLE),
        (layout.COUNT, 1),
        (layout.COMPRESSION, 0),
    ):
        fields[field, at] = value
    fields[layout.ENCRYPTION_KEYS, at] *= -1
    return EntryTable(table.entries, fields)
