"""Hashes of keys by which official producers choose a partition, one key at a time (PT-4).

Clients differ in what they hash and how; a key lands where the official client of the same scheme puts it only when
the variant is the same too, hence one function for each.
"""

from __future__ import annotations

from typing import Final

from spark_pulsar.wire.keys.murmur3 import MASK

_U32: Final = (1 << 32) - 1
_U64: Final = (1 << 64) - 1
_BOOST_STEP: Final = 0x9E3779B97F4A7C15
_BOOST_FACTOR: Final = 0xDF442D22CE4859B9


def java_string_hash(key: str) -> int:
    """JavaStringHash of the Java client: over UTF-16 code units, masked."""
    units = key.encode("utf-16-le", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + units[index] + (units[index + 1] << 8)) & _U32
    return value & MASK


def java_string_hash_cpp(key: str) -> int:
    """JavaStringHash of the C++ client: over signed UTF-8 bytes, masked."""
    value = 0
    for byte in key.encode():
        value = (31 * value + (byte - 256 if byte > 127 else byte)) & _U32
    return value & MASK


def java_string_hash_go(key: str) -> int:
    """JavaStringHash of the Go client: over unsigned UTF-8 bytes, all 32 bits."""
    value = 0
    for byte in key.encode():
        value = (31 * value + byte) & _U32
    return value


def boost_hash(key: bytes) -> int:
    """BoostHash of the official C++, Python and Node builds (Boost 1.81 and later), masked. Other builds differ."""
    return boost_hash_64(key) & MASK


def boost_hash_64(key: bytes) -> int:
    """Returns the 64 bits that `boost_hash` masks."""
    size = len(key)
    word = _multiply_fold(_BOOST_STEP, _BOOST_FACTOR)
    value = word ^ size
    whole = size - size % 8
    for index in range(0, whole, 8):
        word = (word + _BOOST_STEP) & _U64
        value ^= _multiply_fold((int.from_bytes(key[index : index + 8], "little") + word) & _U64, _BOOST_FACTOR)
    rest = key[whole:]
    left = len(rest)
    if left >= 4:
        last = int.from_bytes(rest[:4], "little") | int.from_bytes(rest[-4:], "little") << 8 * (left - 4)
    elif left:
        middle, end = (left - 1) & 2, left >> 1
        last = rest[middle] << 8 * middle | rest[end] << 8 * end | rest[0]
    else:
        last = 0
    word = (word + _BOOST_STEP) & _U64
    value ^= _multiply_fold((last + word) & _U64, _BOOST_FACTOR)
    return _multiply_fold((value + word) & _U64, _BOOST_FACTOR)


def partition_of(key_hash: int, partitions: int) -> int:
    """Returns the partition that a producer chooses for a key with this hash."""
    return key_hash % partitions


def _multiply_fold(left: int, right: int) -> int:
    """Returns the low 64 bits of the 128-bit product, XOR its high 64 bits."""
    product = left * right
    return (product ^ product >> 64) & _U64
