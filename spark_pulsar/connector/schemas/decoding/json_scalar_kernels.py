"""Scalars of JSON as kernels read them: the place behind a string, number or word, negative where it is in doubt.

A value is in doubt unless it is written as nearly all clients write it: no escapes in base64, no exponents in decimals.
"""

import numpy as np

from spark_pulsar.wire.columns.kernels.column_kernels import base64_value, utf8_sequence_size
from spark_pulsar.wire.columns.kernels.compiler import Bytes, inlined
from spark_pulsar.wire.columns.kernels.memory import byte_at

# Kinds of values that a type has; null is always one.
BOOLEAN = 1
INT_32 = 2
INT_64 = 4
NUMBER = 8
STRING = 16
OBJECT = 32
ARRAY = 64
ANY = 127
MAP = 128  # an object whose members are named by the payload
UNION = 256
BASE64 = 512  # of so many bytes; negative: of any number
SIZED = 1_024  # text of so many bytes
DECIMAL = 2_048  # with at most so many digits before the point, and behind it
TIME = 4_096  # ISO 8601 in a form of those below

# Forms of times.
INSTANT = 0  # day and clock, UTC
LOCAL = 1  # day and clock
CLOCK = 2

DOUBT = -1

# Lengths that stand for what a slot has of a number.
VALUE = 1  # the number
DECIMAL_TEXT = 2  # and more: the length of its text
REAL = 64  # and a power of ten by which the number is multiplied
REAL_TEXT = 1_000  # and more: the length of its text

_MOST_UNSCALED_DIGITS = 18
_MOST_EXACT_DIGITS = 15  # of a number that a double has
_MOST_EXACT_POWER = 22
_ESCAPED = np.zeros(128, np.uint8)
_ESCAPED[np.frombuffer(b'"\\/bfnrt', np.uint8)] = np.frombuffer(b'"\\/\b\f\n\r\t', np.uint8)
_MOST_DIGITS_32 = 10
_MOST_DIGITS_64 = 19
_MOST_DIGITS = 200  # with an exponent of two digits a number that a double has
_MOST_EXPONENT_DIGITS = 2
_MOST_FRACTION_DIGITS = 6
_DAYS_TO_1970 = 719_468  # from 1 March of the year 0
_MICROS = 1_000_000


@inlined
def is_space(byte: int) -> bool:
    """Returns whether a byte is white space of JSON."""
    return byte in (0x20, 0x0A, 0x0D, 0x09)


@inlined
def behind_space(data: Bytes, at: int, end: int) -> int:
    """Returns the place behind white space."""
    while at < end and is_space(byte_at(data, at)):
        at += 1
    return at


@inlined
def hex4(data: Bytes, at: int, end: int) -> int:
    """Reads four hexadecimal digits, or returns a negative number."""
    if end - at < 4:
        return DOUBT
    value = 0
    for i in range(4):
        byte = byte_at(data, at + i)
        if 0x30 <= byte <= 0x39:
            value = value << 4 | (byte - 0x30)
        elif 0x41 <= byte & 0xDF <= 0x46:
            value = value << 4 | ((byte & 0xDF) - 0x37)
        else:
            return DOUBT
    return value


@inlined
def behind_escape(data: Bytes, at: int, end: int) -> int:
    """Returns the place behind an escape, whose backslash is before ``at``; negative for one in doubt."""
    if at >= end:
        return DOUBT
    byte = byte_at(data, at)
    if byte != 0x75:
        is_known = byte in (0x22, 0x5C, 0x2F, 0x62, 0x66, 0x6E, 0x72, 0x74)
        return at + 1 if is_known else DOUBT
    first = hex4(data, at + 1, end)
    at += 5
    if first < 0 or 0xDC00 <= first <= 0xDFFF:
        return DOUBT
    if first < 0xD800 or first > 0xDFFF:
        return at
    if end - at < 2 or byte_at(data, at) != 0x5C or byte_at(data, at + 1) != 0x75:
        return DOUBT
    second = hex4(data, at + 2, end)
    return at + 6 if 0xDC00 <= second <= 0xDFFF else DOUBT


