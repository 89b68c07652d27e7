"""Entries of a table after decryption: other payloads, none, or the stored one."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest

from spark_pulsar.wire.columns.entries import (
    EncryptedEntry,
    EntrySlice,
    EntryTable,
    as_stored,
    inspect_entries,
    with_payloads,
    without_entries,
)
from spark_pulsar.wire.columns.records import RecordDecoder
from spark_pulsar.wire.pulsar_api_pb2 import ZLIB
from tests.unit.wire.columns.test_entries import BATCH, HELLO, entry

KEYS: dict[str, Any] = {"encryption_keys": [{"key": "a", "value": b"sealed"}], "encryption_param": b"nonce"}
ITEMS = b"".join(b"\0\0\0\x04\x18\x02\x40" + bytes([number]) + b"m%d" % number for number in range(3))
PACKED = zlib.compress(ITEMS)
SLICES = [
    EntrySlice(HELLO, 5, 0),
    EntrySlice(entry(b"?" * 99, num_messages_in_batch=3, **KEYS), 5, 1),
    EntrySlice(BATCH, 5, 2),
    EntrySlice(entry(b"!", partition_key="k", **KEYS), 5, 3),
    EntrySlice(
        entry(b"#" * 99, num_messages_in_batch=3, compression=ZLIB, uncompressed_size=len(ITEMS), **KEYS),
        5, 4, first_index=1, stop_index=2,
    ),
]  # fmt: skip
M = [b"m0", b"m1", b"m2"]


def values(table: EntryTable) -> list[bytes | None]:
    """The column of all rows, in groups of any size."""
    found: list[list[bytes | None]] = []
    for most in (1, 2, 10_000):
        batches = RecordDecoder("t", ["value"], max_rows=most).batches(table)
        found.append([value for batch in batches for value in batch.column("value").to_pylist()])
    assert found[0] == found[1] == found[2]
    return found[0]


def test_decrypted_payloads_are_read_in_their_places() -> None:
    # covers READ-13
    table = inspect_entries(SLICES)
    assert table.is_encrypted.tolist() == [False, True, False, True, True]
    opened = with_payloads(table, [1, 3, 4], [ITEMS, b"one", PACKED])
    assert values(opened) == [b"hello", *M, *M, b"one", b"m1"]
    assert not opened.is_encrypted.any()
    assert values(opened.part(2, 5)) == [*M, b"one", b"m1"]
    with pytest.raises(EncryptedEntry):
        values(with_payloads(table, [1], [ITEMS]))


def test_entries_that_stay_closed_are_left_out_or_read_as_they_are() -> None:
    # covers READ-14
    table = with_payloads(inspect_entries(SLICES), [3], [b"one"])
    assert values(without_entries(table, [1, 4])) == [b"hello", *M, b"one"]
    stored = as_stored(table, [1, 4])
    assert values(stored) == [b"hello", b"?" * 99, *M, b"one"]  # the last was read where its batch begins
    (batch,) = RecordDecoder("t", ["__batchIndex", "__encryptionContext"]).batches(stored)
    indexes, contexts = (batch.column(name).to_pylist() for name in batch.schema.names)
    assert indexes == [None, None, 0, 1, 2, None]
    assert [context is None for context in contexts] == [True, False, True, True, True, False]
    assert json.loads(contexts[1]) == {
        "keys": {"a": {"keyValue": "c2VhbGVk", "metadata": {}}},
        "param": "bm9uY2U=",
        "algorithm": None,
        "compressionType": "NONE",
        "uncompressedMessageSize": 0,
        "batchSize": 3,
    }
