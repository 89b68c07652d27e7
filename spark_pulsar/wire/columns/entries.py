"""Many stored entries as arrays, and what their metadata says.

``EntrySlice`` is the convenient form (one object per entry), ``Entries`` the columnar one. ``inspect_entries`` reads
the metadata of all of them in one pass and yields the ``EntryTable`` that the decoders work on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from spark_pulsar.model.errors import CorruptMessage, MalformedBatch
from spark_pulsar.wire.columns.kernels import layout
from spark_pulsar.wire.columns.kernels.entry_kernels import scan_entries
from spark_pulsar.wire.entries.entry_bytes import BROKER_METADATA_MAGIC
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

if TYPE_CHECKING:
    from spark_pulsar.wire.entries.entry_blocks import EntryBlock


IntArray = npt.NDArray[np.int64]
ByteArray = npt.NDArray[np.uint8]
Buffer = bytes | bytearray | memoryview | ByteArray

_EVERY_INDEX = 2**31 - 1
_IDS = 5  # ledger, entry, partition, first chunk's ledger and entry


class EncryptedEntry(CorruptMessage):
    """The entry is encrypted; this decoder has no keys."""


class UnassembledChunk(CorruptMessage):
    """The entry is one chunk of a larger message; put it together (``EntryTable.chunk``, ``whole_message``) first."""


class Kind(IntEnum):
    """Kind of an entry (BAT-1, CHK-1)."""

    SINGLE = layout.KIND_SINGLE
    BATCH = layout.KIND_BATCH
    CHUNK = layout.KIND_CHUNK
    MARKER = layout.KIND_MARKER


class EntrySlice(NamedTuple):
    """One entry, and which of its messages are wanted."""

    data: Buffer
    """Bytes of the entry, from 0x0e01 or the metadata size to the end; a 0x0e02 block in front is stepped over."""
    ledger_id: int
    entry_id: int
    partition: int = -1
    first_index: int = 0
    """First batch index wanted. A single message counts as index 0."""
    stop_index: int | None = None
    """Batch index behind the last one wanted; None = all."""
    ack_set: Sequence[int] = ()
    """The broker's 64-bit words, bit 1 = deliver; none = deliver all. For batches only."""
    first_chunk: tuple[int, int] | None = None
    """Ledger and entry of the first chunk, for a message put together again; it becomes part of the message id."""


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Many entries over one buffer, as arrays with one item per entry."""

    data: ByteArray
    starts: IntArray
    ends: IntArray
    ids: IntArray
    """``[5, n]``: ledger, entry, partition, ledger and entry of the first chunk (-1: no chunks)."""
    first_indexes: IntArray
    stop_indexes: IntArray
    ack_word_offsets: IntArray
    """The ack words of entry i are ``ack_words[ack_word_offsets[i]:ack_word_offsets[i + 1]]``."""
    ack_words: IntArray

    @staticmethod
    def of(slices: Iterable[EntrySlice]) -> Entries:
        """Gathers single entries; their bytes are copied once."""
        parts = list(slices)
        if not parts:
            return Entries.over(b"", (), (), (), ())
        data, ledgers, entries, partitions, firsts, stops, ack_sets, first_chunks = zip(*parts, strict=True)
        ends = np.cumsum(np.fromiter(map(len, data), np.int64, len(parts)))
        starts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
        gathered = Entries.over(b"".join(data), starts, ends, ledgers, entries)
        gathered.ids[2] = partitions
        gathered.first_indexes[:] = firsts
        gathered.stop_indexes[:] = [_EVERY_INDEX if stop is None else stop for stop in stops]
        if any(first_chunks):
            for i, chunk in enumerate(first_chunks):
                if chunk is not None:
                    gathered.ids[3:, i] = chunk
        return gathered if not any(ack_sets) else gathered.with_ack_sets(ack_sets)

    @staticmethod
    def over(
        buffer: Buffer,
        starts: Sequence[int] | IntArray,
        ends: Sequence[int] | IntArray,
        ledger_ids: Sequence[int] | IntArray,
        entry_ids: Sequence[int] | IntArray,
        partition: int = -1,
        first_indexes: Sequence[int] | IntArray | None = None,
        stop_indexes: Sequence[int] | IntArray | None = None,
    ) -> Entries:
        """Entries ``buffer[starts[i]:ends[i]]`` of one topic partition, without copying their bytes.

        :raises ValueError: the arrays have different lengths
        """
        count = len(starts)
        ids = np.full((_IDS, count), -1, np.int64)
        if not len(ends) == len(ledger_ids) == len(entry_ids) == count:
            raise ValueError("starts, ends, ledger_ids and entry_ids need one item per entry each")
        ids[0], ids[1], ids[2] = ledger_ids, entry_ids, partition
        firsts, stops = np.zeros(count, np.int64), np.full(count, _EVERY_INDEX, np.int64)
        if first_indexes is not None:
            firsts[:] = first_indexes
        if stop_indexes is not None:
            stops[:] = stop_indexes
        return Entries(
            data=buffer if isinstance(buffer, np.ndarray) else np.frombuffer(buffer, np.uint8),
            starts=np.array(starts, np.int64),
            ends=np.array(ends, np.int64),
            ids=ids,
            first_indexes=firsts,
            stop_indexes=stops,
            ack_word_offsets=np.zeros(count + 1, np.int64),
            ack_words=np.zeros(0, np.int64),
        )

    def with_ack_sets(self, ack_sets: Sequence[Sequence[int]]) -> Entries:
        """Returns the entries with the broker's ack words, one sequence per entry (empty = deliver all)."""
        counts = np.fromiter(map(len, ack_sets), np.int64, len(ack_sets))
        if len(counts) != len(self):
            raise ValueError("ack_sets needs one item per entry")
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        words = np.array([word for words in ack_sets for word in words], np.int64)
        return replace(self, ack_word_offsets=offsets, ack_words=words)

    def over_bytes(self, data: ByteArray) -> Entries:
        """Returns the entries over a buffer that begins with this one."""
        return replace(self, data=data)

    def part(self, first: int, end: int) -> Entries:
        """Entries ``first`` to ``end`` (exclusive), without copying their bytes."""
        return Entries(
            self.data,
            self.starts[first:end],
            self.ends[first:end],
            np.ascontiguousarray(self.ids[:, first:end]),
            self.first_indexes[first:end],
            self.stop_indexes[first:end],
            self.ack_word_offsets[first : end + 1],
            self.ack_words,
        )

    def __len__(self) -> int:
        return len(self.starts)


