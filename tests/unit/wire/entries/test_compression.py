"""The four codecs: bytes as official clients write them, and bounded, exact decompression."""

import random
import subprocess
import sys
import zlib

import pytest

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.wire.entries.compression import compress, decompress
from spark_pulsar.wire.pulsar_api_pb2 import LZ4, NONE, SNAPPY, ZLIB, ZSTD, CompressionType
from tests.cases import cases

HELLO = b"hello hello hello hello"
CODECS = [LZ4, ZLIB, ZSTD, SNAPPY]
# From the official Python client
SAMPLES = {
    LZ4: "6868656c6c6f2006005068656c6c6f",
    ZLIB: "789ccb48cdc9c957c8402701680308b1",
    ZSTD: "28b52ffd20176500003068656c6c6f200100994b11",
    SNAPPY: "171468656c6c6f20420600",
}


@pytest.fixture(params=CODECS, ids=[CompressionType.Name(codec) for codec in CODECS])
def codec(request: pytest.FixtureRequest) -> CompressionType.ValueType:
    return request.param


def test_bytes_of_the_official_client(codec: CompressionType.ValueType) -> None:
    sample = bytes.fromhex(SAMPLES[codec])
    assert decompress(codec, sample, len(HELLO)) == HELLO
    if codec == ZLIB:  # deflate leaves the encoder free
        assert zlib.decompress(compress(codec, HELLO)) == HELLO
    else:
        assert compress(codec, HELLO) == sample


PAYLOADS = {
    "empty": b"",
    "one": b"x",
    "zeros": bytes(200_000),
    "incompressible": random.Random(1).randbytes(100_000),
    "text": b"the quick brown fox " * 5000,
}


@cases("payload", PAYLOADS.values())
def test_there_and_back_with_the_exact_size_alone(codec: CompressionType.ValueType, payload: bytes) -> None:
    compressed = compress(codec, payload)
    assert decompress(codec, compress(codec, memoryview(payload)), len(payload)) == payload
    assert decompress(codec, memoryview(compressed), len(payload)) == payload
    for wrong in (-1, 1, 1000):
        with pytest.raises(CorruptMessage):
            decompress(codec, compressed, len(payload) + wrong)


def test_the_limit_holds_before_anything_is_allocated(codec: CompressionType.ValueType) -> None:
    compressed = compress(codec, bytes(1001))
    assert decompress(codec, compressed, 1001, limit_bytes=1001) == bytes(1001)
    with pytest.raises(CorruptMessage, match="outside"):
        decompress(codec, compressed, 1001, limit_bytes=1000)
    with pytest.raises(CorruptMessage, match="outside"):
        decompress(codec, compressed, 2**32 - 1)


@pytest.mark.parametrize("codec_of_block", [LZ4, SNAPPY])
def test_a_block_that_cannot_grow_so_much_is_refused_at_once(codec_of_block: CompressionType.ValueType) -> None:
    with pytest.raises(CorruptMessage, match="cannot become"):
        decompress(codec_of_block, b"\x00" * 10, 400_000_000)


def test_an_empty_payload_is_empty(codec: CompressionType.ValueType) -> None:
    with pytest.raises(CorruptMessage):
        decompress(codec, compress(codec, HELLO), 0)
    with pytest.raises(CorruptMessage):
        decompress(codec, compress(codec, b"") + b"\x00", 0)


def test_every_cut_and_every_tail_is_refused(codec: CompressionType.ValueType) -> None:
    compressed = compress(codec, HELLO * 20)
    for end in range(len(compressed)):
        with pytest.raises(CorruptMessage):
            decompress(codec, compressed[:end], len(HELLO) * 20)
    with pytest.raises(CorruptMessage):
        decompress(codec, compressed + b"tail", len(HELLO) * 20)


def test_no_codec() -> None:
    assert compress(NONE, memoryview(HELLO)) == decompress(NONE, memoryview(HELLO), 0) == HELLO


def test_a_codec_of_the_future() -> None:
    with pytest.raises(CorruptMessage, match="not known"):
        decompress(5, HELLO, 10)  # type: ignore[arg-type]


def test_importing_it_loads_no_codec() -> None:
    program = (
        "import sys, spark_pulsar.wire.entries.compression\n"
        "sys.exit('pyarrow' in sys.modules or 'cramjam' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_arrow_is_not_needed(codec: CompressionType.ValueType) -> None:
    program = (
        "import sys; sys.modules.update(pyarrow=None, numpy=None)\n"
        "from spark_pulsar.wire.entries.compression import compress, decompress\n"
        f"assert decompress({codec}, compress({codec}, {HELLO!r}), {len(HELLO)}) == {HELLO!r}"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
