"""One connection to a broker: frames out under a lock, frames in by a thread of its own.

The reader thread owns the receiving side: it cuts frames, resolves pending replies, hands messages and receipts to
their sinks, answers PING, and watches the peer's life. It holds no lock while it calls a sink; a sink must not block.
A connection that broke stays broken: everybody who waits on it gets ConnectionLost, and whoever wants to go on asks the
pool for another.
"""

import contextlib
import itertools
import os
import select
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from spark_pulsar.client.clock import monotonic_ms
from spark_pulsar.client.config import Address, ClientConfig
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ConnectFailed, ConnectionLost, UnexpectedReply
from spark_pulsar.client.pending import PendingReply
from spark_pulsar.model.errors import PulsarError, UnknownCommand
from spark_pulsar.model.limits import FRAME_PADDING_BYTES, MAX_MESSAGE_SIZE_BYTES
from spark_pulsar.wire import requests
from spark_pulsar.wire.commands import NO_REQUEST, ping, pong, request_id_of
from spark_pulsar.wire.frames import Frame, FrameSplitter, command_frame, parse_command
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, FeatureFlags, MessageIdData
from spark_pulsar.wire.replies import error_of

CLIENT_VERSION: Final = "spark-pulsar-0.1.0"
_READ_AT_LEAST_BYTES: Final = 64 * 1024
_READ_AT_MOST_BYTES: Final = 1024 * 1024
_SEND_BUFFER_BYTES: Final = 1024 * 1024
_BUFFERS_PER_CALL: Final = 512  # below every system's limit for sendmsg

_MESSAGE: Final = bytes((0x08, BaseCommand.MESSAGE))  # how a BaseCommand with type MESSAGE begins

_ids = itertools.count(1)


def next_id() -> int:
    """A number for a request, consumer or producer, unique in this process."""
    return next(_ids)


class ConsumerSink(Protocol):
    """Where a connection delivers what concerns one consumer. Called by the reader thread; must not block."""

    def messages(self, frames: list[Frame]) -> None:
        """MESSAGE frames, in order of arrival."""

    def detached(self, error: PulsarError) -> None:
        """The broker closed the consumer, or the connection is gone. Called once."""


class ProducerSink(Protocol):
    """Where a connection delivers what concerns one producer. Called by the reader thread; must not block."""

    def receipt(self, sequence_id: int, message_id: MessageIdData) -> None:
        """The broker stored the entry sent with `sequence_id`."""

    def send_failed(self, sequence_id: int, error: PulsarError) -> None:
        """The broker refused the entry sent with `sequence_id`."""

    def detached(self, error: PulsarError) -> None:
        """The broker closed the producer, or the connection is gone. Called once."""