class ChunkFields(NamedTuple):
    """The chunk fields of one entry's metadata (CHK-1)."""

    uuid: str
    chunk_id: int
    chunk_count: int


@dataclass(frozen=True, slots=True, eq=False)
class EntryTable:
    """Fields of the metadata of entries; made by ``inspect_entries``."""

    entries: Entries
    fields: IntArray
    """``[ENTRY_FIELDS, n]``, rows as in ``kernels.layout``."""

    def __len__(self) -> int:
        return len(self.entries)

    def field(self, number: int) -> IntArray:
        """One field of all entries."""
        row: IntArray = self.fields[number]
        return row

    @property
    def kinds(self) -> IntArray:
        """The ``Kind`` of each entry."""
        return self.field(layout.KIND)

    @property
    def message_counts(self) -> IntArray:
        """Messages of each entry, all of them: 0 for a marker and for a chunk that is not the last, which counts 1."""
        return self.field(layout.COUNT)

    @property
    def publish_times(self) -> IntArray:
        """Publish time of each entry in milliseconds since 1970."""
        return self.field(layout.PUBLISH_TIME)

    @property
    def has_chunks(self) -> bool:
        """Returns whether any entry must be put together with others before it can be decoded."""
        return bool((self.kinds == Kind.CHUNK).any())

    @property
    def is_encrypted(self) -> npt.NDArray[np.bool_]:
        """True for encrypted entries."""
        return np.greater(self.field(layout.ENCRYPTION_KEYS), 0)

    def chunk(self, i: int) -> ChunkFields:
        """Returns the chunk fields of entry ``i``."""
        start, length = self.fields[layout.UUID_START, i], max(0, self.fields[layout.UUID_LENGTH, i])
        uuid = self.entries.data[start : start + length].tobytes().decode(errors="replace")
        numbers = self.fields[[layout.CHUNK_ID, layout.CHUNK_COUNT], i].tolist()
        return ChunkFields(uuid, *numbers)

    def metadata(self, i: int) -> memoryview:
        """Returns the serialised MessageMetadata of entry ``i``."""
        start = self.fields[layout.METADATA_START, i]
        return self.entries.data[start : start + self.fields[layout.METADATA_LENGTH, i]].data

    def broker_metadata(self, i: int) -> bytes:
        """Returns the broker's metadata in front of entry ``i``, with its magic and size; empty without."""
        head = self.entries.data[self.entries.starts[i] : self.fields[layout.METADATA_START, i] - 4].tobytes()
        return head[: 6 + int.from_bytes(head[2:6])] if head.startswith(BROKER_METADATA_MAGIC) else b""

    def payload(self, i: int) -> memoryview:
        """Returns the payload of entry ``i`` as stored."""
        start = self.fields[layout.PAYLOAD_START, i]
        return self.entries.data[start : start + self.fields[layout.PAYLOAD_LENGTH, i]].data

    def part(self, first: int, end: int) -> EntryTable:
        """Entries ``first`` to ``end`` (exclusive)."""
        return EntryTable(self.entries.part(first, end), np.ascontiguousarray(self.fields[:, first:end]))

    def refuse(self, i: int, why: str | int) -> NoReturn:
        """Raises the typed error for entry ``i``: ``why`` is a text, or the negative code of a kernel."""
        raise_for(self.entries, i, why)


