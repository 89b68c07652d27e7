"""Durable subscriptions seen from outside: created, inspected, moved and deleted without consuming anything."""

from typing import Final

from spark_pulsar.client.connections.pipelined_requests import PipelinedRequest
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.lookup import TopicDirectory
from spark_pulsar.client.reading.attached_consumers import Attachment, InitialPosition
from spark_pulsar.client.reading.positions import is_beginning
from spark_pulsar.model.errors import ConsumerBusy, NotAllowed, PulsarError
from spark_pulsar.model.positions.ids import LATEST_ID, MessageId, Position
from spark_pulsar.wire.protocol import ack_sets

_NAME_TAKEN: Final = "subscription with the same name already exists"
"""Part of the answer to a reader under the name of a durable subscription, of all brokers."""
_BEHIND_THE_CURSOR: Final = "already mark-deleted position"
"""Part of the answer of Apache Pulsar 5.0 to an acknowledgement of what is acknowledged; 4.0 and 4.2 accept it."""


class Cursors:
    """Operations on the durable subscriptions of single topic partitions; each leaves no consumer attached."""

    def __init__(self, directory: TopicDirectory) -> None:
        self._directory = directory

    def _attach(
        self, topic: str, subscription: str, initial: InitialPosition, deadline: Deadline
    ) -> PipelinedRequest[Attachment]:
        connection = yield from self._directory.connect(topic, deadline)
        consumer = Attachment(connection, topic, subscription)
        try:
            yield from consumer.attach_durable(initial)
        except PulsarError:
            self._directory.discard(topic)
            raise
        return consumer

    def ensure(
        self, topic: str, subscription: str, initial: InitialPosition, deadline: Deadline
    ) -> PipelinedRequest[None]:
        """Creates the subscription at `initial` unless it exists."""
        consumer = yield from self._attach(topic, subscription, initial, deadline)
        yield from consumer.detach()

    def exists(self, topic: str, subscription: str, deadline: Deadline) -> PipelinedRequest[bool | None]:
        """Returns whether there is a durable subscription of that name, without making one; None where the broker's
        answer leaves it open.

        A reader may not bear the name of a durable subscription, so one is attached under it.
        """
        connection = yield from self._directory.connect(topic, deadline)
        reader = Attachment(connection, topic, subscription)
        try:
            yield from reader.attach_reader(LATEST_ID, self._directory.reader_types)
        except NotAllowed as refusal:
            return True if _NAME_TAKEN in refusal.message else None
        except ConsumerBusy:
            return None
        except PulsarError:
            self._directory.discard(topic)
            raise
        yield from reader.detach()
        return False

    def position(
        self, topic: str, subscription: str, initial: InitialPosition, deadline: Deadline
    ) -> PipelinedRequest[MessageId]:
        """Returns the position after everything that is acknowledged without a gap (mark-delete + 1)."""
        consumer = yield from self._attach(topic, subscription, initial, deadline)
        _, position = yield from consumer.or_abandon(consumer.last_ids())
        yield from consumer.detach()
        return position

    def advance(
        self,
        topic: str,
        subscription: str,
        position: MessageId,
        batch_size: int,
        deadline: Deadline,
    ) -> PipelinedRequest[None]:
        """Acknowledges everything before `position`; `batch_size` of its entry counts when it is inside a batch.

        An acknowledgement cannot move a cursor backwards: a position before the cursor changes nothing (OFFSET-12).
        """
        consumer = yield from self._attach(topic, subscription, "earliest", deadline)
        if not is_beginning(position):
            yield from consumer.or_abandon(_acknowledge_through(consumer, *_last_done(position, batch_size)))
        yield from consumer.detach()

    def unsubscribe(self, topic: str, subscription: str, force: bool, deadline: Deadline) -> PipelinedRequest[None]:
        """Deletes the subscription; nothing happens to the topic."""
        consumer = yield from self._attach(topic, subscription, "latest", deadline)
        yield from consumer.or_abandon(consumer.unsubscribe(force))


def _acknowledge_through(consumer: Attachment, position: Position, ack_set: int | None) -> PipelinedRequest[None]:
    try:
        yield from consumer.acknowledge_through(position, ack_set)
    except PulsarError as error:
        if _BEHIND_THE_CURSOR not in str(error):
            raise


def _last_done(position: MessageId, batch_size: int) -> tuple[Position, int | None]:
    """Returns the cumulative acknowledgement after which `position` is next: an entry, and the bitmap when part of it
    is left."""
    entry = position.position
    if position.batch_index <= 0:
        return Position(entry.ledger_id, entry.entry_id - 1), None
    if position.batch_index >= batch_size:
        return entry, None
    return entry, ack_sets.from_index(position.batch_index, batch_size)
