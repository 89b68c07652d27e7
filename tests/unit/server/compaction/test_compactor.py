"""Compaction of any entries, compared with a model that reads everything by protobuf."""

from typing import Any, NamedTuple

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.broker.turn.effects import CompactTopic
from spark_pulsar.ledger.entries import EntryRun
from spark_pulsar.ledger.state.compaction import SOURCE
from spark_pulsar.server.compaction import compactor as compacting
from spark_pulsar.server.compaction.compactor import Compactor
from spark_pulsar.wire.entries.compression import LZ4, NONE, SNAPPY, ZLIB, ZSTD, compress, decompress
from spark_pulsar.wire.entries.entry_bytes import Checksum, build_entry, parse_entry
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata, SingleMessageMetadata
from tests.entry_runs import run_of

KEYS = st.sampled_from(("a", "b", "c", "d", "ä", "", None))
SIZED = ("a", "ä")
"""Keys of messages outside a batch whose size is told, as the Java client does."""
MESSAGES = st.tuples(KEYS, st.sampled_from((b"", b"v", b"v" * 130)))
OTHERS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    (
        {},
        {"sequence_id": 300},
        {"properties": [{"key": "k", "value": "v"}]},
        {"partition_key_b64_encoded": True, "sequence_id": 1},
        {"null_value": True},
        {"compacted_out": True},
    )
)
BATCHES = st.tuples(
    st.lists(st.tuples(MESSAGES, OTHERS), min_size=1, max_size=6),
    st.sampled_from(sorted((NONE, LZ4, ZLIB, ZSTD, SNAPPY))),
    st.sampled_from(("", "", "", "cut", "encrypted")),
)


class Message(NamedTuple):
    """A message of a batch as the model sees it; `key` None also when it was taken out."""

    key: bytes | None
    is_taken_out: bool
    data: bytes


def single(key: str | None, value: bytes) -> bytes:
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=2)
    if key is not None:
        metadata.partition_key = key
    if key in SIZED:
        metadata.uncompressed_size = len(value)
    return build_entry(metadata, value)


def batch(messages: list[tuple[tuple[str | None, bytes], dict[str, Any]]], codec: Any, damage: str) -> bytes:
    payload = b""
    for (key, value), others in messages:
        value = b"" if others.get("null_value") else value
        head = SingleMessageMetadata(partition_key=key, payload_size=len(value), **others).SerializeToString()
        payload += len(head).to_bytes(4, "big") + head + value
    payload = payload[:-1] if damage == "cut" else payload
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=2, num_messages_in_batch=len(messages))
    metadata.compression, metadata.uncompressed_size = codec, len(payload)
    metadata.properties.add(key="of", value="the batch")
    if damage == "encrypted":
        metadata.encryption_keys.add(key="k", value=b"v")
    return build_entry(metadata, compress(codec, payload))


def messages_of(entry: bytes) -> tuple[list[Message], bool] | None:
    """The messages of a batch in front of the damage, and whether there is any; None when it is not to be opened."""
    parsed = parse_entry(entry)
    metadata = parsed.metadata
    if not metadata.HasField("num_messages_in_batch") or metadata.encryption_keys:
        return None
    payload = decompress(metadata.compression, parsed.payload, metadata.uncompressed_size)
    found: list[Message] = []
    at = 0
    for _ in range(metadata.num_messages_in_batch):
        start = at + 4
        end = start + int.from_bytes(payload[at:start], "big")
        if start > len(payload) or end > len(payload):
            return found, True
        try:
            each = SingleMessageMetadata.FromString(payload[start:end])
        except DecodeError:
            return found, True
        end += each.payload_size
        if end > len(payload) or not each.IsInitialized():
            return found, True
        has_key = each.HasField("partition_key") and not each.compacted_out
        found.append(Message(each.partition_key.encode() if has_key else None, each.compacted_out, payload[at:end]))
        at = end
    return found, False


def is_empty(message: Message) -> bool:
    size = int.from_bytes(message.data[:4], "big")
    return len(message.data) == 4 + size


WHOLE = -1
Contents = dict[int, dict[int, bytes] | bytes]
"""Entries by id: the entry as a whole, or its messages that are left, by index."""


