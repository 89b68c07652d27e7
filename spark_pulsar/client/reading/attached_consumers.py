"""Consumers without permits: attached to query or to acknowledge, never to be delivered anything."""

import threading
import uuid
from typing import Final, Literal

from spark_pulsar.client.connections.connection import Connection
from spark_pulsar.client.connections.demultiplexer import next_id
from spark_pulsar.client.connections.pending import PendingReply
from spark_pulsar.client.connections.pipelined_requests import PipelinedRequest, Result
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ConnectionLost, OperationTimeout
from spark_pulsar.client.reader_types import ReaderTypes, SubscriptionType, is_refused_type
from spark_pulsar.client.reading.positions import after_entry
from spark_pulsar.model.errors import NotAllowed, PulsarError
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import LATEST_ID, MessageId, Position, signed
from spark_pulsar.wire.entries.entry_blocks import EntryBlock, block_of
from spark_pulsar.wire.entries.messages import consumer_id_of
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import Frame
from spark_pulsar.wire.pulsar_api_pb2 import (
    BaseCommand,
    CommandGetLastMessageIdResponse,
    CommandSubscribe,
    MessageIdData,
)

InitialPosition = Literal["earliest", "latest"]
_INITIAL: Final = {"earliest": CommandSubscribe.Earliest, "latest": CommandSubscribe.Latest}


def reader_name(prefix: str) -> str:
    """Returns a unique name for a non-durable subscription (READ-2, READ-39, W3)."""
    return f"{prefix}-{uuid.uuid4().hex[:16]}"


