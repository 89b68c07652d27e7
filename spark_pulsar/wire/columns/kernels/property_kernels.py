"""Properties of messages: from their metadata to the columns of a map, the last of equal keys kept.

Messages of a topic mostly have the same keys in the same order, and only values differ. The keys of a row are therefore
compared with those of *patterns*, the last rows whose keys were new: where they are the same, they are not parsed, not
compared with one another, and written as one block. There are several patterns, since a topic may have several kinds of
messages.
"""

from spark_pulsar.wire.columns.kernels.compiler import (
    INT,
    READ_BYTES,
    READ_INTS,
    WRITE_BYTES,
    WRITE_INTS,
    WRITE_OFFSETS,
    WRITE_TABLE,
    Bytes,
    Ints,
    Table,
    inlined,
    kernel,
)
from spark_pulsar.wire.columns.kernels.layout import MISSING_FIELD, TOO_LARGE
from spark_pulsar.wire.columns.kernels.memory import (
    byte_at,
    copy_16_bytes,
    copy_bytes,
    item_of,
    number_at,
    put,
    set_number,
    word_at,
)
from spark_pulsar.wire.columns.kernels.varints import read_field

# Row of the table of patterns: one item for each property of a pattern. Its items begin at its base.
KEY_START = 0
KEY_LENGTH = 1
VALUE_START = 2
VALUE_LENGTH = 3
FIELD_START = 4  # of the KeyValue
FIELD_LENGTH = 5
HEAD_LENGTH = 6  # bytes from FIELD_START up to the length of the value; 0: in an unusual form, or not kept
IS_KEPT = 7  # 0: its key comes again
PATTERN_FIELDS = 8

PATTERNS = 4
# Fields of a known pattern.
PROPERTIES = 0  # -1: there is none yet
FIRST_ITEM = 1  # of the columns, where its keys stand
ITEMS = 2
IS_DOUBTFUL = 3
KNOWN_OF_PATTERN = 4

ROOM_BEHIND = 16
"""Room that columns have behind their last byte: shorter texts are copied with that many bytes, what follows is
overwritten."""

LOOKAHEAD = 256
"""Bytes behind the metadata of a row that a kernel may read before it checks where a KeyValue ends."""

_LARGEST_OFFSET = 2**31 - 1
_IN_MESSAGE_METADATA = 0x22
_IN_BATCH_ITEM = 0x0A
_KEY = 0x0A
_VALUE = 0x12
_WORD = 0xFFFFFFFF
_FACTOR = 0x9E3779B1


@inlined
def read_property(data: Bytes, at: int, end: int, table: Table, p: int) -> int:
    """Reads one KeyValue to place ``p``; returns 0 or a negative code."""
    put(table, FIELD_START, p, at)
    put(table, FIELD_LENGTH, p, end - at)
    put(table, KEY_LENGTH, p, -1)
    put(table, VALUE_LENGTH, p, -1)
    while at < end:
        tag, length, start, at = read_field(data, at, end)
        if at < 0:
            return at
        if tag == _KEY:
            put(table, KEY_START, p, start)
            put(table, KEY_LENGTH, p, length)
        elif tag == _VALUE:
            put(table, VALUE_START, p, start)
            put(table, VALUE_LENGTH, p, length)
    if item_of(table, KEY_LENGTH, p) < 0 or item_of(table, VALUE_LENGTH, p) < 0:
        return MISSING_FIELD
    return 0


@inlined
def head_length(data: Bytes, wanted: int, table: Table, p: int) -> int:
    """Returns the bytes of a KeyValue before the length of its value, 0 for a KeyValue in an unusual form.

    The usual form is a key and a value and nothing else, in this order, with lengths of one byte, as is its own.
    """
    start, size = item_of(table, FIELD_START, p), item_of(table, FIELD_LENGTH, p)
    key_start, value_start = item_of(table, KEY_START, p), item_of(table, VALUE_START, p)
    key_end = key_start + item_of(table, KEY_LENGTH, p)
    if size >= 0x80 or byte_at(data, start - 1) != size or byte_at(data, start - 2) != wanted:
        return 0
    if byte_at(data, start) != _KEY or key_start != start + 2:
        return 0
    if value_start != key_end + 2 or byte_at(data, key_end) != _VALUE:
        return 0
    if value_start + item_of(table, VALUE_LENGTH, p) != start + size:
        return 0
    return key_end + 1 - start


