"""A WebSocket that consumes: its client acknowledges messages, refuses them, permits more (WS-10 ... WS-13). One of
several topics has a consumer on each (MT-1). What consumers and readers have in common is in `receiving`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire import pulsar_api_pb2 as api
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import command_frame
from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe

from . import consumer_commands
from .consumer_commands import BadCommand, ConsumerCommand
from .consumer_messages import Content, Opened
from .consumer_parameters import ConsumerParameters
from .deliveries import Deliveries, Delivery, delivered_bits
from .message_ids import WebSocketMessageId
from .outbox import UNEXPECTED
from .protocol_consumer import Arrived, Subscribed
from .receiving import Current, WebSocketReceiver

if TYPE_CHECKING:
    from spark_pulsar.model.names import TopicName

    from .dead_letters import DeadLetters
    from .opened_bytes import OpenedBytes
    from .outbox import Outbox
    from .session import Session

_SHARED: Final = frozenset({CommandSubscribe.Shared, CommandSubscribe.Key_Shared})
MOST_REFUSED: Final = 100_000
"""Entries that wait for their delay after the client has refused them; of more the first ones come again at once."""


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

    def on_delivered(self, current: Current) -> None:
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
