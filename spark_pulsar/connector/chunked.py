"""Messages that were too large for one entry: their chunks put together while a range is read.

A chunked message belongs to the range that holds its *last* chunk. Its first chunks may lie before the range, and then
are fetched from there: chunks of one message carry one publish time, so reading starts where that time begins, and at
the start of the topic if that was not early enough (a producer's clock may go backwards).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.blocks import table_of
from spark_pulsar.connector.errors import DataLossError
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.ids import EARLIEST_ID, MessageId
from spark_pulsar.wire.columns.entries import Entries, EntryTable, Kind, inspect_entries, whole_message
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

LOG: Final = logging.getLogger("spark_pulsar")

MAX_PENDING_BYTES: Final = 256 * 1024 * 1024
"""Chunks kept while their messages are incomplete; beyond it the oldest are dropped, to be fetched again if needed."""


class _Pieces:
    """What is there of one message: payloads by chunk number, and where the first chunk is."""

    __slots__ = ("first", "payloads", "size_bytes")

    def __init__(self) -> None:
        self.payloads: dict[int, bytes] = {}
        self.first = (-1, -1)
        self.size_bytes = 0

    def put(self, chunk_id: int, payload: bytes, at: tuple[int, int]) -> int:
        """Keep a chunk, replacing one of the same number (a producer sends again after a reconnect); bytes added."""
        added = len(payload) - len(self.payloads.get(chunk_id, b""))
        self.payloads[chunk_id] = payload
        if chunk_id == 0:
            self.first = at
        self.size_bytes += added
        return added


class ChunkAssembler:
    """Puts together the chunked messages of one range of one topic partition."""

    def __init__(self, client: PulsarClient, topic: str, *, fail_on_data_loss: bool) -> None:
        self._client = client
        self._topic = topic
        self._fail_on_data_loss = fail_on_data_loss
        self._pending: dict[str, _Pieces] = {}
        self._pending_bytes = 0

    def take(self, table: EntryTable, i: int) -> EntryTable | None:
        """Take entry `i`, a chunk. The whole message as a table of one entry if it is the last one, else None.

        None as well, after a warning, for a last chunk whose message is incomplete on the broker and `failOnDataLoss`
        is false; DataLossError if it is true.
        """
        fields = table.chunk(i)
        at = int(table.entries.ids[0, i]), int(table.entries.ids[1, i])
        pieces = self._pending.setdefault(fields.uuid, _Pieces())
        self._pending_bytes += pieces.put(fields.chunk_id, bytes(table.payload(i)), at)
        if fields.chunk_id + 1 < fields.chunk_count:
            self._shrink(keep=fields.uuid)
            return None
        self._pending_bytes -= pieces.size_bytes
        del self._pending[fields.uuid]
        if len(pieces.payloads) < fields.chunk_count:
            self._look_back(pieces, fields.uuid, fields.chunk_count, at, int(table.publish_times[i]))
        joined = b"".join(pieces.payloads[chunk] for chunk in sorted(pieces.payloads))
        if len(pieces.payloads) != fields.chunk_count or len(joined) != fields.total_size_bytes:
            self._lost(at, f"{len(pieces.payloads)} of {fields.chunk_count} chunks, {len(joined)} bytes")
            return None
        metadata = MessageMetadata.FromString(bytes(table.metadata(i)))
        partition = int(table.entries.ids[2, i])
        whole = whole_message(metadata, joined, at[0], at[1], partition, first_chunk=pieces.first)
        return inspect_entries(Entries.of([whole]))

    def _shrink(self, keep: str) -> None:
        while self._pending_bytes > MAX_PENDING_BYTES:
            oldest = next((uuid for uuid in self._pending if uuid != keep), None)
            if oldest is None:
                return
            self._pending_bytes -= self._pending.pop(oldest).size_bytes

    def _look_back(
        self, pieces: _Pieces, uuid: str, chunk_count: int, last: tuple[int, int], publish_time_ms: int
    ) -> None:
        """Complete `pieces` from the entries before the last chunk."""
        for start in self._starts(publish_time_ms):
            if start.position >= last:
                continue
            with self._client.fetch(self._topic, start, MessageId(*last)) as fetch:
                for block in fetch:
                    _collect(table_of(block), uuid, pieces)
            if len(pieces.payloads) == chunk_count:
                return

    def _starts(self, publish_time_ms: int) -> Iterable[MessageId]:
        try:
            yield self._client.position_at_time(self._topic, publish_time_ms)
        except PulsarError as error:
            LOG.info("%s: no position for time %d: %s", self._topic, publish_time_ms, error)
        yield EARLIEST_ID

    def _lost(self, at: tuple[int, int], what_is_there: str) -> None:
        text = f"{self._topic}: the chunked message that ends at {at[0]}:{at[1]} is incomplete on the broker ({what_is_there})"
        if self._fail_on_data_loss:
            raise DataLossError(f"{text}. Set failOnDataLoss to false to go on without it.")
        LOG.warning("%s; it is left out", text)


def _collect(table: EntryTable, uuid: str, pieces: _Pieces) -> None:
    for i in (table.kinds == Kind.CHUNK).nonzero()[0].tolist():
        fields = table.chunk(i)
        if fields.uuid == uuid and fields.chunk_id not in pieces.payloads:
            at = int(table.entries.ids[0, i]), int(table.entries.ids[1, i])
            pieces.put(fields.chunk_id, bytes(table.payload(i)), at)
