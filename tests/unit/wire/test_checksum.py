"""CRC32C and the hash of a topic list."""

from __future__ import annotations

import pytest

from spark_pulsar.wire.checksum import crc32c, crc32c_of, topics_hash


def test_check_value() -> None:
    # wire-protocol 1.2
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0


@pytest.mark.parametrize("size", [0, 1, 9, 100_000])
def test_of_a_part(size: int) -> None:
    data = bytes(range(256)) * 400
    assert crc32c_of(data, 7, 7 + size) == crc32c(data[7 : 7 + size])


def test_topics_hash() -> None:
    # wire-protocol 5.13
    a, b = "persistent://public/default/a", "persistent://public/default/b"
    assert topics_hash([]) == "00000000"
    assert topics_hash([a]) == "e4a876e3"
    assert topics_hash([a, b]) == topics_hash([b, a]) == "c7559e98"
