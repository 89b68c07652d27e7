"""Messages for the client of a WebSocket that consumes or reads: entries of the broker are opened one by one, as the
client may get them (WS-10, WS-12)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire import pulsar_api_pb2 as api
from spark_pulsar.wire.entries.chunks import Assembled, ChunkAssembler, Loss
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import command_frame
from spark_pulsar.wire.pulsar_api_pb2 import CommandAck

from . import consumer_messages
from .consumer_messages import Content, Opened, TooLarge, Unreadable
from .message_ids import WebSocketMessageId
from .opened_bytes import MAX_OPENED_BYTES
from .outbox import BAD_DATA, SERVICE_RESTART, TOO_LARGE
from .protocol_consumer import Arrived, Subscribed

if TYPE_CHECKING:
    from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

    from .opened_bytes import OpenedBytes
    from .outbox import Outbox
    from .session import Session

_MOST_PERMITS: Final = 1000
_MOST_CHUNKED: Final = 10
"""Messages of chunks that a consumer may have unfinished, as Apache Pulsar's client."""


class Current:
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
        self._current: Current | None = None
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

    def on_delivered(self, current: Current) -> None:
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

    def _opened(self, arrived: Arrived, opened: Opened, size_bytes: int) -> Current | None:
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
        current = Current(arrived, metadata, positions, size_bytes)
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

    def _end_entry(self, current: Current) -> None:
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
