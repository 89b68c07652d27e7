"""A WebSocket that consumes or reads: entries of the broker become messages of its client (WS-10 ... WS-14). One of
several topics has a consumer on each (MT-1)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.positions.ids import EARLIEST, LATEST, Position
from spark_pulsar.wire import pulsar_api_pb2 as api
from spark_pulsar.wire.entries.chunks import Assembled, ChunkAssembler, Loss
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.commands import message_id_data
from spark_pulsar.wire.protocol.frames import command_frame
from spark_pulsar.wire.pulsar_api_pb2 import CommandAck, CommandSubscribe

from . import consumer_commands, consumer_messages
from .consumer_commands import BadCommand, ConsumerCommand
from .consumer_messages import Content, Opened, TooLarge, Unreadable
from .consumer_parameters import ConsumerParameters, ReaderParameters
from .deliveries import Deliveries, Delivery, delivered_bits
from .message_ids import WebSocketMessageId
from .opened_bytes import MAX_OPENED_BYTES
from .outbox import BAD_DATA, SERVICE_RESTART, TOO_LARGE, UNEXPECTED
from .parameters import invalid
from .protocol_consumer import Arrived, Subscribed

if TYPE_CHECKING:
    from spark_pulsar.model.names import TopicName
    from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

    from .dead_letters import DeadLetters
    from .opened_bytes import OpenedBytes
    from .outbox import Outbox
    from .session import Session

_SHARED: Final = frozenset({CommandSubscribe.Shared, CommandSubscribe.Key_Shared})
_MOST_PERMITS: Final = 1000
_MOST_CHUNKED: Final = 10
"""Messages of chunks that a consumer may have unfinished, as Apache Pulsar's client."""
MOST_REFUSED: Final = 100_000
"""Entries that wait for their delay after the client has refused them; of more the first ones come again at once."""


class _Current:
    """The entry whose messages go to the client now."""

    __slots__ = ("arrived", "contents", "is_noted", "is_sealed", "metadata", "positions", "size_bytes")

    def __init__(self, arrived: Arrived, metadata: MessageMetadata, positions: list[Position], size_bytes: int) -> None:
        self.size_bytes = size_bytes
        """Bytes that are held of the budget of large entries."""
        self.arrived = arrived
        self.metadata = metadata
        self.positions = positions
        self.contents: Iterator[Content] = iter(())
        self.is_sealed = False
        self.is_noted = False
        """Some message of it has gone to the client."""