class Connection:
    """An open, greeted connection. `Connection.open` makes one."""

    def __init__(self, sock: socket.socket, address: Address, config: ClientConfig) -> None:
        self.address = address
        self.max_message_size_bytes = MAX_MESSAGE_SIZE_BYTES
        self.opened_by_process = os.getpid()
        self._socket = sock
        self._config = config
        self._splitter = FrameSplitter(MAX_MESSAGE_SIZE_BYTES + FRAME_PADDING_BYTES)
        self._sending = threading.Lock()
        self._state = threading.Lock()
        self._lost: PulsarError | None = None
        self._replies: dict[int, PendingReply] = {}
        self._consumers: dict[int, ConsumerSink] = {}
        self._producers: dict[int, ProducerSink] = {}
        self._message_sink: ConsumerSink | None = None
        self._greeted = PendingReply()
        self._may_read = threading.Event()
        self._may_read.set()
        self._pong_owed = False
        self._last_received_ms = self._last_ping_ms = monotonic_ms()
        self._reader = threading.Thread(target=self._read, name=f"pulsar-reader-{address}", daemon=True)

    @classmethod
    def open(cls, address: Address, proxy_to: str, config: ClientConfig, deadline: Deadline) -> "Connection":
        """Connect and shake hands.

        `proxy_to` (host:port or empty) names the broker that a proxy at `address` shall connect us to.
        Raises ConnectFailed, OperationTimeout, or what the broker refused with.
        """
        step = deadline.at_most(config.connect_timeout_ms, "connecting", str(address))
        if step.passed:
            raise step.error()
        try:
            sock = socket.create_connection(address, timeout=step.left_ms() / 1000)
        except TimeoutError as error:
            raise step.error(error) from error
        except OSError as error:
            raise ConnectFailed(f"cannot connect to {address}: {error}") from error
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(config.operation_timeout_ms / 1000)
        connection = cls(sock, address, config)
        connection._reader.start()
        try:
            connection._greet(proxy_to, step)
        except PulsarError:
            connection.close()
            raise
        return connection

    def _greet(self, proxy_to: str, deadline: Deadline) -> None:
        command = requests.connect(
            CLIENT_VERSION,
            self._config.auth_method,
            proxy_to_broker_url=proxy_to or None,
            features=FeatureFlags(),
        )
        self.send([command_frame(command)])
        connected = self._greeted.result(deadline).connected
        if connected.HasField("max_message_size") and connected.max_message_size > 0:
            self.max_message_size_bytes = connected.max_message_size

    @property
    def alive(self) -> bool:
        """Whether the connection can be used, as far as is known, and by this process."""
        return self._lost is None and self.opened_by_process == os.getpid()

    # ---- out

    def send(self, buffers: Sequence[bytes | memoryview]) -> None:
        """Write the buffers one after the other, as one piece of the stream. Raises ConnectionLost."""
        with self._sending:
            self._raise_if_lost()
            try:
                self._write(buffers)
                if self._pong_owed:
                    self._pong_owed = False
                    self._write([command_frame(pong())])
            except (OSError, ValueError) as error:
                lost = ConnectionLost(f"connection to {self.address} broke while sending: {error or 'timed out'}")
                self._break(lost)
                raise lost from error

    def _write(self, buffers: Sequence[bytes | memoryview]) -> None:
        for first in range(0, len(buffers), _BUFFERS_PER_CALL):
            some = buffers[first : first + _BUFFERS_PER_CALL]
            if len(some) == 1:
                self._socket.sendall(some[0])
                continue
            left = sum(len(buffer) for buffer in some)
            sent = self._socket.sendmsg(some)
            if sent < left:
                self._socket.sendall(b"".join(some)[sent:] if left <= _SEND_BUFFER_BYTES else _tail(some, sent))

    def start(self, command: BaseCommand, request_id: int, consumer_id: int | None = None) -> PendingReply:
        """Send a request and return at once; `consumer_id` names the consumer without which no answer can come."""
        reply = PendingReply(consumer_id, lambda: self.forget(request_id))
        with self._state:
            self._raise_if_lost()
            self._replies[request_id] = reply
        self.send([command_frame(command)])
        return reply

    def request(self, command: BaseCommand, request_id: int, deadline: Deadline) -> BaseCommand:
        """Send a request and wait for its reply.

        Raises what the broker answered with ERROR, ConnectionLost, or OperationTimeout at the deadline.
        """
        return self.start(command, request_id).result(deadline)

    def tell(self, command: BaseCommand) -> None:
        """Send a command whose answer, if there is one, does not matter. Raises ConnectionLost."""
        self.send([command_frame(command)])

    def forget(self, request_id: int) -> None:
        """Drop a request whose reply nobody waits for any more."""
        with self._state:
            self._replies.pop(request_id, None)

    # ---- sinks

    def attach_consumer(self, consumer_id: int, sink: ConsumerSink, takes_messages: bool = False) -> None:
        """Tell `sink` what happens to a consumer. At most one consumer of a connection takes messages."""
        with self._state:
            self._raise_if_lost()
            self._consumers[consumer_id] = sink
            if takes_messages:
                self._message_sink = sink

    def detach_consumer(self, consumer_id: int) -> None:
        """Stop telling."""
        with self._state:
            sink = self._consumers.pop(consumer_id, None)
            if sink is not None and sink is self._message_sink:
                self._message_sink = None
        self.resume_reading()

    def attach_producer(self, producer_id: int, sink: ProducerSink) -> None:
        """Tell `sink` what happens to a producer."""
        with self._state:
            self._raise_if_lost()
            self._producers[producer_id] = sink

    def detach_producer(self, producer_id: int) -> None:
        """Stop telling."""
        with self._state:
            self._producers.pop(producer_id, None)

    def pause_reading(self) -> None:
        """Read nothing more for now, so that the broker is held back by TCP. PINGs go on."""
        self._may_read.clear()

    def resume_reading(self) -> None:
        """Read again."""
        self._may_read.set()

    # ---- the end

    def close(self) -> None:
        """End the connection at once; consumers and producers on it vanish on the broker."""
        self._break(ConnectionLost(f"connection to {self.address} was closed here"))
        if threading.current_thread() is not self._reader and self._reader.is_alive():
            self._reader.join(1.0)

    def _raise_if_lost(self) -> None:
        if self._lost is not None:
            raise self._lost

    def _break(self, error: PulsarError) -> None:
        """Mark the connection lost and tell everybody, once."""
        with self._state:
            if self._lost is not None:
                return
            self._lost = error
            replies = [*self._replies.values(), self._greeted]
            sinks: list[ConsumerSink | ProducerSink] = [*self._consumers.values(), *self._producers.values()]
            self._replies.clear()
            self._consumers.clear()
            self._producers.clear()
            self._message_sink = None
        with contextlib.suppress(OSError):  # the peer may have been first
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the reader thread, which closes
        self._may_read.set()
        for reply in replies:
            reply.fail(error)
        for sink in sinks:
            sink.detached(error)

    # ---- in

    def _read(self) -> None:
        try:
            self._read_until_lost()
        except (OSError, ValueError) as error:
            self._break(ConnectionLost(f"connection to {self.address} broke: {error}"))
        except PulsarError as error:
            self._break(error if error.retriable else ConnectionLost(f"connection to {self.address}: {error}"))
        finally:
            self._socket.close()

    def _read_until_lost(self) -> None:
        poller = select.poll()
        poller.register(self._socket.fileno(), select.POLLIN)
        size = _READ_AT_LEAST_BYTES
        while self._lost is None:
            tick_ms = self._keep_alive()
            if not self._may_read.wait(tick_ms / 1000) or not poller.poll(tick_ms):
                continue
            data = self._socket.recv(size)
            if not data:
                raise ConnectionLost(f"{self.address} closed the connection")
            if len(data) == size:
                size = min(2 * size, _READ_AT_MOST_BYTES)
            elif len(data) < size // 8:
                size = max(size // 2, _READ_AT_LEAST_BYTES)
            self._last_received_ms = monotonic_ms()
            self._dispatch(self._splitter.feed(data))

    def _keep_alive(self) -> int:
        """Send a PING when it is time, notice a dead peer; returns how long to wait at most until the next call."""
        interval_ms = self._config.keep_alive_interval_ms
        now_ms = monotonic_ms()
        if not self._may_read.is_set():
            self._last_received_ms = now_ms  # we do not listen, so silence means nothing
        elif now_ms - self._last_received_ms >= 2 * interval_ms:
            raise ConnectionLost(f"{self.address} was silent for {2 * interval_ms} ms, not even answering PING")
        if now_ms - self._last_ping_ms >= interval_ms:
            self._last_ping_ms = now_ms
            self._send_soon(ping())
        due_ms = min(self._last_ping_ms + interval_ms, self._last_received_ms + 2 * interval_ms)
        return max(1, due_ms - now_ms)

    def _send_soon(self, command: BaseCommand) -> None:
        """Send from the reader thread, which must never wait for a writer that waits for the peer to read."""
        if not self._sending.acquire(blocking=False):
            # Bytes are going out this very moment, which is sign of life enough; a PONG follows them.
            self._pong_owed = self._pong_owed or command.type == BaseCommand.PONG
            return
        try:
            self._write([command_frame(command)])
        finally:
            self._sending.release()

    def _dispatch(self, frames: list[Frame]) -> None:
        messages: list[Frame] = []
        for frame in frames:
            buffer, start, end = frame
            if buffer[start + 8 : start + 10] == _MESSAGE:
                messages.append(frame)
                continue
            if messages:
                self._deliver(messages)
                messages = []
            self._handle(buffer, start, end)
        if messages:
            self._deliver(messages)

    def _deliver(self, messages: list[Frame]) -> None:
        sink = self._message_sink
        if sink is not None:  # else: stragglers of a consumer that was just closed
            sink.messages(messages)

    def _handle(self, buffer: bytes, start: int, end: int) -> None:
        try:
            command, _ = parse_command(buffer, start, end)
        except UnknownCommand:
            return  # a newer broker's news; an answer to one of our requests has a type that we know
        handler = _HANDLERS.get(command.type)
        if handler is not None:
            handler(self, command)
            return
        request_id = request_id_of(command)
        if request_id is not None and request_id != NO_REQUEST:
            self._answer(request_id, command)

    def _answer(self, request_id: int, command: BaseCommand) -> None:
        """Give a request its answer, or the error that the answer carries."""
        with self._state:
            reply = self._replies.pop(request_id, None)
        if reply is None:
            return  # its caller has given up
        error = error_of(command)
        if error is None:
            reply.resolve(command)
        else:
            reply.fail(self._located(error))

    def _located(self, error: PulsarError) -> PulsarError:
        """The same error, saying who sent it."""
        return type(error)(f"{error.message} (broker {self.address})")

    def _on_connected(self, command: BaseCommand) -> None:
        size = command.connected.max_message_size
        if size > 0:
            self._splitter.limit_frames(size + FRAME_PADDING_BYTES)
        self._greeted.resolve(command)

    def _on_error(self, command: BaseCommand) -> None:
        if command.error.request_id != NO_REQUEST:
            self._answer(command.error.request_id, command)
            return
        error = error_of(command)
        assert error is not None
        self._greeted.fail(self._located(error))

    def _on_auth_challenge(self, command: BaseCommand) -> None:
        raise UnexpectedReply(f"{self.address} asks for credentials (AUTH_CHALLENGE), which this client cannot give")

    def _on_ping(self, command: BaseCommand) -> None:
        self._send_soon(pong())

    def _on_receipt(self, command: BaseCommand) -> None:
        receipt = command.send_receipt
        sink = self._producers.get(receipt.producer_id)
        if sink is not None:
            sink.receipt(receipt.sequence_id, receipt.message_id)

    def _on_send_error(self, command: BaseCommand) -> None:
        failed = command.send_error
        sink = self._producers.get(failed.producer_id)
        if sink is not None:
            error = error_of(command)
            assert error is not None
            sink.send_failed(failed.sequence_id, self._located(error))

    def _on_close_producer(self, command: BaseCommand) -> None:
        with self._state:
            sink = self._producers.pop(command.close_producer.producer_id, None)
        if sink is not None:
            sink.detached(ConnectionLost(f"{self.address} closed the producer"))

    def _on_close_consumer(self, command: BaseCommand) -> None:
        consumer_id = command.close_consumer.consumer_id
        error = ConnectionLost(f"{self.address} closed the consumer")
        with self._state:
            sink = self._consumers.pop(consumer_id, None)
            if sink is not None and sink is self._message_sink:
                self._message_sink = None
            lost = [key for key, reply in self._replies.items() if reply.consumer_id == consumer_id]
            replies = [self._replies.pop(key) for key in lost]
        for reply in replies:
            reply.fail(error)
        if sink is not None:
            sink.detached(error)


def _tail(buffers: Sequence[bytes | memoryview], skip: int) -> memoryview:
    """What is left of the buffers after the first `skip` bytes."""
    return memoryview(b"".join(buffers))[skip:]


_HANDLERS: Final[dict[int, Callable[[Connection, BaseCommand], None]]] = {
    BaseCommand.CONNECTED: Connection._on_connected,
    BaseCommand.ERROR: Connection._on_error,
    BaseCommand.AUTH_CHALLENGE: Connection._on_auth_challenge,
    BaseCommand.PING: Connection._on_ping,
    BaseCommand.SEND_RECEIPT: Connection._on_receipt,
    BaseCommand.SEND_ERROR: Connection._on_send_error,
    BaseCommand.CLOSE_PRODUCER: Connection._on_close_producer,
    BaseCommand.CLOSE_CONSUMER: Connection._on_close_consumer,
}
"""Everything else is the answer to a request, or no news here: PONG, ACTIVE_CONSUMER_CHANGE, REACHED_END_OF_TOPIC."""
