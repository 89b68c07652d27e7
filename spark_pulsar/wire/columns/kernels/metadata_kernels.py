"""Kernels for columns that few reads request: ordering keys, and the metadata that the broker puts in front of entries.
They scan the bytes again, so that other reads pay nothing for them."""

from spark_pulsar.wire.columns.kernels.compiler import (
    READ_BYTES,
    READ_INTS,
    WRITE_INTS,
    Bytes,
    Ints,
    inlined,
    kernel,
)
from spark_pulsar.wire.columns.kernels.layout import ABSENT, TRUNCATED
from spark_pulsar.wire.columns.kernels.memory import byte_at
from spark_pulsar.wire.columns.kernels.varints import read_field, read_uint32

_KEY_IN_MESSAGE_METADATA = 18 << 3 | 2
_KEY_IN_BATCH_ITEM = 7 << 3 | 2
_BROKER_METADATA_MAGIC = 0x02
_BROKER_TIMESTAMP = 0x08
_INDEX = 0x10


@kernel(READ_BYTES, READ_INTS, READ_INTS, READ_INTS, WRITE_INTS, WRITE_INTS)
def find_ordering_keys(
    data: Bytes, batch_indexes: Ints, starts: Ints, ends: Ints, key_starts: Ints, key_lengths: Ints
) -> tuple[int, int]:
    """Finds the ordering keys of rows whose metadata is ``data[starts[r]:ends[r]]``, length -1 without; returns (0, -1)
    or (code, row)."""
    for r in range(len(starts)):
        wanted = _KEY_IN_MESSAGE_METADATA if batch_indexes[r] < 0 else _KEY_IN_BATCH_ITEM
        key_starts[r], key_lengths[r] = 0, -1
        at = starts[r]
        while at < ends[r]:
            tag, value, start, at = read_field(data, at, ends[r])
            if at < 0:
                return at, r
            if tag == wanted:
                key_starts[r], key_lengths[r] = start, value
    return 0, -1


@inlined
def broker_metadata_end(data: Bytes, at: int, end: int) -> int:
    """Returns the end of the broker's metadata of the entry at ``at``; ``at`` without, or a negative code."""
    if end - at < 6 or byte_at(data, at) != 0x0E or byte_at(data, at + 1) != _BROKER_METADATA_MAGIC:
        return at
    size = read_uint32(data, at + 2)
    if size > end - at - 6:
        return TRUNCATED
    return at + 6 + size


@kernel(READ_BYTES, READ_INTS, READ_INTS, WRITE_INTS, WRITE_INTS)
def read_broker_metadata(data: Bytes, starts: Ints, ends: Ints, times_ms: Ints, indexes: Ints) -> tuple[int, int]:
    """Reads the broker's time and the index of its last message of each entry ``data[starts[i]:ends[i]]``, ABSENT
    without; returns (0, -1) or (code, entry)."""
    for i in range(len(starts)):
        times_ms[i], indexes[i] = ABSENT, ABSENT
        end = broker_metadata_end(data, starts[i], ends[i])
        if end < 0:
            return end, i
        at = starts[i] + 6
        while at < end:
            tag, value, _, at = read_field(data, at, end)
            if at < 0:
                return at, i
            if tag == _BROKER_TIMESTAMP:
                times_ms[i] = value
            elif tag == _INDEX:
                indexes[i] = value
    return 0, -1
