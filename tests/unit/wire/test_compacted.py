"""Batches as compaction reads and cuts them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.wire.compacted import NO_BATCH, items_of, last_index_left, repack_batch
from spark_pulsar.wire.entries import Checksum, parse_entry
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata, SingleMessageMetadata

SINGLE = st.builds(
    lambda key, size, more: (key, size, more),
    st.one_of(st.none(), st.text(max_size=6), st.text(min_size=120, max_size=140)),
    st.sampled_from((0, 1, 127, 128, 300, 16_383, 16_384, 20_000)),
    st.sampled_from(({}, {"sequence_id": 2**63}, {"event_time": 5, "null_value": True}, {"compacted_out": True})),
)


def encoded(singles: list[SingleMessageMetadata]) -> tuple[MessageMetadata, bytes]:
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=2, num_messages_in_batch=len(singles))
    payload = b""
    for single in singles:
        head = single.SerializeToString()
        payload += len(head).to_bytes(4, "big") + head + bytes(single.payload_size)
    return metadata, payload


@given(st.lists(SINGLE, min_size=1, max_size=5))
def test_items_are_what_protobuf_reads(drawn: list[tuple[str | None, int, dict[str, object]]]) -> None:
    singles = [SingleMessageMetadata(partition_key=key, payload_size=size, **more) for key, size, more in drawn]  # type: ignore[arg-type]
    metadata, payload = encoded(singles)
    items = list(items_of(metadata, payload))
    expected = [(key, size == 0, bool(more.get("compacted_out"))) for key, size, more in drawn]
    assert [item[:3] for item in items] == expected
    assert b"".join(item.data for item in items) == payload


@given(st.binary(max_size=60), st.integers(0, 4))
def test_any_bytes_are_read_or_refused(payload: bytes, count: int) -> None:
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=2, num_messages_in_batch=count)
    try:
        items = list(items_of(metadata, payload))
    except CorruptMessage:
        return
    assert len(items) == count


def test_what_is_cut_keeps_its_index() -> None:
    singles = [SingleMessageMetadata(partition_key=key, payload_size=2) for key in "abc"]
    metadata, payload = encoded(singles)
    entry = repack_batch(metadata, list(items_of(metadata, payload)), {1})
    parsed = parse_entry(entry)
    assert parsed.checksum is Checksum.OK
    assert parsed.metadata.uncompressed_size == len(parsed.payload)
    items = list(items_of(parsed.metadata, parsed.payload))
    assert [(item.key, item.is_taken_out) for item in items] == [(None, True), ("b", False), (None, True)]
    assert last_index_left(entry, 0, len(entry)) == 1
    nothing = repack_batch(parsed.metadata, items, set())
    assert last_index_left(nothing, 0, len(nothing)) == NO_BATCH


def test_a_batch_that_ends_too_early() -> None:
    metadata, payload = encoded([SingleMessageMetadata(partition_key="a", payload_size=20)])
    for size in range(len(payload)):
        with pytest.raises(CorruptMessage):
            list(items_of(metadata, payload[:size]))
