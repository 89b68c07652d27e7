"""Batches of encoded rows as entries: what their metadata says, their compression, and a publisher that sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.client.publisher import Publisher
from spark_pulsar.connector.options import Options
from spark_pulsar.wire.compression import compress
from spark_pulsar.wire.pulsar_api_pb2 import NONE, CompressionType, MessageMetadata

if TYPE_CHECKING:
    from spark_pulsar.wire.columns.encode import EncodedBatch


class EntrySender:
    """Sending of encoded batches as the options of a write say."""

    def __init__(self, options: Options) -> None:
        self._codec = CompressionType.Value(options.compression_type)
        self._is_batching = options.batching_max_messages > 1

    def send(self, publisher: Publisher, batch: EncodedBatch) -> None:
        """Sends a batch as one entry; returns while its receipt is on the way. Raises as `Publisher.send`."""
        metadata = MessageMetadata()
        payload: bytes | memoryview = batch.payload
        if self._is_batching:
            batch.describe(metadata)
        else:
            payload = batch.columns.describe(int(batch.rows[0]), metadata)
        if self._codec != NONE:
            metadata.compression = self._codec
            metadata.uncompressed_size = len(payload)
            payload = compress(self._codec, payload)
        publisher.send(metadata, payload, batch.message_count, batch.first_sequence_id)
