"""Kernels that write members of JSON objects straight from columns: integers, texts; and the zeros of whole floats,
and moments as text.

As with `put_members`, `name` begins with the comma, which the first member of a row (at `starts`) lacks, and a null
writes nothing. Members are written at `cursors`, which move on.
"""

from spark_pulsar.connector.schemas.encoding.kernels import is_null, put_text
from spark_pulsar.wire.columns.kernels.compiler import (
    INT,
    READ_BYTES,
    READ_INTS,
    WRITE_BYTES,
    WRITE_INTS,
    Bytes,
    Ints,
    inlined,
    kernel,
)
from spark_pulsar.wire.columns.kernels.memory import byte_at, copy_bytes

LOCAL_TIME_BYTES = 28
INSTANT_BYTES = 29
_DAY_MICROS = 86_400_000_000
_DAYS_TO_1970 = 719_468
_ERA_DAYS = 146_097  # of 400 years
_MOST_DIGITS = 19
_ZERO = 0x30
_MINUS = 0x2D
_POINT = 0x2E


@inlined
def _digit_count(value: int) -> int:
    """Counts the digits of a number that is not negative."""
    count, limit = 1, 10
    while count < _MOST_DIGITS and value >= limit:
        count += 1
        if count < _MOST_DIGITS:  # the next limit would not fit into 64 bits
            limit *= 10
    return count


@inlined
def _halves(value: int) -> tuple[int, int]:
    """Splits a negative number, the least one too, into all digits but the last, and the last."""
    below = -(value + 1)
    rest, last = below // 10, below % 10 + 1
    return (rest + 1, 0) if last == 10 else (rest, last)


@inlined
def _integer_size(value: int) -> int:
    if value >= 0:
        return _digit_count(value)
    rest, _ = _halves(value)
    return 2 if rest == 0 else 2 + _digit_count(rest)


@inlined
def _put_digits(target: Bytes, at: int, value: int) -> int:
    """Writes a number that is not negative; returns the place behind it."""
    end = at + _digit_count(value)
    place = end - 1
    while value >= 10:
        rest = value // 10
        target[place] = _ZERO + value - rest * 10
        value = rest
        place -= 1
    target[place] = _ZERO + value
    return end


@inlined
def _put_integer(target: Bytes, at: int, value: int) -> int:
    """Writes a number; returns the place behind it."""
    if value >= 0:
        return _put_digits(target, at, value)
    rest, last = _halves(value)
    target[at] = _MINUS
    at += 1
    if rest > 0:
        at = _put_digits(target, at, rest)
    target[at] = _ZERO + last
    return at + 1


@inlined
def _put_name(target: Bytes, at: int, start: int, name: Bytes) -> int:
    """Writes a member's name, without its comma at the start of a row; returns the place behind it."""
    skipped = 1 if at == start else 0
    copy_bytes(target, at, name, skipped, len(name) - skipped)
    return at + len(name) - skipped


@kernel(READ_INTS, READ_BYTES, INT, WRITE_INTS)
def size_integer_members(values: Ints, valid: Bytes, name_length: int, sizes: Ints) -> None:
    """Adds the size of each row's member: comma, name and number."""
    for row in range(len(values)):
        if not is_null(valid, row):
            sizes[row] += name_length + _integer_size(values[row])


@kernel(READ_INTS, READ_BYTES, READ_BYTES, READ_INTS, WRITE_INTS, WRITE_BYTES)
def put_integer_members(values: Ints, valid: Bytes, name: Bytes, starts: Ints, cursors: Ints, target: Bytes) -> None:
    """Writes each row's member."""
    for row in range(len(values)):
        if not is_null(valid, row):
            at = _put_name(target, cursors[row], starts[row], name)
            cursors[row] = _put_integer(target, at, values[row])