class Attachment:
    """One consumer on a shared connection that takes no messages. A sink: learns when the broker detaches it."""

    takes_messages = False

    def __init__(self, connection: Connection, topic: str, subscription: str) -> None:
        self.connection = connection
        self.topic = topic
        self.subscription = subscription
        self.consumer_id = next_id()
        self.lost: PulsarError | None = None
        self._partition = TopicName.parse(topic).partition

    def messages(self, frames: list[Frame]) -> None:
        """Nothing is delivered without permits."""

    def detached(self, error: PulsarError) -> None:
        """Called by the reader thread when the broker closed the consumer or the connection is gone."""
        self.lost = error

    @property
    def usable(self) -> bool:
        """Returns whether the consumer is still attached, as far as is known."""
        return self.lost is None and self.connection.alive

    def attach_reader(self, start: MessageId, types: ReaderTypes) -> PipelinedRequest[None]:
        """Subscribes as a non-durable reader, by a type that the topic allows; creates no topic (READ-41)."""
        refusal: PulsarError | None = None
        for subscription_type in types.candidates(self.topic):
            try:
                yield from self._attach(durable=False, start=start, initial="latest", by=subscription_type)
            except NotAllowed as error:
                if not is_refused_type(error):
                    raise
                refusal = refusal or error
                self.consumer_id = next_id()  # an Apache Pulsar may know the refused one for a moment
            else:
                types.worked(self.topic, subscription_type)
                return
        assert refusal is not None
        raise refusal

    def attach_durable(
        self, initial: InitialPosition, by: SubscriptionType = CommandSubscribe.Exclusive
    ) -> PipelinedRequest[None]:
        """Subscribes to the durable subscription, which is created at `initial` when missing; creates no topic."""
        yield from self._attach(durable=True, start=None, initial=initial, by=by)

    def _attach(
        self, durable: bool, start: MessageId | None, initial: InitialPosition, by: SubscriptionType
    ) -> PipelinedRequest[None]:
        request_id = next_id()
        command = requests.subscribe(
            request_id,
            self.topic,
            self.subscription,
            self.consumer_id,
            by,
            durable=durable,
            start=start,
            initial_position=_INITIAL[initial],
            create_topic=False,
        )
        self.connection.attach_consumer(self.consumer_id, self, self.takes_messages)
        self.lost = None
        try:
            yield self.connection.start(command, request_id)
        except BaseException:
            self.abandon()  # the broker may have attached us after all
            raise

    def last_ids(self) -> PipelinedRequest[tuple[MessageId | None, MessageId]]:
        """(id of the topic's last message or None, the cursor's position "next to read")."""
        if self.lost is not None:
            raise self.lost
        request_id = next_id()
        reply = yield self.connection.start(requests.last_message_id(request_id, self.consumer_id), request_id)
        answer = reply.getLastMessageIdResponse
        mark_delete = message_id(answer.consumer_mark_delete_position, self._partition)
        return last_message_id(answer, self._partition), after_entry(mark_delete)

    def acknowledge_through(self, position: Position, ack_set: int | None) -> PipelinedRequest[None]:
        """Acknowledges everything up to and including `position`, or, with `ack_set`, all before it and part of it."""
        request_id = next_id()
        command = requests.ack(self.consumer_id, [position], cumulative=True, ack_set=ack_set, request_id=request_id)
        if self.lost is not None:
            raise self.lost
        yield self.connection.start(command, request_id, self.consumer_id)

    def acknowledge_each(self, positions: list[Position], ack_set: int | None = None) -> PipelinedRequest[None]:
        """Acknowledges single entries, or, with `ack_set`, the messages of one whose bits are not set."""
        request_id = next_id()
        command = requests.ack(self.consumer_id, positions, ack_set=ack_set, request_id=request_id)
        if self.lost is not None:
            raise self.lost
        yield self.connection.start(command, request_id, self.consumer_id)

    def seek(self, publish_time_ms: int) -> PipelinedRequest[None]:
        """Moves the cursor to a publish time. The broker detaches the consumer thereby (W6)."""
        request_id = next_id()
        yield self.connection.start(requests.seek_to_time(request_id, self.consumer_id, publish_time_ms), request_id)

    def seek_to(self, position: MessageId) -> PipelinedRequest[None]:
        """Moves the cursor to an entry, or to the first one after it. The broker detaches the consumer thereby (W6)."""
        request_id = next_id()
        yield self.connection.start(requests.seek_to_id(request_id, self.consumer_id, position), request_id)

    def unsubscribe(self, force: bool) -> PipelinedRequest[None]:
        """Deletes the subscription, and the consumer with it."""
        request_id = next_id()
        yield self.connection.start(requests.unsubscribe(request_id, self.consumer_id, force), request_id)
        self.connection.detach_consumer(self.consumer_id)

    def detach(self) -> PipelinedRequest[None]:
        """Closes the consumer and waits until the broker has done it."""
        self.connection.detach_consumer(self.consumer_id)
        if self.usable:
            request_id = next_id()
            yield self.connection.start(requests.close_consumer(request_id, self.consumer_id), request_id)

    def or_abandon(self, request: PipelinedRequest[Result]) -> PipelinedRequest[Result]:
        """Runs `request` with this consumer, and abandons it when they fail."""
        try:
            return (yield from request)
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Closes the consumer without waiting: something else has gone wrong already."""
        self.connection.detach_consumer(self.consumer_id)
        if self.usable:
            try:
                self.connection.send_command(requests.close_consumer(next_id(), self.consumer_id))
            except ConnectionLost as error:
                self.lost = error  # and so the consumer is gone


class EntrySample(Attachment):
    """Reader that the broker sends one entry: the first at its start or after it."""

    takes_messages = True

    def __init__(self, connection: Connection, topic: str) -> None:
        super().__init__(connection, topic, reader_name(connection.config.subscription_prefix))
        self._frames: list[Frame] = []
        self._arrival = PendingReply()

    def messages(self, frames: list[Frame]) -> None:
        """Keeps the first entry, copied, for it lies among those of others. Entries of a reader that was closed may
        come here, too."""
        if self._frames:
            return
        mine = (frame for frame in frames if consumer_id_of(frame.buffer, frame.start) == self.consumer_id)
        for buffer, start, end in mine:
            self._frames = [Frame(buffer[start:end], 0, end - start)]
            self._arrival.resolve(BaseCommand())
            return

    def detached(self, error: PulsarError) -> None:
        """Ends the wait for the entry."""
        super().detached(error)
        self._arrival.fail(error)

    def first(self, patience: Deadline) -> PipelinedRequest[EntryBlock | None]:
        """Returns the entry as a block of one; None when none has come in time."""
        self._arrival = PendingReply(patience=patience)
        if self.lost is not None:
            raise self.lost
        self.connection.send_command(requests.flow(self.consumer_id, 1))
        try:
            yield self._arrival
        except OperationTimeout:
            return None
        block = block_of([self._frames], self.consumer_id, self._partition, self.topic)
        return block if len(block) else None


class EndReader(Attachment):
    """Reader behind the last entry of a topic: requests the id of the last message. Once it is armed it rings, once,
    when the broker has an entry behind its position, or it is detached."""

    def __init__(self, connection: Connection, topic: str) -> None:
        super().__init__(connection, topic, reader_name(connection.config.subscription_prefix))
        self.last: MessageId | None = None
        """The last message when the reader was attached; None: the topic was empty."""
        self._position: MessageId | None = None
        self._arrived: threading.Event | None = None
        self._is_rung = False

    def attach_at(self, position: MessageId, types: ReaderTypes) -> PipelinedRequest[None]:
        """Attaches the reader at a position, at which the topic ended."""
        yield from self.attach_reader(position, types)
        self._position = position

    def attach_at_end(self, types: ReaderTypes) -> PipelinedRequest[None]:
        """Attaches the reader behind the last entry, and requests the id of the last message.

        The position is that of the end only if the broker says so: messages of an open transaction lie behind the last
        message and before the reader, which would never be sent them.
        """
        yield from self.attach_reader(LATEST_ID, types)
        self.last, cursor = yield from self.or_abandon(self.last_ids())
        if self.last is not None and cursor == after_entry(self.last):
            self._position = cursor

    def is_at(self, position: MessageId) -> bool:
        """Returns whether the broker has to send this reader what comes at or after a position, and has not yet."""
        own = self._position
        return self.usable and not self._is_rung and own is not None and _entry_of(own) == _entry_of(position)

    def is_silent(self, arrived: threading.Event) -> bool:
        """Returns whether the reader is armed for `arrived`, and nothing has come."""
        return self._arrived is arrived and not self._is_rung and self.usable

    def arm(self, arrived: threading.Event) -> None:
        """Requests one entry, unless that was done; `arrived` is set when it comes."""
        is_armed = self._arrived is not None
        self._arrived = arrived
        if is_armed:
            return
        self.connection.attach_consumer(self.consumer_id, self, takes_messages=True)
        if self.lost is not None:  # before the connection knew who takes the messages
            raise self.lost
        self.connection.send_command(requests.flow(self.consumer_id, 1))

    def messages(self, frames: list[Frame]) -> None:
        """Rings. Entries of a reader that was closed may come here, too."""
        if any(consumer_id_of(frame.buffer, frame.start) == self.consumer_id for frame in frames):
            self._ring()

    def detached(self, error: PulsarError) -> None:
        """Rings: further messages are not announced here."""
        super().detached(error)
        self._ring()

    def _ring(self) -> None:
        self._is_rung = True
        if self._arrived is not None:
            self._arrived.set()


def new_reader(connection: Connection, topic: str) -> Attachment:
    """Returns a reader with a name of its own, not attached yet."""
    return Attachment(connection, topic, reader_name(connection.config.subscription_prefix))


def _entry_of(position: MessageId) -> tuple[int, int, int]:
    """Returns ledger, entry and index in its batch of a position, which may or may not name its partition."""
    return position.ledger_id, position.entry_id, max(position.batch_index, 0)


def last_message_id(answer: CommandGetLastMessageIdResponse, partition: int) -> MessageId | None:
    """Returns the id of the last message of a partition (-1: a topic without) that a broker answered, None when it is
    empty."""
    last = message_id(answer.last_message_id, partition)
    return None if last.entry_id < 0 else last


def message_id(data: MessageIdData, partition: int) -> MessageId:
    """Returns a message id of a partition as the wire has it."""
    return MessageId(signed(data.ledgerId), signed(data.entryId), partition, data.batch_index)
