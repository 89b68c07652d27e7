"""Hashes of keys: tables of the official clients (PT-4)."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from spark_pulsar.wire.keys import murmur3
from spark_pulsar.wire.keys.murmur3 import MASK
from tests.unit.wire import key_hashes
from tests.unit.wire.key_hashes import partition_of

# 6.2: key, Java, Go, C++, Java mod 4
JAVA_STRING_HASH = [
    ("", 0, 0, 0, 0),
    ("a", 97, 97, 97, 1),
    ("hello", 99162322, 99162322, 99162322, 2),
    ("test", 3556498, 3556498, 3556498, 2),
    ("key-1", 101943363, 101943363, 101943363, 3),
    ("key-2", 101943364, 101943364, 101943364, 0),
    ("order-42", 1234255197, 1234255197, 1234255197, 1),
    ("polygenelubricants", 0, 2147483648, 0, 0),
    ("é", 233, 6214, 2147481670, 1),
    ("日本", 835047, 2434330658, 1303416866, 3),
]

# 6.3: key, raw, masked, mod 4, mod 65536, mod 65535 + 1
MURMUR = [
    ("", 0x00000000, 0, 0, 0, 1),
    ("a", 0x3C2569B2, 1009084850, 2, 27058, 42456),
    ("hello", 0x248BFA47, 613153351, 3, 64071, 7892),
    ("test", 0xBA6BD213, 980144659, 3, 53779, 3200),
    ("key-1", 0x98B115A0, 414258592, 0, 5536, 11858),
    ("key-2", 0xF3F8550C, 1945654540, 0, 21772, 51461),
    ("order-42", 0x4B11A18E, 1259446670, 2, 41358, 60576),
    ("NONE_KEY", 0x9E15BEA3, 504741539, 3, 48803, 56505),
    ("producer-1-0", 0xA79F210F, 664740111, 3, 8463, 18607),
    ("日本", 0xC4D9F942, 1155135810, 2, 63810, 15901),
]

# 6.4: key, 64 bits, masked, mod 3, mod 4, mod 997
BOOST = [
    ("", 0x1C97DA6F7F24EBA6, 2133126054, 0, 2, 686),
    ("a", 0x5DC94FB3FF4ECD1C, 2135870748, 0, 0, 639),
    ("hello", 0x474980AFE7D940B9, 1742291129, 2, 1, 728),
    ("test", 0xAAC7AF4CB9EB10E2, 971706594, 0, 2, 484),
    ("key-1", 0x28E93F2AE58DFC19, 1703803929, 0, 1, 719),
    ("key-2", 0x646DED94A2BB4574, 582698356, 1, 0, 709),
    ("order-42", 0x5C6883F9068324B6, 109257910, 1, 2, 668),
    ("12345678", 0x4F9668DDE14E5A67, 1632524903, 2, 3, 214),
]


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
