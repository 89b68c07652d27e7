"""Whatever the bytes, the kernels read what protobuf reads, or both refuse."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.wire.columns.entries import EntrySlice, inspect_entries
from spark_pulsar.wire.columns.kernels.compiler import COMPILED
from tests.unit.wire.columns import forge, oracle
from tests.unit.wire.columns.decode import decode_entries, record_batches

FUZZ = settings(max_examples=700 if COMPILED else 150, derandomize=True, deadline=None)
QUICK = settings(FUZZ, max_examples=200 if COMPILED else 150)
"""More examples of these reach no branch of a kernel that the two tests with many do not reach."""
RANDOM = st.randoms(use_true_random=True)


def some_entries(rng: Random) -> list[EntrySlice]:
    return [forge.entry_slice(rng, forge.entry(rng)) for _ in range(rng.randrange(4))]


def damaged_entry(rng: Random) -> EntrySlice:
    return forge.entry_slice(rng, forge.damaged(rng, forge.entry(rng)))


def read_by_oracle(entries: list[EntrySlice]) -> list[dict[str, Any]] | None:
    try:
        return [row for entry in entries for row in oracle.rows_of(entry)]
    except oracle.Refused:
        return None


def read_by_kernels(entries: list[EntrySlice]) -> list[dict[str, Any]] | None:
    try:
        batch = decode_entries(entries)
    except CorruptMessage:
        return None
    batch.validate(full=True)
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


@FUZZ
@given(RANDOM)
def test_valid_entries_read_as_protobuf_reads_them(rng: Random) -> None:
    entries = some_entries(rng)
    assert read_by_kernels(entries) == read_by_oracle(entries), entries


@FUZZ
@given(RANDOM)
def test_damaged_entries_read_alike_or_are_refused_by_both(rng: Random) -> None:
    entry = damaged_entry(rng)
    seen, expected = read_by_kernels([entry]), read_by_oracle([entry])
    if seen is None and expected is not None:
        assert oracle.anywhere_a_group(entry) or too_many_messages(entry), entry
    else:
        assert seen == expected, entry


def too_many_messages(entry: EntrySlice) -> bool:
    """A count that the payload cannot hold is refused at once, also where the bounds leave those messages out."""
    head, payload = oracle.split_entry(bytes(entry.data))
    return bool(oracle.parse(oracle.MessageMetadata, head).num_messages_in_batch * 6 > len(payload))


@QUICK
@given(st.lists(st.binary(max_size=60), max_size=3))
def test_noise_is_read_alike_or_refused(noise: list[bytes]) -> None:
    entries = [EntrySlice(data, 1, i) for i, data in enumerate(noise)]
    seen, expected = read_by_kernels(entries), read_by_oracle(entries)
    assert seen is None or seen == expected


@QUICK
@given(RANDOM)
def test_record_batches_hold_the_same_rows_however_they_are_cut(rng: Random) -> None:
    entries, max_rows, max_bytes = some_entries(rng), rng.randrange(1, 5), rng.randrange(1, 400)
    expected = read_by_oracle(entries)
    if expected is None:
        with pytest.raises(CorruptMessage):
            list(record_batches(entries, "t", max_rows=max_rows, max_bytes=max_bytes))
        return
    seen = []
    for batch in record_batches(entries, "t", max_rows=max_rows, max_bytes=max_bytes):
        batch.validate(full=True)
        assert 0 < batch.num_rows <= max_rows
        seen += batch.to_pylist()
    assert [(row["value"], row["__key"], row["__messageId"], row["__messageProperties"]) for row in seen] == [
        (row["value"], row["key"], row["message_id"], row["properties"]) for row in expected
    ], entries


@QUICK
@given(RANDOM)
def test_one_column_alone_is_the_same_column(rng: Random) -> None:
    entry = damaged_entry(rng)
    name = rng.choice(["value", "key", "batch_index", "message_id", "sequence_id"])
    whole = read_by_kernels([entry])
    if whole is not None:
        assert decode_entries([entry], [name]).to_pylist() == [{name: row[name]} for row in whole]


@QUICK
@given(RANDOM)
def test_counts_are_those_of_all_messages(rng: Random) -> None:
    entries = some_entries(rng)
    expected = []
    for entry in entries:
        metadata = oracle.parse(oracle.MessageMetadata, oracle.split_entry(bytes(entry.data))[0])
        is_batch = metadata.HasField("num_messages_in_batch")
        expected.append(0 if metadata.HasField("marker_type") else metadata.num_messages_in_batch if is_batch else 1)
    assert inspect_entries(entries).message_counts.tolist() == expected
