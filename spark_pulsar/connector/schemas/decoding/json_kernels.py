"""Kernel that reads JSON payloads into columns: those that are as nearly all clients write them.

It knows the types of the wanted fields: a payload of another type, with a number that is written in another way, or
with anything else that is in doubt, is left out; nothing is lost by doubt but speed. A program is a tree of nodes, one
for each type, with a slot of two numbers for each value: the value or its place in the text, and its length or what
says how to read it, -1 for null. Slots lie in tables, one for each level: of rows, and of the items of each array or
map.
"""

from spark_pulsar.connector.schemas.decoding.json_scalar_kernels import (
    ANY,
    ARRAY,
    BASE64,
    DECIMAL,
    DOUBT,
    MAP,
    NUMBER,
    OBJECT,
    SIZED,
    STRING,
    TIME,
    UNION,
    VALUE,
    behind_decimal,
    behind_number,
    behind_space,
    behind_string,
    behind_word,
    is_base64,
    real_number,
    time_of,
    unescaped,
    unscaled,
    whole_number,
)
from spark_pulsar.wire.columns.kernels.column_kernels import decode_base64
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
from spark_pulsar.wire.columns.kernels.memory import byte_at

# Numbers of a node, which stands for a type.
KINDS = 0  # kinds of values that it has; null is always one
FIRST = 1  # first of its members, or the node of its items, or what its kind says
END = 2  # behind the last of its members, or what its kind says
CLOSED = 3  # 1 for a record that must not have other members
LEVEL = 4  # of its slot
PLACE = 5  # of its slot; negative without one
ROOM = 6  # of its level
ITEM_LEVEL = 7  # of the items of an array or map
NODE_FIELDS = 8
# Numbers of a member of a record.
NAME_START = 0
NAME_LENGTH = 1
NODE = 2
MEMBER_FIELDS = 3
# Number of a branch of a union, in place of a name.
ACCEPTED = 0  # beginnings of values that are of it, as far as another branch must not have them

BEGINS_NUMBER = 1
BEGINS_STRING = 2
BEGINS_WORD = 4
BEGINS_OBJECT = 8
BEGINS_ARRAY = 16
NUMBER_WORDS = 32  # strings that are NaN and the infinities

# Numbers of a level, whose first slot has the keys where it is a map's.
LEVEL_START = 0
LEVEL_ROOM = 1
LEVEL_SLOTS = 2
COUNT = 3  # items of the rows that are read
LEVEL_FIELDS = 4
# Numbers in which a run over payloads goes on.
NEXT_ROW = 0
SERIAL = 1
HAS_EQUAL_KEYS = 2  # maps may have equal keys
FULL_LEVEL = 3  # level that has no room left; negative: none
PROGRESS_FIELDS = 4

_FRAME = 3  # node, next member that is expected (or one of those below), number of the object (or of its first key)
_OF_ARRAY = -1
_OF_MAP = -2
_MOST_KEYS_COMPARED = 32


@inlined
def _store(nodes: Ints, node: int, levels: Ints, values: Ints, value: int, length: int) -> None:
    """Stores a value into the slot of a node, if it has one."""
    place = nodes[node * NODE_FIELDS + PLACE]
    if place >= 0:
        place += levels[nodes[node * NODE_FIELDS + LEVEL] * LEVEL_FIELDS + COUNT] - 1
        values[place] = value
        values[place + nodes[node * NODE_FIELDS + ROOM]] = length


@inlined
def _begin_item(levels: Ints, level: int, values: Ints, progress: Ints) -> bool:
    """Begins a row or an item, of which all is null; returns whether there is room for it."""
    item = levels[level * LEVEL_FIELDS + COUNT]
    room = levels[level * LEVEL_FIELDS + LEVEL_ROOM]
    if item >= room:
        progress[FULL_LEVEL] = level
        return False
    levels[level * LEVEL_FIELDS + COUNT] = item + 1
    place = levels[level * LEVEL_FIELDS + LEVEL_START] + room + item
    for _ in range(levels[level * LEVEL_FIELDS + LEVEL_SLOTS]):
        values[place] = -1
        place += 2 * room
    return True


