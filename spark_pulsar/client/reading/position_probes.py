"""Probes: idle readers that request where topics begin and end, and which entry was published at a time (W4), by a seek
(W6)."""

import threading
from collections.abc import Callable, Mapping

from spark_pulsar.client.connections.pipelined_requests import PipelinedRequest
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.lookup import TopicDirectory
from spark_pulsar.client.reader_types import ReaderTypes
from spark_pulsar.client.reading.attached_consumers import Attachment, EndReader, EntrySample, new_reader
from spark_pulsar.client.reading.positions import after_entry, beginning
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.fingerprints import Fingerprint
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import LATEST_ID, MessageId
from spark_pulsar.wire.entries.fingerprints import fingerprint_of


class Probes:
    """Idle readers, one per queried topic, kept so that the next query costs one round trip, and that the broker
    announces the next message.

    They are non-durable: they vanish with the connection and hold no data on the broker.
    """

    def __init__(self, directory: TopicDirectory) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._readers: dict[str, EndReader] = {}
        self._lost: set[str] = set()
        """Topics whose reader was lost."""

    def lost_readers(self) -> set[str]:
        """Returns the topics whose reader the broker closed, or was lost with its connection, since the last call
        (OFFSET-23)."""
        with self._lock:
            lost, self._lost = self._lost, set()
        return lost

    def discard(self, topic: str) -> None:
        """Closes the reader of a topic that is queried no more."""
        with self._lock:
            reader = self._readers.pop(topic, None)
        if reader is not None:
            reader.abandon()

    def silent(self, arrived: threading.Event) -> set[str]:
        """Returns the topics that are watched for `arrived`, and had no entry since (READ-38)."""
        with self._lock:
            return {topic for topic, reader in self._readers.items() if reader.is_silent(arrived)}

    def unwatched(self, positions: Mapping[str, MessageId], arrived: threading.Event) -> list[str]:
        """Returns the topics that no reader watches for `arrived` at their position."""
        with self._lock:
            silent = {t: reader for t, reader in self._readers.items() if reader.is_silent(arrived)}
            return [topic for topic, at in positions.items() if topic not in silent or not silent[topic].is_at(at)]

    def watch(
        self, topic: str, position: MessageId, arrived: threading.Event, deadline: Deadline
    ) -> PipelinedRequest[None]:
        """Sets `arrived` when there is an entry at or after a position, where the topic ended when it was requested
        last, or the reader there is lost."""
        with self._lock:
            reader = self._readers.get(topic)
        if reader is None or not reader.is_at(position):
            reader = yield from self._attach(topic, deadline, lambda one, types: one.attach_at(position, types))
        try:
            reader.arm(arrived)
        except BaseException:
            self._directory.discard(topic)
            reader.abandon()
            raise
        self._keep(topic, reader)

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
                self._note_lost(topic)
                if not error.retriable:
                    raise
            except BaseException:
                reader.abandon()  # as when another topic of the query is deleted
                raise
            else:
                self._keep(topic, reader)
                return last
        elif reader is not None:
            self._note_lost(topic)
        reader = yield from self._attach(topic, deadline, EndReader.attach_at_end)
        self._keep(topic, reader)
        return reader.last

    def _note_lost(self, topic: str) -> None:
        with self._lock:
            self._lost.add(topic)

    def _attach(
        self,
        topic: str,
        deadline: Deadline,
        attach: Callable[[EndReader, ReaderTypes], PipelinedRequest[None]],
    ) -> PipelinedRequest[EndReader]:
        connection = yield from self._directory.connect(topic, deadline)
        reader = EndReader(connection, topic)
        try:
            yield from attach(reader, self._directory.reader_types)
        except PulsarError:
            self._directory.discard(topic)
            raise
        return reader

    def _keep(self, topic: str, reader: EndReader) -> None:
        with self._lock:
            surplus = self._readers.get(topic)
            self._readers[topic] = reader
        if surplus is None or surplus is reader:
            return
        if not surplus.usable:
            self._note_lost(topic)
        surplus.abandon()

    def fingerprint(
        self, topic: str, entry: MessageId, deadline: Deadline, patience: Deadline
    ) -> PipelinedRequest[Fingerprint | None]:
        """Returns the fingerprint of an entry, or of the first one after it; None when none has come in time."""
        connection = yield from self._directory.connect(topic, deadline)
        reader = EntrySample(connection, topic)
        try:
            yield from reader.attach_reader(entry, self._directory.reader_types)
            block = yield from reader.first(patience)
        except PulsarError:
            self._directory.discard(topic)
            raise
        finally:
            reader.abandon()
        return None if block is None else fingerprint_of(block, 0)

    def end_position(self, topic: str, deadline: Deadline) -> PipelinedRequest[MessageId]:
        """Returns the position after the last message; the beginning for an empty topic."""
        last = yield from self.last_message_id(topic, deadline)
        return beginning(TopicName.parse(topic).partition) if last is None else after_entry(last)

    def position_at_time(self, topic: str, publish_time_ms: int, deadline: Deadline) -> PipelinedRequest[MessageId]:
        """Returns the position of the first entry published at or after a time; the end position if there is none.

        A seek detaches the reader; the broker keeps its target with the reader's name until a consumer of that name
        attaches.
        """
        last, position = yield from self._moved(topic, lambda reader: reader.seek(publish_time_ms), deadline)
        return beginning(position.partition) if last is None else position

    def first_available(self, topic: str, entry: MessageId, deadline: Deadline) -> PipelinedRequest[MessageId]:
        """Returns a position no later than `entry`, which had existed, if it is still there; else a later one, of the
        first entry that is. Must be requested anew each time: any entry may be trimmed at any moment.

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
            yield from reader.attach_reader(LATEST_ID, self._directory.reader_types)
            yield from seek(reader)
            yield from reader.attach_reader(LATEST_ID, self._directory.reader_types)
            answer = yield from reader.last_ids()
        except BaseException:
            self._directory.discard(topic)
            reader.abandon()
            raise
        yield from reader.detach()
        return answer
