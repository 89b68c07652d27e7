"""Protobuf messages as trees of fields that can be changed into what no encoder would write."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from spark_pulsar.wire.protocol.field_counts import is_repeated
from tests.fuzz import values

VARINT, FIXED64, LENGTH, GROUP, GROUP_END, FIXED32 = range(6)
_MAX_TIMES: Final = 3_000
_MAX_BYTES: Final = 100_000
"""Repetitions of one field, and their bytes."""


@dataclass(slots=True)
class Field:
    """One field as on the wire: a number, bytes, or a message again.

    Attributes:
        shift: Bytes by which the length that is written differs from that of the value.
    """

    number: int
    wire_type: int
    value: int | bytes | list[Field]
    descriptor: Descriptor | None = None
    shift: int = 0


def tree_of(message: Message) -> list[Field]:
    """Reads the present fields of a message, in order."""
    fields = []
    for descriptor, value in message.ListFields():
        for each in value if is_repeated(descriptor) else [value]:
            fields.append(_field(descriptor, each))
    return fields


def _field(descriptor: FieldDescriptor, value: Any) -> Field:
    if descriptor.message_type is not None:
        return Field(descriptor.number, LENGTH, tree_of(value), descriptor.message_type)
    if descriptor.type == FieldDescriptor.TYPE_STRING:
        return Field(descriptor.number, LENGTH, value.encode())
    if descriptor.type == FieldDescriptor.TYPE_BYTES:
        return Field(descriptor.number, LENGTH, value)
    if descriptor.type == FieldDescriptor.TYPE_DOUBLE:
        return Field(descriptor.number, FIXED64, struct.pack("<d", value))
    return Field(descriptor.number, VARINT, int(value))


def encoded(fields: list[Field]) -> bytes:
    """Writes a tree, whatever it says."""
    out = bytearray()
    for field in fields:
        out += varint(field.number << 3 | field.wire_type)
        value = field.value
        if isinstance(value, list):
            value = encoded(value)
        if field.wire_type == VARINT:
            out += varint(value if isinstance(value, int) else len(value))
        elif field.wire_type in (FIXED64, FIXED32):
            size = 8 if field.wire_type == FIXED64 else 4
            out += (value % 2**64).to_bytes(8, "little")[:size] if isinstance(value, int) else value[:size]
        elif field.wire_type == LENGTH:
            data = value if isinstance(value, bytes) else varint(value)
            out += varint(max(0, len(data) + field.shift)) + data
        elif isinstance(value, bytes):  # a group
            out += value
    return bytes(out)


def varint(value: int) -> bytes:
    """Encodes a number; a negative one as ten bytes, one beyond 64 bits as more."""
    value = value % 2**64 if value < 0 else value
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def mutate(choices: Random, fields: list[Field], descriptor: Descriptor) -> None:
    """Changes one thing somewhere in the tree."""
    inside = [field for field in fields if isinstance(field.value, list) and field.descriptor is not None]
    if inside and choices.random() < 0.65:
        field = choices.choice(inside)
        assert field.descriptor is not None
        assert isinstance(field.value, list)
        mutate(choices, field.value, field.descriptor)
        return
    choices.choice(_MUTATIONS)(choices, fields, descriptor)


def _another_value(choices: Random, fields: list[Field], descriptor: Descriptor) -> None:
    if not fields:
        _one_more(choices, fields, descriptor)
        return
    field = choices.choice(fields)
    if isinstance(field.value, int):
        near = field.value + choices.choice((-1, 1))
        field.value = near % 2**64 if choices.random() < 0.3 else values.integer(choices)
    elif choices.random() < 0.6:
        field.value = values.text(choices).encode()
    else:
        field.value = values.octets(choices)


def _one_more(choices: Random, fields: list[Field], descriptor: Descriptor) -> None:
    """Adds a field that the message type knows, with a random value of its type."""
    known = choices.choice(descriptor.fields) if descriptor.fields else None
    if known is None:
        fields.append(Field(choices.randrange(1, 100), VARINT, 1))
    else:
        fields.insert(choices.randrange(len(fields) + 1), drawn(choices, known))


def drawn(choices: Random, known: FieldDescriptor, depth: int = 0) -> Field:
    """Draws a field of this kind, valid or nearly so."""
    if known.message_type is not None:
        inner = [
            drawn(choices, each, depth + 1)
            for each in known.message_type.fields
            if depth < 3 and choices.random() < 0.7
        ]
        return Field(known.number, LENGTH, inner, known.message_type)
    if known.type == FieldDescriptor.TYPE_STRING:
        return Field(known.number, LENGTH, values.text(choices).encode())
    if known.type == FieldDescriptor.TYPE_BYTES:
        return Field(known.number, LENGTH, values.octets(choices))
    if known.type == FieldDescriptor.TYPE_DOUBLE:
        return Field(known.number, FIXED64, choices.getrandbits(64))
    if known.type == FieldDescriptor.TYPE_ENUM:
        return Field(known.number, VARINT, choices.choice((*range(5), 99, 2**31, 2**64 - 1)))
    return Field(known.number, VARINT, values.integer(choices))


def _leave_out(choices: Random, fields: list[Field], descriptor: Descriptor) -> None:
    if fields:
        del fields[choices.randrange(len(fields))]


def _repeat(choices: Random, fields: list[Field], descriptor: Descriptor) -> None:
    if fields:
        index = choices.randrange(len(fields))
        times = choices.choice((1, 1, 2, 10, 200, _MAX_TIMES))
        size = len(encoded([fields[index]]))
        fields[index:index] = [_copied(fields[index]) for _ in range(min(times, _MAX_BYTES // max(1, size)))]


def _copied(field: Field) -> Field:
    value = [_copied(each) for each in field.value] if isinstance(field.value, list) else field.value
    return Field(field.number, field.wire_type, value, field.descriptor, field.shift)


def _shuffle(choices: Random, fields: list[Field], descriptor: Descriptor) -> None:
    choices.shuffle(fields)


def _another_number(choices: Random, fields: list[Field], descriptor: Descriptor) -> None:
    if fields:
        choices.choice(fields).number = choices.choice(
            (0, 1, 2, 3, 15, 16, 99, 2**29 - 1, 2**32, choices.randrange(1, 70))
        )


def _another_wire_type(choices: Random, fields: list[Field], descriptor: Descriptor) -> None:
    if fields:
        choices.choice(fields).wire_type = choices.randrange(8)


def _another_length(choices: Random, fields: list[Field], descriptor: Descriptor) -> None:
    lengths = [field for field in fields if field.wire_type == LENGTH]
    if lengths:
        choices.choice(lengths).shift = choices.choice((-1, 1, 2, -2, 100, 2**31, 2**32, 2**63))


def _too_large_a_number(choices: Random, fields: list[Field], descriptor: Descriptor) -> None:
    numbers = [field for field in fields if isinstance(field.value, int)]
    if numbers:
        choices.choice(numbers).value = choices.choice((2**64, 2**70, 2**200))


def _nest(choices: Random, fields: list[Field], descriptor: Descriptor) -> None:
    """Buries a field in messages, or in groups that do not end."""
    data = encoded(fields)[:100]
    for _ in range(choices.choice((3, 50, 150, 1_000))):
        data = b"\x0b" + data if choices.random() < 0.5 else b"\x0a" + varint(len(data)) + data
    fields.append(Field(choices.randrange(1, 70), LENGTH, data))


def _garbage(choices: Random, fields: list[Field], descriptor: Descriptor) -> None:
    if fields:
        field = choices.choice(fields)
        field.wire_type, field.value = LENGTH, choices.randbytes(choices.randrange(60))


_MUTATIONS: Final = (
    *(_another_value,) * 6,
    *(_one_more,) * 4,
    *(_leave_out,) * 2,
    *(_repeat,) * 2,
    *(_shuffle, _another_number, _another_wire_type, _another_length, _too_large_a_number, _nest, _garbage),
)