@inlined
def same_bytes(data: Bytes, left: int, right: int, length: int) -> bool:
    """Returns whether the bytes at two places are equal."""
    if length < 8:
        for i in range(length):  # noqa: SIM110 - kernels cannot close over names
            if byte_at(data, left + i) != byte_at(data, right + i):
                return False
        return True
    if length > 16:
        for i in range(8, length - 8, 8):
            if word_at(data, left + i) != word_at(data, right + i):
                return False
    if word_at(data, left) != word_at(data, right):
        return False
    return word_at(data, left + length - 8) == word_at(data, right + length - 8)


@inlined
def copy_text(target: Bytes, target_at: int, source: Bytes, source_at: int, length: int) -> None:
    """Copies a text to a column that has room behind it: short ones without a loop."""
    if length <= ROOM_BEHIND and source_at + ROOM_BEHIND <= len(source):
        copy_16_bytes(target, target_at, source, source_at)
    else:
        copy_bytes(target, target_at, source, source_at, length)


@inlined
def mixed(state: int) -> int:
    """Returns 32 bits, of which the lowest ones, too, depend on all of 32 bits."""
    state = (state ^ state >> 16) * _FACTOR & _WORD
    return state ^ state >> 15


@inlined
def key_hash(data: Bytes, start: int, length: int) -> int:
    """Returns 32 bits of a key. Keys that collide can be made: who uses it bounds its effort."""
    state = length
    if length < 8:
        for i in range(length):
            state = mixed(state ^ byte_at(data, start + i))
        return state
    for i in range(0, length - 8, 8):
        word = word_at(data, start + i)
        state = mixed(mixed(state ^ (word & _WORD)) ^ (word >> 32 & _WORD))
    word = word_at(data, start + length - 8)
    return mixed(mixed(state ^ (word & _WORD)) ^ (word >> 32 & _WORD))


@inlined
def keep_last_of_equal_keys(data: Bytes, table: Table, base: int, count: int, slots: Ints, stamp: int) -> int:
    """Marks the properties whose key does not come again; returns 1, or 0 and marks all where keys collide often.

    ``slots`` is a hash table, its size a power of two: this call's numbers in it are above ``stamp``.
    """
    mask, probes = len(slots) - 1, 4 * count + 64
    for p in range(base + count - 1, base - 1, -1):
        slot, is_kept = key_hash(data, item_of(table, KEY_START, p), item_of(table, KEY_LENGTH, p)) & mask, 1
        while number_at(slots, slot) > stamp:
            q = base + number_at(slots, slot) - stamp - 1
            length = item_of(table, KEY_LENGTH, p)
            if length == item_of(table, KEY_LENGTH, q) and same_bytes(
                data, item_of(table, KEY_START, p), item_of(table, KEY_START, q), length
            ):
                is_kept = 0
                break
            probes -= 1
            if probes == 0:
                for index in range(base, base + count):
                    put(table, IS_KEPT, index, 1)
                return 0
            slot = (slot + 1) & mask
        if is_kept:
            set_number(slots, slot, stamp + 1 + p - base)
        put(table, IS_KEPT, p, is_kept)
    return 1


@inlined
def read_pattern(data: Bytes, at: int, end: int, wanted: int, table: Table, base: int, count: int) -> int:
    """Reads the ``count`` properties of a row as a pattern; returns 0 or a negative code."""
    p = base
    while p < base + count:
        tag, length, start, at = read_field(data, at, end)
        if at < 0:
            return at
        if tag == wanted:
            code = read_property(data, start, start + length, table, p)
            if code < 0:
                return code
            p += 1
    return 0


