"""Dead letters of a WebSocket's consumer: messages that came too often go to another topic (DLQ-1 ... DLQ-4, WS-13)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from spark_pulsar.model.errors import PulsarError, ServiceNotReady, error_from_wire
from spark_pulsar.model.letters import ORIGIN_MESSAGE_ID, REAL_TOPIC
from spark_pulsar.model.names import TopicName
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import command_frame, payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, MessageMetadata

from . import batching
from .consumer_messages import Content, Opened, Unreadable, contents_of
from .outbox import UNEXPECTED
from .producer_messages import OutgoingMessage

if TYPE_CHECKING:
    from spark_pulsar.wire.protocol.frames import Frame

    from .outbox import Outbox
    from .protocol_consumer import Arrived
    from .session import Session


class DeadLetters:
    """Publisher of the dead letters of one subscription, on its session."""

    def __init__(
        self, session: Session, outbox: Outbox, subscription: str, topic: str | None, clock: Callable[[], int]
    ) -> None:
        """`topic`: None for `<topic>-<subscription>-DLQ`; `clock`: wall-clock milliseconds."""
        self._session = session
        self._outbox = outbox
        self._subscription = subscription
        self._topic = topic
        self._clock = clock
        self._waiting: deque[tuple[Arrived, Opened]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._producers: dict[str, _LetterProducer] = {}

    def accept(self, arrived: Arrived, opened: Opened) -> None:
        """Publishes the messages of an entry, and then acknowledges it; its bytes are free then."""
        self._waiting.append((arrived, opened))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())

    def close(self) -> None:
        """Stops publishing: unacknowledged messages are redelivered."""
        if self._task is not None:
            self._task.cancel()

    async def _work(self) -> None:
        while self._waiting:
            arrived, opened = self._waiting.popleft()
            try:
                await self._publish(arrived, opened)
            except (PulsarError, Unreadable) as error:
                text = error.message if isinstance(error, PulsarError) else "it cannot be read"
                self._outbox.close(UNEXPECTED, f"No dead letter: {text}")
                return
            ack = requests.ack(arrived.consumer.consumer_id, [arrived.position])
            self._session.send(command_frame(ack))
            self._session.release(arrived.kept_bytes)

    async def _publish(self, arrived: Arrived, opened: Opened) -> None:
        origin = TopicName.parse(arrived.consumer.topic).base.full
        name = TopicName.parse(self._topic or f"{origin}-{self._subscription}-DLQ").full
        producer = self._producers.get(name)
        if producer is None:
            producer = _LetterProducer(self._session)
            await producer.open(name)
            self._producers[name] = producer
        for content in contents_of(opened.metadata, opened.payload, arrived.ack_set):
            letter = _letter(content, arrived, origin)
            metadata = batching.metadata_of(letter, self._clock())
            await producer.send(metadata, letter.payload)


def _letter(content: Content, arrived: Arrived, origin: str) -> OutgoingMessage:
    position, partition = arrived.position, arrived.consumer.partition
    place = f":{content.batch_index}" if content.batch_index >= 0 else ""
    origins = {
        REAL_TOPIC: arrived.consumer.topic if partition >= 0 else origin,
        ORIGIN_MESSAGE_ID: f"{position.ledger_id}:{position.entry_id}:{partition}{place}",
    }
    return OutgoingMessage(content.payload, origins | content.properties, key=content.key)


class _LetterProducer:
    """A producer that waits for each receipt."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._producer_id = session.next_id()
        self._name = ""
        self._sequence_id = 0
        self._receipt: asyncio.Future[None] | None = None
        session.producers[self._producer_id] = self

    async def open(self, topic: str) -> None:
        """Creates the producer, on the first partition of a topic that has some. It names no initial subscription, so
        that letters stay only where one is made (DLQ-5)."""
        first = (await self._session.partitions(TopicName.parse(topic)))[0]
        request_id = self._session.next_id()
        answer = await self._session.request(requests.producer(request_id, first, self._producer_id), request_id)
        self._name = answer.producer_success.producer_name

    async def send(self, metadata: MessageMetadata, payload: bytes) -> None:
        """Publishes a message. Raises the broker's error."""
        await self._session.may_send()
        metadata.producer_name, metadata.sequence_id = self._name, self._sequence_id
        command = requests.send(self._producer_id, self._sequence_id)
        self._sequence_id += 1
        self._receipt = asyncio.get_running_loop().create_future()
        self._session.send(payload_frame(command, build_entry(metadata, payload)))
        await self._receipt

    def on_command(self, command: BaseCommand, frame: Frame, payload_start: int) -> int:
        """Takes a receipt, a refusal, or the end of the producer."""
        del frame, payload_start
        if self._receipt is not None and not self._receipt.done():
            if command.type == BaseCommand.SEND_RECEIPT:
                self._receipt.set_result(None)
            elif command.type == BaseCommand.SEND_ERROR:
                error = command.send_error
                self._receipt.set_exception(error_from_wire(error.error, error.message))
            else:
                self._receipt.set_exception(ServiceNotReady("The broker has closed the producer of dead letters"))
        return 0