@inlined
def _begin_next(nodes: Ints, node: int, levels: Ints, values: Ints, progress: Ints) -> int:
    """Begins the next item of an array or map; returns the node of its value, negative without room."""
    first, level = nodes[node * NODE_FIELDS + FIRST], nodes[node * NODE_FIELDS + ITEM_LEVEL]
    if level == 0:  # of an array without a column
        return first
    if not _begin_item(levels, level, values, progress):
        return DOUBT
    place = nodes[node * NODE_FIELDS + PLACE] + nodes[node * NODE_FIELDS + ROOM]
    values[place + levels[nodes[node * NODE_FIELDS + LEVEL] * LEVEL_FIELDS + COUNT] - 1] += 1
    return first


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
    return DOUBT


@inlined
def _node_of_member(
    data: Bytes, start: int, length: int, nodes: Ints, members: Ints, names: Bytes, stack: Ints, top: int, seen: Ints
) -> int:
    """Returns the node of the value behind a name without escapes, negative for one in doubt."""
    node = stack[top - 3]
    member = _member(data, start, length, nodes, node, stack[top - 2], members, names)
    if member < 0:
        return DOUBT if nodes[node * NODE_FIELDS + CLOSED] else 0
    if seen[member] == stack[top - 1]:  # which of them counts is not for this to say
        return DOUBT
    seen[member] = stack[top - 1]
    stack[top - 2] = member + 1
    return members[member * MEMBER_FIELDS + NODE]


@inlined
def _may_repeat(data: Bytes, start: int, length: int, keys: Ints, first: int) -> bool:
    """Returns whether a key of a map may be one of those before it, which it joins; ``keys[0]`` is their end."""
    end = keys[0]
    if end + 2 > len(keys) or end - first >= 2 * _MOST_KEYS_COMPARED:
        return True
    keys[end], keys[end + 1] = start, length
    keys[0] = end + 2
    for known in range(first, end, 2):
        if keys[known + 1] == length:
            at, is_equal = 0, True
            while at < length and is_equal:
                is_equal = byte_at(data, start + at) == byte_at(data, keys[known] + at)
                at += 1
            if is_equal:
                return True
    return False


@inlined
def _store_key(
    data: Bytes,
    start: int,
    stop: int,
    has_escapes: bool,
    text: Bytes,
    nodes: Ints,
    stack: Ints,
    top: int,
    levels: Ints,
    values: Ints,
    keys: Ints,
    progress: Ints,
) -> None:
    """Stores a key of the map whose item has begun."""
    length = stop - start
    if has_escapes or _may_repeat(data, start, length, keys, stack[top - 1]):
        progress[HAS_EQUAL_KEYS] = 1
    level = nodes[stack[top - 3] * NODE_FIELDS + ITEM_LEVEL] * LEVEL_FIELDS
    if level > 0:
        if has_escapes:
            length = unescaped(data, start, stop, text)
        place = levels[level + LEVEL_START] + levels[level + COUNT] - 1
        values[place] = start
        values[place + levels[level + LEVEL_ROOM]] = length