@inlined
def write_usual_values(
    data: Bytes, at: int, end: int, wanted: int, table: Table, p: int, stop: int, offsets: Ints, values: Bytes, n: int
) -> tuple[int, int]:
    """Writes values of places ``p`` to ``stop`` of a pattern, as items from ``n`` on, as long as their KeyValues have
    the usual form; returns (number of them, place behind the last).

    The caller has checked that ``data`` goes on for ``LOOKAHEAD`` bytes behind ``end``.
    """
    first, value_at = p, number_at(offsets, n)
    while p < stop:
        head = item_of(table, HEAD_LENGTH, p)
        behind = at + 2 + head
        size, length = byte_at(data, at + 1), byte_at(data, behind)
        start = behind + 1
        if head == 0 or byte_at(data, at) != wanted or size != head + 1 + length or size >= 0x80:
            break
        if start + length > end or not same_bytes(data, at + 2, item_of(table, FIELD_START, p), head):
            break
        at = start + length
        if length <= ROOM_BEHIND:
            copy_16_bytes(values, value_at, data, start)
        else:
            copy_bytes(values, value_at, data, start, length)
        value_at += length
        p += 1
        set_number(offsets, n + p - first, value_at)
    return p - first, at


@inlined
def read_value(data: Bytes, start: int, length: int, table: Table, p: int, scratch: int) -> tuple[int, int]:
    """Reads the value of a KeyValue whose key is that of the pattern's place ``p``: (start, length), or length -1."""
    if read_property(data, start, start + length, table, scratch) < 0:
        return 0, -1
    key_length = item_of(table, KEY_LENGTH, p)
    if key_length != item_of(table, KEY_LENGTH, scratch):
        return 0, -1
    if not same_bytes(data, item_of(table, KEY_START, p), item_of(table, KEY_START, scratch), key_length):
        return 0, -1
    return item_of(table, VALUE_START, scratch), item_of(table, VALUE_LENGTH, scratch)


@inlined
def write_values_by_pattern(
    data: Bytes,
    at: int,
    end: int,
    wanted: int,
    table: Table,
    base: int,
    count: int,
    offsets: Ints,
    values: Bytes,
    n: int,
) -> int:
    """Writes the values of a row with the keys of a pattern, as items from ``n`` on; returns the next item, or -1 where
    its keys are others: then the items so far are to be written again."""
    p, stop, has_room = base, base + count, end + LOOKAHEAD <= len(data)
    while p < stop:
        if has_room:
            done, at = write_usual_values(data, at, end, wanted, table, p, stop, offsets, values, n)
            p += done
            n += done
            if p == stop:
                break
        tag, size, start, at = read_field(data, at, end)
        if at < 0:
            return -1
        if tag == wanted:
            start, length = read_value(data, start, size, table, p, stop)
            if length < 0:
                return -1
            if item_of(table, IS_KEPT, p) != 0:
                value_at = number_at(offsets, n)
                copy_text(values, value_at, data, start, length)
                n += 1
                set_number(offsets, n, value_at + length)
            p += 1
    return n


@inlined
def write_pattern(
    data: Bytes,
    wanted: int,
    table: Table,
    base: int,
    count: int,
    key_offsets: Ints,
    keys: Bytes,
    offsets: Ints,
    values: Bytes,
    n: int,
) -> int:
    """Writes the keys and values of a pattern's own row, as items from ``n`` on; returns the next item."""
    key_at, value_at = number_at(key_offsets, n), number_at(offsets, n)
    for p in range(base, base + count):
        put(table, HEAD_LENGTH, p, 0)
        if item_of(table, IS_KEPT, p) != 0:
            put(table, HEAD_LENGTH, p, head_length(data, wanted, table, p))
            copy_text(keys, key_at, data, item_of(table, KEY_START, p), item_of(table, KEY_LENGTH, p))
            copy_text(values, value_at, data, item_of(table, VALUE_START, p), item_of(table, VALUE_LENGTH, p))
            key_at += item_of(table, KEY_LENGTH, p)
            value_at += item_of(table, VALUE_LENGTH, p)
            n += 1
            set_number(key_offsets, n, key_at)
            set_number(offsets, n, value_at)
    return n


@inlined
def high_bits(column: Bytes, at: int, end: int) -> int:
    """Returns 0x80 where a byte is none of ASCII, else 0."""
    bits = 0
    for i in range(at, end):
        bits |= byte_at(column, i) & 0x80
    return bits


