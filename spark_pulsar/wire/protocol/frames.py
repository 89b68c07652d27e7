"""Frames: cutting a byte stream into them, reading the command in one, writing one (PR-10, W9). A malformed one leaves
those before it good (A16); a command type of another version is no malformed one (A14).

A frame is a `totalSize`, a `commandSize`, a BaseCommand, and for SEND and MESSAGE the bytes of one entry. It is named
by `(buffer, start, end)` and never copied: `start` is the index of totalSize, `end` the index after the frame.
"""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from spark_pulsar.model.errors import MalformedFrame, UnknownCommand
from spark_pulsar.model.limits import MAX_FRAME_SIZE_BYTES, MAX_PROPERTIES, MIN_TOTAL_SIZE_BYTES
from spark_pulsar.wire.protocol import field_counts, varint
from spark_pulsar.wire.protocol.commands import FIELD_OF
from spark_pulsar.wire.protocol.field_counts import is_repeated
from spark_pulsar.wire.pulsar_api_pb2 import DESCRIPTOR, BaseCommand, CommandSendReceipt

HEADER: Final = Struct(">II")
"""totalSize and commandSize."""

_SIZE: Final = Struct(">I")
_TYPE_TAG: Final = 0x08
_RECEIPT_START: Final = b"\x08\x07\x3a"
"""Type and field of a receipt; its length follows, which has one byte."""
_LEAST_RECEIPT_BYTES: Final = 16


class Frame(NamedTuple):
    """One whole frame inside a received buffer."""

    buffer: bytes
    start: int
    end: int


class FrameSplitter:
    """Cuts what arrives into frames, holding back at most one unfinished frame.

    `feed` returns the frames that became whole. When what follows them can be no frame it sets `failure`, and the next
    `feed` raises it: the caller serves the good frames, then closes. When the very first thing is bad, `feed` raises.
    """

    __slots__ = ("_held", "_held_bytes", "_max_total", "_wanted_bytes", "failure")

    def __init__(self, max_frame_size_bytes: int = MAX_FRAME_SIZE_BYTES) -> None:
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._wanted_bytes = 0
        self._max_total = max_frame_size_bytes - 4
        self.failure: MalformedFrame | None = None

    @property
    def held_bytes(self) -> int:
        """Bytes of the unfinished frame that are kept; never more than the frame limit plus one chunk."""
        return self._held_bytes

    @property
    def missing_bytes(self) -> int:
        """Bytes that the unfinished frame still lacks; 0 when none was begun or its size is not yet known.

        A caller that reads just this much next saves the copy of everything read behind it.
        """
        return self._wanted_bytes - self._held_bytes if self._held_bytes >= 4 else 0

    def limit_frames(self, max_frame_size_bytes: int) -> None:
        """Uses another limit from the next `feed` on; a client does when CONNECTED has named the broker's."""
        self._max_total = max_frame_size_bytes - 4

    def fresh_failure(self) -> MalformedFrame:
        """Returns a copy of `failure`, to be raised. `failure` itself would hold the stack, and with it the splitter
        and megabytes of received bytes, until the collector of cycles comes."""
        assert self.failure is not None, "the caller has checked that there is one"
        return MalformedFrame(self.failure.message)

    def feed(self, data: bytes) -> list[Frame]:
        """Returns the frames completed by `data`. Raises MalformedFrame; see the class."""
        buffer = self._gather(data)
        frames: list[Frame] = []
        if buffer is None:
            return frames
        max_total = self._max_total
        position, size = 0, len(buffer)
        unpack = _SIZE.unpack_from
        while size - position >= 4:
            (total,) = unpack(buffer, position)
            end = position + 4 + total
            if end > size or not MIN_TOTAL_SIZE_BYTES <= total <= max_total:
                break
            frames.append(Frame(buffer, position, end))
            position = end
        self._keep(buffer, position)
        if self.failure is not None and not frames:
            raise self.fresh_failure()
        return frames

    def _gather(self, data: bytes) -> bytes | None:
        """All bytes not yet cut, in one piece; None while they cannot complete the frame that was begun."""
        if self.failure is not None:
            raise self.fresh_failure()
        if not self._held:
            return data
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes < self._wanted_bytes:
            return None
        return b"".join(self._held)

    def _keep(self, buffer: bytes, position: int) -> None:
        """Keeps the rest of `buffer` from `position` on, the beginning of a frame, unless it can be none."""
        rest = b"" if self.failure is not None else buffer[position:]
        self._wanted_bytes = 4
        if len(rest) >= 4:
            (total,) = _SIZE.unpack_from(rest)
            self._wanted_bytes += total
            if not MIN_TOTAL_SIZE_BYTES <= total <= self._max_total:
                allowed = f"{MIN_TOTAL_SIZE_BYTES} to {self._max_total}"
                self.failure = MalformedFrame(f"a frame of {total} bytes is outside {allowed}")
                rest = b""
        self._held = [rest] if rest else []
        self._held_bytes = len(rest)


def command_frame(command: BaseCommand) -> bytes:
    """Returns the frame of a command without payload. Every required field must be set."""
    body = command.SerializeToString()
    return HEADER.pack(len(body) + 4, len(body)) + body


def payload_head(command: BaseCommand, entry_size: int) -> bytes:
    """Returns a SEND or MESSAGE up to its entry, whose bytes as stored follow (see entries.build_entry)."""
    body = command.SerializeToString()
    return HEADER.pack(len(body) + 4 + entry_size, len(body)) + body


