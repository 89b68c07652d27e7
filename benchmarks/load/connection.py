"""One connection of the load generator: control commands with their answers, and a fast walk over what arrives."""

import itertools
import select
import socket
import time
from urllib.parse import urlsplit

import numpy as np

from load import frames, walk
from load.secured import ACCESSES, TlsSocket
from spark_pulsar.wire import pulsar_api_pb2 as api

RECEIVE_BYTES = 1 << 16
ANSWER_TIMEOUT_S = 30.0
_LEAST_FRAME_BYTES = 16
"""Types of the frames that load consists of: receipts and messages."""


class UnexpectedFrame(RuntimeError):
    """The broker sent something that a load run has no use for: an error, a close, an unknown answer."""


class Connection:
    """A connected, handshaken socket. Not blocking: callers wait with `wait`."""

    def __init__(self, service_url: str, small: bool = False) -> None:
        """`small`: one of many that get next to nothing, with a buffer that grows when it must."""
        parts = urlsplit(service_url)
        sock = socket.create_connection((parts.hostname, parts.port or 6650), timeout=ANSWER_TIMEOUT_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        access = ACCESSES.get(service_url)
        self.sock: socket.socket | TlsSocket = sock
        if access is not None:
            self.sock = TlsSocket(sock, access.context, parts.hostname or "")
        else:
            sock.setblocking(False)
        self._request_ids = itertools.count(1)
        self._receive_bytes = 1 << 12 if small else RECEIVE_BYTES
        self.buffer = bytearray(2 * self._receive_bytes)
        self.start = 0  # unread bytes are buffer[start:end]
        self.end = 0
        self.starts = np.empty(len(self.buffer) // _LEAST_FRAME_BYTES, np.int64)
        hello = api.CommandConnect(client_version="load", protocol_version=19, auth_method_name="none")
        if access is not None:
            hello.auth_method_name, hello.auth_data = "token", access.token.encode()
        self.send_all(frames.command(connect=hello))
        self.answer("connected")

    def close(self) -> None:
        """Closes the socket."""
        self.sock.close()

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- bytes -------------------------------------------------------------------------------------------------------

    def wait(self, timeout_s: float, to_write: bool = False) -> None:
        """Waits until there is something to read (or, with `to_write`, room to write)."""
        if isinstance(self.sock, TlsSocket) and self.sock.pending():
            return
        select.select([self.sock], [self.sock] if to_write else [], [], max(timeout_s, 0))

    def send_all(self, data: bytes | memoryview) -> None:
        """Sends every byte, waiting for room."""
        view = memoryview(data)
        while len(view):
            try:
                view = view[self.sock.send(view) :]
            except BlockingIOError:
                self.wait(ANSWER_TIMEOUT_S, to_write=True)

    def receive(self) -> bool:
        """Reads what has arrived behind the unread bytes; false when nothing had. Raises ConnectionError at the end."""
        unread = self.end - self.start
        if len(self.buffer) - self.end < self._receive_bytes:
            self.buffer[:unread] = self.buffer[self.start : self.end]
            self.start, self.end = 0, unread
            if len(self.buffer) - unread < self._receive_bytes:
                self.buffer.extend(bytes(len(self.buffer)))
                self.starts = walk.grown(self.starts, len(self.buffer) // _LEAST_FRAME_BYTES)
        try:
            size = self.sock.recv_into(memoryview(self.buffer)[self.end :])
        except BlockingIOError:
            return False
        if size == 0:
            raise ConnectionError("the broker closed the connection")
        self.end += size
        return True

    # -- frames ------------------------------------------------------------------------------------------------------

    def take(self, wanted_type: int, limit: int = 1 << 62) -> int:
        """Consumes up to `limit` whole frames of `wanted_type` and counts them. They start at `starts[:count]`.

        The places are good until the next `receive`. A PING among them is answered, anything else is UnexpectedFrame.
        """
        view = np.frombuffer(self.buffer, np.uint8)
        count = 0
        while True:
            starts = self.starts[count:limit]
            found: int
            found, self.start = walk.frame_starts(view, self.start, self.end, wanted_type, starts)
            count += found
            if found == len(starts) or not self._pass_by(wanted_type):
                return count

    def leading(self, wanted_type: int) -> int:
        """Consumes and counts the whole frames of `wanted_type` that have arrived, up to one of another type."""
        found: int
        found, self.start = walk.frame_starts(
            np.frombuffer(self.buffer, np.uint8), self.start, self.end, wanted_type, self.starts
        )
        return found

    def _pass_by(self, wanted_type: int) -> bool:
        """Consumes a whole frame of another type; returns whether there was one."""
        start, unread = self.start, self.end - self.start
        if unread < 10 or self.buffer[start + 9] == wanted_type:
            return False
        size = int.from_bytes(self.buffer[start : start + 4], "big") + 4
        if size > unread:
            return False
        self.start += size
        self._other(start)
        return True

    def command_at(self, start: int) -> api.BaseCommand:
        """The command of the frame that starts at `start` of `buffer`."""
        size = int.from_bytes(self.buffer[start + 4 : start + 8], "big")
        return api.BaseCommand.FromString(bytes(self.buffer[start + 8 : start + 8 + size]))

    def next_frame(self, timeout_s: float = ANSWER_TIMEOUT_S) -> int:
        """Waits for one whole frame, consumes it and returns its start in `buffer` (valid until the next `receive`)."""
        deadline = time.perf_counter() + timeout_s
        while True:
            unread = self.end - self.start
            if unread >= 10:
                size = int.from_bytes(self.buffer[self.start : self.start + 4], "big") + 4
                if unread >= size:
                    start = self.start
                    self.start += size
                    return start
            if time.perf_counter() > deadline:
                raise TimeoutError(f"no frame for {timeout_s:g} s")
            self.wait(deadline - time.perf_counter())
            self.receive()

    def _other(self, start: int) -> None:
        found = self.command_at(start)
        if found.type == frames.PING:
            self.send_all(frames.command(pong=api.CommandPong()))
            return
        raise UnexpectedFrame(str(found))

    # -- requests ----------------------------------------------------------------------------------------------------

    def request_id(self) -> int:
        """A fresh request id."""
        return next(self._request_ids)

    def answer(self, *wanted: str, drop: int | None = None) -> api.BaseCommand:
        """Waits for a command that has one of the fields `wanted`; frames of type `drop` are skipped."""
        while True:
            start = self.next_frame()
            found_type = self.buffer[start + 9]
            if found_type == drop:
                continue
            found = self.command_at(start)
            if any(field.name in wanted for field, _ in found.ListFields()):
                return found
            self._other(start)

    def look_up(self, topic: str) -> None:
        """Makes the broker own and load the topic, as every client does first."""
        request = api.CommandLookupTopic(topic=topic, request_id=self.request_id())
        self.send_all(frames.command(lookupTopic=request))
        found = self.answer("lookupTopicResponse").lookupTopicResponse
        if found.response != api.CommandLookupTopicResponse.Connect:
            raise UnexpectedFrame(f"lookup of {topic}: {found}")

    def create_producers(self, topics: list[str]) -> None:
        """One producer for each topic, ids counting up from FIRST_PRODUCER_ID."""
        for topic in topics:
            self.look_up(topic)
        for index, topic in enumerate(topics):
            producer = api.CommandProducer(topic=topic, producer_id=frames.FIRST_PRODUCER_ID + index)
            producer.request_id = self.request_id()
            producer.producer_name = frames.PRODUCER_NAME
            self.send_all(frames.command(producer=producer))
            self.answer("producer_success")

    def create_many_producers(
        self, topics: list[str], at_once: int = 500, producer_name: str | None = frames.PRODUCER_NAME
    ) -> None:
        """Creates producers with many requests on their way at once; the broker names those without a name."""
        for low in range(0, len(topics), at_once):
            some = topics[low : low + at_once]
            for topic in some:
                request = api.CommandLookupTopic(topic=topic, request_id=self.request_id())
                self.send_all(frames.command(lookupTopic=request))
            for _ in some:
                found = self.answer("lookupTopicResponse").lookupTopicResponse
                if found.response != api.CommandLookupTopicResponse.Connect:
                    raise UnexpectedFrame(str(found))
            for index, topic in enumerate(some):
                producer = api.CommandProducer(topic=topic, producer_id=frames.FIRST_PRODUCER_ID + low + index)
                producer.request_id = self.request_id()
                if producer_name is not None:
                    producer.producer_name = producer_name
                self.send_all(frames.command(producer=producer))
            for _ in some:
                self.answer("producer_success")

    def subscribe(self, topic: str, subscription: str, kind: int, consumer_id: int = 1) -> None:
        """A durable subscription from the topic's first message."""
        self.look_up(topic)
        request = api.CommandSubscribe(
            topic=topic,
            subscription=subscription,
            subType=kind,  # type: ignore[arg-type]
            consumer_id=consumer_id,
            request_id=self.request_id(),
            initialPosition=api.CommandSubscribe.Earliest,
        )
        self.send_all(frames.command(subscribe=request))
        self.answer("success")

    def become_active(self) -> None:
        """Waits until the consumer, which joined a Failover subscription, is the one that gets everything."""
        while not self.answer("active_consumer_change").active_consumer_change.is_active:
            pass

    def flow(self, consumer_id: int, permits: int) -> None:
        """Grants more permits."""
        self.send_all(frames.flow(consumer_id, permits))