@inlined
def repeat_keys(key_offsets: Ints, keys: Bytes, first: int, count: int, n: int) -> None:
    """Writes the ``count`` keys from item ``first`` on once more, as items from ``n`` on."""
    start, at = number_at(key_offsets, first), number_at(key_offsets, n)
    copy_bytes(keys, at, keys, start, number_at(key_offsets, first + count) - start)
    for i in range(1, count + 1):
        set_number(key_offsets, n + i, number_at(key_offsets, first + i) + at - start)


@kernel(
    READ_BYTES,
    READ_INTS,
    READ_INTS,
    READ_INTS,
    READ_INTS,
    INT,
    WRITE_TABLE,
    WRITE_INTS,
    WRITE_INTS,
    WRITE_OFFSETS,
    WRITE_OFFSETS,
    WRITE_BYTES,
    WRITE_OFFSETS,
    WRITE_BYTES,
    WRITE_INTS,
)
def write_properties(
    data: Bytes,
    batch_indexes: Ints,
    counts: Ints,
    starts: Ints,
    ends: Ints,
    width: int,
    table: Table,
    known: Ints,
    slots: Ints,
    offsets: Ints,
    key_offsets: Ints,
    keys: Bytes,
    value_offsets: Ints,
    values: Bytes,
    doubts: Ints,
) -> tuple[int, int, int]:
    """Writes the properties of rows whose metadata is ``data[starts[r]:ends[r]]``.

    Returns (properties, -1, 0x80 where a key has bytes that are not ASCII, else 0) or (code, row, 0).

    ``counts`` are those of the walk over the same bytes. ``width`` is one more than the largest of them; ``table`` has
    room for that number of properties of each pattern, ``known`` (-1) for ``KNOWN_OF_PATTERN`` numbers of each,
    ``slots`` (zeros, a power of two) for twice the largest count; offsets of keys and values for their sum and one,
    ``keys`` and ``values`` for all these bytes and ``ROOM_BEHIND`` more. ``doubts[r]`` is set to 1 where equal keys may
    be left.
    """
    n, stamp, last, newest, high = 0, 0, 0, 0, 0
    offsets[0], key_offsets[0], value_offsets[0] = 0, 0, 0
    for r in range(len(counts)):
        count, doubts[r] = counts[r], 0
        if count > 0:
            if max(key_offsets[n], value_offsets[n]) > _LARGEST_OFFSET - (ends[r] - starts[r]):
                return TOO_LARGE, r, 0
            wanted, behind = _IN_MESSAGE_METADATA if batch_indexes[r] < 0 else _IN_BATCH_ITEM, -1
            for turn in range(PATTERNS):
                pattern = (last + turn) % PATTERNS
                if known[pattern * KNOWN_OF_PATTERN + PROPERTIES] == count:
                    behind = write_values_by_pattern(
                        data, starts[r], ends[r], wanted, table, pattern * width, count, value_offsets, values, n
                    )
                    if behind >= 0:
                        last = pattern
                        break
            at = last * KNOWN_OF_PATTERN
            if behind >= 0:
                repeat_keys(key_offsets, keys, known[at + FIRST_ITEM], known[at + ITEMS], n)
            else:
                newest = last = (newest + 1) % PATTERNS
                at, base = last * KNOWN_OF_PATTERN, last * width
                code = read_pattern(data, starts[r], ends[r], wanted, table, base, count)
                if code < 0:
                    return code, r, 0
                known[at + PROPERTIES], known[at + FIRST_ITEM] = count, n
                known[at + IS_DOUBTFUL] = 1 - keep_last_of_equal_keys(data, table, base, count, slots, stamp)
                stamp += count
                behind = write_pattern(data, wanted, table, base, count, key_offsets, keys, value_offsets, values, n)
                known[at + ITEMS] = behind - n
                high |= high_bits(keys, key_offsets[n], key_offsets[behind])
            n, doubts[r] = behind, known[at + IS_DOUBTFUL]
        offsets[r + 1] = n
    return n, -1, high
