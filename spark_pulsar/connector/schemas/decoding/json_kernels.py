"""Kernel that checks JSON payloads: those that the reader of a whole column accepts become lines for it.

It knows the types of the wanted fields: a payload of another type, with a number that is written in another way, or
with anything else that is in doubt, is no such line; nothing is lost by doubt but speed. White space between tokens
becomes spaces, so that a line has no line break. Members of the record that the reader of columns does not know are
located, as they stand.
"""

from spark_pulsar.wire.columns.kernels.column_kernels import utf8_sequence_size
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

# Numbers of a node, which stands for a type.
KINDS = 0  # kinds of values that it has; null is always one
FIRST = 1  # first of its members, or the node of its items
END = 2  # behind the last of its members
LOCATED = 3  # place of a member that is located; -1: none
CLOSED = 4  # 1 for a record that must not have other members
NODE_FIELDS = 5
# Numbers of a member of a record.
NAME_START = 0
NAME_LENGTH = 1
NODE = 2
MEMBER_FIELDS = 3

BOOLEAN = 1
INT_32 = 2
INT_64 = 4
NUMBER = 8
STRING = 16
OBJECT = 32
ARRAY = 64
ANY = 127

_FRAME = 3  # node, next member that is expected (-1 in an array), number of the object
_MOST_DIGITS_32 = 10
_MOST_DIGITS_64 = 19
_MOST_DIGITS = 200  # with an exponent of two digits a number that a double has
_MOST_EXPONENT_DIGITS = 2
_DOUBT = -1


@inlined
def _is_space(byte: int) -> bool:
    return byte in (0x20, 0x0A, 0x0D, 0x09)


@inlined
def _behind_space(data: Bytes, at: int, end: int, lines: Bytes, shift: int) -> int:
    """Returns the place behind white space, which becomes spaces in the line."""
    while at < end and _is_space(byte_at(data, at)):
        lines[at + shift] = 0x20
        at += 1
    return at


@inlined
def _hex4(data: Bytes, at: int, end: int) -> int:
    """Reads four hexadecimal digits, or returns a negative number."""
    if end - at < 4:
        return _DOUBT
    value = 0
    for i in range(4):
        byte = byte_at(data, at + i)
        if 0x30 <= byte <= 0x39:
            value = value << 4 | (byte - 0x30)
        elif 0x41 <= byte & 0xDF <= 0x46:
            value = value << 4 | ((byte & 0xDF) - 0x37)
        else:
            return _DOUBT
    return value


@inlined
def _behind_escape(data: Bytes, at: int, end: int) -> int:
    """Returns the place behind an escape, whose backslash is before ``at``; negative for one in doubt."""
    if at >= end:
        return _DOUBT
    byte = byte_at(data, at)
    if byte != 0x75:
        is_known = byte in (0x22, 0x5C, 0x2F, 0x62, 0x66, 0x6E, 0x72, 0x74)
        return at + 1 if is_known else _DOUBT
    first = _hex4(data, at + 1, end)
    at += 5
    if first < 0 or 0xDC00 <= first <= 0xDFFF:
        return _DOUBT
    if first < 0xD800 or first > 0xDFFF:
        return at
    if end - at < 2 or byte_at(data, at) != 0x5C or byte_at(data, at + 1) != 0x75:
        return _DOUBT
    second = _hex4(data, at + 2, end)
    return at + 6 if 0xDC00 <= second <= 0xDFFF else _DOUBT


@inlined
def _behind_string(data: Bytes, at: int, end: int) -> tuple[int, bool]:
    """Returns the place behind a string, whose first quote is before ``at``, negative for one in doubt; and whether it
    has escapes."""
    has_escapes = False
    while at < end:
        byte = byte_at(data, at)
        if byte == 0x22:
            return at + 1, has_escapes
        if byte < 0x20:
            return _DOUBT, has_escapes
        if byte == 0x5C:
            has_escapes = True
            at = _behind_escape(data, at + 1, end)
            if at < 0:
                return at, has_escapes
        elif byte < 0x80:
            at += 1
        else:
            size = utf8_sequence_size(data, at, end)
            if size == 0:
                return _DOUBT, has_escapes
            at += size
    return _DOUBT, has_escapes