@inlined
def behind_string(data: Bytes, at: int, end: int) -> tuple[int, bool]:
    """Returns the place behind a string, whose first quote is before ``at``, negative for one in doubt; and whether it
    has escapes."""
    has_escapes = False
    while at < end:
        byte = byte_at(data, at)
        if byte == 0x22:
            return at + 1, has_escapes
        if byte < 0x20:
            return DOUBT, has_escapes
        if byte == 0x5C:
            has_escapes = True
            at = behind_escape(data, at + 1, end)
            if at < 0:
                return at, has_escapes
        elif byte < 0x80:
            at += 1
        else:
            size = utf8_sequence_size(data, at, end)
            if size == 0:
                return DOUBT, has_escapes
            at += size
    return DOUBT, has_escapes


@inlined
def behind_digits(data: Bytes, at: int, end: int) -> int:
    """Returns the place behind digits, of which there may be none."""
    while at < end and 0x30 <= byte_at(data, at) <= 0x39:
        at += 1
    return at


@inlined
def _is_within(data: Bytes, first: int, digits: int, kinds: int) -> bool:
    """Returns whether a whole number without its sign is within the positive ones of its type."""
    most = _MOST_DIGITS_64 if kinds & INT_64 else _MOST_DIGITS_32 if kinds & INT_32 else 0
    if digits != most:
        return digits < most
    value = 0
    for i in range(digits - 1):
        value = value * 10 + byte_at(data, first + i) - 0x30
    largest, last = (922_337_203_685_477_580, 7) if most == _MOST_DIGITS_64 else (214_748_364, 7)
    return value < largest or (value == largest and byte_at(data, first + digits - 1) - 0x30 <= last)


@inlined
def behind_number(data: Bytes, at: int, end: int, kinds: int) -> int:
    """Returns the place behind a number; negative for one in doubt, or of another type."""
    is_negative = byte_at(data, at) == 0x2D
    if is_negative:
        at += 1
    first = at
    at = behind_digits(data, at, end)
    digits = at - first
    if digits == 0 or (digits > 1 and byte_at(data, first) == 0x30):
        return DOUBT
    is_whole, is_zero = True, byte_at(data, first) == 0x30
    if at < end and byte_at(data, at) == 0x2E:
        first, at, is_whole = at + 1, behind_digits(data, at + 1, end), False
        if at == first:
            return DOUBT
    if at < end and byte_at(data, at) | 0x20 == 0x65:
        at, is_whole = at + 1, False
        if at < end and (byte_at(data, at) == 0x2B or byte_at(data, at) == 0x2D):
            at += 1
        first, at = at, behind_digits(data, at, end)
        if at == first or at - first > _MOST_EXPONENT_DIGITS:
            return DOUBT
    if digits > _MOST_DIGITS:
        return DOUBT
    if kinds & NUMBER:
        return DOUBT if is_negative and is_zero and is_whole else at  # -0: a double of its own, or an int
    if not is_whole:
        return DOUBT
    return at if _is_within(data, first, digits, kinds) else DOUBT


@inlined
def behind_word(data: Bytes, at: int, end: int, kinds: int) -> int:
    """Returns the place behind true, false or null; negative for another word, or where none may be."""
    first = byte_at(data, at)
    size = 5 if first == 0x66 else 4
    if end - at < size:
        return DOUBT
    word = 0
    for i in range(1, size):
        word = word << 8 | byte_at(data, at + i)
    if first == 0x6E:
        return at + 4 if word == 0x756C6C else DOUBT
    if not kinds & BOOLEAN:
        return DOUBT
    if first == 0x74:
        return at + 4 if word == 0x727565 else DOUBT
    return at + 5 if first == 0x66 and word == 0x616C7365 else DOUBT


