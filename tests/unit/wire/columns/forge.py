"""Entries made up by a random generator: every field, any order, odd encodings, and damage.

Plain functions over ``random.Random`` (seeded by Hypothesis in the property tests): a strategy per field would make
fifty examples a second, this makes thousands.
"""

import struct
from random import Random
from typing import Any

from spark_pulsar.wire.columns.entries import EntrySlice

Fields = list[tuple[int, int | bytes]]

_TEXTS = [b"", b"a", b"key", b"origin", "日本é".encode(), b"\xff\xfe", b"\xed\xa0\x80", b"\xf0\x90\x80\x80", b"x" * 200]
_KEYS = [*_TEXTS, b"aGk=", b"aGk", b"////", b"YQ==", b"YR==", b"YQ=", b"Y", b"YWJj!", b"=", b"====", b"+/A="]
_NUMBERS = [0, 1, 127, 128, 300, 2**31 - 1, 2**31, 2**32 + 5, 2**53, 2**63 - 1, 2**63, 2**64 - 1]


def text(rng: Random) -> bytes:
    """Some bytes of a string field, valid UTF-8 or not."""
    return rng.choice(_TEXTS) if rng.random() < 0.7 else rng.randbytes(rng.randrange(12))


def key(rng: Random) -> bytes:
    """Some bytes of a key, base64 or not."""
    return rng.choice(_KEYS) if rng.random() < 0.8 else rng.randbytes(rng.randrange(12))


def number(rng: Random) -> int:
    """An unsigned number of up to 64 bits."""
    return rng.choice(_NUMBERS) if rng.random() < 0.6 else rng.getrandbits(rng.randrange(1, 65))


def flag(rng: Random, likely: float) -> int:
    """A boolean field, true with some likelihood, also by odd numbers."""
    return rng.choice([1, 1, 1, 7, 2**63]) if rng.random() < likely else 0


def varint(rng: Random, value: int, longest: int = 10) -> bytes:
    """An integer as varint, at times longer than needed."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    if rng.random() < 0.1:
        for _ in range(min(rng.randrange(1, 4), longest - len(out))):
            out[-1] |= 0x80
            out.append(0)
    return bytes(out)


def encoded(rng: Random, field: int, value: int | bytes) -> bytes:
    """One field: an integer as varint, bytes delimited."""
    if isinstance(value, int):
        return varint(rng, field << 3, 5) + varint(rng, value)
    return varint(rng, field << 3 | 2, 5) + varint(rng, len(value), 5) + value


def unknown_field(rng: Random) -> bytes:
    """A field nobody knows, of any kind but a group."""
    kind, body = rng.choice([(0, b"\x05"), (1, bytes(8)), (2, b"\x03abc"), (5, bytes(4))])
    return varint(rng, rng.randrange(100, 2**29) << 3 | kind, 5) + body


def shuffled(rng: Random, required: Fields, optional: Fields) -> bytes:
    """Required fields, some of the optional ones (at times twice), unknown ones, in any order."""
    fields = required + rng.choices(optional, k=rng.randrange(7))
    rng.shuffle(fields)
    parts = [encoded(rng, *field) for field in fields]
    if rng.random() < 0.2:
        parts.insert(rng.randrange(len(parts) + 1), unknown_field(rng))
    return b"".join(parts)


def key_value(rng: Random) -> bytes:
    """A KeyValue, its parts in any order."""
    pair: Fields = [(1, text(rng)), (2, text(rng))]
    rng.shuffle(pair)
    return b"".join(encoded(rng, *field) for field in pair)


def item(rng: Random) -> bytes:
    """One item of a batch."""
    value = rng.randbytes(rng.choice([0, 1, 5, 20, 300]))
    optional: Fields = [
        (1, key_value(rng)),
        (1, key_value(rng)),
        (2, key(rng)),
        (4, flag(rng, 0.1)),
        (5, number(rng)),
        (6, flag(rng, 0.2)),
        (7, text(rng)),
        (8, number(rng)),
        (9, flag(rng, 0.5)),
        (10, flag(rng, 0.3)),
    ]
    metadata = shuffled(rng, [(3, len(value))], optional)
    return struct.pack(">I", len(metadata)) + metadata + value


def entry(rng: Random) -> bytes:
    """One entry: single or batch, with or without the blocks in front."""
    optional: Fields = [
        *((4, key_value(rng)) for _ in range(3)),
        (5, text(rng)),
        (6, key(rng)),
        (7, text(rng)),
        (12, number(rng)),
        (15, text(rng)),
        (16, text(rng)),
        (17, flag(rng, 0.3)),
        (18, text(rng)),
        (19, number(rng)),
        (22, number(rng)),
        (24, number(rng)),
        (25, flag(rng, 0.5)),
        (26, text(rng)),
        (27, rng.randrange(2)),
        (30, flag(rng, 0.3)),
        (32, text(rng)),
    ]
    required: Fields = [(1, text(rng)), (2, number(rng)), (3, number(rng))]
    if rng.random() < 0.6:
        items = [item(rng) for _ in range(rng.choice([0, 1, 2, 3, 8, 70] if rng.random() < 0.1 else [0, 1, 2, 3]))]
        payload = b"".join(items) + rng.choice([b"", b"", b"rest"])
        required.append((11, len(items)))
    else:
        payload = rng.randbytes(rng.randrange(40))
    if rng.random() < 0.04:
        required.append((20, rng.choice([0, 3])))
    metadata = shuffled(rng, required, optional)
    front = rng.choice([b"", b"\x0e\x01abcd", b"\x0e\x02\0\0\0\x02\x08\x01\x0e\x01abcd"])
    return front + struct.pack(">I", len(metadata)) + metadata + payload


def entry_slice(rng: Random, data: bytes) -> EntrySlice:
    """An entry with ids, and at times bounds, ack bits or a first chunk."""
    bounded = rng.random() < 0.25
    ids: Any = (rng.getrandbits(rng.randrange(64)), rng.getrandbits(rng.randrange(64)))
    return EntrySlice(
        data=data,
        ledger_id=ids[0],
        entry_id=ids[1],
        partition=rng.choice([-1, 0, 7, 300]),
        first_index=rng.randrange(4) if bounded else 0,
        stop_index=rng.randrange(6) if bounded else None,
        ack_set=rng.choice([(), (), (), (5,), (-1,), (2**63 - 1, 1), (0,), (-(2**63), -1)]),
        first_chunk=rng.choice([None, None, (3, 2**40)]),
    )


def damaged(rng: Random, data: bytes) -> bytes:
    """The bytes with one or a few of them changed, dropped or added."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at = rng.randrange(len(out))
        what = rng.random()
        if what < 0.4:
            out[at] ^= 1 << rng.randrange(8)
        elif what < 0.7:
            out[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        elif what < 0.8:
            del out[at : at + rng.randrange(1, 5)]
        elif what < 0.95:
            out[at:at] = rng.randbytes(rng.randrange(1, 12))
        else:
            del out[at:]
        if not out:
            break
    return bytes(out)
