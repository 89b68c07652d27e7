"""Rows chosen by their keys, before anything of the others is copied."""

from __future__ import annotations

import struct
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.model.errors import MalformedBatch
from spark_pulsar.wire.columns.entries import EntrySlice
from spark_pulsar.wire.columns.key_set import KeySet
from spark_pulsar.wire.columns.records import RecordDecoder
from spark_pulsar.wire.pulsar_api_pb2 import SingleMessageMetadata
from tests.unit.wire.columns.test_entries import BATCH, entry

KEYS = [None, "", "a", "é", "YQ==", "b"]


def batch(messages: list[tuple[str | None, bool]]) -> EntrySlice:
    """A batch of messages with these keys, base64 or not; values say both."""
    payload = b""
    for key, is_base64 in messages:
        value = f"{key}{'!' if is_base64 else ''}".encode()
        meta = SingleMessageMetadata(payload_size=len(value))
        if key is not None:
            meta.partition_key = key
            meta.partition_key_b64_encoded = is_base64
        head = meta.SerializeToString()
        payload += struct.pack(">I", len(head)) + head + value
    return EntrySlice(entry(payload, num_messages_in_batch=len(messages)), 1, 0)


def chosen(entries: list[EntrySlice], texts: set[str], encoded: set[str], max_rows: int = 10_000) -> list[str]:
    keys = KeySet({key.encode() for key in texts}, {key.encode() for key in encoded})
    decoder = RecordDecoder("t", ["value"], keys=keys, max_rows=max_rows)
    return [value.decode() for part in decoder.batches(entries) for value in part.column("value").to_pylist()]


def test_a_text_is_no_bytes_and_no_key_is_no_empty_key() -> None:
    # covers READ-23
    one = batch([(key, False) for key in KEYS] + [("YQ==", True), ("", True)])
    assert chosen([one], {"a"}, set()) == ["a"]
    assert chosen([one], {"YQ=="}, set()) == ["YQ=="]
    assert chosen([one], set(), {"YQ=="}) == ["YQ==!"]
    assert chosen([one], {""}, {""}) == ["", "!"]
    assert chosen([one], {"nobody's"}, set()) == []
    assert chosen([EntrySlice(BATCH, 1, 1)], {"a"}, set()) == []


def test_what_is_damaged_is_told_with_other_keys_too() -> None:
    broken = EntrySlice(entry(b"\x00\x00\x00\xff", num_messages_in_batch=1, partition_key="b"), 1, 0)
    try:
        chosen([broken], {"a"}, set())
    except MalformedBatch:
        return
    raise AssertionError("a damaged batch was passed over")


@given(st.integers(0, 2**32), st.sets(st.sampled_from(KEYS[1:])), st.sets(st.sampled_from(["", "YQ==", "Yg=="])))
def test_rows_stay_in_order_across_entries(seed: int, texts: set[str], encoded: set[str]) -> None:
    rng = Random(seed)
    messages = [
        [(key, key in ("", "YQ==") and rng.random() < 0.5) for key in rng.choices(KEYS, k=rng.randrange(1, 8))]
        for _ in range(rng.randrange(1, 6))
    ]
    expected = [
        f"{key}{'!' if is_base64 else ''}"
        for one in messages
        for key, is_base64 in one
        if key in (encoded if is_base64 else texts)
    ]
    assert chosen([batch(one) for one in messages], texts, encoded, max_rows=rng.choice([1, 3, 100])) == expected
