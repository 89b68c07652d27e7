"""Unpacking of blocks: entries as record batches of their messages, decrypted, decompressed (READ-6), chunked ones put
together.

The kernels turn the entries of a block into columns. Chunked messages, the only ones that cross entries, are put
together on the side and take the place of their last chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.reading.chunked import ChunkedMessages
from spark_pulsar.connector.reading.decryption import EntryDecryption
from spark_pulsar.wire.columns.entries import EntryTable, Kind, inspect_block
from spark_pulsar.wire.columns.key_set import KeySet
from spark_pulsar.wire.columns.records import RecordDecoder
from spark_pulsar.wire.entries.entry_blocks import EntryBlock

if TYPE_CHECKING:
    import pyarrow as pa


class BlockUnpacking:
    """Unpacking of the blocks of one topic partition, in order: these columns of the messages with wanted keys."""

    def __init__(self, client: PulsarClient, options: Options, topic: str, names: Sequence[str]) -> None:
        self._decryption = EntryDecryption(topic, options)
        self._chunks = ChunkedMessages(
            client, topic, self._decryption.open, fail_on_data_loss=options.fail_on_data_loss
        )
        keys = None if options.keys is None else KeySet(options.keys.texts, options.keys.encoded)
        self._decoder = RecordDecoder(topic, tuple(names), keys=keys)

    def batches(self, block: EntryBlock) -> Iterator[pa.RecordBatch]:
        """Yields the messages of a block. Raises DataLossError, UnreadableMessageError, CorruptMessage."""
        for table in _whole_messages(self._decryption.open(inspect_block(block)), self._chunks):
            yield from self._decoder.batches(table)


def _whole_messages(table: EntryTable, chunks: ChunkedMessages) -> Iterator[EntryTable]:
    """Tables without chunks, in order: runs of plain entries, and each chunked message where its last chunk stands."""
    if not table.has_chunks:
        yield table
        return
    first = 0
    for i in (table.kinds == Kind.CHUNK).nonzero()[0].tolist():
        if first < i:
            yield table.part(first, i)
        first = i + 1
        assembled = chunks.add(table, i)
        if assembled is not None:
            yield assembled
    if first < len(table):
        yield table.part(first, len(table))
