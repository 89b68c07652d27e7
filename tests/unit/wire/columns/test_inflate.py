"""The four codecs, byte-exact, and sizes that are not true."""

import zlib

import numpy as np
import pyarrow as pa
import pytest

from spark_pulsar.model.errors import CorruptMessage, MalformedBatch
from spark_pulsar.model.limits import MAX_DECOMPRESSED_SIZE_BYTES
from spark_pulsar.wire.columns.entries import EntrySlice
from spark_pulsar.wire.columns.rows import inflate
from spark_pulsar.wire.pulsar_api_pb2 import LZ4, SNAPPY, ZLIB, ZSTD
from tests.cases import cases
from tests.unit.wire.columns.decode import decode_entries
from tests.unit.wire.columns.test_entries import entry
from tests.unit.wire.entries import test_compression as samples
from tests.unit.wire.entries.test_compression import HELLO

SAMPLES = {codec: bytes.fromhex(text) for codec, text in samples.SAMPLES.items()}
CODECS = list(SAMPLES)


def compressed(codec: int, data: bytes) -> bytes:
    if codec == ZLIB:
        return zlib.compress(data)
    name = {LZ4: "lz4_raw", ZSTD: "zstd", SNAPPY: "snappy"}[codec]
    packed: bytes = pa.Codec(name).compress(data, asbytes=True)
    return packed


def unpacked(codec: int, data: bytes, size: int) -> bytes:
    return bytes(inflate(codec, memoryview(data), size))


@pytest.mark.parametrize("codec", CODECS)
def test_samples_of_the_official_client(codec: int) -> None:
    assert unpacked(codec, SAMPLES[codec], len(HELLO)) == HELLO


@cases("codec", CODECS)
@cases("size", [0, 1, 22, 24, 40, 1_000_000])
def test_another_size_than_the_true_one_is_refused(codec: int, size: int) -> None:
    with pytest.raises(CorruptMessage):
        unpacked(codec, SAMPLES[codec], size)


@pytest.mark.parametrize("codec", CODECS)
def test_damage_is_refused_or_gives_exactly_the_declared_size(codec: int) -> None:
    sample = SAMPLES[codec]
    for at in range(len(sample)):
        for bit in range(8):
            spoilt = bytearray(sample)
            spoilt[at] ^= 1 << bit
            try:
                assert len(unpacked(codec, bytes(spoilt), len(HELLO))) == len(HELLO)
            except CorruptMessage:
                continue
    for end in range(len(sample)):
        with pytest.raises(CorruptMessage):
            unpacked(codec, sample[:end], len(HELLO))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"", b"a", bytes(100_000), np.random.default_rng(1).bytes(70_000)])
def test_empty_small_large_and_incompressible_data(codec: int, data: bytes) -> None:
    assert unpacked(codec, compressed(codec, data), len(data)) == data


def test_a_bomb_costs_no_more_than_its_declared_size() -> None:
    bomb = zlib.compress(bytes(50_000_000))
    with pytest.raises(CorruptMessage):
        unpacked(ZLIB, bomb, 1000)
    with pytest.raises(CorruptMessage, match=str(MAX_DECOMPRESSED_SIZE_BYTES)):
        unpacked(ZLIB, bomb, MAX_DECOMPRESSED_SIZE_BYTES + 1)


@pytest.mark.parametrize("codec", CODECS)
def test_no_bytes_at_all_are_no_block(codec: int) -> None:
    with pytest.raises(CorruptMessage):
        unpacked(codec, b"", 0)


def test_unknown_codecs_are_refused() -> None:
    with pytest.raises(CorruptMessage, match="9"):
        unpacked(9, b"x", 1)


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_batches_and_single_messages_decode_among_plain_ones(codec: int) -> None:
    items = b"\0\0\0\x05\x12\x01k\x18\x02hi" * 3
    packed = compressed(codec, items)
    slices = [
        EntrySlice(entry(items, num_messages_in_batch=3), 1, 0),
        EntrySlice(entry(packed, num_messages_in_batch=3, compression=codec, uncompressed_size=len(items)), 1, 1),
        EntrySlice(entry(SAMPLES[codec], compression=codec, uncompressed_size=23, partition_key="x"), 1, 2),
        EntrySlice(entry(b"plain", partition_key="y"), 1, 3),
    ]
    batch = decode_entries(slices, ["value", "key", "entry_id"])
    assert batch.column("value").to_pylist() == [b"hi"] * 6 + [HELLO, b"plain"]
    assert batch.column("key").to_pylist() == [b"k"] * 6 + [b"x", b"y"]
    assert batch.column("entry_id").to_pylist() == [0, 0, 0, 1, 1, 1, 2, 3]


def test_a_batch_that_does_not_unpack_is_named() -> None:
    lying = entry(SAMPLES[LZ4], compression=LZ4, uncompressed_size=24)
    with pytest.raises(MalformedBatch, match=r"3:4 .*24 bytes"):
        decode_entries([EntrySlice(lying, 3, 4)])
