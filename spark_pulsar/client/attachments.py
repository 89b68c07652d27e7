"""Consumers without permits: attached to ask or to acknowledge, never to be delivered anything."""

import uuid
from typing import Final, Literal

from spark_pulsar.client.connection import Connection
from spark_pulsar.client.errors import ConnectionLost
from spark_pulsar.client.positions import after_entry
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.ids import LATEST_ID, MessageId, Position, signed
from spark_pulsar.model.names import TopicName
from spark_pulsar.wire import requests
from spark_pulsar.wire.frames import Frame
from spark_pulsar.wire.pulsar_api_pb2 import CommandGetLastMessageIdResponse, CommandSubscribe, MessageIdData

from .demultiplexer import next_id
from .pipelined_requests import PipelinedRequest, Result

InitialPosition = Literal["earliest", "latest"]
_INITIAL: Final = {"earliest": CommandSubscribe.Earliest, "latest": CommandSubscribe.Latest}


def reader_name() -> str:
    """Returns a name for a non-durable subscription, unique."""
    return f"spark-pulsar-reader-{uuid.uuid4().hex[:16]}"


class Attachment:
    """One consumer on a shared connection that takes no messages. A sink: learns when the broker detaches it."""

    def __init__(self, connection: Connection, topic: str, subscription: str) -> None:
        self.connection = connection
        self.topic = topic
        self.subscription = subscription
        self.consumer_id = next_id()
        self.lost: PulsarError | None = None

    def messages(self, frames: list[Frame]) -> None:
        """Nothing is delivered without permits."""

    def detached(self, error: PulsarError) -> None:
        """Called by the reader thread when the broker closed the consumer or the connection is gone."""
        self.lost = error

    @property
    def usable(self) -> bool:
        """Tells whether the consumer is still attached, as far as is known."""
        return self.lost is None and self.connection.alive

    def attach_reader(self, start: MessageId) -> PipelinedRequest[None]:
        """Subscribes as a non-durable reader; creates no topic."""
        yield from self._attach(durable=False, start=start, initial="latest")

    def attach_durable(self, initial: InitialPosition) -> PipelinedRequest[None]:
        """Subscribes to the durable subscription, which is created at `initial` when missing; creates no topic."""
        yield from self._attach(durable=True, start=None, initial=initial)

    def _attach(self, durable: bool, start: MessageId | None, initial: InitialPosition) -> PipelinedRequest[None]:
        request_id = next_id()
        command = requests.subscribe(
            request_id,
            self.topic,
            self.subscription,
            self.consumer_id,
            durable=durable,
            start=start,
            initial_position=_INITIAL[initial],
            create_topic=False,
        )
        self.connection.attach_consumer(self.consumer_id, self)
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
        partition = TopicName.parse(self.topic).partition
        mark_delete = _message_id(answer.consumer_mark_delete_position, partition)
        return last_message_id(answer, partition), after_entry(mark_delete)

    def acknowledge_through(self, position: Position, ack_set: int | None) -> PipelinedRequest[None]:
        """Acknowledges everything up to and including `position`, or, with `ack_set`, all before it and part of it."""
        request_id = next_id()
        command = requests.ack(self.consumer_id, [position], cumulative=True, ack_set=ack_set, request_id=request_id)
        if self.lost is not None:
            raise self.lost
        yield self.connection.start(command, request_id, self.consumer_id)

    def seek(self, publish_time_ms: int) -> PipelinedRequest[None]:
        """Moves the cursor to a publish time. The broker detaches the consumer thereby."""
        request_id = next_id()
        yield self.connection.start(requests.seek_to_time(request_id, self.consumer_id, publish_time_ms), request_id)

    def seek_to(self, position: MessageId) -> PipelinedRequest[None]:
        """Moves the cursor to an entry, or to the first one after it. The broker detaches the consumer thereby."""
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
                self.connection.tell(requests.close_consumer(next_id(), self.consumer_id))
            except ConnectionLost as error:
                self.lost = error  # and so the consumer is gone


def new_reader(connection: Connection, topic: str) -> Attachment:
    """Returns a reader with a name of its own, not attached yet."""
    return Attachment(connection, topic, reader_name())


def attach_at_end(connection: Connection, topic: str) -> PipelinedRequest[Attachment]:
    """Returns a reader attached behind the last entry."""
    reader = new_reader(connection, topic)
    yield from reader.attach_reader(LATEST_ID)
    return reader


def last_message_id(answer: CommandGetLastMessageIdResponse, partition: int) -> MessageId | None:
    """Returns the id of the last message of a partition (-1: a topic without) that a broker answered, None when it is
    empty."""
    last = _message_id(answer.last_message_id, partition)
    return None if last.entry_id < 0 else last


def _message_id(data: MessageIdData, partition: int) -> MessageId:
    return MessageId(signed(data.ledgerId), signed(data.entryId), partition, data.batch_index)