@inlined
def _behind_digits(data: Bytes, at: int, end: int) -> int:
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
def _behind_number(data: Bytes, at: int, end: int, kinds: int) -> int:
    """Returns the place behind a number; negative for one in doubt, or of another type."""
    is_negative = byte_at(data, at) == 0x2D
    if is_negative:
        at += 1
    first = at
    at = _behind_digits(data, at, end)
    digits = at - first
    if digits == 0 or (digits > 1 and byte_at(data, first) == 0x30):
        return _DOUBT
    is_whole, is_zero = True, byte_at(data, first) == 0x30
    if at < end and byte_at(data, at) == 0x2E:
        first, at, is_whole = at + 1, _behind_digits(data, at + 1, end), False
        if at == first:
            return _DOUBT
    if at < end and byte_at(data, at) | 0x20 == 0x65:
        at, is_whole = at + 1, False
        if at < end and (byte_at(data, at) == 0x2B or byte_at(data, at) == 0x2D):
            at += 1
        first, at = at, _behind_digits(data, at, end)
        if at == first or at - first > _MOST_EXPONENT_DIGITS:
            return _DOUBT
    if digits > _MOST_DIGITS:
        return _DOUBT
    if kinds & NUMBER:
        return _DOUBT if is_negative and is_zero and is_whole else at  # -0: a double of its own, or an int
    if not is_whole:
        return _DOUBT
    return at if _is_within(data, first, digits, kinds) else _DOUBT


@inlined
def _behind_word(data: Bytes, at: int, end: int, kinds: int) -> int:
    """Returns the place behind true, false or null; negative for another word, or where none may be."""
    first = byte_at(data, at)
    size = 5 if first == 0x66 else 4
    if end - at < size:
        return _DOUBT
    word = 0
    for i in range(1, size):
        word = word << 8 | byte_at(data, at + i)
    if first == 0x6E:
        return at + 4 if word == 0x756C6C else _DOUBT
    if not kinds & BOOLEAN:
        return _DOUBT
    if first == 0x74:
        return at + 4 if word == 0x727565 else _DOUBT
    return at + 5 if first == 0x66 and word == 0x616C7365 else _DOUBT


@inlined
def _is_name(data: Bytes, start: int, length: int, members: Ints, member: int, names: Bytes) -> bool:
    if members[member * MEMBER_FIELDS + NAME_LENGTH] != length:
        return False
    name = members[member * MEMBER_FIELDS + NAME_START]
    for i in range(length - 1, -1, -1):  # noqa: SIM110 - kernels cannot close over names
        if byte_at(data, start + i) != byte_at(names, name + i):
            return False
    return True


@inlined
def _member(
    data: Bytes, start: int, length: int, nodes: Ints, node: int, expected: int, members: Ints, names: Bytes
) -> int:
    """Returns the member of a record with a name, negative without; the one that is expected is tried first."""
    first, end = nodes[node * NODE_FIELDS + FIRST], nodes[node * NODE_FIELDS + END]
    if expected < end and _is_name(data, start, length, members, expected, names):
        return expected
    for member in range(first, end):
        if _is_name(data, start, length, members, member, names):
            return member
    return _DOUBT


