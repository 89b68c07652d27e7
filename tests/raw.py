"""Pulsar's protocol frame by frame, for what an official client cannot be made to send or does not show.

Commands and metadata are plain dicts under Pulsar's own field names, as in the recorded transcripts: only present
fields, enums by name, bytes as hex text. Framing and checksum are done here a second time on purpose: our own codec is
under test as well.
"""

from __future__ import annotations

import itertools
import select
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from crc32c import crc32c
from google.protobuf.message import Message

from spark_pulsar.wire import pulsar_api_pb2 as api
from spark_pulsar.wire.protocol.field_counts import is_repeated

Checksum = Literal["ok", "wrong", "absent"]
PROTOCOL_VERSION = 21
DEFAULT_TIMEOUT_S = 30.0
_RECORD_S = 0.05
_MAGIC_CHECKSUM = 0x0E01
_MAGIC_BROKER_ENTRY = 0x0E02
_PAYLOAD_COMMANDS = ("SEND", "MESSAGE")

_COMMAND = api.BaseCommand.DESCRIPTOR
_TYPES = _COMMAND.fields_by_name["type"].enum_type


@dataclass(frozen=True)
class Frame:
    """One frame as read; `CLOSED` (no fields) when the peer closed the connection."""

    type: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] | None = None
    payload: bytes | None = None
    checksum: Checksum | None = None

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    @property
    def position(self) -> tuple[int, int]:
        """(ledger, entry) of the field `message_id`."""
        return self.fields["message_id"]["ledgerId"], self.fields["message_id"]["entryId"]

    @property
    def id(self) -> dict[str, Any]:
        """Ledger and entry of the field `message_id`, as commands name them."""
        return {"ledgerId": self.position[0], "entryId": self.position[1]}


class NoFrame(AssertionError):
    """The expected frame did not come in time; the message tells what came instead."""


def fields_of(message: Message) -> dict[str, Any]:
    """The present fields of a protobuf message as the transcripts write them."""
    found: dict[str, Any] = {}
    for descriptor, value in message.ListFields():
        values = list(value) if is_repeated(descriptor) else [value]
        if descriptor.message_type is not None:
            values = [fields_of(each) for each in values]
        elif descriptor.enum_type is not None:
            values = [descriptor.enum_type.values_by_number[each].name for each in values]
        elif descriptor.type == descriptor.TYPE_BYTES:
            values = [each.hex() for each in values]
        found[descriptor.name] = values if is_repeated(descriptor) else values[0]
    return found


def fill(message: Message, fields: Mapping[str, Any]) -> None:
    """The inverse of `fields_of`; bytes may also be given as bytes."""
    message.SetInParent()
    for name, value in fields.items():
        descriptor = message.DESCRIPTOR.fields_by_name[name]
        if descriptor.message_type is not None:
            if is_repeated(descriptor):
                for each in value:
                    fill(getattr(message, name).add(), each)
            else:
                fill(getattr(message, name), value)
            continue
        values = [_scalar(descriptor, each) for each in (value if is_repeated(descriptor) else [value])]
        if is_repeated(descriptor):
            getattr(message, name).extend(values)
        else:
            setattr(message, name, values[0])


def _scalar(descriptor: Any, value: Any) -> Any:
    if descriptor.enum_type is not None and isinstance(value, str):
        return descriptor.enum_type.values_by_name[value].number
    if descriptor.type == descriptor.TYPE_BYTES and isinstance(value, str):
        return bytes.fromhex(value)
    return value


def command_bytes(type_name: str, fields: Mapping[str, Any]) -> bytes:
    """A serialised BaseCommand of that type."""
    number = _TYPES.values_by_name[type_name].number
    command = api.BaseCommand(type=number)  # type: ignore[arg-type]
    fill(getattr(command, _COMMAND.fields_by_number[number].name), fields)
    return command.SerializeToString()


def entry_bytes(metadata: Mapping[str, Any], payload: bytes, checksum: Checksum = "ok") -> bytes:
    """What follows the command in a SEND: magic and CRC32C (unless absent), metadata, payload."""
    message = api.MessageMetadata()
    fill(message, metadata)
    encoded = message.SerializePartialToString()
    covered = struct.pack(">I", len(encoded)) + encoded + payload
    if checksum == "absent":
        return covered
    crc = crc32c(covered) ^ (1 if checksum == "wrong" else 0)
    return struct.pack(">HI", _MAGIC_CHECKSUM, crc) + covered


def frame_bytes(command: bytes, rest: bytes = b"") -> bytes:
    """totalSize, commandSize, the command, and what follows it."""
    return struct.pack(">II", 4 + len(command) + len(rest), len(command)) + command + rest


def batch_payload(values: list[bytes], first_sequence_id: int = 0) -> bytes:
    """An uncompressed batch payload; sequence ids count up from the first."""
    parts = []
    for index, value in enumerate(values):
        single = api.SingleMessageMetadata()
        fill(single, {"payload_size": len(value), "sequence_id": first_sequence_id + index})
        encoded = single.SerializeToString()
        parts.append(struct.pack(">I", len(encoded)) + encoded + value)
    return b"".join(parts)


