"""Batches of encoded rows as entries: what their metadata says, compressed, cut into chunks, encrypted, sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from spark_pulsar.client.clock import wall_ms
from spark_pulsar.client.errors import MessageTooLarge
from spark_pulsar.client.publisher import Publisher
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.writing.encryption import encryptor_of
from spark_pulsar.model.errors import NotAllowed
from spark_pulsar.wire.chunking import split
from spark_pulsar.wire.compression import compress
from spark_pulsar.wire.pulsar_api_pb2 import NONE, CompressionType, MessageMetadata

if TYPE_CHECKING:
    from spark_pulsar.wire.columns.encode import EncodedBatch

_HINT: Final = "the option chunkingEnabled sends large rows to persistent topics in chunks"
METADATA_BYTES: Final = 1024
"""Room for the metadata of a batch, which count as part of it."""


class EntrySender:
    """Sending of encoded batches to one topic as the options of a write say."""

    def __init__(self, options: Options, topic: str) -> None:
        self._codec = CompressionType.Value(options.compression_type)
        self._is_batching = options.batching_max_messages > 1
        self._batching_max_bytes = options.batching_max_bytes
        self._is_chunking = options.chunking_enabled and topic.startswith("persistent://")  # CHK-2
        self._chunk_max_message_size = options.chunk_max_message_size
        self._encryptor = encryptor_of(options)

    def send(self, publisher: Publisher, batch: EncodedBatch, schema_version: bytes = b"") -> None:
        """Sends a batch as one entry, or a large row as its chunks; returns while receipts are on the way. Raises as
        `Publisher.send`, and NotAllowed for a row that is too large even in chunks."""
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
                raise MessageTooLarge(error.size_bytes, error.limit_bytes, error.topic, _HINT) from error
            return
        metadata.producer_name = publisher.producer_name
        metadata.sequence_id = batch.first_sequence_id
        metadata.publish_time = wall_ms()
        try:
            chunks = list(split(metadata, payload, self._most_bytes(publisher)))
        except NotAllowed as error:
            raise NotAllowed(f"{publisher.topic}: {error} (chunkMaxMessageSize sets how large a chunk is)") from error
        for chunk, piece in chunks:
            publisher.send(chunk, self._encrypted(chunk, piece), sequence_id=batch.first_sequence_id)

    def _encrypted(self, metadata: MessageMetadata, payload: bytes | memoryview) -> bytes | memoryview:
        return payload if self._encryptor is None else self._encryptor.encrypt(metadata, payload)

    def _is_alone(self, publisher: Publisher, batch: EncodedBatch) -> bool:
        """Tells whether a batch is one row that must not be sent as a batch."""
        if not self._is_batching or batch.is_delayed:
            return True
        if not self._is_chunking or batch.message_count > 1:
            return False
        most_bytes = 2 * len(batch.payload) + METADATA_BYTES  # keys are in the metadata of a batch, too
        return most_bytes > self._most_bytes(publisher)

    def batch_bytes(self, publishers: Iterable[Publisher]) -> int:
        """Returns the bytes that a batch may hold: no more than the brokers take, whatever the option says."""
        taken = min(publisher.max_message_size_bytes for publisher in publishers)
        return max(1, min(self._batching_max_bytes, taken - METADATA_BYTES - self._overhead_bytes))

    def _most_bytes(self, publisher: Publisher) -> int:
        """Returns the most bytes of an entry of one row."""
        taken = publisher.max_message_size_bytes
        return min(self._chunk_max_message_size or taken, taken) - self._overhead_bytes

    @property
    def _overhead_bytes(self) -> int:
        """Bytes that encryption adds to an entry."""
        return 0 if self._encryptor is None else self._encryptor.overhead_bytes
