"""One connection to a broker: frames out under a lock, frames in by a thread of its own.

The reader thread owns the receiving side: it cuts frames, resolves pending replies, hands messages and receipts to
their sinks, answers PING, and watches the peer's life. It holds no lock while it calls a sink; a sink must not block. A
connection that broke stays broken: every wait on it ends with ConnectionLost, and a caller that goes on acquires
another from the pool.
"""

import contextlib
import os
import threading
from collections.abc import Sequence
from typing import Final

from spark_pulsar import __version__
from spark_pulsar.client.authentication.credentials import Credentials
from spark_pulsar.client.clock import monotonic_ms
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.connections.connection_log import warn_of_lost
from spark_pulsar.client.connections.dialing import dial
from spark_pulsar.client.connections.gathered_writes import gather
from spark_pulsar.client.connections.pending import PendingReply
from spark_pulsar.client.connections.service_url import Address
from spark_pulsar.client.connections.streams import Stream
from spark_pulsar.client.connections.wrong_port import Answering, answering, probe_with_tls, wrong_port
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ConnectFailed, ConnectionLost, TlsError, UnexpectedReply, WrongPort
from spark_pulsar.model.errors import AuthenticationError, PulsarError
from spark_pulsar.model.limits import FRAME_PADDING_BYTES, MAX_MESSAGE_SIZE_BYTES
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.commands import ping, pong
from spark_pulsar.wire.protocol.frames import FrameSplitter, command_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandAuthChallenge, CommandConnected, FeatureFlags

from .demultiplexer import ANSWERS, ConsumerSink, Demultiplexer, ProducerSink

CLIENT_VERSION: Final = f"spark-pulsar-{__version__}"
_READ_AT_LEAST_BYTES: Final = 64 * 1024
_READ_AT_MOST_BYTES: Final = 1024 * 1024
_READ_ALONE_BYTES: Final = 4 * 1024
_READ_ON_AFTER_MS: Final = 1_000
_READ_ON_BYTES: Final = 16 * 1024 * 1024
"""Bytes that a connection which is held back reads on at most, piece by piece, to find a challenge for fresh
credentials: as much as a broker has written, and the systems of both sides hold, when it sends one."""