@inlined
def is_base64(data: Bytes, start: int, stop: int, size_bytes: int) -> bool:
    """Returns whether a text is padded base64 without anything else, of so many bytes (negative: of any number)."""
    if (stop - start) & 3:
        return False
    pads = 0
    if stop > start and byte_at(data, stop - 1) == 0x3D:
        pads = 2 if byte_at(data, stop - 2) == 0x3D else 1
    if size_bytes >= 0 and (stop - start) // 4 * 3 - pads != size_bytes:
        return False
    last = 0
    for at in range(start, stop - pads):
        last = base64_value(data, at)
        if last < 0:
            return False
    return last & ((1 << 2 * pads) - 1) == 0  # bits of no byte


@inlined
def behind_decimal(data: Bytes, at: int, end: int, integer_digits: int, fraction_digits: int) -> int:
    """Returns the place behind a decimal of at most so many digits before and behind its point."""
    if at < end and byte_at(data, at) == 0x2D:
        at += 1
    first = at
    at = behind_digits(data, at, end)
    digits = at - first
    if digits == 0:
        return DOUBT
    if byte_at(data, first) == 0x30:
        if digits > 1:
            return DOUBT
    elif digits > integer_digits:
        return DOUBT
    if at < end and byte_at(data, at) == 0x2E:
        first, at = at + 1, behind_digits(data, at + 1, end)
        if at == first or at - first > fraction_digits:
            return DOUBT
    return at


@inlined
def _digits(data: Bytes, at: int, count: int) -> int:
    """Reads a number of digits, or returns a negative number."""
    value = 0
    for i in range(count):
        digit = byte_at(data, at + i) - 0x30
        if digit < 0 or digit > 9:
            return DOUBT
        value = value * 10 + digit
    return value


@inlined
def _day(data: Bytes, at: int) -> int:
    """Returns the days since year 0 of ten bytes that are a day of the calendar; negative for none."""
    year, month, day = _digits(data, at, 4), _digits(data, at + 5, 2), _digits(data, at + 8, 2)
    if year < 1 or month < 1 or month > 12 or byte_at(data, at + 4) != 0x2D or byte_at(data, at + 7) != 0x2D:
        return DOUBT
    most = 30 if month in (4, 6, 9, 11) else 31
    if month == 2:
        most = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    if day < 1 or day > most:
        return DOUBT
    if month <= 2:  # years that begin in March have the leap day last
        year, month = year - 1, month + 12
    return year * 365 + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 1


@inlined
def _clock(data: Bytes, at: int) -> int:
    """Returns the seconds of the day of eight bytes that are a time; negative for none."""
    hour, minute, second = _digits(data, at, 2), _digits(data, at + 3, 2), _digits(data, at + 6, 2)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return DOUBT
    if byte_at(data, at + 2) != 0x3A or byte_at(data, at + 5) != 0x3A:
        return DOUBT
    return (hour * 60 + minute) * 60 + second


@inlined
def time_of(data: Bytes, at: int, end: int, form: int) -> tuple[int, int]:
    """Reads a time whose first quote is before ``at``: (place behind it, negative for one in doubt; microseconds)."""
    days = 0
    if form != CLOCK:
        if end - at < 11 or byte_at(data, at + 10) != 0x54:
            return DOUBT, 0
        days = _day(data, at)
        if days < 0:
            return DOUBT, 0
        days -= _DAYS_TO_1970
        at += 11
    if end - at < 8:
        return DOUBT, 0
    seconds = _clock(data, at)
    if seconds < 0:
        return DOUBT, 0
    at += 8
    micros = 0
    if at < end and byte_at(data, at) == 0x2E:
        first, at = at + 1, behind_digits(data, at + 1, end)
        digits = at - first
        if digits == 0 or digits > _MOST_FRACTION_DIGITS:
            return DOUBT, 0
        micros = _digits(data, first, digits)
        for _ in range(_MOST_FRACTION_DIGITS - digits):
            micros *= 10
    if form == INSTANT:
        if at >= end or byte_at(data, at) != 0x5A:
            return DOUBT, 0
        at += 1
    if at >= end or byte_at(data, at) != 0x22:
        return DOUBT, 0
    return at + 1, (days * 86_400 + seconds) * _MICROS + micros