@inlined
def _enter_member(
    data: Bytes,
    at: int,
    end: int,
    lines: Bytes,
    shift: int,
    nodes: Ints,
    members: Ints,
    names: Bytes,
    stack: Ints,
    top: int,
    seen: Ints,
) -> tuple[int, int]:
    """Reads a name and the colon behind it: (place, or negative for one in doubt; node of the value)."""
    if at >= end or byte_at(data, at) != 0x22:
        return _DOUBT, 0
    start = at + 1
    at, has_escapes = _behind_string(data, start, end)
    if at < 0:
        return at, 0
    length = at - 1 - start
    at = _behind_space(data, at, end, lines, shift)
    if at >= end or byte_at(data, at) != 0x3A:
        return _DOUBT, 0
    node = stack[top - 3]
    if nodes[node * NODE_FIELDS + FIRST] == nodes[node * NODE_FIELDS + END]:  # no member of it is wanted
        return at + 1, 0
    if has_escapes:
        return _DOUBT, 0
    member = _member(data, start, length, nodes, node, stack[top - 2], members, names)
    if member < 0:
        return (_DOUBT if nodes[node * NODE_FIELDS + CLOSED] else at + 1), 0
    if seen[member] == stack[top - 1]:  # which of them counts is not for this to say
        return _DOUBT, 0
    seen[member] = stack[top - 1]
    stack[top - 2] = member + 1
    return at + 1, members[member * MEMBER_FIELDS + NODE]


@inlined
def _behind_scalar(data: Bytes, at: int, end: int, kinds: int) -> int:
    """Returns the place behind a value without parts; negative for one in doubt, or of another type."""
    byte = byte_at(data, at)
    if byte == 0x22:
        behind, _ = _behind_string(data, at + 1, end)
        return behind if kinds & STRING else _DOUBT
    if byte == 0x2D or 0x30 <= byte <= 0x39:
        return _behind_number(data, at, end, kinds)
    return _behind_word(data, at, end, kinds)


@inlined
def _close(
    data: Bytes, at: int, end: int, lines: Bytes, shift: int, stack: Ints, top: int, depth: int
) -> tuple[int, int, int]:
    """Steps over the ends of objects and arrays, down to a comma or to the end of the value at `depth`, which is left
    first: (place, or negative in doubt; top; place behind what ended last)."""
    behind = at
    while top > depth:
        at = _behind_space(data, at, end, lines, shift)
        if at >= end:
            return _DOUBT, top, behind
        byte = byte_at(data, at)
        if byte == 0x2C:
            return at, top, behind
        if byte != (0x5D if stack[top - 2] < 0 else 0x7D):
            return _DOUBT, top, behind
        top -= _FRAME
        at += 1
        behind = at
    return at, top, behind


@inlined
def _open(
    data: Bytes,
    at: int,
    end: int,
    lines: Bytes,
    shift: int,
    nodes: Ints,
    members: Ints,
    names: Bytes,
    stack: Ints,
    top: int,
    seen: Ints,
    node: int,
    serial: int,
) -> tuple[int, int, int]:
    """Steps into an object or array: (place, or negative for one in doubt; top; node of its first value, negative for
    none)."""
    is_object = byte_at(data, at) == 0x7B
    kinds = nodes[node * NODE_FIELDS + KINDS]
    if top + _FRAME > len(stack) or not kinds & (OBJECT if is_object else ARRAY):
        return _DOUBT, top, 0
    first = nodes[node * NODE_FIELDS + FIRST]
    stack[top] = node
    stack[top + 1] = first if is_object else -1
    stack[top + 2] = serial
    top += _FRAME
    at = _behind_space(data, at + 1, end, lines, shift)
    if at < end and byte_at(data, at) == (0x7D if is_object else 0x5D):
        return at, top, -1
    if not is_object:
        return at, top, first
    at, node = _enter_member(data, at, end, lines, shift, nodes, members, names, stack, top, seen)
    return at, top, node


@inlined
def _go_on(
    data: Bytes,
    at: int,
    end: int,
    lines: Bytes,
    shift: int,
    nodes: Ints,
    members: Ints,
    names: Bytes,
    stack: Ints,
    top: int,
    seen: Ints,
) -> tuple[int, int, int]:
    """Steps behind a value to the next one, or to the end of the payload: (place, or negative for one in doubt; top,
    0 at the end; node of the next value)."""
    at, top, _ = _close(data, at, end, lines, shift, stack, top, 0)
    if at < 0:
        return _DOUBT, top, 0
    if top == 0:
        return at if _behind_space(data, at, end, lines, shift) == end else _DOUBT, 0, 0
    at = _behind_space(data, at + 1, end, lines, shift)
    if stack[top - 2] < 0:
        return at, top, nodes[stack[top - 3] * NODE_FIELDS + FIRST]
    at, node = _enter_member(data, at, end, lines, shift, nodes, members, names, stack, top, seen)
    return at, top, node


