"""The demultiplexer of a connection: replies go to requests, messages to consumers, receipts to producers. PING is
answered by the thread that reads (W9)."""

import itertools
import threading
from collections.abc import Callable
from itertools import groupby
from operator import attrgetter
from typing import Final, Protocol

from spark_pulsar.client.connections.pending import PendingReply
from spark_pulsar.client.connections.service_url import Address
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ConnectionLost, UnexpectedReply
from spark_pulsar.model.errors import PulsarError, UnknownCommand
from spark_pulsar.wire.entries.messages import MESSAGE_START, consumer_id_of
from spark_pulsar.wire.protocol.commands import NO_REQUEST, request_id_of
from spark_pulsar.wire.protocol.frames import Frame, parse_command, receipt_of
from spark_pulsar.wire.protocol.replies import error_of
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandAuthChallenge, CommandConnected, CommandSendReceipt

ANSWERS: Final[dict[int, int]] = {
    BaseCommand.LOOKUP: BaseCommand.LOOKUP_RESPONSE,
    BaseCommand.PARTITIONED_METADATA: BaseCommand.PARTITIONED_METADATA_RESPONSE,
    BaseCommand.GET_TOPICS_OF_NAMESPACE: BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE,
    BaseCommand.GET_LAST_MESSAGE_ID: BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE,
    BaseCommand.GET_SCHEMA: BaseCommand.GET_SCHEMA_RESPONSE,
    BaseCommand.GET_OR_CREATE_SCHEMA: BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE,
    BaseCommand.PRODUCER: BaseCommand.PRODUCER_SUCCESS,
    BaseCommand.ACK: BaseCommand.ACK_RESPONSE,
    BaseCommand.SUBSCRIBE: BaseCommand.SUCCESS,
    BaseCommand.UNSUBSCRIBE: BaseCommand.SUCCESS,
    BaseCommand.SEEK: BaseCommand.SUCCESS,
    BaseCommand.CLOSE_PRODUCER: BaseCommand.SUCCESS,
    BaseCommand.CLOSE_CONSUMER: BaseCommand.SUCCESS,
    BaseCommand.TC_CLIENT_CONNECT_REQUEST: BaseCommand.TC_CLIENT_CONNECT_RESPONSE,
    BaseCommand.NEW_TXN: BaseCommand.NEW_TXN_RESPONSE,
    BaseCommand.ADD_PARTITION_TO_TXN: BaseCommand.ADD_PARTITION_TO_TXN_RESPONSE,
    BaseCommand.END_TXN: BaseCommand.END_TXN_RESPONSE,
}
"""The type of the good answer to each request."""

_ids = itertools.count(1)


def next_id() -> int:
    """Returns a number for a request, consumer or producer, unique in this process."""
    return next(_ids)


class ConsumerSink(Protocol):
    """The receiver of all that concerns one consumer. Called by the reader thread; must not block."""

    def messages(self, frames: list[Frame]) -> None:
        """MESSAGE frames, in order of arrival."""

    def detached(self, error: PulsarError) -> None:
        """The broker closed the consumer, or the connection is gone. Called once."""


class ProducerSink(Protocol):
    """The receiver of all that concerns one producer. Called by the reader thread; must not block."""

    def receipts(self, receipts: list[CommandSendReceipt]) -> None:
        """The broker stored the entries sent with these sequence ids."""

    def send_failed(self, sequence_id: int, error: PulsarError) -> None:
        """The broker refused the entry sent with `sequence_id`."""

    def detached(self, error: PulsarError) -> None:
        """The broker closed the producer, or the connection is gone. Called once."""


