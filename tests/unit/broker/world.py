"""A world around one core: clients that send frames, a disk in memory, and a clock that tests move.

Frames are real bytes that go through the server's `Connection`, so that what the core hears is what it hears in life.
After every turn the core's invariants are checked.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from spark_pulsar.broker.broker import Broker
from spark_pulsar.broker.configuration.broker_config import BrokerConfig
from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.invariants import check
from spark_pulsar.broker.topics import policy_changes
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.broker.turn.events import (
    ClockCorrected,
    CompactionEnded,
    EntriesCompacted,
    EntriesRead,
    Event,
    ReadFailed,
    RecordsDurable,
    Requested,
    SessionClosed,
    SessionOpened,
    SizesRead,
)
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import MessageId, Position
from spark_pulsar.server.compaction.compactor import BLOCK_ENTRIES, Compactor
from spark_pulsar.server.connections.connection import Connection
from spark_pulsar.server.connections.connection_memory import ConnectionMemory
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import command_frame, payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, MessageMetadata
from tests.contract.memory_storage import MemoryDisk, MemoryStorage

START_MS = 1_795_000_000_000
TOPIC = "persistent://public/default/t"
KEPT: dict[str, Any] = {"default_retention_time_minutes": -1, "default_retention_size_mb": -1}
"""Configuration of a world that keeps consumed entries (RET-1)."""
QUIET: dict[str, Any] = {"keep_alive_interval_ms": 1 << 50}
"""Configuration of a broker that sends no PING of its own."""


def entry(text: str, publish_time: int = START_MS, batch: int = 0) -> bytes:
    """The bytes of an entry with this payload; `batch` messages when it is not 0."""
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=publish_time)
    if batch:
        metadata.num_messages_in_batch = batch
    return build_entry(metadata, text.encode())


class World:
    """One core on one disk. With `disk_is_slow` records become durable only by `sync`, reads only by `serve_reads`."""

    def __init__(self, disk: MemoryDisk | None = None, now_ms: int = START_MS, **config: Any) -> None:
        self.disk = disk or MemoryDisk()
        self.storage, self.state = MemoryStorage.open(self.disk, auto=False)
        self.now_ms = now_ms
        self.wall_ahead_ms = 0
        self.broker = Broker(self.state, BrokerConfig(**config), self.now_ms)
        self.sessions: dict[int, Client] = {}
        self.disk_is_slow = False
        self.reads: list[fx.ReadEntries | fx.ReadSizes] = []
        self.compactions: dict[int, Compactor] = {}
        self.audits: list[fx.WriteAudit] = []
        """Lines of the audit log."""
        self.block_entries = BLOCK_ENTRIES
        """Most entries of a block of a compaction."""
        self._blocks: dict[int, Iterator[EntriesCompacted]] = {}
        self._reports: list[Event] = []
        self._durable: list[int] = []
        self._handle([])

    @property
    def core(self) -> Core:
        return self.broker.core

    def subscription(self, name: str = "s", topic: str = TOPIC) -> Any:
        """A subscription of a topic."""
        return self.core.topics[topic].subscriptions[name]

    def connect(self, local: str = "127.0.0.1:6650") -> "Client":
        """A client that has done its handshake."""
        client = self.open_socket(local)
        client.send(requests.connect("test"))
        assert client.take().type == BaseCommand.CONNECTED
        return client

    def open_socket(self, local: str = "127.0.0.1:6650", *, is_tls: bool = False) -> "Client":
        """A connection without handshake."""
        client = Client(self, len(self.sessions) + 1)
        self.sessions[client.session_id] = client
        self.happen([SessionOpened(client.session_id, "/10.0.0.1:1000", local, is_tls)])
        return client

    def connect_producer(self, *args: Any, **more: Any) -> "Client":
        """A connected client with a producer, as `Client.open_producer` opens it."""
        client = self.connect()
        client.open_producer(*args, **more)
        return client

    def connect_consumer(self, *args: Any, **more: Any) -> "Client":
        """A connected client with a consumer, as `Client.open_consumer` opens it."""
        client = self.connect()
        client.open_consumer(*args, **more)
        return client

    def ask(self, request: Callable[[Core], object]) -> None:
        """Has the core do something, as the admin API does."""
        self.happen([Requested(lambda core: request(core) and None)])

    def set_policy(self, member: str, value: object, namespace: str = "public/default") -> None:
        """Sets a policy of a namespace."""
        self.ask(lambda core: policy_changes.set_of_namespace(core, namespace, member, value))

    def set_topic_policy(self, member: str, value: object, topic: TopicName | str = TOPIC, **more: bool) -> None:
        """Sets a policy of a topic."""
        name = TopicName.parse(topic) if isinstance(topic, str) else topic
        self.ask(lambda core: policy_changes.set_of_topic(core, name, member, value, **more))

    def happen(self, events: list[Event]) -> None:
        """One turn, and all that follows of itself when the disk is quick."""
        self._handle(events)
        if not self.disk_is_slow:
            self.settle()

    def settle(self) -> None:
        """Lets the disk do everything it was asked for, and the core everything it wants to do now."""
        while True:
            self.sync()
            self.serve_reads()
            self.serve_compactions()
            deadline = self.broker.next_deadline()
            is_idle = not self.reads and not self._reports and not self.storage.unwritten_bytes
            if is_idle and (deadline is None or deadline > self.now_ms):
                return
            self._handle([])

    def quicken(self) -> None:
        """The disk is quick from now on, and has done everything it was asked for."""
        self.disk_is_slow = False
        self.settle()

    def sync(self, submits: int | None = None) -> None:
        """Makes what was submitted durable."""
        self.storage.sync(submits)
        durable, self._durable = self._durable, []
        for group in durable:
            self._handle([RecordsDurable(group)])

    def serve_reads(self, *, fail: bool = False) -> None:
        """Answers what the core wants to read."""
        reads, self.reads = self.reads, []
        for read in reads:
            if fail:
                self._handle([ReadFailed(read.token, "test")])
            elif isinstance(read, fx.ReadSizes):
                self._handle([SizesRead(read.token, self.storage.sizes(read.ledger_id, read.first, read.end))])
            else:
                runs = self.storage.read(read.ledger_id, read.entry_id, read.max_entries, read.max_bytes)
                self._handle([EntriesRead(read.token, runs)])

    def advance(self, ms: int) -> None:
        """Lets time pass, waking the core whenever it asked for it."""
        end = self.now_ms + ms
        while True:
            deadline = self.broker.next_deadline()
            if deadline is None or deadline > end:
                break
            self.now_ms = max(self.now_ms, deadline)
            self.happen([])
        self.now_ms = end
        self.happen([])

    def correct_clock(self, by_ms: int) -> None:
        """Corrects the machine's clock, which is `wall_ahead_ms` ahead of `now_ms` then."""
        self.wall_ahead_ms += by_ms
        self.happen([ClockCorrected(self.wall_ahead_ms)])

    def restart(self, now_ms: int = START_MS, **config: Any) -> "World":
        """Kill the core at once and start another on what the disk has, by a clock that shows `now_ms`."""
        self.storage.crash()
        return World(self.disk, now_ms, **config)

    def _handle(self, events: list[Event]) -> None:
        for effect in self.broker.handle(events, self.now_ms):
            if isinstance(effect, fx.AppendRecords):
                group = effect.group
                self.storage.submit(effect.records, lambda _number, group=group: self._durable.append(group))
            elif isinstance(effect, fx.ReadEntries | fx.ReadSizes):
                self.reads.append(effect)
            elif isinstance(effect, fx.CompactTopic):
                self.compactions[effect.token] = Compactor(effect, self.storage.read)
                self.compactions[effect.token].block_entries = self.block_entries
                self._blocks[effect.token] = self.compactions[effect.token].blocks()
                self._compact(effect.token)
            elif isinstance(effect, fx.ContinueCompaction):
                self._compact(effect.token)
            elif isinstance(effect, fx.StopCompaction):
                del self._blocks[effect.token]
            elif isinstance(effect, fx.WriteAudit):
                self.audits.append(effect)
            else:
                self.sessions[effect.session_id].effects.append(effect)
        check(self.broker)

    def _compact(self, token: int) -> None:
        """Has the next block of a compaction reported in a turn of its own, or its end."""
        block = next(self._blocks[token], None)
        if block is None:
            self._reports.append(CompactionEnded(token, self.compactions[token].removed))
        else:
            self._reports.append(block)

    def serve_compactions(self) -> None:
        """Tells the core what was compacted."""
        while self._reports:
            self._handle([self._reports.pop(0)])


