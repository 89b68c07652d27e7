"""Clients: what an official client does with what it hears, and the connections between it and the broker.

A client keeps its producers and consumers over connections, as real ones do: after a reconnect a producer sends again
what has no receipt yet, under the same name and sequence ids.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.broker.turn.events import Event
from spark_pulsar.model.positions.ids import MessageId, TransactionId
from spark_pulsar.server.connections.connection import Connection
from spark_pulsar.server.connections.connection_memory import ConnectionMemory
from spark_pulsar.wire.protocol import commands, requests
from spark_pulsar.wire.protocol.frames import command_frame, payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import (
    BaseCommand,
    CommandError,
    CommandProducerSuccess,
    CommandSendError,
    CommandSubscribe,
    ProducerAccessMode,
    ServerError,
)

from .account import Place, Sent
from .comparing import Violation
from .schemas import on_wire
from .sharing import ALL_STICKY_HASHES, EXCLUSIVE, Kind
from .transaction_client import ClientTransactions

if TYPE_CHECKING:
    from random import Random

MAX_FRAME_BYTES = 5_253_120


class Link:
    """One connection: bytes on their way to the broker, orders of the broker on their way back."""

    is_busy = is_stopped = False
    room_us = 1 << 60
    """Room for all that arrives: the tests make the turns."""

    def __init__(self, session_id: int, client: Client) -> None:
        self.session_id = session_id
        self.client: Client | None = client
        """None when the client has left and the broker does not know it yet."""
        self.upstream: deque[bytes] = deque()
        self.downstream: deque[fx.Effect] = deque()
        self.is_read = True
        """False while the broker does not read (PR-15)."""
        self.malformed = False
        self._events: list[Event] = []
        self.memory = ConnectionMemory(1 << 60, lambda: 0.0, lambda _delay_s, _call: None)
        self._connection = Connection(self, session_id, MAX_FRAME_BYTES)  # type: ignore[arg-type]
        self._connection.splitter.least_columnar_sends = 2
        self._connection.transport = self  # type: ignore[assignment]

    # What a Connection wants of its engine and its transport

    def happen(self, events: list[Event]) -> None:
        self._events += events

    def happen_now(self, events: list[Event], _spent_us: int) -> None:
        self._events += events

    def has_read(self, size_bytes: int) -> None:
        """Leaves it to the world when its next turn comes."""

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        """More came than one turn takes: `arrive` hands on what is held before it takes more."""

    def resume_reading(self) -> None:
        """All of it is handed on."""

    def on_malformed(self, _connection: Connection, _error: Exception) -> None:
        self.malformed = True

    def arrive(self, random: Random) -> list[Event]:
        """Some of what is on its way arrives, perhaps cut within a frame; what the broker hears."""
        pieces = [self.upstream.popleft() for _ in range(random.randint(1, len(self.upstream)))]
        data = b"".join(pieces)
        if random.random() < 0.2:
            cut = random.randrange(len(data) + 1)
            if data[cut:]:
                self.upstream.appendleft(data[cut:])
            data = data[:cut]
        if data:
            self._connection.splitter.expects_columnar_sends = (
                True  # which few would be else: a read has few SENDs here
            )
            self._connection.data_received(data)
        events, self._events = self._events, []
        return events


@dataclass(slots=True, eq=False)
class Producer:
    """A producer of a client, over all its connections."""

    client: Client
    producer_id: int
    topic: str
    name: str
    state: str = "closed"
    """closed, opening, open"""
    sent: int = 0
    next_sequence_id: int = 0
    waiting: deque[Sent] = field(default_factory=deque)
    """Sent, or to be sent, and without a receipt."""
    access_mode: ProducerAccessMode.ValueType = ProducerAccessMode.Shared
    epoch: int | None = None
    """The last one in which it had its topic alone."""
    schemas: tuple[bytes, ...] = ()
    """Schemas that the producer brings one after the other."""
    given_up: set[int] = field(default_factory=set)
    """Numbers of entries whose transaction was over when they came (TX-8)."""
    encrypted_share: float = 0.0
    """Share of encrypted entries; a producer with some says that it encrypts."""

    def send(self, sents: list[Sent]) -> None:
        """Puts entries on the wire."""
        frames = []
        for sent in sents:
            txn_id = None if sent.transaction is None else TransactionId(*sent.transaction)
            command = requests.send(
                self.producer_id, sent.sequence_id, sent.count, sent.highest_sequence_id, transaction=txn_id
            )
            frames.append(payload_frame(command, sent.entry))
        self.client.put(b"".join(frames))

    def close(self) -> None:
        """CLOSE_PRODUCER."""
        self.state = "closed"
        self.client.tell(requests.close_producer(self.client.request_id(), self.producer_id))

    def on_receipt(self, sequence_id: int) -> None:
        """A receipt came."""
        waiting = self.waiting
        if waiting and waiting[0].sequence_id == sequence_id:
            waiting.popleft()
        elif waiting and sequence_id > waiting[0].sequence_id:
            raise Violation(f"{self.name} hears of {sequence_id} and waits for {waiting[0].sequence_id} (PR-9)")

    def give_up(self, sequence_id: int) -> bool:
        """Gives up an entry whose transaction is over. False when it is not the next one that an answer is for."""
        if not self.waiting:
            return False
        sent = self.waiting[0]
        if max(sent.sequence_id, sent.highest_sequence_id or 0) != sequence_id or sent.transaction is None:
            return False
        self.given_up.add(self.waiting.popleft().number)
        return True


@dataclass(slots=True, eq=False)
class Consumer:
    """A consumer, or a reader, of a client; gone with its connection."""

    consumer_id: int
    topic: str
    subscription: str
    kind: int
    durable: bool
    request_id: int
    state: str = "opening"
    permits: int = 0
    inbox: dict[Place, tuple[int, int]] = field(default_factory=dict)
    """Delivered and not dealt with: messages in the entry, and which of them are new (bits)."""


class Client:
    """One client: at most one connection at a time."""

    def __init__(self, number: int, book: dict[bytes, Sent]) -> None:
        self.number = number
        self._book = book
        """Every entry ever sent: saves parsing metadata."""
        self.link: Link | None = None
        self.connected = False
        self.producers: list[Producer] = []
        self.consumers: dict[int, Consumer] = {}
        self.reuses_ids = False
        """True when its consumers keep their names and ids after a reconnect."""
        self._requests = 0
        self._last_consumer = 0
        self._opening: dict[int, Producer] = {}
        self.transactions = ClientTransactions(self)

    def request_id(self) -> int:
        """A fresh one."""
        self._requests += 1
        return self._requests

    def put(self, data: bytes) -> None:
        """Sends bytes, if there is a connection."""
        if self.link is not None:
            self.link.upstream.append(data)

    def tell(self, command: BaseCommand) -> None:
        """Sends a command."""
        self.put(command_frame(command))

    def connect(self, link: Link) -> None:
        """Begins with a new connection."""
        self.link = link
        self.connected = False
        if self.reuses_ids:
            self._last_consumer = 0
        self.tell(requests.connect("simulation"))

    def leave(self) -> None:
        """The connection is gone: for the client at least."""
        if self.link is not None:
            self.link.client = None
            self.link = None
        self.connected = False
        self.consumers.clear()
        self._opening.clear()
        self.transactions.leave()
        for producer in self.producers:
            producer.state = "closed"

    def open_producer(self, producer: Producer) -> None:
        """PRODUCER."""
        producer.state = "opening"
        request_id = self.request_id()
        self._opening[request_id] = producer
        command = requests.producer(
            request_id, producer.topic, producer.producer_id, producer.name, access_mode=producer.access_mode
        )
        command.producer.encrypted = producer.encrypted_share > 0
        if producer.epoch is not None:
            command.producer.topic_epoch = producer.epoch
        if producer.schemas:
            command.producer.schema.CopyFrom(on_wire(producer.schemas[request_id % len(producer.schemas)]))
        self.tell(command)

    def open_consumer(
        self,
        topic: str,
        subscription: str,
        kind: Kind,
        permits: int,
        *,
        sticky_hashes: tuple[int, int] = ALL_STICKY_HASHES,
        priority: int = 0,
        **more: Any,
    ) -> None:
        """SUBSCRIBE, and FLOW behind it."""
        self._last_consumer += 1
        request_id = self.request_id()
        durable = more.get("durable", True)
        consumer = Consumer(self._last_consumer, topic, subscription, kind.type, durable, request_id)
        self.consumers[consumer.consumer_id] = consumer
        name = f"c{self.number}.{consumer.consumer_id}"
        command = requests.subscribe(
            request_id, topic, subscription, consumer.consumer_id, kind.type, consumer_name=name, **more
        )
        kind.shape(command.subscribe, sticky_hashes)
        if priority:
            command.subscribe.priority_level = priority
        self.tell(command)
        self.grant(consumer, permits)

    def open_compacted_reader(self, topic: str, subscription: str, permits: int) -> None:
        """A reader of the compacted view, from its beginning on."""
        self.open_consumer(
            topic,
            subscription,
            Kind(EXCLUSIVE),
            permits,
            durable=False,
            read_compacted=True,
            start=MessageId(-1, -1),
            initial_position=CommandSubscribe.Earliest,
        )

    def grant(self, consumer: Consumer, permits: int) -> None:
        """FLOW."""
        consumer.permits += permits
        self.tell(requests.flow(consumer.consumer_id, permits))

    # Hearing

    def hear(self, effect: fx.Effect) -> None:
        """Something came from the broker."""
        if isinstance(effect, fx.SendCommand):
            self._command(effect.command)
        elif isinstance(effect, fx.SendReceipts):
            for sequence_id in effect.sequence_ids:
                self._receipt(effect.producer_id, sequence_id)
        elif isinstance(effect, fx.SendColumnarReceipts):
            for producer_id, sequence_id in zip(effect.producer_ids, effect.sequence_ids, strict=True):
                self._receipt(producer_id, sequence_id)
        elif isinstance(effect, fx.SendMessages):
            self._messages(effect)
        elif isinstance(effect, fx.CloseSession):
            self.leave()

    def _receipt(self, producer_id: int, sequence_id: int) -> None:
        for producer in self.producers:
            if producer.producer_id == producer_id:
                producer.on_receipt(sequence_id)

    def _messages(self, effect: fx.SendMessages) -> None:
        consumer = self.consumers.get(effect.consumer_id)
        if consumer is None:
            return
        entry_ids = effect.entry_ids or range(effect.first_entry_id, effect.first_entry_id + len(effect.starts))
        for index, entry_id in enumerate(entry_ids):
            bits = None if effect.ack_sets is None else effect.ack_sets[index]
            place = (effect.ledger_id, entry_id)
            sent = self._book[effect.buffer[effect.starts[index] : effect.ends[index]]]
            consumer.inbox[place] = (sent.count, sent.full if bits is None else bits)
            consumer.permits -= sent.count

    def _command(self, command: BaseCommand) -> None:
        kind = command.type
        if kind == BaseCommand.PING:
            self.tell(commands.pong())
        elif kind == BaseCommand.CONNECTED:
            self.connected = True
        elif kind == BaseCommand.PRODUCER_SUCCESS:
            self._producer_ready(command.producer_success)
        elif kind == BaseCommand.ERROR:
            self._error(command.error)
        elif kind == BaseCommand.SUCCESS:
            self._success(command.success.request_id)
        elif kind == BaseCommand.SEND_ERROR:
            self._send_error(command.send_error)
        elif kind == BaseCommand.CLOSE_CONSUMER:
            self.consumers.pop(command.close_consumer.consumer_id, None)
        elif kind == BaseCommand.CLOSE_PRODUCER:
            for producer in self.producers:
                if producer.producer_id == command.close_producer.producer_id:
                    producer.state = "closed"
        else:
            self.transactions.hear(command)

    def _send_error(self, error: CommandSendError) -> None:
        if error.error == ServerError.NotAllowedError and "is not open" in error.message:
            found = (each for each in self.producers if each.producer_id == error.producer_id)
            if any([producer.give_up(error.sequence_id) for producer in found]):
                return
        self.leave()  # the cure of every client: connect again and send again

    def _producer_ready(self, success: CommandProducerSuccess) -> None:
        if not success.producer_ready:
            return
        producer = self._opening.pop(success.request_id, None)
        if producer is not None and producer.state == "opening":
            producer.state = "open"
            if producer.access_mode != ProducerAccessMode.Shared:
                producer.epoch = success.topic_epoch
            if producer.waiting:
                producer.send(list(producer.waiting))

    def _success(self, request_id: int) -> None:
        for consumer in self.consumers.values():
            if consumer.request_id == request_id:
                consumer.state = "open"

    def _error(self, error: CommandError) -> None:
        producer = self._opening.pop(error.request_id, None)
        if producer is not None and producer.state == "opening":
            producer.state = "closed"
            if error.error == ServerError.ProducerFenced:
                producer.epoch = None  # an application that wants to go on begins with a new producer
        for consumer in list(self.consumers.values()):
            if consumer.request_id == error.request_id:
                del self.consumers[consumer.consumer_id]