@kernel(READ_BYTES, READ_INTS, READ_BYTES, READ_INTS, READ_BYTES, READ_INTS, WRITE_INTS, WRITE_BYTES)
def put_text_members(
    data: Bytes, offsets: Ints, valid: Bytes, lengths: Ints, name: Bytes, starts: Ints, cursors: Ints, target: Bytes
) -> None:
    """Writes each row's member, a text in quotes; `lengths` are those of the texts as JSON."""
    for row in range(len(offsets) - 1):
        if not is_null(valid, row):
            at = _put_name(target, cursors[row], starts[row], name)
            end = at + lengths[row]
            put_text(target, at, end, data, offsets[row], offsets[row + 1])
            cursors[row] = end


@inlined
def _is_whole(data: Bytes, at: int, end: int) -> bool:
    """Returns whether a float's text has digits only, and a sign: no point, no exponent, and no letters."""
    for place in range(at, end):
        byte = byte_at(data, place)
        if byte == _POINT or byte > 0x39:
            return False
    return at < end


@kernel(READ_BYTES, READ_INTS, READ_BYTES, WRITE_INTS)
def size_floats(data: Bytes, offsets: Ints, valid: Bytes, lengths: Ints) -> None:
    """Sets the length of each row's text of a float, with two bytes more where a zero behind the point lacks."""
    for row in range(len(offsets) - 1):
        length = 0
        if not is_null(valid, row):
            length = offsets[row + 1] - offsets[row]
            if _is_whole(data, offsets[row], offsets[row + 1]):
                length += 2
        lengths[row] = length


@kernel(READ_BYTES, READ_INTS, READ_INTS, WRITE_BYTES)
def put_floats(data: Bytes, offsets: Ints, text_offsets: Ints, target: Bytes) -> None:
    """Writes each row's text of a float, with the zero where it has the place."""
    for row in range(len(offsets) - 1):
        at, end, length = text_offsets[row], text_offsets[row + 1], offsets[row + 1] - offsets[row]
        if at == end:
            continue
        copy_bytes(target, at, data, offsets[row], length)
        if end - at > length:
            target[end - 2] = _POINT
            target[end - 1] = _ZERO


@inlined
def _put_two_digits(target: Bytes, at: int, number: int) -> None:
    target[at] = 0x30 + number // 10
    target[at + 1] = 0x30 + number % 10


@kernel(READ_INTS, READ_BYTES, INT, WRITE_BYTES)
def put_times(micros: Ints, valid: Bytes, length: int, target: Bytes) -> None:
    """Writes moments of the years 1 to 9999 as ISO 8601 in quotes, in microseconds, each in so many bytes:
    LOCAL_TIME_BYTES, or INSTANT_BYTES with a Z behind it. Nulls take none."""
    at = 0
    for r in range(len(micros)):
        if len(valid) > 0 and valid[r] == 0:
            continue
        day = micros[r] // _DAY_MICROS
        left = micros[r] - day * _DAY_MICROS
        day += _DAYS_TO_1970  # since 1 March of the year 0
        era = day // _ERA_DAYS
        day -= era * _ERA_DAYS
        year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
        day -= 365 * year + year // 4 - year // 100
        month = (5 * day + 2) // 153  # of years that begin in March
        day -= (153 * month + 2) // 5
        year += era * 400 + (1 if month >= 10 else 0)
        month += 3 if month < 10 else -9
        target[at], target[at + length - 1] = 0x22, 0x22
        _put_two_digits(target, at + 1, year // 100)
        _put_two_digits(target, at + 3, year % 100)
        _put_two_digits(target, at + 6, month)
        _put_two_digits(target, at + 9, day + 1)
        target[at + 5], target[at + 8], target[at + 11] = 0x2D, 0x2D, 0x54
        second = left // 1_000_000
        left -= second * 1_000_000
        _put_two_digits(target, at + 12, second // 3_600)
        _put_two_digits(target, at + 15, second // 60 % 60)
        _put_two_digits(target, at + 18, second % 60)
        target[at + 14], target[at + 17], target[at + 20] = 0x3A, 0x3A, 0x2E
        _put_two_digits(target, at + 21, left // 10_000)
        _put_two_digits(target, at + 23, left // 100 % 100)
        _put_two_digits(target, at + 25, left % 100)
        if length == INSTANT_BYTES:
            target[at + 27] = 0x5A
        at += length