def raise_for(entries: Entries, i: int, why: str | int) -> NoReturn:
    """Raises the typed error for entry ``i``: ``why`` is a text, or the negative code of a kernel."""
    name = f"entry {entries.ids[0, i]}:{entries.ids[1, i]}"
    if isinstance(why, str):
        raise MalformedBatch(f"{name} cannot be read: {why}")
    errors: dict[int, type[Exception]] = {
        layout.ENCRYPTED: EncryptedEntry,
        layout.UNASSEMBLED_CHUNK: UnassembledChunk,
    }
    raise errors.get(why, MalformedBatch)(f"{name} cannot be read: {layout.REASONS[why]}")


def inspect_entries(entries: Entries | Iterable[EntrySlice]) -> EntryTable:
    """Reads headers and metadata of all entries, and no payload.

    :raises MalformedBatch: the metadata of an entry cannot be read, or promises more than its payload can hold
    """
    gathered = entries if isinstance(entries, Entries) else Entries.of(entries)
    fields = np.empty((layout.ENTRY_FIELDS, len(gathered)), np.int64)
    code, i = scan_entries(gathered.data, gathered.starts, gathered.ends, fields)
    table = EntryTable(gathered, fields)
    if code < 0:
        table.refuse(i, code)
    return table


def table_of(entries: Entries | EntryTable | Iterable[EntrySlice]) -> EntryTable:
    """Returns the entry table of entries in any form."""
    return entries if isinstance(entries, EntryTable) else inspect_entries(entries)


def inspect_block(block: EntryBlock) -> EntryTable:
    """Reads headers and metadata of a block's entries; only the batch indexes that the block says are wanted.

    :raises MalformedBatch: as `inspect_entries`
    """
    count = len(block)
    firsts = [block.first_batch_index] + [0] * (count - 1) if block.first_batch_index else None
    stops = [_EVERY_INDEX] * (count - 1) + [block.end_batch_index] if block.end_batch_index >= 0 else None
    ids = (block.ledger_ids, block.entry_ids, block.partition)
    return inspect_entries(Entries.over(block.buffer, block.starts, block.ends, *ids, firsts, stops))


def whole_message(
    metadata: MessageMetadata,
    payload: Buffer,
    ledger_id: int,
    entry_id: int,
    partition: int = -1,
    first_chunk: tuple[int, int] | None = None,
    broker_metadata: bytes = b"",
) -> EntrySlice:
    """Returns an entry made of a message's metadata and its payload put together from chunks (still compressed, if it
    was), behind the broker's metadata of the last chunk.

    ``ledger_id`` and ``entry_id`` are those of the last chunk. The chunk fields of ``metadata`` are ignored, so that
    the metadata of any chunk will do. The result goes among other entries in its place.
    """
    plain = type(metadata)()
    plain.CopyFrom(metadata)
    for field in ("uuid", "num_chunks_from_msg", "total_chunk_msg_size", "chunk_id"):
        plain.ClearField(field)
    head = plain.SerializePartialToString()
    body = payload.data if isinstance(payload, np.ndarray) else payload
    data = b"".join((broker_metadata, len(head).to_bytes(4, "big"), head, body))
    return EntrySlice(data, ledger_id, entry_id, partition, first_chunk=first_chunk)


# Entry tables after decryption: some payloads replaced, some entries left out, some taken as they are


def with_payloads(table: EntryTable, places: Sequence[int], payloads: Sequence[bytes]) -> EntryTable:
    """Returns the table with other payloads, not encrypted, for the entries at ``places``; they stand behind the bytes
    that are there."""
    if not places:
        return table
    entries, fields = table.entries, table.fields.copy()
    sizes = np.fromiter(map(len, payloads), np.int64, len(payloads))
    at = np.asarray(places, np.int64)
    fields[layout.PAYLOAD_START, at] = len(entries.data) + np.cumsum(sizes) - sizes
    fields[layout.PAYLOAD_LENGTH, at] = sizes
    fields[layout.ENCRYPTION_KEYS, at] *= -1
    data = np.frombuffer(b"".join((entries.data.data, *payloads)), np.uint8)
    return EntryTable(entries.over_bytes(data), fields)


def without_entries(table: EntryTable, places: Sequence[int]) -> EntryTable:
    """Returns the table in which the entries at ``places`` have no message."""
    fields = table.fields.copy()
    at = np.asarray(places, np.int64)
    fields[layout.KIND, at] = Kind.MARKER
    fields[layout.COUNT, at] = 0
    return EntryTable(table.entries, fields)


def as_stored(table: EntryTable, places: Sequence[int]) -> EntryTable:
    """Returns the table in which each entry at ``places`` is one message with the stored payload as its value."""
    fields = table.fields.copy()
    at = np.asarray(places, np.int64)
    for field, value in (
        (layout.KIND, Kind.SINGLE),
        (layout.COUNT, 1),
        (layout.COMPRESSION, 0),
    ):
        fields[field, at] = value
    fields[layout.ENCRYPTION_KEYS, at] *= -1
    return EntryTable(table.entries, fields)
