"""Batches of encoded rows as entries: what their metadata says, compressed, cut into chunks, encrypted, sent."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from spark_pulsar.client.clock import wall_ms
from spark_pulsar.client.errors import EncryptionKeyError, MessageTooLarge
from spark_pulsar.client.publishing.attached_producer import SentEntry
from spark_pulsar.client.publishing.publisher import Publisher
from spark_pulsar.connector.options.encryption import ACTION, SEND, needing_cryptography
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.writing.entry_splitting import alone, halves, payload_of
from spark_pulsar.connector.writing.topic_limits import TopicLimit, TopicPolicies
from spark_pulsar.model.errors import NotAllowed
from spark_pulsar.wire.entries.chunks import split
from spark_pulsar.wire.entries.compression import compress
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.pulsar_api_pb2 import NONE, CompressionType, MessageMetadata

if TYPE_CHECKING:
    from spark_pulsar.client.encryption.encryptor import Encryptor
    from spark_pulsar.connector.writing.encoded_values import RowVersions
    from spark_pulsar.wire.columns.encode import EncodedBatch, EncodedBatches, MessageColumns

LOG: Final = logging.getLogger("spark_pulsar")

_HINT: Final = "the option chunkingEnabled sends large rows to persistent topics in chunks"
_POLICY_HINT: Final = (
    f"raise the policy (pulsar-admin topicPolicies set-max-message-size), or write smaller rows; {_HINT}"
)
_HEAD_BYTES: Final = 14
"""Bytes of an entry before its metadata, which a topic's limit counts, too."""
RUN_ENTRIES: Final = 256
RUN_BYTES: Final = 256 * 1024
RUN_ENTRY_BYTES: Final = 4096
"""Most entries and bytes of a run, and bytes of a batch in it: of larger ones the bytes cost more than the entry."""
METADATA_BYTES: Final = 1024
"""Room for the metadata of a batch, which count as part of it."""


