"""Entries, codecs and chunks: there and back on any input, one typed error on any damage."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.wire.entries import entry_bytes
from spark_pulsar.wire.entries.chunks import ChunkAssembler, split
from spark_pulsar.wire.entries.compression import compress, decompress
from spark_pulsar.wire.entries.entry_bytes import Checksum
from spark_pulsar.wire.pulsar_api_pb2 import LZ4, SNAPPY, ZLIB, ZSTD, CompressionType, MessageMetadata
from tests.entry_commands import build_broker_metadata

QUICK = settings(max_examples=150, deadline=None, derandomize=True)
U64 = st.integers(0, 2**64 - 1)


@st.composite
def metadata(draw: st.DrawFn) -> MessageMetadata:
    made = MessageMetadata(producer_name=draw(st.text(max_size=8)), sequence_id=draw(U64), publish_time=draw(U64))
    for key, value in draw(st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=3)).items():
        made.properties.add(key=key, value=value)
    if draw(st.booleans()):
        made.num_messages_in_batch = draw(st.integers(-(2**31), 2**31 - 1))
    if draw(st.booleans()):
        made.partition_key = draw(st.text(max_size=200))
    if draw(st.booleans()):
        made.ordering_key = draw(st.binary(max_size=10))
    if draw(st.booleans()):
        made.event_time = draw(U64)
    return made


@QUICK
@given(metadata(), st.binary(max_size=300), st.booleans(), st.booleans())
def test_there_and_back(of: MessageMetadata, payload: bytes, with_checksum: bool, with_front: bool) -> None:
    stored = entry_bytes.build_entry(of, payload, with_checksum)
    front = build_broker_metadata(5, 7) if with_front else b""
    entry = entry_bytes.parse_entry(front + stored)
    assert entry.metadata == of
    assert bytes(entry.payload) == payload
    assert entry.checksum is (Checksum.OK if with_checksum else Checksum.ABSENT)
    assert (entry.broker_metadata is not None) == with_front
    assert entry_bytes.metadata_of(stored, 0, len(stored)) == of
    assert entry_bytes.publish_time_of(stored, 0, len(stored)) == of.publish_time


@QUICK
@given(
    metadata(),
    st.binary(max_size=50),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4),
    st.integers(0, 30),
)
def test_damage_is_seen_or_typed(
    of: MessageMetadata, payload: bytes, damage: list[tuple[int, int]], missing: int
) -> None:
    whole = entry_bytes.build_entry(of, payload)
    stored = bytearray(whole)
    for at, value in damage:
        stored[at % len(stored)] = value
    received = bytes(stored[: len(stored) - missing])
    try:
        entry = entry_bytes.parse_entry(received)
    except CorruptMessage:
        pass
    else:
        assert received == whole or entry.checksum is not Checksum.OK
    with suppress(CorruptMessage):
        entry_bytes.publish_time_of(received, 0, len(received))


@QUICK
@given(st.sampled_from([LZ4, ZLIB, ZSTD, SNAPPY]), st.binary(max_size=2000), st.integers(1, 20))
def test_codecs_there_and_back(codec: CompressionType.ValueType, seed: bytes, times: int) -> None:
    payload = seed * times
    assert decompress(codec, compress(codec, payload), len(payload)) == payload


@QUICK
@given(st.sampled_from([LZ4, ZLIB, ZSTD, SNAPPY]), st.binary(max_size=200), st.integers(-2, 100_000))
def test_any_bytes_as_a_compressed_payload(codec: CompressionType.ValueType, data: bytes, size: int) -> None:
    with suppress(CorruptMessage):
        assert len(decompress(codec, data, size)) == size


@QUICK
@given(st.lists(st.integers(1, 500), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_interleaved_chunks_come_together(sizes: list[int], random: object) -> None:
    queues = []
    for number, size in enumerate(sizes):
        of = MessageMetadata(producer_name=f"p{number}", sequence_id=number, publish_time=1)
        queues.append(list(split(of, bytes([number]) * size, 60)))
    assembler: ChunkAssembler[tuple[int, int]] = ChunkAssembler()
    found: dict[str, bytes] = {}
    while any(queues):
        number = random.choice([index for index, queue in enumerate(queues) if queue])  # type: ignore[attr-defined]
        of, piece = queues[number].pop(0)
        if not of.HasField("uuid"):
            found[of.producer_name] = bytes(piece)
            continue
        done = assembler.add(of, piece, (number, of.chunk_id))
        if done is not None:
            found[of.producer_name] = done.payload
            assert done.positions == [(number, at) for at in range(of.num_chunks_from_msg)]
    assert found == {f"p{number}": bytes([number]) * size for number, size in enumerate(sizes)}
    assert (len(assembler), assembler.pending_bytes, assembler.pop_lost()) == (0, 0, [])
