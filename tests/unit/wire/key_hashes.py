"""Hashes of keys by which official producers choose a partition, one key at a time (PT-4).

Clients differ in what they hash and how; a key lands where the official client of the same scheme puts it only when
the variant is the same too, hence one function for each.
"""

from typing import Final

from spark_pulsar.wire.keys.murmur3 import MASK

# 6.2: key, Java, Go, C++, Java mod 4
JAVA_STRING_HASH: Final = [
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
MURMUR: Final = [
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
BOOST: Final = [
    ("", 0x1C97DA6F7F24EBA6, 2133126054, 0, 2, 686),
    ("a", 0x5DC94FB3FF4ECD1C, 2135870748, 0, 0, 639),
    ("hello", 0x474980AFE7D940B9, 1742291129, 2, 1, 728),
    ("test", 0xAAC7AF4CB9EB10E2, 971706594, 0, 2, 484),
    ("key-1", 0x28E93F2AE58DFC19, 1703803929, 0, 1, 719),
    ("key-2", 0x646DED94A2BB4574, 582698356, 1, 0, 709),
    ("order-42", 0x5C6883F9068324B6, 109257910, 1, 2, 668),
    ("12345678", 0x4F9668DDE14E5A67, 1632524903, 2, 3, 214),
]

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
