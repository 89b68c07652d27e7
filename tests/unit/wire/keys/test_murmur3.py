"""Hashes of keys: tables of the official clients (PT-4)."""

import pytest
from crc32c import crc32c

from spark_pulsar.wire.keys import murmur3
from spark_pulsar.wire.keys.murmur3 import MASK
from tests.unit.wire import key_hashes
from tests.unit.wire.key_hashes import BOOST, JAVA_STRING_HASH, MURMUR, partition_of


@pytest.mark.parametrize(("key", "java", "go", "cpp", "partition"), JAVA_STRING_HASH)
def test_java_string_hash(key: str, java: int, go: int, cpp: int, partition: int) -> None:
    assert key_hashes.java_string_hash(key) == java
    assert key_hashes.java_string_hash_go(key) == go
    assert key_hashes.java_string_hash_cpp(key) == cpp
    assert partition_of(java, 4) == partition


def test_java_and_go_part_where_the_sign_bit_is_set() -> None:
    assert partition_of(key_hashes.java_string_hash("polygenelubricants"), 3) == 0
    assert partition_of(key_hashes.java_string_hash_go("polygenelubricants"), 3) == 2


def test_java_hashes_the_two_halves_of_a_surrogate_pair() -> None:
    assert key_hashes.java_string_hash("\U0001f600") == (0xD83D * 31 + 0xDE00) & MASK
    assert key_hashes.java_string_hash("\ud83d") == 0xD83D


@pytest.mark.parametrize(("key", "raw", "masked", "partition", "range_mod", "ring"), MURMUR)
def test_murmur(key: str, raw: int, masked: int, partition: int, range_mod: int, ring: int) -> None:
    found = murmur3.murmur3_32(key.encode())
    assert found == masked == raw & MASK
    assert partition_of(found, 4) == partition
    assert murmur3.range_hash(found) == (range_mod or 1)
    assert murmur3.ring_hash(found) == ring


@pytest.mark.parametrize(("name", "points"), [("c1", [34662, 61273, 23534]), ("c2", [18701, 2959, 61677])])
def test_points_on_the_ring_of_consistent_hashing(name: str, points: list[int]) -> None:
    # 6.5, 4.x: name NUL nameIndex NUL i
    found = [murmur3.ring_hash(murmur3.murmur3_32(f"{name}\x000\x00{i}".encode())) for i in range(3)]
    assert found == points


def test_sticky_hashes_are_never_zero() -> None:
    assert murmur3.range_hash(65536) == murmur3.range_hash(0) == 1
    assert murmur3.range_hash(65535) == murmur3.ring_hash(65534) == 65535
    assert murmur3.ring_hash(65535) == 1


@pytest.mark.parametrize(("key", "whole", "masked", "mod_3", "mod_4", "mod_997"), BOOST)
def test_boost(key: str, whole: int, masked: int, mod_3: int, mod_4: int, mod_997: int) -> None:
    assert key_hashes.boost_hash_64(key.encode()) == whole
    found = key_hashes.boost_hash(key.encode())
    assert found == masked
    assert [partition_of(found, n) for n in (3, 4, 997)] == [mod_3, mod_4, mod_997]


def test_check_value_of_crc32c() -> None:
    # covers PR-12
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0