class WebSocketReceiver:
    """Entries of a consumer or reader, opened one by one, as the client may get their messages."""

    def __init__(
        self, session: Session, outbox: Outbox, opened: OpenedBytes, queue_size: int, crypto_failure_action: str
    ) -> None:
        """`opened`: the budget of all WebSockets for large entries."""
        self.outbox = outbox
        self._opened_bytes = opened
        self._session = session
        self._queue_size = queue_size
        self._crypto_failure_action = crypto_failure_action
        self._consumers: list[Subscribed] = []
        self._arrived: deque[Arrived] = deque()
        self._current: _Current | None = None
        self._next: Content | None = None
        self._chunks: dict[int, ChunkAssembler[Position]] = {}

    # What the two differ in

    def credit(self) -> int:
        """Returns the number of messages that the client may get now."""
        raise NotImplementedError

    def is_wanted(self, arrived: Arrived, content: Content) -> bool:
        """Returns whether the client is to get a message."""
        raise NotImplementedError

    def is_accepted(self, arrived: Arrived, opened: Opened) -> bool:
        """Returns whether an entry goes another way than to the client, which then releases its bytes."""
        raise NotImplementedError

    def on_delivered(self, current: _Current) -> None:
        """Notes that a message goes to the client."""
        raise NotImplementedError

    # Messages

    def next_message(self) -> str | None:
        """Returns the next message as JSON, None while there is none or the client may get none."""
        if self.credit() <= 0:
            return None
        while self._next is None:
            if self._current is None and not self._begin():
                self.grant()
                return None
            self._advance()
        current, content = self._current, self._next
        assert current is not None, "the entry of the next message"
        self.on_delivered(current)
        current.is_noted = True
        last, partition = current.positions[-1], current.arrived.consumer.partition
        size = current.metadata.num_messages_in_batch if content.batch_index >= 0 else 0
        message_id = WebSocketMessageId(last.ledger_id, last.entry_id, partition, content.batch_index, size)
        encryption = consumer_messages.encryption_context(current.metadata) if current.is_sealed else None
        publish_time_ms, count = current.metadata.publish_time, current.arrived.redelivery_count
        return consumer_messages.text_of_message(message_id, content, publish_time_ms, count, encryption)

    def on_sent(self) -> None:
        """Goes on to the next message of the entry; at its end the entry's bytes are free."""
        self._next = None
        self._advance()
        self.grant()

    def grant(self) -> None:
        """Gives the broker permits for what the client may still get."""
        credit = self.credit() - sum(consumer.queued for consumer in self._consumers)
        if credit <= 0 or not self._consumers:
            return
        share = max(1, min(credit // len(self._consumers), _MOST_PERMITS))
        for consumer in self._consumers:
            if consumer.permits <= share // 2:
                consumer.grant(share - consumer.permits)

    def _begin(self) -> bool:
        """Opens the next entry; False when there is none, or no memory for it now."""
        while self._arrived and self.outbox.closing is None:
            arrived = self._arrived[0]
            try:
                opened = consumer_messages.opened(arrived.buffer, arrived.start, arrived.end)
                size_bytes = consumer_messages.size_of(*opened)
                if not self._opened_bytes.acquire(size_bytes, self.outbox.wake):
                    return False
            except Unreadable as error:
                self._drop_first()
                self._discard(arrived, [arrived.position], error.reason)
                continue
            except TooLarge:
                text = f"A message has more than {MAX_OPENED_BYTES} bytes: it needs another client"
                self.outbox.close(TOO_LARGE, text)
                return False
            self._drop_first()
            try:
                self._current = self._opened(arrived, opened, size_bytes)
            except Unreadable as error:
                self._discard(arrived, [arrived.position], error.reason)
            if self._current is not None:
                return True
            self._opened_bytes.release(size_bytes)
        return False

    def _drop_first(self) -> None:
        arrived = self._arrived.popleft()
        arrived.consumer.queued -= arrived.messages

    def _opened(self, arrived: Arrived, opened: Opened, size_bytes: int) -> _Current | None:
        """Opens an entry. Returns None for one that is none yet, or does not go to the client. Raises Unreadable."""
        metadata, payload = opened
        positions = [arrived.position]
        is_sealed = bool(metadata.encryption_keys)
        if is_sealed and self._crypto_failure_action != "CONSUME":
            if self._crypto_failure_action == "DISCARD":
                raise Unreadable(CommandAck.DecryptionError)
            self._session.release(arrived.kept_bytes)  # stays without an acknowledgement, as in Apache Pulsar
            return None
        if metadata.num_chunks_from_msg > 1 and not is_sealed:
            assembled = self._assembled(arrived, opened)
            if assembled is None:
                self._session.release(arrived.kept_bytes)
                return None
            opened, positions = Opened(assembled.metadata, assembled.payload), assembled.positions
        if self.is_accepted(arrived, opened):
            return None
        current = _Current(arrived, metadata, positions, size_bytes)
        current.is_sealed = is_sealed
        if is_sealed:
            current.contents = iter([consumer_messages.sealed_content(metadata, payload)])
        else:
            current.contents = consumer_messages.contents_of(metadata, opened.payload, arrived.ack_set)
        return current

    def _assembled(self, arrived: Arrived, opened: Opened) -> Assembled[Position] | None:
        """Adds a chunk to its message, and returns that when it is whole. Chunks of too many messages
        come again; those that fit none stay without an acknowledgement."""
        consumer_id = arrived.consumer.consumer_id
        assembler = self._chunks.get(consumer_id)
        if assembler is None:
            sizes = {"max_pending_bytes": MAX_OPENED_BYTES, "max_message_size_bytes": MAX_OPENED_BYTES}
            assembler = self._chunks[consumer_id] = ChunkAssembler(_MOST_CHUNKED, **sizes)
        assembled = assembler.add(opened.metadata, opened.payload, arrived.position)
        for lost in assembler.pop_lost():
            if lost.reason is Loss.CROWDED_OUT:
                arrived.consumer.redeliver(lost.positions, is_shared=True)
        return assembled

    def _advance(self) -> None:
        """Finds the next message of the entry, or ends the entry."""
        current = self._current
        if current is None:
            return
        try:
            for content in current.contents:
                if self.is_wanted(current.arrived, content):
                    self._next = content
                    return
        except Unreadable as error:
            self._end_entry(current)
            self._discard(current.arrived, current.positions, error.reason)
            return
        self._end_entry(current)
        self._session.release(current.arrived.kept_bytes)

    def _end_entry(self, current: _Current) -> None:
        self._current = None
        self._opened_bytes.release(current.size_bytes)

    def _discard(
        self, arrived: Arrived, positions: list[Position], reason: CommandAck.ValidationError.ValueType
    ) -> None:
        """Acknowledges what cannot be read, with the reason, as the official clients do."""
        ack = requests.ack(arrived.consumer.consumer_id, positions, validation_error=reason)
        self._session.send(command_frame(ack))
        self._session.release(arrived.kept_bytes)

    def close(self) -> None:
        """Gives back what an entry holds of the budget."""
        if self._current is not None:
            self._end_entry(self._current)

    # Consumers

    async def subscribe(self, consumer: Subscribed, command: api.BaseCommand) -> None:
        """Attaches a consumer. Raises the broker's error."""
        consumer.on_change = self.outbox.wake
        consumer.on_closed = lambda: self.outbox.close(SERVICE_RESTART, "The broker has closed the consumer")
        await self._session.request(command, command.subscribe.request_id)
        self._consumers.append(consumer)

    def end_of_topic(self) -> None:
        """Answers whether the topic is terminated and its last message was received."""
        has_ended = all(consumer.has_ended for consumer in self._consumers)
        self.outbox.put('{"endOfTopic":%s}' % ("true" if has_ended else "false"))

    def refuse(self, error: Exception) -> None:
        """Closes the WebSocket for a command that is none."""
        self.outbox.close(BAD_DATA, str(error))


class WebSocketConsumer(WebSocketReceiver):
    """A consumer for one WebSocket, of one topic or several, and of all their partitions."""

    def __init__(
        self,
        session: Session,
        outbox: Outbox,
        opened: OpenedBytes,
        subscription: str,
        parameters: ConsumerParameters,
        dead_letters: DeadLetters | None,
    ) -> None:
        super().__init__(session, outbox, opened, parameters.queue_size, parameters.crypto_failure_action)
        self._subscription = subscription
        self._parameters = parameters
        self._is_shared = parameters.subscription_type in _SHARED
        self._dead_letters = dead_letters if self._is_shared else None
        self._loop = asyncio.get_running_loop()
        self._deliveries = Deliveries()
        self._pending = 0
        """Messages at the client, or permits that it has given, below 0, of one that pulls."""
        self._refused: dict[tuple[int, int], tuple[Subscribed, list[Position], float]] = {}
        """Entries that the client has not accepted, and when they come again."""
        self._timers: dict[str, asyncio.TimerHandle] = {}

    async def open(self, topics: Sequence[TopicName]) -> None:
        """Attaches the consumers. Raises the broker's error."""
        for topic in topics:
            names = await self._session.partitions(topic)
            is_partitioned = names != [topic.full]
            for index, name in enumerate(names):
                partition = index if is_partitioned else topic.partition
                consumer = Subscribed(self._session, name, partition, self._arrived)
                await self.subscribe(consumer, self._command(consumer))
        self.grant()

    def _command(self, consumer: Subscribed) -> api.BaseCommand:
        parameters = self._parameters
        command = requests.subscribe(
            self._session.next_id(),
            consumer.topic,
            self._subscription,
            consumer.consumer_id,
            parameters.subscription_type,
            durable=parameters.is_durable,
            initial_position=parameters.initial_position,
            consumer_name=parameters.name,
        )
        command.subscribe.priority_level = parameters.priority_level
        if not self._is_shared:
            command.subscribe.consumer_epoch = 0
        return command

    # The client's commands

    async def on_text(self, text: str) -> None:
        """Carries out a command of the client."""
        await self._session.may_send()
        try:
            command = consumer_commands.parse(text)
        except BadCommand as error:
            self.refuse(error)
            return
        if command.type == "permit":
            self._pending -= command.permits
        elif command.type == "isEndOfTopic":
            self.end_of_topic()
        elif command.type == "unsubscribe":
            await self._unsubscribe()
        else:
            self._settle(command)
        self.outbox.wake()
        self.grant()

    def _settle(self, command: ConsumerCommand) -> None:
        """Acknowledges a message, or notes that the client has not accepted it."""
        message_id = command.message_id
        assert message_id is not None, "of all commands for a message"
        consumer = self._consumer_of(message_id)
        if consumer is None:
            return
        if not self._parameters.is_pull:
            self._pending = max(0, self._pending - 1)
        if command.type == "negativeAcknowledge":
            positions = self._deliveries.remove(*message_id[:2])
            self._refused[message_id[:2]] = consumer, positions, self._loop.time()
            self._watch()
            if len(self._refused) > MOST_REFUSED:
                self._on_time()
            return
        positions = self._deliveries.acknowledge(*message_id[:2], *message_id[3:])
        self._refused.pop(message_id[:2], None)
        if positions:
            self._session.send(command_frame(requests.ack(consumer.consumer_id, positions)))

    def _consumer_of(self, message_id: WebSocketMessageId) -> Subscribed | None:
        """Returns the consumer of a message: that which got it, else that of its partition."""
        known = self._deliveries.consumer_of(*message_id[:2])
        for consumer in self._consumers:
            if known == consumer.consumer_id or (known is None and consumer.partition == message_id.partition):
                return consumer
        return self._consumers[0] if len(self._consumers) == 1 else None

    async def _unsubscribe(self) -> None:
        for consumer in self._consumers:
            request_id = self._session.next_id()
            try:
                await self._session.request(requests.unsubscribe(request_id, consumer.consumer_id), request_id)
            except PulsarError as error:
                self.outbox.close(UNEXPECTED, error.message)
                return

    # Messages

    def credit(self) -> int:
        """Returns the permits of a client that pulls, else the room for messages without an acknowledgement."""
        return -self._pending if self._parameters.is_pull else self._queue_size - self._pending

    def is_wanted(self, arrived: Arrived, content: Content) -> bool:
        """Takes all."""
        return True

    def is_accepted(self, arrived: Arrived, opened: Opened) -> bool:
        """Sends a message that came too often to the dead letter topic (DLQ)."""
        limit = self._parameters.max_redeliver_count
        if self._dead_letters is None or arrived.redelivery_count <= limit:
            return False
        self._dead_letters.accept(arrived, opened)
        return True

    def on_delivered(self, current: _Current) -> None:
        """Counts a message, and remembers its entry until it is acknowledged."""
        self._pending += 1
        arrived = current.arrived
        if current.is_noted:
            return
        bits = delivered_bits(current.metadata.num_messages_in_batch, arrived.ack_set)
        consumer_id, now_s = arrived.consumer.consumer_id, self._loop.time()
        self._deliveries.add(Delivery(consumer_id, current.positions, bits, now_s))
        self._watch()

    # Messages that come again

    def _watch(self) -> None:
        """Sets the timers of the messages to redeliver first."""
        if self._refused and "refused" not in self._timers:
            _, _, since_s = next(iter(self._refused.values()))
            self._set("refused", since_s + self._parameters.nack_delay_ms / 1000)
        oldest = self._deliveries.oldest()
        if self._parameters.ack_timeout_ms and oldest is not None and "overdue" not in self._timers:
            self._set("overdue", oldest.delivered_s + self._parameters.ack_timeout_ms / 1000)

    def _set(self, name: str, when_s: float) -> None:
        self._timers[name] = self._loop.call_at(when_s, self._on_time)

    def _on_time(self) -> None:
        """Redelivers messages that the client has refused, after their delay (NACK-1), and those that it has held for
        longer than the ack timeout (TMO-1)."""
        self._stop_timers()
        now_s, again = self._loop.time(), dict[int, list[Position]]()
        for key, (consumer, positions, since_s) in list(self._refused.items()):
            is_early = since_s + self._parameters.nack_delay_ms / 1000 > now_s
            if is_early and len(self._refused) <= MOST_REFUSED:
                break
            del self._refused[key]
            again.setdefault(consumer.consumer_id, []).extend(positions)
        timeout_s = self._parameters.ack_timeout_ms / 1000
        while timeout_s and (oldest := self._deliveries.oldest()) and oldest.delivered_s + timeout_s <= now_s:
            if not self._parameters.is_pull:
                self._pending = max(0, self._pending - oldest.left.bit_count())
            last = oldest.positions[-1]
            positions = self._deliveries.remove(last.ledger_id, last.entry_id)
            again.setdefault(oldest.consumer_id, []).extend(positions)
        for consumer in self._consumers:
            if consumer.consumer_id in again:
                self._redeliver(consumer, again[consumer.consumer_id])
        self._watch()
        self.outbox.wake()
        self.grant()

    def _redeliver(self, consumer: Subscribed, positions: list[Position]) -> None:
        if not self._is_shared:
            self._deliveries.clear(consumer.consumer_id)
            if self._current is not None and self._current.arrived.consumer is consumer:
                self._session.release(self._current.arrived.kept_bytes)
                self._end_entry(self._current)
                self._next = None
        consumer.redeliver(positions, is_shared=self._is_shared)

    def _stop_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def close(self) -> None:
        """Stops the timers, and what publishes dead letters."""
        super().close()
        self._stop_timers()
        if self._dead_letters is not None:
            self._dead_letters.close()


class WebSocketReader(WebSocketReceiver):
    """A reader for one WebSocket (WS-14)."""

    def __init__(
        self,
        session: Session,
        outbox: Outbox,
        opened: OpenedBytes,
        subscription: str,
        parameters: ReaderParameters,
    ) -> None:
        super().__init__(session, outbox, opened, parameters.queue_size, parameters.crypto_failure_action)
        self._subscription = subscription
        self._parameters = parameters
        self._pending = 0

    async def open(self, topics: Sequence[TopicName]) -> None:
        """Attaches the readers. Raises the broker's error."""
        start, (topic,) = self._parameters.start, topics
        names = await self._session.partitions(topic)
        is_partitioned = names != [topic.full]
        if start is not None and is_partitioned:
            raise invalid("messageId: a topic with partitions is read from earliest or latest; name one partition")
        begin = EARLIEST if self._parameters.is_earliest else LATEST
        if start is not None:
            begin = Position(start.ledger_id, start.entry_id)
        for index, name in enumerate(names):
            consumer = Subscribed(self._session, name, index if is_partitioned else topic.partition, self._arrived)
            command = requests.subscribe(
                self._session.next_id(),
                name,
                self._subscription,
                consumer.consumer_id,
                durable=False,
                consumer_name=self._parameters.name,
            )
            command.subscribe.start_message_id.CopyFrom(message_id_data(begin))
            if start is not None and start.batch_index >= 0:
                command.subscribe.start_message_id.batch_index = start.batch_index
            await self.subscribe(consumer, command)
        self.grant()

    async def on_text(self, text: str) -> None:
        """Counts an acknowledgement of the client, whatever it names, as the room for one more message."""
        try:
            command = consumer_commands.parse(text)
        except BadCommand as error:
            self.refuse(error)
            return
        if command.type == "isEndOfTopic":
            self.end_of_topic()
        else:
            self._pending = max(0, self._pending - 1)
        self.outbox.wake()
        self.grant()

    def credit(self) -> int:
        """Returns the room for messages without an acknowledgement."""
        return self._queue_size - self._pending

    def is_wanted(self, arrived: Arrived, content: Content) -> bool:
        """Leaves out the message to begin after, and those before it."""
        start = self._parameters.start
        if start is None or arrived.position > start[:2]:
            return True
        return arrived.position == start[:2] and content.batch_index > start.batch_index >= 0

    def is_accepted(self, arrived: Arrived, opened: Opened) -> bool:
        """Takes none."""
        return False

    def on_delivered(self, current: _Current) -> None:
        """Counts a message, and moves the reader's cursor."""
        self._pending += 1
        if current.is_noted:
            return
        ack = requests.ack(current.arrived.consumer.consumer_id, current.positions[-1:], cumulative=True)
        self._session.send(command_frame(ack))
