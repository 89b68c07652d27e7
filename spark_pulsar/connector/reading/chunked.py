"""Messages that were too large for one entry: their chunks put together while a range is read (OFFSET-4).

A chunked message belongs to the range that holds its *last* chunk. Its first chunks may lie before the range, and then
are fetched from there: chunks of one message carry one publish time, so reading starts where that time begins, and at
the start of the topic if that was not early enough (a producer's clock may go backwards). The same happens to a message
whose chunks were discarded because too many others were unfinished.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.planning.data_loss import report_losses
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.positions.ids import EARLIEST_ID, MessageId, Position
from spark_pulsar.wire.columns.entries import Entries, EntryTable, Kind, inspect_block, inspect_entries, whole_message
from spark_pulsar.wire.entries.chunks import Assembled, ChunkAssembler
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

LOG: Final = logging.getLogger("spark_pulsar")


class ChunkedMessages:
    """Puts together the chunked messages of one range of one topic partition: those that are complete (CHK-3), with few
    incomplete ones at a time (`ChunkAssembler`, CHK-5), which the end of the range bounds, and no clock (CHK-4)."""

    def __init__(
        self, client: PulsarClient, topic: str, decrypt: Callable[[EntryTable], EntryTable], *, fail_on_data_loss: bool
    ) -> None:
        self._client = client
        self._topic = topic
        self._decrypt = decrypt
        self._fail_on_data_loss = fail_on_data_loss
        self._assembler: ChunkAssembler[Position] = ChunkAssembler()

    def add(self, table: EntryTable, i: int) -> EntryTable | None:
        """Takes entry `i`, a chunk. The whole message as a table of one entry if it is the last one, else None. Chunks
        are decrypted before.

        For a last chunk whose message is incomplete on the broker: DataLossError, or None after a warning if
        `failOnDataLoss` is false.
        """
        metadata = MessageMetadata.FromString(bytes(table.metadata(i)))
        at = _position(table, i)
        assembled = self._assembler.add(metadata, table.payload(i), at)
        self._assembler.pop_lost()  # what matters is found again below
        if metadata.chunk_id + 1 < metadata.num_chunks_from_msg:
            return None
        assembled = assembled or self._read_back(metadata, at)
        if assembled is None:
            self._lost(at)
            return None
        partition = int(table.entries.ids[2, i])
        entry = whole_message(
            _not_encrypted(assembled.metadata),
            assembled.payload,
            *at,
            partition,
            first_chunk=assembled.positions[0],
            broker_metadata=table.broker_metadata(i),
        )
        return inspect_entries(Entries.of([entry]))

    def _read_back(self, last: MessageMetadata, at: Position) -> Assembled[Position] | None:
        """Returns the message that ends with the chunk `last`, from the entries up to it; None if it is not whole
        there."""
        end = MessageId(at.ledger_id, at.entry_id + 1)
        for start in self._starts(last.publish_time):
            if start.position > at:
                continue
            assembler: ChunkAssembler[Position] = ChunkAssembler()
            assembled = None
            with self._client.fetch(self._topic, start, end) as fetch:
                for block in fetch:
                    table = self._decrypt(inspect_block(block))
                    for i in (table.kinds == Kind.CHUNK).nonzero()[0].tolist():
                        if table.chunk(i).uuid == last.uuid:
                            metadata = MessageMetadata.FromString(bytes(table.metadata(i)))
                            assembled = assembler.add(metadata, table.payload(i), _position(table, i)) or assembled
            if assembled is not None:
                return assembled
        return None

    def _starts(self, publish_time_ms: int) -> Iterable[MessageId]:
        try:
            yield self._client.position_at_time(self._topic, publish_time_ms)
        except PulsarError as error:
            LOG.info("%s: no position for time %d: %s", self._topic, publish_time_ms, error)
        yield EARLIEST_ID

    def _lost(self, at: Position) -> None:
        loss = f"{self._topic}: the chunked message that ends at {at} is incomplete on the broker"
        report_losses([loss], fail=self._fail_on_data_loss, to="go on without it", note="; it is left out")


def _not_encrypted(metadata: MessageMetadata) -> MessageMetadata:
    """Returns the metadata of a chunk as those of a message that was put together of decrypted chunks."""
    for field in ("encryption_keys", "encryption_param", "encryption_algo"):
        metadata.ClearField(field)
    return metadata


def _position(table: EntryTable, i: int) -> Position:
    return Position(int(table.entries.ids[0, i]), int(table.entries.ids[1, i]))