class Client:
    """One connection: sends frames, keeps what comes back."""

    is_busy = is_stopped = False
    room_us = 1 << 60
    """Room for all that arrives: the tests make the turns."""

    def __init__(self, world: World, session_id: int) -> None:
        self.world = world
        self.session_id = session_id
        self.effects: list[Any] = []
        self._events: list[Event] = []
        self.memory = ConnectionMemory(1 << 60, lambda: 0.0, lambda _delay_s, _call: None)
        self._connection = Connection(self, session_id, 5_253_120)  # type: ignore[arg-type]
        self._connection.splitter.least_columnar_sends = 2
        self._connection.transport = self  # type: ignore[assignment]
        self._requests = 0

    # What a Connection wants of its engine and transport

    def happen(self, events: list[Event]) -> None:
        self._events += events

    def happen_now(self, events: list[Event], _spent_us: int) -> None:
        self._events += events

    def has_read(self, size_bytes: int) -> None:
        """Leaves it to `send_bytes` when the turn comes."""

    def is_closing(self) -> bool:
        return False

    # Sending

    def send(self, *commands: BaseCommand) -> None:
        """Commands in one read of the broker."""
        self.send_bytes(b"".join(command_frame(command) for command in commands))

    def request(self, command: BaseCommand, kind: "BaseCommand.Type.ValueType") -> Any:
        """Sends a command; the content of the answer, which must be of this type."""
        self.send(command)
        return self.expect(kind)

    def send_bytes(self, data: bytes) -> None:
        self._connection.data_received(data)
        events, self._events = self._events, []
        self.world.happen(events)

    def publish(self, producer_id: int, *entries: bytes, first: int = 0, messages: int = 1) -> None:
        """SENDs with consecutive sequence ids in one read of the broker."""
        frames = [
            payload_frame(requests.send(producer_id, first + index, messages), each)
            for index, each in enumerate(entries)
        ]
        self.send_bytes(b"".join(frames))

    def store(self, producer_id: int, *entries: bytes, **more: int) -> None:
        """SENDs as of `publish`; what came is dropped."""
        self.publish(producer_id, *entries, **more)
        self.take_all()

    def publish_in_turn(self, sends: Iterable[tuple[int, bytes]], *, first: int = 0) -> None:
        """SENDs of several producers, (producer id, entry) each, in one read of the broker: columnar SENDs. Their
        sequence ids rise over all."""
        numbered = enumerate(sends, first)
        self.send_bytes(b"".join(payload_frame(requests.send(each, number), data) for number, (each, data) in numbered))

    def close(self) -> None:
        """The connection drops."""
        self.world.happen([SessionClosed(self.session_id)])

    def request_id(self) -> int:
        self._requests += 1
        return self._requests

    # Receiving

    def take(self) -> BaseCommand:
        """The next command that came."""
        effect = self.effects.pop(0)
        assert isinstance(effect, fx.SendCommand), effect
        return effect.command

    def take_all(self) -> list[Any]:
        """Everything that came."""
        effects, self.effects = self.effects, []
        return effects

    def expect(self, kind: "BaseCommand.Type.ValueType") -> Any:
        """The content of the next command, which must be of this type."""
        command = self.take()
        assert command.type == kind, command
        return getattr(command, BaseCommand.DESCRIPTOR.fields_by_number[kind].name)

    @property
    def closed(self) -> bool:
        """True when the broker ended the connection."""
        return any(isinstance(effect, fx.CloseSession) for effect in self.effects)

    def receipts(self) -> list[tuple[int, Position]]:
        """(sequence id, position) of the receipts that came, -1:-1 for what was stored before; nothing else may have
        come."""
        return [
            (sequence_id, Position(each.ledger_id, each.first_entry_id + (index if each.ledger_id >= 0 else 0)))
            for each in self.take_all()
            for index, sequence_id in enumerate(each.sequence_ids)
        ]

    def deliveries(self) -> list[fx.SendMessages]:
        """The MESSAGE effects that came; nothing else may have come."""
        effects = self.take_all()
        assert all(isinstance(each, fx.SendMessages) for each in effects), effects
        return effects

    def messages(self) -> list[str]:
        """Payloads of the MESSAGEs that came; nothing else may have come."""
        return [text for each in self.deliveries() for text in payloads(each)]

    # Habits

    def open_producer(self, topic: str = TOPIC, producer_id: int = 1, name: str | None = "p") -> Any:
        """A producer; PRODUCER_SUCCESS."""
        self.send(requests.producer(self.request_id(), topic, producer_id, name))
        return self.expect(BaseCommand.PRODUCER_SUCCESS)

    def open_consumer(
        self, subscription: str = "s", consumer_id: int = 1, *, permits: int = 0, topic: str = TOPIC, **more: Any
    ) -> None:
        """A consumer from the earliest entry on (or as `more` of `requests.subscribe` says), with permits."""
        more.setdefault("initial_position", 1)
        self.send(requests.subscribe(self.request_id(), topic, subscription, consumer_id, **more))
        self.expect(BaseCommand.SUCCESS)
        if permits:
            self.send(requests.flow(consumer_id, permits))

    def ack(self, positions: Iterable[Position], consumer_id: int = 1, **more: Any) -> None:
        """An ACK."""
        self.send(requests.ack(consumer_id, list(positions), **more))


def producing(**config: Any) -> tuple[World, Client]:
    """A world, and a client with a producer."""
    world = World(**config)
    return world, world.connect_producer()


def consuming(**config: Any) -> tuple[World, Client]:
    """A world, and a client with a consumer that has no permits yet."""
    world = World(**config)
    return world, world.connect_consumer()


def payloads(delivery: fx.SendMessages) -> list[str]:
    """The payloads of plain entries of a delivery."""
    from spark_pulsar.wire.entries.entry_bytes import parse_entry

    return [
        bytes(parse_entry(delivery.buffer, start, end).payload).decode()
        for start, end in zip(delivery.starts, delivery.ends, strict=True)
    ]


def positions_of(deliveries: Iterable[fx.SendMessages]) -> list[Position]:
    """Positions of all delivered entries."""
    return [
        Position(each.ledger_id, each.first_entry_id + index if each.entry_ids is None else each.entry_ids[index])
        for each in deliveries
        for index in range(len(each.starts))
    ]


def at(position: Position) -> MessageId:
    """A message id for a whole entry."""
    return MessageId(*position)