def parse_frame(body: bytes) -> Frame:
    """The frame of the bytes after totalSize."""
    (size,) = struct.unpack_from(">I", body)
    command = api.BaseCommand.FromString(body[4 : 4 + size])
    type_name = _TYPES.values_by_number[command.type].name
    fields = fields_of(getattr(command, _COMMAND.fields_by_number[command.type].name))
    if type_name not in _PAYLOAD_COMMANDS:
        assert 4 + size == len(body), f"{type_name}: {len(body) - 4 - size} bytes after the command"
        return Frame(type_name, fields)
    at = 4 + size
    if body[at : at + 2] == struct.pack(">H", _MAGIC_BROKER_ENTRY):
        (skipped,) = struct.unpack_from(">I", body, at + 2)
        at += 6 + skipped
    checksum: Checksum = "absent"
    if body[at : at + 2] == struct.pack(">H", _MAGIC_CHECKSUM):
        (crc,) = struct.unpack_from(">I", body, at + 2)
        at += 6
        checksum = "ok" if crc32c(body[at:]) == crc else "wrong"
    (size,) = struct.unpack_from(">I", body, at)
    metadata = api.MessageMetadata()
    metadata.MergeFromString(body[at + 4 : at + 4 + size])
    return Frame(type_name, fields, fields_of(metadata), body[at + 4 + size :], checksum)


