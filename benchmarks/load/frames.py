"""Frames as bytes: control commands, and whole buffers of SEND and ACK frames of one fixed length."""

import functools
import struct
import time

from crc32c import crc32c

from spark_pulsar.wire import pulsar_api_pb2 as api

SEND, SEND_RECEIPT, MESSAGE, PING, PONG = 6, 7, 9, 18, 19
# Sequence ids, producer ids and the like start here so that their varints have one width throughout a buffer.
FIRST_SEQUENCE_ID = 1 << 21
LAST_SEQUENCE_ID = (1 << 28) - 1
FIRST_PRODUCER_ID = 1 << 7
PRODUCER_NAME = "load"


def command(**field: object) -> bytes:
    """One frame of a control command, as in `command(ping=api.CommandPing())`; the field's number gives the type."""
    ((name, message),) = field.items()
    number = api.BaseCommand.DESCRIPTOR.fields_by_name[name].number
    base = api.BaseCommand(type=number, **{name: message})  # type: ignore[arg-type]
    body = base.SerializeToString()
    return struct.pack(">II", len(body) + 4, len(body)) + body


def parse(body: bytes | bytearray | memoryview) -> api.BaseCommand:
    """The command of a frame, given without its first four bytes (the total size)."""
    size = int.from_bytes(body[:4], "big")
    return api.BaseCommand.FromString(bytes(body[4 : 4 + size]))


def batch_payload(messages: int, message_bytes: int, value: bytes) -> bytes:
    """A batch of `messages` equal messages of `message_bytes` each, with their own sequence ids."""
    items = []
    for index in range(messages):
        single = api.SingleMessageMetadata(payload_size=message_bytes, sequence_id=FIRST_SEQUENCE_ID + index)
        head = single.SerializeToString()
        items.append(struct.pack(">I", len(head)) + head + value)
    return b"".join(items)


class SendBuffer:
    """`count` SEND frames of one length, one after the other: producers in turn, each with `run` of them, sequence ids
    counting up for each. With `keys` the messages have so many keys, in turn.

    The buffer may be sent again by any producer that is new to its topic.
    """

    def __init__(
        self, count: int, message_bytes: int = 100, batch: int = 0, producers: int = 1, run: int = 1, keys: int = 0
    ) -> None:
        """`batch`: messages in a batch, 0 for entries that are no batch. `producers`: how many take turns."""
        if count // producers + run + FIRST_SEQUENCE_ID > LAST_SEQUENCE_ID:
            raise ValueError(f"{count} frames need sequence ids of more than one width")
        self.count = count
        self.message_bytes = message_bytes
        self.producers = producers
        self.messages_per_frame = max(batch, 1)
        self.keys = keys
        value = bytes(i % 251 for i in range(message_bytes))
        payload = batch_payload(batch, message_bytes, value) if batch else value
        publish_time_ms = time.time_ns() // 1_000_000
        parts = []
        for index in range(count):
            turn = index // (run * producers) * run + index % run
            key = b"key-%06d" % (index % keys) if keys else b""
            parts.append(_send_frame(turn, index // run % producers, batch, publish_time_ms, payload, key))
        self.frame_bytes = len(parts[0])
        self.data = memoryview(b"".join(parts))
        if len(self.data) != count * self.frame_bytes:
            raise AssertionError("frames of different lengths")


def _send_frame(turn: int, producer: int, batch: int, publish_time_ms: int, payload: bytes, key: bytes) -> bytes:
    sequence_id = varint(FIRST_SEQUENCE_ID + turn)
    metadata = b"\x0a\x04load\x10" + sequence_id + b"\x18" + varint(publish_time_ms)
    if key:
        metadata += b"\x32" + varint(len(key)) + key
    send = b"\x08" + varint(FIRST_PRODUCER_ID + producer) + b"\x10" + sequence_id
    if batch:
        metadata += b"\x58" + varint(batch)
        send += b"\x18" + varint(batch)
    checked = struct.pack(">I", len(metadata)) + metadata + payload
    base = b"\x08\x06\x32" + varint(len(send)) + send
    tail = b"\x0e\x01" + crc32c(checked).to_bytes(4, "big") + checked
    return struct.pack(">II", 4 + len(base) + len(tail), len(base)) + base + tail


def ack_part(ledger_id: int, entry_id: int) -> bytes:
    """The id of one whole entry, to be joined by `ack_frame`."""
    part = message_id(ledger_id, entry_id)
    return b"\x1a" + varint(len(part)) + part


def message_id(ledger_id: int, entry_id: int) -> bytes:
    """First bytes of every MessageIdData of a whole entry."""
    return b"\x08" + _ledger_varint(ledger_id) + b"\x10" + varint(entry_id)


def ack_frame(consumer_id: int, parts: list[bytes], request_id: int | None = None) -> bytes:
    """An individual ACK of several entries, as the official clients' grouping trackers send it."""
    ack = b"\x08" + varint(consumer_id) + b"\x10\x00" + b"".join(parts)
    if request_id is not None:
        ack += b"\x40" + varint(request_id)
    base = b"\x08\x0a\x52" + varint(len(ack)) + ack
    return struct.pack(">II", len(base) + 4, len(base)) + base


@functools.lru_cache(maxsize=1024)
def flow(consumer_id: int, permits: int) -> bytes:
    """A FLOW frame; those of a run are few."""
    return command(flow=api.CommandFlow(consumer_id=consumer_id, messagePermits=permits))


def varint(number: int) -> bytes:
    """Protobuf's variable-length form of a number ≥ 0."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_ledger_varint = functools.lru_cache(maxsize=16)(varint)
