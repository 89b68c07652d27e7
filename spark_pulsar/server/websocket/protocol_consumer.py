"""Consumer of the protocol behind a WebSocket: its messages and its permits (WS-12). Its ack timeout is in `consuming`
(TMO-1)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.entries.entry_bytes import metadata_of
from spark_pulsar.wire.protocol import ack_sets, requests
from spark_pulsar.wire.protocol.frames import command_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand

if TYPE_CHECKING:
    from spark_pulsar.wire.protocol.frames import Frame
    from spark_pulsar.wire.pulsar_api_pb2 import CommandMessage

    from .session import Session


@dataclass(slots=True)
class Arrived:
    """An entry as it came from the broker."""

    consumer: Subscribed
    position: Position
    redelivery_count: int
    ack_set: int | None
    buffer: bytes
    start: int
    end: int
    messages: int
    """Messages of the entry, as the broker counts them against the permits."""
    kept_bytes: int
    """Bytes that count as unread until the entry is with the client."""


class Subscribed:
    """A consumer of one topic or partition."""

    def __init__(self, session: Session, topic: str, partition: int, arrived: deque[Arrived]) -> None:
        """`partition`: -1 for none; `arrived` takes what comes."""
        self.consumer_id = session.next_id()
        self.topic = topic
        self.partition = partition
        self.has_ended = False
        """The topic is terminated, and its last message was received."""
        self.permits = 0
        """Messages that the broker may still send."""
        self.queued = 0
        """Messages that have arrived and are not opened."""
        self.epoch = 0
        self.on_change: Callable[[], None] = lambda: None
        self.on_closed: Callable[[], None] = lambda: None
        self._session = session
        self._arrived = arrived
        session.consumers[self.consumer_id] = self

    def on_command(self, command: BaseCommand, frame: Frame, payload_start: int) -> int:
        """Takes an entry, the end of the topic, or that of the consumer."""
        if command.type == BaseCommand.MESSAGE:
            return self._on_message(command.message, frame, payload_start)
        if command.type == BaseCommand.REACHED_END_OF_TOPIC:
            self.has_ended = True
        else:
            self.on_closed()
        return 0

    def grant(self, permits: int) -> None:
        """Lets the broker send `permits` more messages."""
        self.permits += permits
        self._session.send(command_frame(requests.flow(self.consumer_id, permits)))

    def redeliver(self, positions: list[Position], *, is_shared: bool) -> None:
        """Has messages come again: these, or, where they come in order, all that are not acknowledged."""
        if is_shared:
            self._session.send(command_frame(requests.redeliver(self.consumer_id, positions)))
            return
        self.epoch += 1  # entries under way are redelivered, too
        command = requests.redeliver(self.consumer_id)
        command.redeliverUnacknowledgedMessages.consumer_epoch = self.epoch
        for arrived in [arrived for arrived in self._arrived if arrived.consumer is self]:
            self._arrived.remove(arrived)
            self._session.release(arrived.kept_bytes)
        self.queued = 0
        self._session.send(command_frame(command))

    def _on_message(self, message: CommandMessage, frame: Frame, payload_start: int) -> int:
        messages = _messages_in(frame.buffer, payload_start, frame.end)
        self.permits -= messages
        if message.HasField("consumer_epoch") and message.consumer_epoch < self.epoch:
            return 0
        data, words = message.message_id, message.ack_set
        kept_bytes = frame.end - frame.start
        self.queued += messages
        self._arrived.append(
            Arrived(
                self,
                Position(data.ledgerId, data.entryId),
                message.redelivery_count,
                ack_sets.mask(words) if words else None,
                frame.buffer,
                payload_start,
                frame.end,
                messages,
                kept_bytes,
            )
        )
        self.on_change()
        return kept_bytes


def _messages_in(buffer: bytes, start: int, end: int) -> int:
    try:
        return max(1, metadata_of(buffer, start, end).num_messages_in_batch)
    except CorruptMessage:
        return 1
