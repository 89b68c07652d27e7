"""Hashes of what messages are made of: value, key, ordering key, properties, event time."""

from spark_pulsar.wire.columns.kernels.compiler import (
    INT,
    READ_BYTES,
    READ_INTS,
    WRITE_INTS,
    Bytes,
    Ints,
    inlined,
    kernel,
)
from spark_pulsar.wire.columns.kernels.encode_kernels import is_valid
from spark_pulsar.wire.columns.kernels.memory import byte_at, word_at

_MASK_32 = 0xFFFFFFFF
_LOW_FACTOR = 0x2C1B3C6D
_HIGH_FACTOR = 0x297A2D39
"""Below 2³⁰, so that no sum of two products passes 63 bits: the same in signed numbers that wrap and in Python's."""
_SEED = 0x1F83D9ABFB41BD6B
_BASE64_KEY = 0x5BE0CD19
_PROPERTIES = 0x510E527F
_EVENT_TIME = 0x3C6EF372


@inlined
def absorbed(state: int, word: int) -> int:
    """Returns the state behind one more word of 64 bits; never negative."""
    mixed = state ^ word
    total = (mixed & _MASK_32) * _LOW_FACTOR + (mixed >> 32 & _MASK_32) * _HIGH_FACTOR
    return total ^ total >> 31


@inlined
def absorbed_bytes(state: int, data: Bytes, at: int, length: int) -> int:
    """Returns the state behind a byte string, whose length counts."""
    state = absorbed(state, length + 1)
    tail = at + (length & ~7)
    while at < tail:
        state = absorbed(state, word_at(data, at))
        at += 8
    if length & 7:
        rest = 0
        for i in range(length & 7):
            rest |= byte_at(data, at + i) << 8 * i
        state = absorbed(state, rest)
    return state


@inlined
def absorbed_item(state: int, data: Bytes, offsets: Ints, valid: Bytes, row: int) -> int:
    """Returns the state behind an item of a column; one that is null, or not there, is 0."""
    if len(offsets) == 0 or not is_valid(valid, row):
        return absorbed(state, 0)
    return absorbed_bytes(state, data, offsets[row], offsets[row + 1] - offsets[row])


@kernel(
    READ_BYTES, READ_INTS, READ_BYTES, READ_BYTES, READ_INTS, READ_BYTES, INT, READ_BYTES, READ_INTS, READ_BYTES,
    READ_INTS, READ_BYTES, READ_INTS, READ_BYTES, READ_INTS, READ_INTS, WRITE_INTS,
)  # fmt: skip
def content_hashes(
    values: Bytes,
    value_offsets: Ints,
    value_valid: Bytes,
    keys: Bytes,
    key_offsets: Ints,
    key_valid: Bytes,
    keys_are_base64: int,
    ordering_keys: Bytes,
    ordering_key_offsets: Ints,
    ordering_key_valid: Bytes,
    property_bounds: Ints,
    property_keys: Bytes,
    property_key_offsets: Ints,
    property_values: Bytes,
    property_value_offsets: Ints,
    event_times: Ints,
    hashes: Ints,
) -> None:
    """Hash of each row, from 0 to 2⁶³ - 1. A column that is not there hashes as one of nulls."""
    for r in range(len(hashes)):
        state = absorbed_item(_SEED, values, value_offsets, value_valid, r)
        if len(key_offsets) > 0:
            if keys_are_base64 != 0 and is_valid(key_valid, r):
                state = absorbed(state, _BASE64_KEY)
            state = absorbed_item(state, keys, key_offsets, key_valid, r)
        else:
            state = absorbed(state, 0)
        state = absorbed_item(state, ordering_keys, ordering_key_offsets, ordering_key_valid, r)
        if len(property_bounds) > 0:
            for p in range(property_bounds[2 * r], property_bounds[2 * r + 1]):
                state = absorbed(state, _PROPERTIES)
                start, end = property_key_offsets[p], property_key_offsets[p + 1]
                state = absorbed_bytes(state, property_keys, start, end - start)
                start, end = property_value_offsets[p], property_value_offsets[p + 1]
                state = absorbed_bytes(state, property_values, start, end - start)
        if len(event_times) > 0 and event_times[r] != 0:
            state = absorbed(absorbed(state, _EVENT_TIME), event_times[r])
        hashes[r] = absorbed(state, _SEED)