class RawConnection:
    """One TCP connection of hand-made frames.

    Attributes:
        answers_pings: A PING from the broker is answered and not shown; else it is a frame as any other.
    """

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None = None) -> None:
        """`context`: settings of TLS, None without."""
        self.answers_pings = True
        self._socket = socket.create_connection((host, port), timeout=DEFAULT_TIMEOUT_S)
        self._is_tls = context is not None
        if context is not None:
            self._socket = context.wrap_socket(self._socket, server_hostname=host)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._bytes = bytearray()
        self._frames: deque[Frame] = deque()
        self._request_ids = itertools.count(1)
        self._closed_by_peer = False

    def close(self) -> None:
        """Close the connection; twice is no error."""
        self._socket.close()

    # --- sending ---

    def send_bytes(self, data: bytes) -> None:
        """Write any bytes. A peer that has closed in the meantime is no error here: the next read shows it."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            self._closed_by_peer = True

    def send(self, type_name: str, **fields: Any) -> None:
        """Write one simple command."""
        self.send_bytes(frame_bytes(command_bytes(type_name, fields)))

    def send_message(
        self,
        producer_id: int,
        sequence_id: int,
        payload: bytes,
        *,
        metadata: Mapping[str, Any] | None = None,
        checksum: Checksum = "ok",
        **fields: Any,
    ) -> None:
        """Write one SEND; `metadata` adds to producer name, sequence id and publish time, `fields` to the command."""
        described = {"producer_name": "p", "sequence_id": sequence_id, "publish_time": 1_700_000_000_000}
        described |= metadata or {}
        command = command_bytes("SEND", {"producer_id": producer_id, "sequence_id": sequence_id, **fields})
        self.send_bytes(frame_bytes(command, entry_bytes(described, payload, checksum)))

    def connect(self, **fields: Any) -> Frame:
        """CONNECT as a new client would; the CONNECTED."""
        features = {"supports_auth_refresh": True, "supports_partial_producer": True}
        described = {
            "client_version": "raw",
            "protocol_version": PROTOCOL_VERSION,
            "auth_method_name": "none",
            "feature_flags": features,
        }
        self.send("CONNECT", **(described | fields))
        return self.expect("CONNECTED")

    def request(self, type_name: str, **fields: Any) -> Frame:
        """Write a command with a new request id; its answer, whichever type it has."""
        request_id = next(self._request_ids)
        self.send(type_name, request_id=request_id, **fields)
        return self.answer(request_id)

    def produce(self, topic: str, producer_id: int = 1, **fields: Any) -> Frame:
        """Opens a producer, `p` unless `fields` name another, after the lookup that each client makes."""
        self.request("LOOKUP", topic=topic)
        answer = self.request("PRODUCER", topic=topic, producer_id=producer_id, **({"producer_name": "p"} | fields))
        assert answer.type == "PRODUCER_SUCCESS", answer
        return answer

    def send_batch(self, topic: str, size: int) -> Frame:
        """Publishes a batch of "0", "1", ... with a producer of its own; the receipt."""
        self.produce(topic)
        values = [str(number).encode() for number in range(size)]
        self.send_message(1, 0, batch_payload(values), metadata={"num_messages_in_batch": size}, num_messages=size)
        return self.expect("SEND_RECEIPT")

    def subscribe(self, topic: str, consumer_id: int = 1, permits: int = 0, **fields: Any) -> Frame:
        """Subscribes to `s`, Shared and from the first message unless `fields` say otherwise, and grants permits."""
        self.request("LOOKUP", topic=topic)
        described = {"subscription": "s", "subType": "Shared", "initialPosition": "Earliest"} | fields
        answer = self.request("SUBSCRIBE", topic=topic, consumer_id=consumer_id, **described)
        assert answer.type == "SUCCESS", answer
        if permits:
            self.flow(permits, consumer_id)
        return answer

    def flow(self, permits: int, consumer_id: int = 1) -> None:
        """Grants permits to a consumer."""
        self.send("FLOW", consumer_id=consumer_id, messagePermits=permits)

    def ack(self, *ids: Mapping[str, Any], kind: str = "Individual", consumer_id: int = 1, **fields: Any) -> Frame:
        """Acknowledges messages by their ids; the answer."""
        return self.request("ACK", consumer_id=consumer_id, ack_type=kind, message_id=list(ids), **fields)

    # --- receiving ---

    def answer(self, request_id: int, timeout_s: float = DEFAULT_TIMEOUT_S) -> Frame:
        """The next frame with that request id; others stay for later."""
        return self._take(lambda frame: frame.fields.get("request_id") == request_id, f"answer {request_id}", timeout_s)

    def expect(self, type_name: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> Frame:
        """The next frame of that type; others stay for later."""
        return self._take(lambda frame: frame.type == type_name, type_name, timeout_s)

    def answer_to_send(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> Frame:
        """The next SEND_RECEIPT or SEND_ERROR; others stay for later."""
        answers = ("SEND_RECEIPT", "SEND_ERROR")
        return self._take(lambda frame: frame.type in answers, " or ".join(answers), timeout_s)

    def expect_messages(self, count: int, timeout_s: float = DEFAULT_TIMEOUT_S) -> list[Frame]:
        """The next `count` MESSAGE frames, in order; others stay for later."""
        return [self.expect("MESSAGE", timeout_s) for _ in range(count)]

    def expect_closed(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """The peer closes the connection."""
        self.expect("CLOSED", timeout_s)

    def expect_no_message(self, quiet_s: float = 0.3) -> None:
        """Nothing is delivered, though the broker answers and then has `quiet_s` for it."""
        self.barrier()
        self._fill_until(time.monotonic() + quiet_s, lambda: False)
        found = [frame for frame in self._frames if frame.type == "MESSAGE"]
        assert not found, f"unexpected: {found}"

    def barrier(self) -> None:
        """Return when the broker has read all that was sent (PING and its PONG)."""
        self.send("PING")
        self.expect("PONG")

    def next_frame(self, timeout_s: float) -> Frame | None:
        """The next frame of any type, or None."""
        self._fill_until(time.monotonic() + timeout_s, lambda: bool(self._frames))
        return self._frames.popleft() if self._frames else None

    def serve(self) -> None:
        """Read what has arrived, so that a PING of the broker is answered while the test waits elsewhere."""
        while not self._closed_by_peer and self._readable(0):
            self._read()

    def _take(self, wanted: Callable[[Frame], bool], name: str, timeout_s: float) -> Frame:
        seen = 0

        def arrived() -> bool:
            nonlocal seen
            fresh = list(self._frames)[seen:]
            found = any(wanted(frame) for frame in fresh)
            seen += 0 if found else len(fresh)
            return found or self._closed_by_peer

        self._fill_until(time.monotonic() + timeout_s, arrived)
        for index, frame in enumerate(self._frames):
            if wanted(frame):
                del self._frames[index]
                return frame
        raise NoFrame(f"no {name} within {timeout_s} s; unread: {list(self._frames)[:20]}")

    def _fill_until(self, deadline: float, done: Callable[[], bool]) -> None:
        while not done():
            left = deadline - time.monotonic()
            if left <= 0 or (self._closed_by_peer and not self._readable(0)) or self._socket.fileno() < 0:
                return
            if self._readable(left):
                self._read()

    def _readable(self, timeout_s: float) -> bool:
        if self._frames and self._frames[-1].type == "CLOSED":
            return False
        return bool(select.select([self._socket], [], [], timeout_s)[0])

    def _read(self) -> None:
        try:
            if self._is_tls:  # what has come may be of TLS alone, or a part of a record
                self._socket.settimeout(_RECORD_S)
            data = self._socket.recv(1 << 20)
        except TimeoutError:
            return
        except ConnectionResetError:
            data = b""
        finally:
            if self._socket.fileno() >= 0:
                self._socket.settimeout(DEFAULT_TIMEOUT_S)
        if not data:
            self._closed_by_peer = True
            self._frames.append(Frame("CLOSED"))
            return
        self._bytes += data
        at = 0
        while len(self._bytes) - at >= 4:
            (size,) = struct.unpack_from(">I", self._bytes, at)
            if len(self._bytes) - at - 4 < size:
                break
            frame = parse_frame(bytes(self._bytes[at + 4 : at + 4 + size]))
            at += 4 + size
            if frame.type == "PING" and self.answers_pings:
                self.send("PONG")
            else:
                self._frames.append(frame)
        del self._bytes[:at]