@inlined
def _enter(
    data: Bytes,
    at: int,
    end: int,
    text: Bytes,
    nodes: Ints,
    members: Ints,
    names: Bytes,
    stack: Ints,
    top: int,
    seen: Ints,
    levels: Ints,
    values: Ints,
    keys: Ints,
    progress: Ints,
) -> tuple[int, int]:
    """Goes to the next value of an object or array, behind its name or key and the colon: (place, or negative for one
    in doubt; node of the value)."""
    frame, node = stack[top - 2], 0
    if frame < 0:
        node = _begin_next(nodes, stack[top - 3], levels, values, progress)
        if frame == _OF_ARRAY or node < 0:
            return (at if node >= 0 else DOUBT), node
    if at >= end or byte_at(data, at) != 0x22:
        return DOUBT, 0
    start = at + 1
    at, has_escapes = behind_string(data, start, end)
    if at < 0:
        return DOUBT, 0
    if frame == _OF_MAP:
        _store_key(data, start, at - 1, has_escapes, text, nodes, stack, top, levels, values, keys, progress)
    elif nodes[stack[top - 3] * NODE_FIELDS + FIRST] < nodes[stack[top - 3] * NODE_FIELDS + END]:
        if has_escapes:
            return DOUBT, 0
        node = _node_of_member(data, start, at - 1 - start, nodes, members, names, stack, top, seen)
    at = behind_space(data, at, end)
    is_entered = node >= 0 and at < end and byte_at(data, at) == 0x3A
    return (at + 1 if is_entered else DOUBT), node


@inlined
def _text(data: Bytes, at: int, end: int, text: Bytes, nodes: Ints, node: int, kinds: int) -> tuple[int, int, int]:
    """Reads a string, whose first quote is before ``at``: (place behind it, negative for one in doubt, or of another
    type; the two numbers of a slot)."""
    first = nodes[node * NODE_FIELDS + FIRST]
    if kinds & TIME:
        behind, micros = time_of(data, at, end, first)
        return behind, micros, VALUE
    behind, has_escapes = behind_string(data, at, end)
    if behind < 0:
        return DOUBT, 0, 0
    length = behind - 1 - at
    if kinds & STRING:
        if has_escapes and nodes[node * NODE_FIELDS + PLACE] >= 0:
            length = unescaped(data, at, behind - 1, text)
        return behind, at, length
    if has_escapes:
        return DOUBT, 0, 0
    if kinds & BASE64 and is_base64(data, at, behind - 1, first):
        size = length // 4 * 3
        if length > 0 and byte_at(data, behind - 2) == 0x3D:
            size -= 2 if byte_at(data, behind - 3) == 0x3D else 1
        decode_base64(data, at, size, text, at)
        return behind, at, size
    if kinds & SIZED and length == first:
        return behind, at, length
    return DOUBT, 0, 0


@inlined
def _scalar(data: Bytes, at: int, end: int, text: Bytes, nodes: Ints, node: int) -> tuple[int, int, int]:
    """Reads a value without parts: (place behind it, negative for one in doubt, or of another type; the two numbers of
    a slot)."""
    kinds = nodes[node * NODE_FIELDS + KINDS]
    byte = byte_at(data, at)
    is_text = byte == 0x22
    if is_text and not kinds & DECIMAL:
        return _text(data, at + 1, end, text, nodes, node, kinds)
    if not is_text and byte != 0x2D and not 0x30 <= byte <= 0x39:
        return behind_word(data, at, end, kinds), 1 if byte == 0x74 else 0, -1 if byte == 0x6E else VALUE
    if kinds & DECIMAL:
        at += 1 if is_text else 0
        scale = nodes[node * NODE_FIELDS + END]
        behind = behind_decimal(data, at, end, nodes[node * NODE_FIELDS + FIRST], scale)
        if behind < 0 or (is_text and (behind >= end or byte_at(data, behind) != 0x22)):
            return DOUBT, 0, 0
        value, length = unscaled(data, at, behind, scale)
        return (behind + 1 if is_text else behind), value, length
    behind = behind_number(data, at, end, kinds)
    if behind < 0 or nodes[node * NODE_FIELDS + PLACE] < 0:
        return behind, 0, VALUE
    if kinds & NUMBER:
        value, length = real_number(data, at, behind)
        return behind, value, length
    return behind, whole_number(data, at, behind), VALUE


