"""A canary: a process of its own that publishes and consumes at a fixed pace, whatever the broker does."""

import gc
import multiprocessing
import os
import select
import socket
import struct
import time
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from urllib.parse import urlsplit

from load import frames
from spark_pulsar.wire import pulsar_api_pb2 as api
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.protocol.frames import payload_frame

TOPIC = "persistent://public/default/canary"
INTERVAL_S = 0.01
LAST_S = 20.0
"""Time that the last messages may take."""

_fork = multiprocessing.get_context("fork")


def connect(service_url: str) -> socket.socket:
    """Opens a connection after its handshake."""
    url = urlsplit(service_url)
    opened = socket.create_connection((url.hostname or "", url.port or 0), timeout=120)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    hello = api.CommandConnect(client_version="canary", protocol_version=19, auth_method_name="none")
    opened.sendall(frames.command(connect=hello))
    read_frame(opened)
    return opened


def read_frame(opened: socket.socket) -> api.BaseCommand:
    """Reads the command of the next frame; there must be nothing behind it."""
    size = int.from_bytes(_exactly(opened, 4))
    body = _exactly(opened, size)
    return api.BaseCommand.FromString(body[4 : 4 + int.from_bytes(body[:4])])


def _exactly(opened: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        data += opened.recv(size - len(data)) or _ended()
    return bytes(data)


def _ended() -> bytes:
    raise ConnectionError("the broker ended the connection")


class Canary:
    """The process, and what it heard."""

    def __init__(self, service_url: str) -> None:
        here, there = _fork.Pipe()
        self._pipe: Pipe = here
        self._process = _fork.Process(target=_sing, args=(service_url, there), daemon=True)
        self._process.start()
        there.close()
        here.recv()  # it sings

    def end(self) -> list[tuple[float, float]]:
        """Ends the process; returns (time at which each message was due, milliseconds until it was consumed)."""
        self._pipe.send(None)
        heard: list[tuple[float, float]] = self._pipe.recv()
        self._process.join(30)
        return heard


def _sing(service_url: str, pipe: Pipe) -> None:
    with suppress(PermissionError):
        os.nice(-10)  # so that the load's processes do not disturb it
    gc.disable()
    publisher, consumer = connect(service_url), connect(service_url)
    publisher.sendall(frames.command(producer=api.CommandProducer(topic=TOPIC, producer_id=1, request_id=1)))
    assert read_frame(publisher).type == api.BaseCommand.PRODUCER_SUCCESS
    subscribe = api.CommandSubscribe(
        topic=TOPIC, subscription="canary", subType=api.CommandSubscribe.Exclusive, consumer_id=1, request_id=1
    )
    consumer.sendall(frames.command(subscribe=subscribe))
    assert read_frame(consumer).type == api.BaseCommand.SUCCESS
    consumer.sendall(frames.command(flow=api.CommandFlow(consumer_id=1, messagePermits=1_000_000)))
    publisher.setblocking(False)
    consumer.setblocking(False)
    pipe.send(True)
    heard: list[tuple[float, float]] = []
    buffer = bytearray()
    sent, due, end_s = 0, time.monotonic(), 0.0
    while not end_s or (len(heard) < sent and time.monotonic() < end_s):
        if not end_s and time.monotonic() >= due:
            publisher.sendall(_send_frame(sent, due))
            sent += 1
            due += INTERVAL_S
        wait_s = 0.1 if end_s else max(0.0, due - time.monotonic())
        readable = select.select([publisher, consumer], [], [], wait_s)[0]
        if publisher in readable:
            publisher.recv(1 << 16)  # receipts, and PINGs: what is sent shows that it lives
        if consumer in readable:
            buffer += consumer.recv(1 << 16)
            _take(buffer, heard, consumer)
        if not end_s and pipe.poll():
            pipe.recv()
            end_s = time.monotonic() + LAST_S
    pipe.send(heard)


def _send_frame(sequence_id: int, due: float) -> bytes:
    metadata = api.MessageMetadata(producer_name="canary", sequence_id=sequence_id, publish_time=1)
    command = api.BaseCommand(type=api.BaseCommand.SEND)
    command.send.producer_id, command.send.sequence_id, command.send.num_messages = 1, sequence_id, 1
    return payload_frame(command, build_entry(metadata, struct.pack(">d", due)))


def _take(buffer: bytearray, heard: list[tuple[float, float]], consumer: socket.socket) -> None:
    """Takes the whole frames at the front, acknowledges their messages and notes their times."""
    now = time.monotonic()
    at = 0
    while len(buffer) - at >= 8:
        total, command_size = struct.unpack_from(">II", buffer, at)
        end = at + 4 + total
        if end > len(buffer):
            break
        command = api.BaseCommand.FromString(bytes(buffer[at + 8 : at + 8 + command_size]))
        if command.type == api.BaseCommand.MESSAGE:
            (due,) = struct.unpack_from(">d", buffer, end - 8)
            heard.append((due, (now - due) * 1000))
            ack = api.CommandAck(
                consumer_id=1, ack_type=api.CommandAck.Individual, message_id=[command.message.message_id]
            )
            consumer.sendall(frames.command(ack=ack))
        elif command.type == api.BaseCommand.PING:
            consumer.sendall(frames.command(pong=api.CommandPong()))
        at = end
    del buffer[:at]