class Demultiplexer:
    """Brings every frame that arrives on one connection to the request, consumer or producer that it is for.

    `dispatch` is the reader thread's; everything else may be called by any thread. No lock is held while a sink or a
    callback runs. `lost` is set once and for all by `lose`.
    """

    def __init__(
        self,
        address: Address,
        on_connected: Callable[[CommandConnected], None],
        on_ping: Callable[[], None],
        on_challenge: Callable[[CommandAuthChallenge], None],
    ) -> None:
        self.lost: PulsarError | None = None
        """Why the connection is gone, or None."""
        self.greeted = PendingReply()
        """Resolved by CONNECTED."""
        self._address = address
        self._on_connected = on_connected
        self._on_ping = on_ping
        self._on_challenge = on_challenge
        self._lock = threading.Lock()
        self._replies: dict[int, PendingReply] = {}
        self._consumers: dict[int, ConsumerSink] = {}
        self._producers: dict[int, ProducerSink] = {}
        self._takers: dict[int, ConsumerSink] = {}
        """Consumers that take messages."""
        self._message_sink: ConsumerSink | None = None
        """The one that takes messages, if there is just one."""

    @property
    def is_used(self) -> bool:
        """Returns whether requests, consumers or producers are on the connection."""
        return bool(self._replies or self._consumers or self._producers)

    # ---- waiting

    def raise_if_lost(self) -> None:
        """Raises why the connection is gone, if it is."""
        if self.lost is not None:
            raise self.lost

    def expect(self, request_id: int, consumer_id: int | None, patience: Deadline, kind: int) -> PendingReply:
        """Waits for the reply, a command of type `kind`, to a request about to be sent, with `patience` at most."""
        reply = PendingReply(consumer_id, lambda: self.discard(request_id), patience, kind)
        with self._lock:
            self.raise_if_lost()
            self._replies[request_id] = reply
        return reply

    def discard(self, request_id: int) -> None:
        """Drops a request whose caller no longer waits."""
        with self._lock:
            self._replies.pop(request_id, None)

    def attach_consumer(self, consumer_id: int, sink: ConsumerSink, takes_messages: bool) -> None:
        """Notifies `sink` of what happens to a consumer, and gives it the messages for that if it takes them."""
        with self._lock:
            self.raise_if_lost()
            self._consumers[consumer_id] = sink
            if takes_messages:
                self._takers[consumer_id] = sink
                self._choose_sink()

    def detach_consumer(self, consumer_id: int) -> None:
        """Stops notifying the sink."""
        with self._lock:
            self._remove_consumer(consumer_id)

    def _remove_consumer(self, consumer_id: int) -> ConsumerSink | None:
        sink = self._consumers.pop(consumer_id, None)
        if self._takers.pop(consumer_id, None) is not None:
            self._choose_sink()
        return sink

    def _choose_sink(self) -> None:
        self._message_sink = next(iter(self._takers.values())) if len(self._takers) == 1 else None

    def attach_producer(self, producer_id: int, sink: ProducerSink) -> None:
        """Notifies `sink` of what happens to a producer."""
        with self._lock:
            self.raise_if_lost()
            self._producers[producer_id] = sink

    def detach_producer(self, producer_id: int) -> None:
        """Stops notifying the sink."""
        with self._lock:
            self._producers.pop(producer_id, None)

    def lose(self, error: PulsarError) -> bool:
        """Ends the connection: notifies every sink and every waiting request. False if that was known."""
        with self._lock:
            if self.lost is not None:
                return False
            self.lost = error
            replies = [*self._replies.values(), self.greeted]
            sinks: list[ConsumerSink | ProducerSink] = [*self._consumers.values(), *self._producers.values()]
            self._replies.clear()
            self._consumers.clear()
            self._producers.clear()
            self._takers.clear()
            self._message_sink = None
        for reply in replies:
            reply.fail(error)
        for sink in sinks:
            sink.detached(error)
        return True

    # ---- arriving

    def dispatch(self, frames: list[Frame]) -> None:
        """Gives each frame to whom it is for; consecutive MESSAGE frames go as one list, and so do receipts."""
        messages: list[Frame] = []
        receipts: list[CommandSendReceipt] = []
        for frame in frames:
            buffer, start, end = frame
            if buffer.startswith(MESSAGE_START, start + 8):
                self._give_receipts(receipts)
                messages.append(frame)
                continue
            if messages:
                self._deliver(messages)
                messages = []
            receipt = receipt_of(buffer, start, end)
            if receipt is not None:
                receipts.append(receipt)
                continue
            self._give_receipts(receipts)
            self._handle(buffer, start, end)
        self._give_receipts(receipts)
        if messages:
            self._deliver(messages)

    def _give_receipts(self, receipts: list[CommandSendReceipt]) -> None:
        """Gives producers their receipts, and empties the list."""
        if receipts:
            for producer_id, run in groupby(receipts, attrgetter("producer_id")):
                sink = self._producers.get(producer_id)
                if sink is not None:
                    sink.receipts(list(run))
            receipts.clear()

    def _deliver(self, messages: list[Frame]) -> None:
        sink = self._message_sink
        if sink is not None:
            sink.messages(messages)
            return
        for consumer_id, run in groupby(messages, lambda frame: consumer_id_of(frame.buffer, frame.start)):
            sink = self._takers.get(consumer_id)
            if sink is not None:  # else: stragglers of a consumer that was just closed
                sink.messages(list(run))

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
        """Gives a request its answer, or the error that the answer carries."""
        with self._lock:
            reply = self._replies.pop(request_id, None)
        if reply is None:
            return  # its caller no longer waits
        error = error_of(command)
        if error is not None:
            reply.fail(self._located(error))
        elif reply.kind in (None, command.type):
            reply.resolve(command)
        else:
            name = BaseCommand.Type.Name(command.type)
            reply.fail(UnexpectedReply(f"{self._address} answered a request with {name}"))

    def _located(self, error: PulsarError) -> PulsarError:
        """Returns the error with the broker's address in its text."""
        return type(error)(f"{error.message} (broker {self._address})")

    def _on_greeting(self, command: BaseCommand) -> None:
        self._on_connected(command.connected)
        self.greeted.resolve(command)

    def _on_error(self, command: BaseCommand) -> None:
        if command.error.request_id != NO_REQUEST:
            self._answer(command.error.request_id, command)
            return
        error = error_of(command)
        assert error is not None
        self.greeted.fail(self._located(error))

    def _on_auth_challenge(self, command: BaseCommand) -> None:
        self._on_challenge(command.authChallenge)

    def _on_life_check(self, command: BaseCommand) -> None:
        self._on_ping()

    def _on_receipt(self, command: BaseCommand) -> None:
        self._give_receipts([command.send_receipt])

    def _on_send_error(self, command: BaseCommand) -> None:
        failed = command.send_error
        sink = self._producers.get(failed.producer_id)
        if sink is not None:
            error = error_of(command)
            assert error is not None
            sink.send_failed(failed.sequence_id, self._located(error))

    def _on_close_producer(self, command: BaseCommand) -> None:
        with self._lock:
            sink = self._producers.pop(command.close_producer.producer_id, None)
        if sink is not None:
            sink.detached(ConnectionLost(f"{self._address} closed the producer"))

    def _on_close_consumer(self, command: BaseCommand) -> None:
        consumer_id = command.close_consumer.consumer_id
        error = ConnectionLost(f"{self._address} closed the consumer")
        with self._lock:
            sink = self._remove_consumer(consumer_id)
            lost = [key for key, reply in self._replies.items() if reply.consumer_id == consumer_id]
            replies = [self._replies.pop(key) for key in lost]
        for reply in replies:
            reply.fail(error)
        if sink is not None:
            sink.detached(error)


_HANDLERS: Final[dict[int, Callable[[Demultiplexer, BaseCommand], None]]] = {
    BaseCommand.CONNECTED: Demultiplexer._on_greeting,
    BaseCommand.ERROR: Demultiplexer._on_error,
    BaseCommand.AUTH_CHALLENGE: Demultiplexer._on_auth_challenge,
    BaseCommand.PING: Demultiplexer._on_life_check,
    BaseCommand.SEND_RECEIPT: Demultiplexer._on_receipt,
    BaseCommand.SEND_ERROR: Demultiplexer._on_send_error,
    BaseCommand.CLOSE_PRODUCER: Demultiplexer._on_close_producer,
    BaseCommand.CLOSE_CONSUMER: Demultiplexer._on_close_consumer,
}
"""Everything else is the answer to a request, or no news here: PONG, ACTIVE_CONSUMER_CHANGE, REACHED_END_OF_TOPIC."""