@inlined
def _branch(data: Bytes, at: int, end: int, nodes: Ints, node: int, members: Ints) -> int:
    """Returns the node of the branch of a union that a value is of, if it is of its type: the first that values with
    its beginning may be of; negative for one in doubt."""
    byte = byte_at(data, at)
    begins = BEGINS_NUMBER
    if byte == 0x22:
        begins = BEGINS_STRING
    elif byte == 0x7B:
        begins = BEGINS_OBJECT
    elif byte == 0x5B:
        begins = BEGINS_ARRAY
    elif byte in (0x74, 0x66):
        begins = BEGINS_WORD
    for branch in range(nodes[node * NODE_FIELDS + FIRST], nodes[node * NODE_FIELDS + END]):
        accepted = members[branch * MEMBER_FIELDS + ACCEPTED]
        if accepted & begins:
            return members[branch * MEMBER_FIELDS + NODE]
        may_be_word = accepted & NUMBER_WORDS and byte == 0x22
        if may_be_word and (at + 1 >= end or byte_at(data, at + 1) in (0x4E, 0x49, 0x2D, 0x5C)):
            return DOUBT
    return DOUBT


@inlined
def _branch_or_node(
    data: Bytes, at: int, end: int, nodes: Ints, node: int, members: Ints, levels: Ints, values: Ints
) -> int:
    """Returns the node of a value: of the branch that it is of, negative for one in doubt, where its type is a union
    and it is not null."""
    if not nodes[node * NODE_FIELDS + KINDS] & UNION or byte_at(data, at) == 0x6E:
        return node
    _store(nodes, node, levels, values, 1, 1)
    return _branch(data, at, end, nodes, node, members)


@inlined
def _close(data: Bytes, at: int, end: int, stack: Ints, top: int, depth: int, keys: Ints) -> tuple[int, int, int]:
    """Steps over the ends of objects and arrays, down to a comma or to the end of the value at `depth`, which is left
    first: (place, or negative in doubt; top; place behind what ended last)."""
    behind = at
    while top > depth:
        at = behind_space(data, at, end)
        if at >= end:
            return DOUBT, top, behind
        byte = byte_at(data, at)
        if byte == 0x2C:
            return at, top, behind
        if byte != (0x5D if stack[top - 2] == _OF_ARRAY else 0x7D):
            return DOUBT, top, behind
        if stack[top - 2] == _OF_MAP:
            keys[0] = stack[top - 1]
        top -= _FRAME
        at += 1
        behind = at
    return at, top, behind


@inlined
def _open(
    data: Bytes,
    at: int,
    end: int,
    nodes: Ints,
    stack: Ints,
    top: int,
    node: int,
    keys: Ints,
    progress: Ints,
) -> tuple[int, int]:
    """Steps into an object or array: (place, or negative for one in doubt; top, which is as before where it is empty
    and the place is behind it)."""
    is_object = byte_at(data, at) == 0x7B
    kinds = nodes[node * NODE_FIELDS + KINDS]
    if top + _FRAME > len(stack) or not kinds & ((OBJECT | MAP) if is_object else ARRAY):
        return DOUBT, top
    at = behind_space(data, at + 1, end)
    if at < end and byte_at(data, at) == (0x7D if is_object else 0x5D):
        return at + 1, top
    is_map = is_object and kinds & MAP != 0
    progress[SERIAL] += 1
    stack[top] = node
    stack[top + 1] = _OF_MAP if is_map else nodes[node * NODE_FIELDS + FIRST] if is_object else _OF_ARRAY
    stack[top + 2] = keys[0] if is_map else progress[SERIAL]
    return at, top + _FRAME


@inlined
def _behind_mark(data: Bytes, at: int, end: int) -> int:
    """Returns the place behind a byte order mark."""
    if end - at > 3 and byte_at(data, at) == 0xEF and byte_at(data, at + 1) == 0xBB and byte_at(data, at + 2) == 0xBF:
        return at + 3
    return at