class Connection:
    """An open, greeted connection. `Connection.open` makes one."""

    def __init__(self, stream: Stream, address: Address, config: ClientConfig, credentials: Credentials) -> None:
        self.address = address
        self.max_message_size_bytes = MAX_MESSAGE_SIZE_BYTES
        self.opened_by_process = os.getpid()
        self._stream = stream
        self.config = config
        self._credentials = credentials
        self._shown: bytes | None = None
        self._challenging = threading.Lock()
        self._challenged = False
        self._renewing = False
        self._splitter = FrameSplitter(MAX_MESSAGE_SIZE_BYTES + FRAME_PADDING_BYTES)
        self._sending = threading.Lock()
        self._router = Demultiplexer(address, self._on_connected, lambda: self._send_soon(pong()), self._on_challenge)
        self._may_read = threading.Event()
        self._may_read.set()
        self._read_on_bytes = 0
        self._pong_owed = False
        self._heard = False
        self._closed_here = False
        self._last_received_ms = self._last_ping_ms = monotonic_ms()
        self._reader = threading.Thread(target=self._read, name=f"pulsar-reader-{address}", daemon=True)

    @classmethod
    def open(
        cls,
        address: Address,
        proxy_to: str,
        config: ClientConfig,
        deadline: Deadline,
        credentials: Credentials | None = None,
    ) -> "Connection":
        """Connects and shakes hands, once more if there are newer `credentials` than those that the broker refused
        (W1).

        `proxy_to` (host:port or empty) names the broker that a proxy at `address` shall connect us to. Raises
        ConnectFailed, also when no broker answers in the time for a connection, OperationTimeout at the deadline,
        TlsError, WrongPort, CredentialsError, or the broker's refusal.
        """
        if deadline.passed:
            raise deadline.error()  # names the purpose of the connection
        known = credentials or config.authentication.credentials()
        step = deadline.at_most(config.connect_timeout_ms, "connecting", str(address))
        try:
            shown = known.data(step)
            try:
                return cls._open(address, proxy_to, config, known, shown, step)
            except AuthenticationError:
                newer = known.data(step, refused=shown)
                if newer == shown:
                    raise
                return cls._open(address, proxy_to, config, known, newer, step)
        except TimeoutError as error:
            raise _no_answer(step, deadline) from error

    @classmethod
    def _open(
        cls,
        address: Address,
        proxy_to: str,
        config: ClientConfig,
        credentials: Credentials,
        shown: bytes | None,
        step: Deadline,
    ) -> "Connection":
        connection = cls(dial(address, config, step), address, config, credentials)
        connection._reader.start()
        try:
            connection._greet(proxy_to, shown, step)
        except ConnectionLost as error:
            connection.close()
            if not config.uses_tls and not connection._heard:  # a port of TLS may just close
                wrong = wrong_port(address, probe_with_tls(address, step), uses_tls=False)
                if wrong is not None:
                    raise wrong from error
            raise
        except PulsarError:
            connection.close()
            raise
        return connection

    def _greet(self, proxy_to: str, shown: bytes | None, deadline: Deadline) -> None:
        method = self._credentials.method
        command = requests.connect(
            CLIENT_VERSION,
            method,
            shown,
            proxy_to_broker_url=proxy_to or None,
            features=FeatureFlags(supports_auth_refresh=method != "none", supports_broker_entry_metadata=True),
        )
        self._shown = shown
        with contextlib.suppress(ConnectionLost):  # the reader knows why, and has reported it there
            self.send([command_frame(command)])
        self._router.greeted.result(deadline)

    def _on_challenge(self, challenge: CommandAuthChallenge) -> None:
        """Answers a broker that wants fresh credentials, from a thread of its own: getting them may take a while."""
        method, requested = self._credentials.method, challenge.challenge.auth_method_name
        if method == "none":
            hint = "authPluginClassName and authParams say which to show"
            raise UnexpectedReply(f"{self.address} requests credentials (AUTH_CHALLENGE): {hint}")
        if requested not in ("", method):
            raise UnexpectedReply(
                f"{self.address} requests credentials of the method {requested!r}, ours is {method!r}"
            )
        with self._challenging:
            self._challenged = True
            if self._renewing:
                return
            self._renewing = True
        name = f"pulsar-credentials-{self.address}"
        threading.Thread(target=self._renew_credentials, name=name, daemon=True).start()

    def _renew_credentials(self) -> None:
        try:
            while self._takes_challenge():
                deadline = Deadline(self.config.connect_timeout_ms, "renewing credentials", str(self.address))
                self._shown = self._credentials.data(deadline, refused=self._shown)
                self.send_command(requests.auth_response(CLIENT_VERSION, self._credentials.method, self._shown or b""))
        except PulsarError as error:
            self._break(ConnectionLost(f"{self.address} requested fresh credentials: {error}"))

    def _takes_challenge(self) -> bool:
        """Takes the challenge that is to be answered next; false when there is none, and the thread ends."""
        with self._challenging:
            self._renewing = self._challenged
            self._challenged = False
            return self._renewing

    def _on_connected(self, connected: CommandConnected) -> None:
        if connected.max_message_size > 0:
            self.max_message_size_bytes = connected.max_message_size
            self._splitter.limit_frames(connected.max_message_size + FRAME_PADDING_BYTES)

    @property
    def alive(self) -> bool:
        """Returns whether the connection can be used, as far as is known, and by this process."""
        return self._router.lost is None and self.opened_by_process == os.getpid()

    # ---- out

    def send(self, buffers: Sequence[bytes | memoryview]) -> None:
        """Writes the buffers one after the other, as one piece of the stream. Raises ConnectionLost."""
        with self._sending:
            self._router.raise_if_lost()
            try:
                self._stream.send(buffers)
                if self._pong_owed:
                    self._pong_owed = False
                    self._stream.send([command_frame(pong())])
            except (OSError, ValueError) as error:
                lost = ConnectionLost(f"connection to {self.address} broke while sending: {error or 'timed out'}")
                self._break(lost)
                raise lost from error

    def start(self, command: BaseCommand, request_id: int, consumer_id: int | None = None) -> PendingReply:
        """Sends a request and returns at once; `consumer_id` names the consumer without which no answer can come."""
        what = f"waiting for the answer to {BaseCommand.Type.Name(command.type)}"
        patience = Deadline(self.config.answer_timeout_ms, what, str(self.address))
        reply = self._router.expect(request_id, consumer_id, patience, ANSWERS[command.type])
        self.send_command(command)
        return reply

    def request(self, command: BaseCommand, request_id: int, deadline: Deadline) -> BaseCommand:
        """Sends a request and waits for its reply.

        Raises as `PendingReply.result`.
        """
        return self.start(command, request_id).result(deadline)

    def send_command(self, command: BaseCommand) -> None:
        """Sends a command whose answer, if there is one, does not matter; later, with others, where the thread gathers
        writes. Raises ConnectionLost."""
        frame = command_frame(command)
        self._router.raise_if_lost()
        if not gather(self.send, frame):
            self.send([frame])

    # ---- sinks

    def attach_consumer(self, consumer_id: int, sink: ConsumerSink, takes_messages: bool = False) -> None:
        """Notifies `sink` of what happens to a consumer. Of several that take messages none may pause reading."""
        self._router.attach_consumer(consumer_id, sink, takes_messages)

    def detach_consumer(self, consumer_id: int) -> None:
        """Stops notifying the sink."""
        self._router.detach_consumer(consumer_id)
        self.resume_reading()

    def attach_producer(self, producer_id: int, sink: ProducerSink) -> None:
        """Notifies `sink` of what happens to a producer."""
        self._router.attach_producer(producer_id, sink)

    def detach_producer(self, producer_id: int) -> None:
        """Stops notifying the sink."""
        self._router.detach_producer(producer_id)

    def pause_reading(self) -> None:
        """Reads nothing more for now, so that the broker is held back by TCP. PINGs go on.

        With credentials that a broker may request again, the thread goes on reading a little, slowly: the broker would
        close a connection that does not answer.
        """
        self._may_read.clear()

    def resume_reading(self) -> None:
        """Reads again."""
        self._read_on_bytes = 0
        self._may_read.set()

    # ---- the end

    def close(self) -> None:
        """Ends the connection at once; consumers and producers on it vanish on the broker."""
        self._closed_here = True
        self._break(ConnectionLost(f"connection to {self.address} was closed here"))
        if threading.current_thread() is not self._reader and self._reader.is_alive():
            self._reader.join(1.0)

    def _break(self, error: PulsarError) -> None:
        """Abandons the connection: notifies every sink, once, and lets the reader thread end and close it."""
        was_used = self._router.is_used
        if self._router.lose(error):
            if was_used and not self._closed_here:
                warn_of_lost(error)
            with contextlib.suppress(OSError):  # the peer may have been first
                self._stream.shut_down()
            self._may_read.set()

    # ---- in

    def _read(self) -> None:
        try:
            self._read_until_lost()
        except (OSError, ValueError) as error:
            self._break(ConnectionLost(f"connection to {self.address} broke: {error}"))
        except (TlsError, WrongPort) as error:
            self._router.greeted.fail(error)  # a broker refuses a certificate after the handshake
            self._break(ConnectionLost(f"connection to {self.address}: {error}"))
        except PulsarError as error:
            self._break(error if error.retriable else ConnectionLost(f"connection to {self.address}: {error}"))
        finally:
            # Whatever ended it: no caller may wait for a thread that is gone.
            self._break(ConnectionLost(f"connection to {self.address}: reading from it has failed"))
            self._stream.close()

    def _read_until_lost(self) -> None:
        size = _READ_AT_LEAST_BYTES
        while self._router.lost is None:
            tick_ms = self._keep_alive()
            if not self._waits_to_read(tick_ms) or not self._stream.wait_to_receive(tick_ms):
                continue
            missing = self._splitter.missing_bytes
            # The rest of a begun frame comes by itself: joining it with all that follows would copy that too.
            wanted = missing if missing >= _READ_ALONE_BYTES else size
            data = self._stream.receive(wanted)
            if data is None:
                continue
            if not data:
                raise ConnectionLost(f"{self.address} closed the connection")
            if not self._heard:
                self._hear_first(data)
            if len(data) == size:
                size = min(2 * size, _READ_AT_MOST_BYTES)
            elif wanted == size and len(data) < size // 8:
                size = max(size // 2, _READ_AT_LEAST_BYTES)
            self._last_received_ms = monotonic_ms()
            if not self._may_read.is_set():
                self._read_on_bytes += len(data)
            self._router.dispatch(self._splitter.feed(data))

    def _hear_first(self, data: bytes) -> None:
        """Checks the first bytes of the peer. Raises WrongPort if they are not a broker's."""
        self._heard = True
        answer = answering(data)
        if answer is Answering.HTTP and self.config.uses_tls:
            answer = Answering.HTTPS
        wrong = wrong_port(self.address, answer, uses_tls=False)
        if wrong is not None:
            raise wrong

    def _waits_to_read(self, tick_ms: int) -> bool:
        """Waits until the connection is not held back; true also when it is, and may read on for a challenge."""
        reads_on = self._credentials.method != "none" and self._read_on_bytes < _READ_ON_BYTES
        return self._may_read.wait((min(tick_ms, _READ_ON_AFTER_MS) if reads_on else tick_ms) / 1000) or reads_on

    def _keep_alive(self) -> int:
        """Sends a PING when it is time and notices a dead peer; returns how long to wait at most until the next
        call."""
        interval_ms = self.config.keep_alive_interval_ms
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
        """Sends from the reader thread, which must never wait for a writer that waits for the peer to read."""
        if not self._sending.acquire(blocking=False):
            # Bytes are going out this very moment, which is sign of life enough; a PONG follows them.
            self._pong_owed = self._pong_owed or command.type == BaseCommand.PONG
            return
        try:
            if self._stream.takes_more():
                self._stream.send([command_frame(command)])
            else:  # the peer has much to read already, and may itself wait for us to read
                self._pong_owed = self._pong_owed or command.type == BaseCommand.PONG
        finally:
            self._sending.release()


def _no_answer(step: Deadline, deadline: Deadline) -> PulsarError:
    """Makes the error for a connection that took too long: the operation may have more time, and is not over then."""
    failed = ConnectFailed(f"cannot connect to {step.where}: no answer within {step.timeout_ms} ms")
    return deadline.error(failed) if deadline.passed else failed