def expected_of(entries: list[bytes], keep_null_keys: bool) -> tuple[Contents, int]:
    """Compacts by the model: the entries that are left, and the number of messages that are not."""
    last: dict[bytes, tuple[int, int] | None] = {}
    kept: set[tuple[int, int]] = set()
    messages = 0
    for entry_id, entry in enumerate(entries):
        metadata = parse_entry(entry).metadata
        opened = messages_of(entry)
        if opened is None:
            messages += max(1, metadata.num_messages_in_batch)
            if metadata.HasField("partition_key"):
                is_tombstone = not parse_entry(entry).payload
                last[metadata.partition_key.encode()] = None if is_tombstone else (entry_id, WHOLE)
            elif keep_null_keys or metadata.encryption_keys:
                kept.add((entry_id, WHOLE))
            continue
        found, is_damaged = opened
        messages += metadata.num_messages_in_batch if is_damaged else sum(not each.is_taken_out for each in found)
        if is_damaged:
            kept.add((entry_id, WHOLE))
        for index, message in enumerate(found):
            if message.key is not None:
                last[message.key] = None if is_empty(message) else (entry_id, index)
            elif keep_null_keys and not message.is_taken_out:
                kept.add((entry_id, index))
    left: Contents = {}
    for entry_id, entry in enumerate(entries):
        indexes = sorted(index for at, index in {*kept, *filter(None, last.values())} if at == entry_id)
        if indexes and indexes[0] == WHOLE:
            left[entry_id] = entry
            messages -= max(1, parse_entry(entry).metadata.num_messages_in_batch)
        elif indexes:
            opened = messages_of(entry)
            assert opened is not None
            left[entry_id] = {index: opened[0][index].data for index in indexes}
            messages -= len(indexes)
    return left, messages


def contents_of(entry: bytes, wanted: dict[int, bytes] | bytes) -> dict[int, bytes] | bytes:
    """Decodes an entry into the form of the model; only one that is whole may be damaged."""
    assert parse_entry(entry).checksum is Checksum.OK
    if isinstance(wanted, bytes):
        return entry
    opened = messages_of(entry)
    assert opened is not None
    assert not opened[1]
    return {index: message.data for index, message in enumerate(opened[0]) if not message.is_taken_out}


def compacted(
    before: list[bytes], entries: list[bytes], keep_null_keys: bool, piece: int
) -> tuple[dict[int, bytes], list[bytes], int]:
    """Entries left by their entry id, the same as they are stored, and how many messages were removed."""

    def read(ledger_id: int, entry_id: int, max_entries: int, max_bytes: int) -> list[EntryRun]:
        wanted = (before if ledger_id == 1 else entries)[entry_id:][:max_entries]
        return [run_of(ledger_id, entry_id + at, wanted[at : at + piece]) for at in range(0, len(wanted), piece)]

    first = len(entries) // 2 if before else 0  # what came before then was compacted before
    spans = ((1, 0, len(before)),) if before else ()
    compactor = Compactor(CompactTopic(1, spans, ((2, first, len(entries)),), keep_null_keys), read)
    stored: list[bytes] = []
    for block in compactor.blocks():
        stored += [block.buffer[start:end] for start, end in zip(block.starts, block.ends, strict=True)]
        assert block.source == SOURCE.unpack_from(block.buffer)
        ledger_id, entry_id, index = block.last
        assert (ledger_id, entry_id) == SOURCE.unpack_from(stored[-1])
        opened = messages_of(stored[-1][SOURCE.size :])
        if opened is not None and not opened[1]:
            assert index == max(at for at, message in enumerate(opened[0]) if not message.is_taken_out)
    return {SOURCE.unpack_from(each)[1]: each[SOURCE.size :] for each in stored}, stored, compactor.removed


@pytest.mark.parametrize("remembered", [range(0), range(1, 1_000)], ids=["read again", "remembered"])
@settings(max_examples=150, deadline=None)
@given(
    drawn=st.lists(st.one_of(MESSAGES, BATCHES, BATCHES), min_size=1, max_size=8),
    keep_null_keys=st.booleans(),
    piece=st.integers(1, 4),
    gathered=st.sampled_from((1, 3, 1_000)),
)
def test_the_last_message_of_each_key_is_left(
    remembered: range, drawn: list[Any], keep_null_keys: bool, piece: int, gathered: int
) -> None:
    # covers CMP-C1, CMP-C2, CMP-C3
    entries = [single(*each) if len(each) == 2 else batch(*each) for each in drawn]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compacting, "_REMEMBERED", remembered)
        patch.setattr(compacting, "_GATHERED_KEYS", gathered)
        patch.setattr(compacting, "_GATHERED_BYTES", 100 * gathered)
        wanted, removed = expected_of(entries, keep_null_keys)
        found, _, number = compacted([], entries, keep_null_keys, piece)
        assert found.keys() == wanted.keys()
        assert {at: contents_of(entry, wanted[at]) for at, entry in found.items()} == wanted
        assert number == removed
        for at, entry in found.items():
            is_cut = parse_entry(entry).payload != parse_entry(entries[at]).payload
            assert is_cut or entry == entries[at], "what is not cut stays as it was"
        _, before, _ = compacted([], entries[: len(entries) // 2], keep_null_keys, piece)
        if before:
            again, _, _ = compacted(before, entries, keep_null_keys, piece)
            assert again.keys() == wanted.keys()
            assert {at: contents_of(entry, wanted[at]) for at, entry in again.items()} == wanted