@inlined
def whole_number(data: Bytes, at: int, stop: int) -> int:
    """Returns the number that text is which has nothing but a sign and digits, few enough of them."""
    first = at + 1 if byte_at(data, at) == 0x2D else at
    value = 0
    for place in range(first, stop):
        value = value * 10 + byte_at(data, place) - 0x30
    return value if first == at else -value


@inlined
def unscaled(data: Bytes, at: int, stop: int, scale: int) -> tuple[int, int]:
    """Returns the unscaled value of a decimal and VALUE, or its place and the length of its text, where it has too many
    digits."""
    first = at + 1 if byte_at(data, at) == 0x2D else at
    if stop - first + scale > _MOST_UNSCALED_DIGITS:
        return at, DECIMAL_TEXT + stop - at
    value, left = 0, -1
    for place in range(first, stop):
        byte = byte_at(data, place)
        if byte == 0x2E:
            left = scale
        else:
            value = value * 10 + byte - 0x30
            left -= 1 if left >= 0 else 0
    for _ in range(left if left >= 0 else scale):
        value *= 10
    return value if first == at else -value, VALUE


@inlined
def real_number(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Returns what is exactly a number times a power of ten, both of which a double has; else the place of its text and
    its length."""
    first = at + 1 if byte_at(data, at) == 0x2D else at
    value, digits, power, place, is_behind = 0, 0, 0, first, False
    while place < stop and byte_at(data, place) | 0x20 != 0x65:
        byte = byte_at(data, place)
        if byte == 0x2E:
            is_behind = True
        else:
            value = value * 10 + byte - 0x30
            digits += 1 if value > 0 else 0
            power -= 1 if is_behind else 0
            if digits > _MOST_EXACT_DIGITS:
                return at, REAL_TEXT + stop - at
        place += 1
    if place < stop:
        place += 1
        is_negative = byte_at(data, place) == 0x2D
        if is_negative or byte_at(data, place) == 0x2B:
            place += 1
        exponent = whole_number(data, place, stop)
        power += -exponent if is_negative else exponent
    if power > _MOST_EXACT_POWER or power < -_MOST_EXACT_POWER or (value == 0 and first > at):
        return at, REAL_TEXT + stop - at
    return value if first == at else -value, REAL + power


@inlined
def unescaped(data: Bytes, at: int, stop: int, text: Bytes) -> int:
    """Writes a string without doubt, whose first quote is before ``at`` and whose last one is at ``stop``, to the same
    place of ``text``, as the UTF-8 that it stands for; returns its length."""
    start, to = at, at
    while at < stop:
        byte = byte_at(data, at)
        if byte != 0x5C:
            text[to] = byte
            at, to = at + 1, to + 1
            continue
        byte = byte_at(data, at + 1)
        at += 2
        if byte != 0x75:
            text[to] = _ESCAPED[byte]
            to += 1
            continue
        unit = hex4(data, at, stop)
        at += 4
        if 0xD800 <= unit <= 0xDBFF:
            unit = 0x10000 + ((unit - 0xD800) << 10) + hex4(data, at + 2, stop) - 0xDC00
            at += 6
        if unit < 0x80:
            text[to] = unit
            to += 1
            continue
        more = 1 if unit < 0x800 else 2 if unit < 0x10000 else 3
        text[to] = (0xC0 if more == 1 else 0xE0 if more == 2 else 0xF0) | unit >> (6 * more)
        for i in range(more):
            text[to + 1 + i] = 0x80 | (unit >> (6 * (more - 1 - i)) & 0x3F)
        to += more + 1
    return to - start
