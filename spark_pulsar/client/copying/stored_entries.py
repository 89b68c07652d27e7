"""SENDs of entries as they are stored: their bytes, and the words about them that a SEND has beside them (MOVE-1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Final, NamedTuple

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.entries.entry_blocks import EntryBlock, head_of
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

_SIZE: Final = Struct(">I")
_BATCH_TAG: Final = b"\x58"
_CHUNK_TAG: Final = b"\xd0\x01"
_VERSION_TAG: Final = b"\x82\x01"
_TRANSACTION_TAGS: Final = (b"\xb0\x01", b"\xb8\x01")


class StoredEntry(NamedTuple):
    """An entry on its way: its position in the source, and its SEND."""

    position: Position
    entry: bytes
    message_count: int
    is_chunk: bool
    is_judged: bool
    """False for a chunk that is not the last of its message, which no broker de-duplicates (DED-8)."""
    producer_name: str
    """Name of the producer in its metadata; empty unless it was requested."""
    sequence_id: int
    highest_sequence_id: int | None


class EntryRewriting(NamedTuple):
    """Changes to metadata between two clusters: versions of schemas, where they differ, and no transactions.

    A reader is sent the entries of committed transactions alone. In the target they are entries like others: the id of
    a transaction is known to its own cluster alone.
    """

    schema_versions: Mapping[bytes, bytes]
    """Versions of the source that have another number in the target."""
    reads_sequence_ids: bool
    """Returns entries with producer names and sequence ids."""

    def entries_of(self, block: EntryBlock) -> Iterator[StoredEntry]:
        """Yields the entries of a block. Raises CorruptMessage for one whose metadata cannot be read."""
        buffer = block.buffer
        for start, end, ledger_id, entry_id in zip(
            block.starts, block.ends, block.ledger_ids, block.entry_ids, strict=True
        ):
            position = Position(ledger_id, entry_id)
            start, checksum = head_of(buffer, start, end)
            head = start + (4 if checksum is None else 10)
            body = head + _SIZE.unpack_from(buffer, head - 4)[0] if head <= end else end + 1
            if body > end:
                raise CorruptMessage(f"entry {position}: its metadata end behind it")
            metadata = buffer[head:body]
            if not self._concerns(metadata):
                yield StoredEntry(position, buffer[start:end], 1, False, True, "", 0, None)
            else:
                yield self._parsed(position, metadata, buffer, start, body, end)

    def _concerns(self, metadata: bytes) -> bool:
        """Returns whether metadata must be parsed: most entries of a topic without batches have nothing to say."""
        return (
            self.reads_sequence_ids
            or _BATCH_TAG in metadata
            or _CHUNK_TAG in metadata
            or (bool(self.schema_versions) and _VERSION_TAG in metadata)
            or any(tag in metadata for tag in _TRANSACTION_TAGS)
        )

    def _parsed(
        self, position: Position, serialized: bytes, buffer: bytes, start: int, body: int, end: int
    ) -> StoredEntry:
        metadata = MessageMetadata()
        try:
            metadata.MergeFromString(serialized)
        except ValueError as error:
            raise CorruptMessage(f"entry {position}: unreadable metadata: {error}") from None
        version = self.schema_versions.get(metadata.schema_version)
        in_transaction = metadata.HasField("txnid_most_bits") or metadata.HasField("txnid_least_bits")
        if version is not None and metadata.HasField("schema_version"):
            metadata.schema_version = version
        if in_transaction:
            metadata.ClearField("txnid_most_bits")
            metadata.ClearField("txnid_least_bits")
        changed = in_transaction or (version is not None and metadata.HasField("schema_version"))
        return StoredEntry(
            position,
            build_entry(metadata, memoryview(buffer)[body:end]) if changed else buffer[start:end],
            max(1, metadata.num_messages_in_batch),
            metadata.num_chunks_from_msg > 1,
            metadata.chunk_id >= metadata.num_chunks_from_msg - 1,
            metadata.producer_name if self.reads_sequence_ids else "",
            metadata.sequence_id,
            metadata.highest_sequence_id if metadata.HasField("highest_sequence_id") else None,
        )
