"""Probes: idle readers that ask where topics begin and end, and which entry was published at a time."""

import threading
from collections.abc import Callable

from spark_pulsar.client.attachments import Attachment, attach_at_end, new_reader
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.lookup import TopicDirectory
from spark_pulsar.client.positions import after_entry, beginning
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.ids import LATEST_ID, MessageId
from spark_pulsar.model.names import TopicName

from .pipelined_requests import PipelinedRequest


class Probes:
    """Idle readers, one per topic that was asked about, kept so that asking again costs one round trip.

    They are non-durable and take no messages: they vanish with the connection and hold no data on the broker.
    """

    def __init__(self, directory: TopicDirectory) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._readers: dict[str, Attachment] = {}

    def forget(self, topic: str) -> None:
        """Closes the reader of a topic that is asked about no more."""
        with self._lock:
            reader = self._readers.pop(topic, None)
        if reader is not None:
            reader.abandon()

    def last_message_id(self, topic: str, deadline: Deadline) -> PipelinedRequest[MessageId | None]:
        """Returns the id of the last message, None when the topic is empty. TopicNotFound when there is no such
        topic."""
        with self._lock:
            reader = self._readers.pop(topic, None)  # ours alone until it is put back
        if reader is not None and reader.usable:
            try:
                last, _ = yield from reader.last_ids()
            except PulsarError as error:
                reader.abandon()
                if not error.retriable:
                    raise
            except BaseException:
                reader.abandon()  # given up, as when another topic that was asked about is gone
                raise
            else:
                self._keep(topic, reader)
                return last
        reader = yield from self._attach(topic, deadline)
        last, _ = yield from reader.or_abandon(reader.last_ids())
        self._keep(topic, reader)
        return last

    def _attach(self, topic: str, deadline: Deadline) -> PipelinedRequest[Attachment]:
        connection = yield from self._directory.connect(topic, deadline)
        try:
            return (yield from attach_at_end(connection, topic))
        except PulsarError:
            self._directory.forget(topic)
            raise

    def _keep(self, topic: str, reader: Attachment) -> None:
        with self._lock:
            surplus = self._readers.get(topic)
            self._readers[topic] = reader
        if surplus is not None:
            surplus.abandon()

    def end_position(self, topic: str, deadline: Deadline) -> PipelinedRequest[MessageId]:
        """Returns the position after the last message; the beginning for an empty topic."""
        last = yield from self.last_message_id(topic, deadline)
        return beginning(TopicName.parse(topic).partition) if last is None else after_entry(last)

    def position_at_time(self, topic: str, publish_time_ms: int, deadline: Deadline) -> PipelinedRequest[MessageId]:
        """Returns the position of the first entry published at or after a time; the end position if there is none.

        A seek detaches the reader, its target stays with the reader's name until the next consumer of that name asks.
        """
        last, position = yield from self._moved(topic, lambda reader: reader.seek(publish_time_ms), deadline)
        return beginning(position.partition) if last is None else position

    def first_available(self, topic: str, entry: MessageId, deadline: Deadline) -> PipelinedRequest[MessageId]:
        """Returns a position no later than `entry`, which had existed, if it is still there; else a later one, of the
        first entry that is. Must be asked anew each time: any entry may be trimmed at any moment.

        A broker may name an entry by the end of the ledger before it, so equality says less than order.
        """
        _, position = yield from self._moved(topic, lambda reader: reader.seek_to(entry), deadline)
        return position

    def _moved(
        self, topic: str, seek: Callable[[Attachment], PipelinedRequest[None]], deadline: Deadline
    ) -> PipelinedRequest[tuple[MessageId | None, MessageId]]:
        """(id of the topic's last message or None, the position of a reader after a seek)."""
        connection = yield from self._directory.connect(topic, deadline)
        reader = new_reader(connection, topic)
        try:
            yield from reader.attach_reader(LATEST_ID)
            yield from seek(reader)
            yield from reader.attach_reader(LATEST_ID)
            answer = yield from reader.last_ids()
        except BaseException:
            self._directory.forget(topic)
            reader.abandon()
            raise
        yield from reader.detach()
        return answer