class EntrySender:
    """Sending of encoded batches to one topic as the options of a write say, within the policies that are known
    (SINK-7)."""

    def __init__(self, options: Options, topic: str, policies: TopicPolicies) -> None:
        self._codec = CompressionType.Value(options.compression_type)
        self._is_batching = options.batching_max_messages > 1
        self._batching_max_bytes = options.batching_max_bytes
        self._is_chunking = options.chunking_enabled and topic.startswith("persistent://")  # CHK-2
        self._chunk_max_message_size = options.chunk_max_message_size
        self._encryptor = encryptor_of(options)
        self._limit = TopicLimit(options.service_url, topic)
        self._topic = topic
        self._policies = policies

    def send(self, publisher: Publisher, batch: EncodedBatch, schema_version: bytes = b"") -> None:
        """Sends a batch as one entry, or a large row as its chunks (CHK-1); returns while receipts are on the way.
        Raises as `Publisher.send`, and NotAllowed for a row that is too large even in chunks."""
        metadata = MessageMetadata()
        payload: bytes | memoryview = batch.payload
        if self._is_alone(publisher, batch):
            payload = batch.columns.describe(int(batch.rows[0]), metadata)
        else:
            batch.describe(metadata)
        if schema_version:
            metadata.schema_version = schema_version
        if self._codec != NONE:
            metadata.compression = self._codec
            metadata.uncompressed_size = len(payload)
            payload = compress(self._codec, payload)
        if batch.message_count > 1 or not self._is_chunking:
            payload = self._encrypted(metadata, payload)
            try:
                publisher.send(metadata, payload, batch.message_count, batch.first_sequence_id)
            except MessageTooLarge as error:
                if not error.limit_bytes:  # an earlier entry's
                    raise
                if batch.message_count == 1:
                    raise _too_large(error.topic, error.size_bytes, error.limit_bytes, error.of_topic) from error
                self._send_in_parts(publisher, metadata, payload)
            return
        metadata.producer_name = publisher.producer_name
        metadata.sequence_id = batch.first_sequence_id
        metadata.publish_time = wall_ms()
        for chunk, piece in self._chunks(publisher, metadata, payload):
            publisher.send(chunk, self._encrypted(chunk, piece), sequence_id=batch.first_sequence_id)

    def send_all(
        self, publishers: Mapping[int, Publisher], batches: EncodedBatches, versions: RowVersions | None
    ) -> None:
        """Sends all batches in order, small ones of a partition in runs, which cost a fraction; as `send`."""
        for first, stop in self._runs(publishers, batches):
            publisher = publishers[batches[first].group]
            if stop - first > 1 and self._send_run(publisher, batches, first, stop, versions):
                continue
            for i in range(first, stop):
                batch = batches[i]
                version = b"" if versions is None else versions.of_row(int(batch.rows[0]))
                self.send(publisher, batch, version)

    def _runs(self, publishers: Mapping[int, Publisher], batches: EncodedBatches) -> Iterator[tuple[int, int]]:
        """Yields the first and the end of batches that go as one run, and of each by itself where that may not be."""
        may_be_run = self._codec == NONE and self._encryptor is None
        if len(batches) < 2 or not may_be_run:
            return ((i, i + 1) for i in range(len(batches)))
        used = publishers.values()
        size = min(RUN_BYTES, *(publisher.max_run_bytes // 2 for publisher in used))  # keys are in metadata, too
        entries = min(RUN_ENTRIES, size // METADATA_BYTES, *(publisher.max_run_entries for publisher in used))
        least = min(self._most_bytes(publisher) for publisher in used) - METADATA_BYTES
        return batches.runs(
            most_batches=max(1, entries), most_bytes=size, most_batch_bytes=min(RUN_ENTRY_BYTES, least // 2)
        )

    def _send_run(
        self, publisher: Publisher, batches: EncodedBatches, first: int, stop: int, versions: RowVersions | None
    ) -> bool:
        """Sends batches as one run of entries; returns False where they have to go one by one."""
        from spark_pulsar.wire.columns.entry_runs import RunMetadata, entry_run
        from spark_pulsar.wire.columns.flat import NO_INTS

        known = [b""] if versions is None else versions.encoded
        run = entry_run(
            batches,
            first,
            stop,
            RunMetadata(
                publisher.producer_name,
                wall_ms(),
                [version or publisher.schema_version for version in known],
                NO_INTS if versions is None else versions.numbers,
                publisher.transaction,
            ),
            are_single=not self._is_batching or batches[first].is_delayed,
        )
        if run is None:
            return False
        ids, counts = (run.first_sequence_ids.tolist(), run.last_sequence_ids.tolist()), run.message_counts.tolist()
        entries = [
            SentEntry(first_id, last_id if count > 1 else None, count, False, entry)
            for first_id, last_id, count, entry in zip(*ids, counts, run.entries, strict=True)
        ]
        try:
            publisher.send_run(entries, run.sends)
        except MessageTooLarge as error:
            if not error.limit_bytes:  # an earlier entry's
                raise
            return False
        return True

    def split(self, publisher: Publisher, sent: SentEntry) -> list[SentEntry]:
        """Returns a refused batch as two smaller ones, and a single row in chunks where that is allowed (SINK-11,
        SINK-12). Raises MessageTooLarge for a row that is too large alone."""
        metadata, payload = payload_of(sent, self._encryptor)
        self._limit.refused(len(payload))
        if sent.message_count > 1:
            return list(halves(metadata, payload, publisher.producer_name, self._encryptor))
        if not self._is_chunking:
            raise self._refused(publisher, sent)
        metadata, payload = alone(metadata, payload)
        metadata.producer_name = publisher.producer_name
        if self._codec != NONE:
            metadata.uncompressed_size = len(payload)
            payload = compress(self._codec, payload)
        chunks = self._chunks(publisher, metadata, payload)
        if len(chunks) == 1:
            raise self._refused(publisher, sent)
        entries = [build_entry(chunk, self._encrypted(chunk, piece)) for chunk, piece in chunks]
        return [SentEntry(sent.sequence_id, None, 1, True, entry) for entry in entries]

    def _refused(self, publisher: Publisher, sent: SentEntry) -> MessageTooLarge:
        limit = self._policies.max_message_size_bytes or 0
        return _too_large(publisher.topic, len(sent.entry), limit if limit < len(sent.entry) else 0, of_topic=True)

    def check(self, columns: MessageColumns) -> None:
        """Checks rows against the policies that are known, before any of them is sent (SINK-12, SINK-17). Raises
        MessageTooLarge, NotAllowed."""
        self._policies.check_delays(self._topic, columns.deliver_at_times_ms, columns.keys, wall_ms())
        limit = self._policies.max_message_size_bytes
        if limit is None or self._is_chunking or self._codec != NONE:
            return
        offsets = columns.value.offsets
        largest = int((offsets[1:] - offsets[:-1]).max(initial=0))
        if largest > limit:
            raise _too_large(self._topic, largest, limit, of_topic=True)

    def _send_in_parts(self, publisher: Publisher, metadata: MessageMetadata, payload: bytes | memoryview) -> None:
        """Sends a batch that its keys or properties have made too large, in parts that are not."""
        entry, count = build_entry(metadata, payload), metadata.num_messages_in_batch
        waiting = [SentEntry(metadata.sequence_id, metadata.highest_sequence_id, count, False, entry)]
        while waiting:
            part = waiting.pop(0)
            try:
                publisher.send_entry(
                    part.entry, part.message_count, part.sequence_id, part.highest_sequence_id, part.is_chunk
                )
            except MessageTooLarge as error:
                if not error.limit_bytes:
                    raise
                if part.message_count == 1 and not self._is_chunking:
                    raise _too_large(error.topic, error.size_bytes, error.limit_bytes, error.of_topic) from error
                waiting[:0] = self.split(publisher, part)

    def _chunks(
        self, publisher: Publisher, metadata: MessageMetadata, payload: bytes | memoryview
    ) -> list[tuple[MessageMetadata, memoryview]]:
        try:
            return list(split(metadata, payload, self._most_bytes(publisher)))
        except NotAllowed as error:
            raise NotAllowed(f"{publisher.topic}: {error} (chunkMaxMessageSize sets how large a chunk is)") from error

    def _encrypted(self, metadata: MessageMetadata, payload: bytes | memoryview) -> bytes | memoryview:
        return payload if self._encryptor is None else self._encryptor.encrypt(metadata, payload)

    def _is_alone(self, publisher: Publisher, batch: EncodedBatch) -> bool:
        """Returns whether a batch is one row that must not be sent as a batch (SINK-5, BAT-4)."""
        if not self._is_batching or batch.is_delayed:
            return True
        if not self._is_chunking or batch.message_count > 1:
            return False
        most_bytes = 2 * len(batch.payload) + METADATA_BYTES  # keys are in the metadata of a batch, too
        return most_bytes > self._most_bytes(publisher)

    def batch_bytes(self, publishers: Iterable[Publisher]) -> int:
        """Returns the bytes that a batch may hold: no more than the brokers and the topic accept, whatever the option
        says."""
        accepted = min(self._accepted_bytes(publisher) for publisher in publishers)
        room = accepted - min(METADATA_BYTES, accepted // 2) - self._overhead_bytes
        return max(1, min(self._batching_max_bytes, room))

    def _most_bytes(self, publisher: Publisher) -> int:
        """Returns the most bytes of an entry of one row."""
        accepted = self._accepted_bytes(publisher)
        return min(self._chunk_max_message_size or accepted, accepted) - self._overhead_bytes

    def _accepted_bytes(self, publisher: Publisher) -> int:
        """Returns the most bytes of metadata and payload, as far as is known."""
        policy, learned = self._policies.max_message_size_bytes, self._limit.batch_bytes
        topic = publisher.max_message_size_bytes if policy is None else max(1, policy - _HEAD_BYTES)
        return min(publisher.max_message_size_bytes, topic, learned or topic)

    @property
    def _overhead_bytes(self) -> int:
        """Bytes that encryption adds to an entry."""
        return 0 if self._encryptor is None else self._encryptor.overhead_bytes


def _too_large(topic: str, size_bytes: int, limit_bytes: int, of_topic: bool) -> MessageTooLarge:
    return MessageTooLarge(size_bytes, limit_bytes, topic, _POLICY_HINT if of_topic else _HINT, of_topic)


def encryptor_of(options: Options) -> Encryptor | None:
    """Returns the encryption of a task, with a data key of its own; None where messages are to go out as they are
    (SINK-9).

    Raises EncryptionKeyError for a public key that cannot be used, unless `cryptoFailureAction` is SEND.
    """
    if options.encryption_public_keys is None:
        return None
    with needing_cryptography():
        from spark_pulsar.client.encryption.encryptor import Encryptor
    try:
        return Encryptor(options.encryption_keys, options.encryption_public_keys)
    except EncryptionKeyError as error:
        if options.crypto_failure_action != SEND:
            raise
        LOG.warning("messages are not encrypted (%s = %s): %s", ACTION, SEND, error)
        return None
