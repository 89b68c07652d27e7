"""Counts of repeated parts of a long command, before it is parsed: a frame has room for a million of them, and parsing
those takes a tenth of a second from all other connections."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.descriptor import FieldDescriptor

from spark_pulsar.model.errors import MalformedFrame
from spark_pulsar.model.limits import MAX_PROPERTIES
from spark_pulsar.wire.protocol import varint

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

LONG_BYTES: Final = 1 << 16
"""Size from which on the fields of a command, or of a part of it, are counted: a shorter one is parsed in a few
milliseconds."""
MAX_PARTS: Final = 1 << 16
"""Parts of a kind that are no properties: hash ranges, of which there can be no more (KS-7), or ids in an ACK."""
MAX_OTHERS: Final = MAX_PROPERTIES
"""Fields of a command in all that are no parts: numbers, texts, and what this version of the protocol does not know."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class TooManyFields(MalformedFrame):
    """Error of a command with more fields than it may have."""


@cache
def _parts(descriptor: Descriptor, with_text: frozenset[str]) -> dict[int, tuple[Descriptor, str, int]]:
    """Returns the fields that hold parts, by number: type of a part, name of the field, most of them."""
    return {
        field.number: (part, field.full_name, MAX_PROPERTIES if part.full_name in with_text else MAX_PARTS)
        for field in descriptor.fields
        if (part := field.message_type) is not None
    }


def check(descriptor: Descriptor, data: bytes, with_text: frozenset[str]) -> None:
    """Raises TooManyFields when a message of this type has too many fields, or parts of a kind, in itself or in a long
    part; `with_text` names the types of parts that count as properties. Bytes that are no message raise nothing."""
    try:
        _count(descriptor, data, 0, len(data), with_text, MAX_OTHERS)
    except TooManyFields:
        raise
    except (IndexError, MalformedFrame):
        return  # no message: the parser says so


def _count(descriptor: Descriptor, data: bytes, start: int, end: int, with_text: frozenset[str], room: int) -> int:
    """Returns how many more fields that are no parts there may be."""
    parts = _parts(descriptor, with_text)
    counts = dict.fromkeys(parts, 0)
    at = start
    while at < end:
        if room < 0:
            raise TooManyFields(f"a command of more than {MAX_OTHERS} fields")
        tag = data[at]
        at += 1
        if tag > 127:
            tag, at = varint.decode(data, at - 1, end)
        kind = tag & 7
        if kind == _BYTES:
            size = data[at]
            at += 1
            if size > 127:
                size, at = varint.decode(data, at - 1, end)
            number = tag >> 3
            part = parts.get(number)
            if part is not None:
                counts[number] = count = counts[number] + 1
                if count > part[2]:
                    raise TooManyFields(f"more than {part[2]} times {part[1]}")
                if size > LONG_BYTES:
                    room = _count(part[0], data, at, min(at + size, end), with_text, room)
            else:
                room -= 1
            at += size
        elif kind == _VARINT:
            room -= 1
            at = at + 1 if data[at] < 128 else varint.decode(data, at, end)[1]
        elif kind == _FIXED64:
            room -= 1
            at += 8
        elif kind == _FIXED32:
            room -= 1
            at += 4
        else:
            break  # no kind that a command has: the parser says so
    return room


_LABEL_REPEATED: Final = 3


def _by_label(field: Any) -> bool:
    return bool(field.label == _LABEL_REPEATED)


def _by_property(field: Any) -> bool:
    return bool(field.is_repeated)


is_repeated: Final[Callable[[Any], bool]] = _by_property if hasattr(FieldDescriptor, "is_repeated") else _by_label
"""Returns whether a field is a list or a map, in the way that the installed protobuf knows: each release from 4.25 to 7
lacks one of the two ways, or warns of it."""