def payload_frame(command: BaseCommand, entry: bytes | memoryview) -> bytes:
    """Returns the frame of a SEND or MESSAGE in one piece; see `payload_head`."""
    return b"".join((payload_head(command, len(entry)), entry))


def command_end(buffer: bytes, start: int, end: int) -> int:
    """Returns the end of a frame's command, where its payload starts; MalformedFrame when the sizes do not fit."""
    if end - start < 4 + MIN_TOTAL_SIZE_BYTES:
        raise MalformedFrame(f"a frame of {end - start} bytes")
    total, command_size = HEADER.unpack_from(buffer, start)
    if total != end - start - 4:
        raise MalformedFrame(f"a frame of {end - start - 4} bytes says that it has {total}")
    if not 2 <= command_size <= total - 4:
        raise MalformedFrame(f"a command of {command_size} bytes in a frame of {total}")
    position: int = start + 8 + command_size
    return position


_ERRORS_OF_THE_FUTURE: Final = {
    BaseCommand.ERROR: ["error.error"],
    BaseCommand.SEND_ERROR: ["send_error.error"],
}
"""Missing fields of an error with a number that this version of the protocol has no name for."""


def receipt_of(buffer: bytes, start: int, end: int) -> CommandSendReceipt | None:
    """Returns the receipt in a frame that has one as brokers write it; None for another, which `parse_command` takes.

    A broker answers each entry with one, so that it counts what a receipt costs.
    """
    if end - start < _LEAST_RECEIPT_BYTES or not buffer.startswith(_RECEIPT_START, start + 8):
        return None
    if buffer[start + 11] != end - start - 12:
        return None
    if command_end(buffer, start, end) != end:
        return None
    try:
        receipt = CommandSendReceipt.FromString(buffer[start + 12 : end])
    except DecodeError:
        return None
    return receipt if receipt.IsInitialized() else None


def parse_request(buffer: bytes, start: int, end: int) -> tuple[BaseCommand, int]:
    """Does what `parse_command` does with the command of a client, whose fields are counted before they are parsed."""
    payload_start = command_end(buffer, start, end)
    if payload_start - start > field_counts.LONG_BYTES:
        field_counts.check(BaseCommand.DESCRIPTOR, buffer[start + 8 : payload_start], _TEXT_TYPES)
    return parse_command(buffer, start, end)


def parse_command(buffer: bytes, start: int, end: int) -> tuple[BaseCommand, int]:
    """(command, index where the payload starts, which is `end` when there is none).

    Raises MalformedFrame when the bytes are no command, lack a required field (a required enum with an unknown value
    counts as lacking, but an error with an unknown number is one) or the content of their type, or have text that is
    not UTF-8, or more than MAX_PROPERTIES properties; UnknownCommand for a type from another protocol version.
    """
    payload_start = command_end(buffer, start, end)
    body = buffer[start + 8 : payload_start]
    try:
        command = BaseCommand.FromString(body)
    except DecodeError as error:
        raise MalformedFrame(f"not a command: {error}") from None
    if not command.HasField("type"):
        if body[0] == _TYPE_TAG:
            number, _ = varint.decode(body, 1, len(body))
            raise UnknownCommand(f"command type {number} is not known", number)
        raise MalformedFrame("a command without a type")
    checked: Any = command  # the stubs know neither field names that are variables nor IsInitialized's argument
    if not checked.HasField(FIELD_OF[command.type]):
        raise MalformedFrame(f"a {BaseCommand.Type.Name(command.type)} command without its content")
    missing: list[str] = []
    if not checked.IsInitialized(missing) and missing != _ERRORS_OF_THE_FUTURE.get(command.type):
        raise MalformedFrame(f"a {BaseCommand.Type.Name(command.type)} command without {', '.join(missing)}")
    if command.type in _WITH_TEXT and not (len(body) <= MAX_PROPERTIES and body.isascii()):
        _check_text(command)
    return command, payload_start


@cache
def _has_text(descriptor: Descriptor | None) -> bool:
    """Returns whether a message type has a text field, itself or inside."""
    return descriptor is not None and any(
        field.type == FieldDescriptor.TYPE_STRING
        or (field.message_type is not descriptor and _has_text(field.message_type))
        for field in descriptor.fields
    )


_WITH_TEXT: Final = frozenset(
    number for number, name in FIELD_OF.items() if _has_text(BaseCommand.DESCRIPTOR.fields_by_name[name].message_type)
)

_TEXT_TYPES: Final = frozenset(kind.full_name for kind in DESCRIPTOR.message_types_by_name.values() if _has_text(kind))


def _check_text(message: Message) -> None:
    """Raises MalformedFrame when a text field is not UTF-8, because protobuf would return it as bytes, which no reader
    expects; and when there are more properties than can be read in a reasonable time."""
    for field, value in message.ListFields():
        values = value if is_repeated(field) else (value,)
        if field.type == FieldDescriptor.TYPE_STRING:
            if any(isinstance(text, bytes) for text in values):
                raise MalformedFrame(f"{field.full_name} is not UTF-8")
        elif _has_text(field.message_type):
            if len(values) > MAX_PROPERTIES:
                raise MalformedFrame(f"{len(values)} times {field.full_name}, more than {MAX_PROPERTIES}")
            for part in values:
                _check_text(part)
