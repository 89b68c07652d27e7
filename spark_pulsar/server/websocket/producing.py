"""A WebSocket that publishes: its client's messages become SENDs, their receipts its answers (WS-5 ... WS-8)."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.model.errors import PulsarError, error_from_wire
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, MessageMetadata

from . import batching, producer_messages
from .message_ids import WebSocketMessageId
from .outbox import SERVICE_RESTART
from .parameters import Parameters, invalid
from .producer_messages import UNKNOWN, BadMessage, OutgoingMessage
from .routing import HASHING_SCHEMES, ROUTING_MODES, Router

if TYPE_CHECKING:
    from spark_pulsar.model.names import TopicName
    from spark_pulsar.wire.protocol.frames import Frame
    from spark_pulsar.wire.pulsar_api_pb2 import CommandSendError, CommandSendReceipt

    from .outbox import Outbox
    from .session import Session

_BATCH_BYTES: Final = 128 * 1024
_BATCH_MESSAGES: Final = 1000
_LONGEST_DELAY_MS: Final = 60_000
"""Longest time that a batch waits for more messages."""


@dataclass(frozen=True, slots=True)
class ProducerParameters:
    """Parameters of a WebSocket that publishes (WS-3)."""

    name: str | None
    initial_sequence_id: int | None
    hashing_scheme: str
    send_timeout_ms: int
    routing_mode: str
    is_batching: bool
    batch_messages: int
    batch_delay_ms: int
    max_pending: int
    """Messages without receipt of which one more is refused; 0: the client waits."""
    compression: str

    @classmethod
    def of(cls, query: Parameters) -> ProducerParameters:
        """Reads the parameters. Raises Refused."""
        if "encryptionKeys" in query:
            text = "messages are encrypted by their client, or not at all: this broker has no keys"
            raise Refused(500, f"encryptionKeys is not supported: {text}")
        is_batching = query.flag("batchingEnabled")
        batch = query if is_batching else Parameters({})  # else they are not even read, as in Apache Pulsar
        has_initial = "initialSequenceId" in query
        return cls(
            name=query.text("producerName"),
            initial_sequence_id=query.number("initialSequenceId", 0, -1, is_long=True) if has_initial else None,
            hashing_scheme=query.choice("hashingScheme", HASHING_SCHEMES, "JavaStringHash"),
            send_timeout_ms=query.number("sendTimeoutMillis", 30_000, 0),
            routing_mode=query.choice("messageRoutingMode", ROUTING_MODES, "SinglePartition"),
            is_batching=is_batching,
            batch_messages=min(batch.number("batchingMaxMessages", _BATCH_MESSAGES) or _BATCH_MESSAGES, 1 << 16),
            batch_delay_ms=min(batch.number("batchingMaxPublishDelay", 1, 1, is_long=True), _LONGEST_DELAY_MS),
            max_pending=batch.number("maxPendingMessages", 0, 0),
            compression=query.choice("compressionType", batching.COMPRESSION_TYPES, "NONE"),
        )


@dataclass(slots=True)
class _Pending:
    """A SEND without receipt."""

    sequence_id: int
    contexts: list[str | None]
    """Marks of its messages, in order."""
    sent_s: float


class _Partition:
    """A producer of one partition."""

    def __init__(self, owner: WebSocketProducer, index: int, producer_id: int) -> None:
        self.producer_id = producer_id
        self.name = ""
        self.next_sequence_id = 0
        self.pending: deque[_Pending] = deque()
        self.batch: list[OutgoingMessage] = []
        self.batch_bytes = 0
        self.timer: asyncio.TimerHandle | None = None
        self._owner = owner
        self._index = index

    def on_command(self, command: BaseCommand, frame: Frame, payload_start: int) -> int:
        """Takes a receipt, a refusal of a message, or the end of the producer."""
        del frame, payload_start
        if command.type == BaseCommand.SEND_RECEIPT:
            self._on_receipt(command.send_receipt)
        elif command.type == BaseCommand.SEND_ERROR:
            self._on_refusal(command.send_error)
        else:
            self._owner.on_closed()
        return 0

    def _on_receipt(self, receipt: CommandSendReceipt) -> None:
        pending = self._answered(receipt.sequence_id)
        if pending is None:
            return
        data, size = receipt.message_id, len(pending.contexts)
        for index, context in enumerate(pending.contexts):
            # Without the size of the batch, as Apache Pulsar answers.
            message_id = WebSocketMessageId(data.ledgerId, data.entryId, self._index, index if size > 1 else -1)
            self._owner.outbox.put(producer_messages.receipt(message_id.text(), context))

    def _on_refusal(self, refusal: CommandSendError) -> None:
        pending = self._answered(refusal.sequence_id)
        if pending is not None:
            error = error_from_wire(refusal.error, refusal.message)
            self._owner.refuse(pending.contexts, error.message)

    def _answered(self, sequence_id: int) -> _Pending | None:
        """Takes the SEND that an answer is for from those that wait; answers come in the order of the SENDs."""
        for pending in self.pending:
            if pending.sequence_id == sequence_id:
                self.pending.remove(pending)
                return pending
        return None


class WebSocketProducer:
    """A producer for one WebSocket, on one topic or all of its partitions."""

    def __init__(
        self, session: Session, outbox: Outbox, parameters: ProducerParameters, clock: Callable[[], int]
    ) -> None:
        """`clock`: wall-clock milliseconds."""
        self.outbox = outbox
        self._session = session
        self._parameters = parameters
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._partitions: list[_Partition] = []
        self._router = Router(1, parameters.routing_mode, parameters.hashing_scheme, 0)
        self._timer: asyncio.TimerHandle | None = None

    async def open(self, topics: Sequence[TopicName]) -> None:
        """Creates the producers of a topic. Raises the broker's error."""
        (topic,) = topics
        names = await self._session.partitions(topic)
        is_partitioned = names != [topic.full]
        if is_partitioned and self._parameters.routing_mode == "CustomPartition":
            raise invalid("messageRoutingMode=CustomPartition: a WebSocket has no router; want one of the others")
        for index, name in enumerate(names):
            partition = _Partition(self, index if is_partitioned else topic.partition, self._session.next_id())
            request_id = self._session.next_id()
            command = requests.producer(request_id, name, partition.producer_id, self._parameters.name)
            self._session.producers[partition.producer_id] = partition
            success = (await self._session.request(command, request_id)).producer_success
            initial = self._parameters.initial_sequence_id
            partition.name = success.producer_name
            partition.next_sequence_id = (success.last_sequence_id if initial is None else initial) + 1
            self._partitions.append(partition)
        mode, scheme = self._parameters.routing_mode, self._parameters.hashing_scheme
        self._router = Router(len(names), mode, scheme, random.randrange(len(names)))

    async def on_text(self, text: str) -> None:
        """Publishes a message of the client."""
        await self._session.may_send()
        try:
            message = producer_messages.parse(text)
        except BadMessage as error:
            self.outbox.put(producer_messages.refusal(error.code, str(error), error.context))
            return
        if (
            0
            < self._parameters.max_pending
            <= sum(len(partition.pending) + len(partition.batch) for partition in self._partitions)
        ):
            self.refuse([message.context], "Producer send queue is full")
            return
        partition = self._partitions[self._router.partition_of(message.key)]
        if self._parameters.is_batching and not (batching.is_delayed(message) or message.replication_clusters):
            self._batch(partition, message)
        else:
            self._flush(partition)
            self._publish(partition, [message])

    def next_message(self) -> None:
        """Returns no message: a producer's client gets answers alone."""

    def on_sent(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Sends the batches that wait, and stops the timers."""
        for partition in self._partitions:
            self._flush(partition)
        if self._timer is not None:
            self._timer.cancel()

    # Called by partitions

    def on_closed(self) -> None:
        """Ends the WebSocket: the broker has closed the producer, as when its topic is unloaded or deleted."""
        self.outbox.close(SERVICE_RESTART, "The broker has closed the producer")

    def refuse(self, contexts: list[str | None], text: str) -> None:
        """Answers that messages are not stored."""
        for context in contexts:
            self.outbox.put(producer_messages.refusal(UNKNOWN, text, context))

    # Entries

    def _batch(self, partition: _Partition, message: OutgoingMessage) -> None:
        size_bytes = len(message.payload)
        if partition.batch_bytes + size_bytes > _BATCH_BYTES:
            self._flush(partition)
        partition.batch.append(message)
        partition.batch_bytes += size_bytes
        if len(partition.batch) >= self._parameters.batch_messages or partition.batch_bytes >= _BATCH_BYTES:
            self._flush(partition)
        elif partition.timer is None:
            partition.timer = self._loop.call_later(self._parameters.batch_delay_ms / 1000, self._flush, partition)

    def _flush(self, partition: _Partition) -> None:
        if partition.timer is not None:
            partition.timer.cancel()
            partition.timer = None
        if partition.batch:
            messages, partition.batch, partition.batch_bytes = partition.batch, [], 0
            self._publish(partition, messages)

    def _publish(self, partition: _Partition, messages: list[OutgoingMessage]) -> None:
        """Sends messages as one entry."""
        sequence_id = partition.next_sequence_id
        contexts = [message.context for message in messages]
        is_batch = len(messages) > 1
        if is_batch:
            metadata = MessageMetadata(publish_time=self._clock(), num_messages_in_batch=len(messages))
            payload = batching.batch_payload(messages, sequence_id)
        else:
            metadata = batching.metadata_of(messages[0], self._clock())
            payload = messages[0].payload
        metadata.producer_name, metadata.sequence_id = partition.name, sequence_id
        highest = sequence_id + len(messages) - 1 if is_batch else None
        if highest is not None:
            metadata.highest_sequence_id = highest
        try:
            payload = batching.compressed(metadata, payload, self._parameters.compression)
            entry = build_entry(metadata, payload)
        except PulsarError as error:
            self.refuse(contexts, error.message)
            return
        if len(entry) > self._session.max_message_bytes:
            limit = self._session.max_message_bytes
            self.refuse(contexts, f"The message of {len(entry)} bytes is larger than the maximum of {limit}")
            return
        partition.next_sequence_id += len(messages)
        partition.pending.append(_Pending(sequence_id, contexts, self._loop.time()))
        self._watch()
        command = requests.send(partition.producer_id, sequence_id, len(messages), highest)
        self._session.send(payload_frame(command, entry))

    # Time

    def _watch(self) -> None:
        """Sets the timer of the oldest SEND without receipt."""
        if self._parameters.send_timeout_ms and self._timer is None:
            first_s = min(
                (partition.pending[0].sent_s for partition in self._partitions if partition.pending), default=None
            )
            if first_s is not None:
                self._timer = self._loop.call_at(first_s + self._parameters.send_timeout_ms / 1000, self._on_timeout)

    def _on_timeout(self) -> None:
        """Answers SENDs that have waited too long; the broker may store them all the same."""
        self._timer = None
        limit_ms = self._parameters.send_timeout_ms
        oldest_s = self._loop.time() - limit_ms / 1000
        for partition in self._partitions:
            while partition.pending and partition.pending[0].sent_s <= oldest_s:
                self.refuse(partition.pending.popleft().contexts, f"The message has no receipt after {limit_ms} ms")
        self._watch()
