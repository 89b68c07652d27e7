"""Keys of the option `keys`: what a read is reduced to, and where official producers put them (READ-23). Offsets hold
all partitions, so that keys may change: `planning.pruning` (OFFSET-15).

A key is text, or bytes: those stand in a message as base64 text with a flag, and are hashed as that text.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

import mmh3

MOST_KEYS: Final = 10_000
"""Keys of one read."""

_MASK_31: Final = 0x7FFFFFFF
_MASK_32: Final = 0xFFFFFFFF
_MASK_64: Final = 0xFFFFFFFFFFFFFFFF
_FACTOR_TO_BOOST_1_80: Final = 0xC6A4A7935BD1E995
_STEP_TO_BOOST_1_80: Final = 0xE6546B64
_FACTOR_FROM_BOOST_1_81: Final = 0xDF442D22CE4859B9
_STEP_FROM_BOOST_1_81: Final = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys as messages have them: text, and base64 text of bytes."""

    texts: frozenset[bytes]
    encoded: frozenset[bytes]

    def hashes(self, scheme: str) -> frozenset[int]:
        """Returns every hash that an official client with this scheme may have for one of the keys."""
        hashed = _HASHES[scheme]
        return frozenset(value for key in self.texts | self.encoded for value in hashed(key))


def read_keys(text: str) -> Keys:
    """Reads texts separated by commas, or a JSON list of texts and of `{"base64": "…"}` for bytes. Raises
    ValueError."""
    texts: list[str] = []
    encoded: list[bytes] = []
    if text.startswith("["):
        try:
            items = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"not JSON: {error}; a list of keys in JSON, or keys separated by commas") from None
    else:
        items = [part.strip() for part in text.split(",")]
        if "" in items:
            raise ValueError('a key is empty; the empty key is [""], keys with commas or spaces are a JSON list too')
    if not 0 < len(items) <= MOST_KEYS:
        raise ValueError(f"{len(items)} keys, expected 1 to {MOST_KEYS}")
    for item in items:
        if isinstance(item, str):
            texts.append(item)
        else:
            encoded.append(_encoded(item))
    try:
        return Keys(frozenset(key.encode() for key in texts), frozenset(encoded))
    except UnicodeEncodeError:
        raise ValueError("a key holds half of a surrogate pair, which no message has") from None


def _encoded(item: object) -> bytes:
    if not isinstance(item, Mapping) or list(item) != ["base64"] or not isinstance(item["base64"], str):
        raise ValueError(f'a key is a text or {{"base64": "…"}}, not {json.dumps(item)[:100]}')
    try:
        return base64.b64encode(base64.b64decode(item["base64"], validate=True))
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{item['base64'][:100]!r} is no base64 text: {error}") from None


def _java_hashes(key: bytes) -> Collection[int]:
    """Hashes of the clients that call theirs JavaStringHash: Java goes over UTF-16 units, C++ over signed bytes, Go
    over unsigned ones and keeps all 32 bits."""
    units = key.decode().encode("utf-16-be")
    java = cpp = go = 0
    for index in range(0, len(units), 2):
        java = (31 * java + (units[index] << 8 | units[index + 1])) & _MASK_32
    for byte in key:
        cpp = (31 * cpp + byte - (256 if byte > 127 else 0)) & _MASK_32
        go = (31 * go + byte) & _MASK_32
    return java & _MASK_31, cpp & _MASK_31, go


def _murmur_hashes(key: bytes) -> Collection[int]:
    return (int(mmh3.hash(key, 0, signed=False)) & _MASK_31,)


def _boost_hashes(key: bytes) -> Collection[int]:
    """Hashes of the builds of the C++ client, and of those around it: with Boost to 1.80, and from 1.81 on."""
    return _boost_to_1_80(key), _boost_from_1_81(key)


def _boost_to_1_80(key: bytes) -> int:
    value = 0
    for byte in key:
        word = (byte - (256 if byte > 127 else 0)) * _FACTOR_TO_BOOST_1_80 & _MASK_64
        word = (word ^ word >> 47) * _FACTOR_TO_BOOST_1_80 & _MASK_64
        value = ((value ^ word) * _FACTOR_TO_BOOST_1_80 + _STEP_TO_BOOST_1_80) & _MASK_64
    return value & _MASK_31


def _boost_from_1_81(key: bytes) -> int:
    step = _folded(_STEP_FROM_BOOST_1_81)
    value = step ^ len(key)
    for at in range(0, len(key) // 8 * 8 + 1, 8):
        step = (step + _STEP_FROM_BOOST_1_81) & _MASK_64
        value ^= _folded(int.from_bytes(key[at : at + 8], "little") + step & _MASK_64)
    return _folded(value + step & _MASK_64) & _MASK_31


def _folded(value: int) -> int:
    product = value * _FACTOR_FROM_BOOST_1_81
    return (product ^ product >> 64) & _MASK_64


_HASHES: Final[Mapping[str, Callable[[bytes], Collection[int]]]] = {
    "JavaStringHash": _java_hashes,
    "Murmur3_32Hash": _murmur_hashes,
    "BoostHash": _boost_hashes,
}