@inlined
def _read_row(
    data: Bytes,
    at: int,
    end: int,
    text: Bytes,
    nodes: Ints,
    members: Ints,
    names: Bytes,
    stack: Ints,
    seen: Ints,
    levels: Ints,
    values: Ints,
    keys: Ints,
    progress: Ints,
) -> bool:
    """Reads one payload; returns whether it is without doubt."""
    top, node, located, start, depth = 0, 1, -1, 0, 0
    keys[0] = 1
    at = _behind_mark(data, at, end)
    while True:
        at = behind_space(data, at, end)
        if at >= end:
            return False
        if located < 0 and node > 1 and nodes[node * NODE_FIELDS + KINDS] == ANY:
            located, start, depth = node, at, top
        node = _branch_or_node(data, at, end, nodes, node, members, levels, values)
        if node < 0:
            return False
        is_entered = False
        if byte_at(data, at) in (0x7B, 0x5B):
            # the items of arrays and maps are counted where they begin
            _store(nodes, node, levels, values, 0, 1 if nodes[node * NODE_FIELDS + KINDS] & OBJECT else 0)
            known = top
            at, top = _open(data, at, end, nodes, stack, top, node, keys, progress)
            is_entered = top > known
        else:
            at, value, length = _scalar(data, at, end, text, nodes, node)
            if top == 0:
                return False
            if at >= 0:
                _store(nodes, node, levels, values, value, length)
        while at >= 0 and not is_entered:
            at, top, behind = _close(data, at, end, stack, top, depth if located >= 0 else 0, keys)
            if located < 0 or top > depth:
                break
            _store(nodes, located, levels, values, start, behind - start)
            located = -1
        if at < 0:
            return False
        if top == 0:
            return behind_space(data, at, end) == end
        if not is_entered:
            at = behind_space(data, at + 1, end)
        at, node = _enter(data, at, end, text, nodes, members, names, stack, top, seen, levels, values, keys, progress)
        if at < 0:
            return False


@kernel(
    READ_BYTES, READ_INTS, INT, READ_INTS, READ_INTS, READ_BYTES, WRITE_INTS, WRITE_INTS, WRITE_BYTES, WRITE_INTS,
    WRITE_INTS, WRITE_INTS, WRITE_INTS, WRITE_INTS, WRITE_INTS,
)  # fmt: skip
def read_rows(
    data: Bytes,
    offsets: Ints,
    rows: int,
    nodes: Ints,
    members: Ints,
    names: Bytes,
    stack: Ints,
    seen: Ints,
    text: Bytes,
    is_read: Ints,
    levels: Ints,
    values: Ints,
    keys: Ints,
    counts: Ints,
    progress: Ints,
) -> None:
    """Reads the payloads ``data[offsets[i]:offsets[i + 1]]`` that are as they should be into the tables of ``levels``
    in ``values``, and goes on where ``progress`` says; before the end it stops where a level has no room for a row. Of
    a row in doubt all is null.

    ``text`` is a copy of ``data``, in which strings with escapes, and base64, become what they stand for. Node 0 stands
    for any value, node 1 for the record. ``counts`` has the items of each level where the row began.
    """
    level_count = len(levels) // LEVEL_FIELDS
    for row in range(progress[NEXT_ROW], rows):
        for level in range(level_count):
            counts[level] = levels[level * LEVEL_FIELDS + COUNT]
        progress[FULL_LEVEL] = -1
        is_without_doubt = _begin_item(levels, 0, values, progress) and _read_row(
            data, offsets[row], offsets[row + 1], text, nodes, members, names, stack, seen, levels, values, keys,
            progress,
        )  # fmt: skip
        is_read[row] = 1 if is_without_doubt else 0
        if not is_without_doubt:
            for level in range(level_count):
                levels[level * LEVEL_FIELDS + COUNT] = counts[level]
            if progress[FULL_LEVEL] >= 0:
                return
            _begin_item(levels, 0, values, progress)
        progress[NEXT_ROW] = row + 1
