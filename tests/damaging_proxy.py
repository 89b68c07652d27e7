"""A TCP proxy in front of a broker that flips one bit of some entries on their way, which the broker notices by their
checksum."""

from __future__ import annotations

import contextlib
import socket
import threading
import urllib.parse
from collections.abc import Callable
from typing import NamedTuple

from spark_pulsar.model.errors import MalformedFrame
from spark_pulsar.wire.protocol.frames import Frame, FrameSplitter, command_frame, parse_command
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand


class Sent(NamedTuple):
    """A SEND on its way: its number since the proxy began, its topic, and the sequence id of its first message."""

    number: int
    topic: str
    sequence_id: int


class DamagingProxy:
    """Forwards connections to `service_url`. `damages` says of each SEND whether the last byte of its payload is
    changed."""

    def __init__(self, service_url: str, damages: Callable[[Sent], bool]) -> None:
        url = urllib.parse.urlsplit(service_url)
        assert url.hostname is not None
        assert url.port is not None
        self._broker = (url.hostname, url.port)
        self.damages = damages
        self._count = 0
        self.damaged = 0
        """Entries that were changed."""
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"pulsar://127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def close(self) -> None:
        """Stops listening and cuts all connections."""
        for each in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for each in [self._listener, *self._sockets]:
            each.close()

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(client)
            try:
                broker = socket.create_connection(self._broker, 10)
            except OSError:  # it is being restarted
                client.close()
                continue
            broker.settimeout(None)
            self._sockets.append(broker)
            topics: dict[int, str] = {}
            self._start(lambda one=(client, broker, topics): self._pump(one[0], one[1], one[2], self._outward))
            self._start(lambda one=(broker, client, topics): self._pump(one[0], one[1], one[2], self._inward))

    def _pump(
        self,
        source: socket.socket,
        target: socket.socket,
        topics: dict[int, str],
        change: Callable[[Frame, dict[int, str]], bytes],
    ) -> None:
        splitter = FrameSplitter()
        # A client of another server that had this port before may come with TLS: that is no frame.
        with contextlib.suppress(OSError, MalformedFrame):
            while data := source.recv(1 << 18):
                frames = splitter.feed(data)
                if frames:
                    target.sendall(b"".join(change(frame, topics) for frame in frames))
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _outward(self, frame: Frame, topics: dict[int, str]) -> bytes:
        data = frame.buffer[frame.start : frame.end]
        command, _ = parse_command(*frame)
        if command.type == BaseCommand.PRODUCER:
            topics[command.producer.producer_id] = command.producer.topic
        if command.type != BaseCommand.SEND:
            return data
        with self._lock:
            number, self._count = self._count, self._count + 1
        topic = topics.get(command.send.producer_id, "")
        if not self.damages(Sent(number, topic, command.send.sequence_id)):
            return data
        self.damaged += 1
        return data[:-1] + bytes([data[-1] ^ 1])

    def _inward(self, frame: Frame, _: dict[int, str]) -> bytes:
        """Has clients come back here, whichever broker serves a topic."""
        command, _end = parse_command(*frame)
        if command.type != BaseCommand.LOOKUP_RESPONSE or not command.lookupTopicResponse.brokerServiceUrl:
            return frame.buffer[frame.start : frame.end]
        command.lookupTopicResponse.brokerServiceUrl = self.url
        return command_frame(command)