@inlined
def _behind_mark(data: Bytes, at: int, end: int, lines: Bytes, shift: int) -> int:
    """Returns the place behind a byte order mark, which becomes spaces in the line."""
    if end - at > 3 and byte_at(data, at) == 0xEF and byte_at(data, at + 1) == 0xBB and byte_at(data, at + 2) == 0xBF:
        for _ in range(3):
            lines[at + shift] = 0x20
            at += 1
    return at


@inlined
def _check_line(
    data: Bytes,
    at: int,
    end: int,
    lines: Bytes,
    shift: int,
    nodes: Ints,
    members: Ints,
    names: Bytes,
    stack: Ints,
    seen: Ints,
    serial: int,
    located: Ints,
    row: int,
    rows: int,
) -> int:
    """Checks one payload; returns the number of its last object, negative where it is in doubt."""
    top, node, place, start, depth = 0, 1, -1, 0, 0
    at = _behind_mark(data, at, end, lines, shift)
    while True:
        at = _behind_space(data, at, end, lines, shift)
        if at >= end:
            return _DOUBT
        if place < 0 and nodes[node * NODE_FIELDS + LOCATED] >= 0:
            place, start, depth = nodes[node * NODE_FIELDS + LOCATED], at, top
        if byte_at(data, at) in (0x7B, 0x5B):
            serial += 1
            at, top, node = _open(data, at, end, lines, shift, nodes, members, names, stack, top, seen, node, serial)
            if at < 0:
                return _DOUBT
            if node >= 0:
                continue
        else:
            at = _behind_scalar(data, at, end, nodes[node * NODE_FIELDS + KINDS])
            if at < 0 or top == 0:
                return _DOUBT
        if place >= 0:
            at, top, behind = _close(data, at, end, lines, shift, stack, top, depth)
            if top == depth and at >= 0:
                located[2 * place * rows + row] = start
                located[(2 * place + 1) * rows + row] = behind - start
                place = -1
        if at >= 0:
            at, top, node = _go_on(data, at, end, lines, shift, nodes, members, names, stack, top, seen)
        if at < 0:
            return _DOUBT
        if top == 0:
            return serial


@kernel(
    READ_BYTES, READ_INTS, INT, READ_INTS, READ_INTS, READ_BYTES, WRITE_INTS, WRITE_INTS, WRITE_INTS, WRITE_INTS,
    WRITE_BYTES,
)  # fmt: skip
def check_lines(
    data: Bytes,
    offsets: Ints,
    rows: int,
    nodes: Ints,
    members: Ints,
    names: Bytes,
    stack: Ints,
    seen: Ints,
    located: Ints,
    is_line: Ints,
    lines: Bytes,
) -> int:
    """Writes the payloads ``data[offsets[i]:offsets[i + 1]]`` that are as they should be to ``lines``, a line break
    behind each; returns the bytes written.

    ``lines`` has room for all payloads and line breaks. Node 0 stands for any value, node 1 for the record.
    """
    to, serial = 0, 0
    for row in range(rows):
        at, end = offsets[row], offsets[row + 1]
        copy_bytes(lines, to, data, at, end - at)
        result = _check_line(
            data, at, end, lines, to - at, nodes, members, names, stack, seen, serial, located, row, rows
        )
        if result < 0:
            is_line[row] = 0
            serial += end - at + 1  # more than the objects that it can have begun
        else:
            is_line[row] = 1
            serial = result
            to += end - at
            lines[to] = 0x0A
            to += 1
    return to
