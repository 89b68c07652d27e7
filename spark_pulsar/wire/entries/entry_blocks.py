"""Blocks of raw entries, the results of a fetch. Cut from MESSAGE frames without an object per entry."""

from bisect import bisect_left
from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c
from google.protobuf.message import DecodeError

from spark_pulsar.model.errors import ChecksumFailed, MalformedFrame
from spark_pulsar.model.positions.ids import signed
from spark_pulsar.wire.protocol import varint
from spark_pulsar.wire.protocol.frames import Frame, parse_command
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

_CHECKSUM_MAGIC: Final = 0x0E01
_BROKER_METADATA_MAGIC: Final = 0x0E02
_HEAD: Final = Struct(">HI")
"""A magic and the checksum or size after it."""
_LONG_HEAD: Final = Struct(">HII")
"""Checksum magic, checksum and the size of the metadata."""
_SMALL_BYTES: Final = 4096
_BATCH_TAG: Final = b"\x58"
"""Tag of num_messages_in_batch: metadata without this byte cannot have the field."""


class EntryBlock:
    """Consecutive entries of one topic partition inside one buffer.

    Entry i is `buffer[starts[i]:ends[i]]`, from the broker's metadata, if it sent some, its checksum magic or its
    metadata size to its end, and has the id `(ledger_ids[i], entry_ids[i])`; ids grow. All four lists have one length.
    Checksums are verified.
    """

    __slots__ = (
        "buffer",
        "end_batch_index",
        "ends",
        "entry_ids",
        "first_batch_index",
        "ledger_ids",
        "partition",
        "starts",
    )

    def __init__(self, buffer: bytes, partition: int) -> None:
        self.buffer = buffer
        self.partition = partition
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.ledger_ids: list[int] = []
        self.entry_ids: list[int] = []
        self.first_batch_index = 0
        """First batch index of the first entry that belongs to the range."""
        self.end_batch_index = -1
        """Batch index of the last entry from which on messages do not belong to the range; -1: all do."""

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def size_bytes(self) -> int:
        """Bytes of all entries."""
        return sum(self.ends) - sum(self.starts)

    def cut_before(self, ledger_id: int, entry_id: int) -> None:
        """Drops the entries before an id."""
        self._keep(self._index_of(ledger_id, entry_id), len(self))

    def cut_from(self, ledger_id: int, entry_id: int) -> None:
        """Drops the entries from an id on."""
        self._keep(0, self._index_of(ledger_id, entry_id))

    def _index_of(self, ledger_id: int, entry_id: int) -> int:
        """Index of the first entry that is not before an id."""
        return bisect_left(
            range(len(self)), (ledger_id, entry_id), key=lambda at: (self.ledger_ids[at], self.entry_ids[at])
        )

    def _keep(self, first: int, end: int) -> None:
        if first == 0 and end == len(self):
            return
        self.starts = self.starts[first:end]
        self.ends = self.ends[first:end]
        self.ledger_ids = self.ledger_ids[first:end]
        self.entry_ids = self.entry_ids[first:end]


class _CommandShape(NamedTuple):
    """Place of the entry id in a MESSAGE frame, counted from its commandSize, and the bytes around it."""

    prefix: bytes
    suffix: bytes
    id_at: int
    suffix_at: int
    payload_at: int


_NO_SHAPE: Final = _CommandShape(b"-", b"", 0, 0, 0)
"""Fits no frame."""


def _shape_of(buffer: bytes, start: int, payload: int) -> _CommandShape:
    """Returns the shape of a MESSAGE command with its fields in the order of their numbers; else one that fits no
    frame."""
    at = start + 4
    try:
        _, position = varint.decode(buffer, at + 7, payload)  # after type and tag of the message: its length
        if buffer[at + 6] != 0x4A or buffer[position] != 0x08:
            return _NO_SHAPE
        _, position = varint.decode(buffer, position + 1, payload)  # consumer id
        if buffer[position] != 0x12:
            return _NO_SHAPE
        _, position = varint.decode(buffer, position + 1, payload)  # length of the message id
        if buffer[position] != 0x08:
            return _NO_SHAPE
        _, position = varint.decode(buffer, position + 1, payload)  # ledger id
        if buffer[position] != 0x10:
            return _NO_SHAPE
        _, end = varint.decode(buffer, position + 1, payload)
    except MalformedFrame:
        return _NO_SHAPE
    return _CommandShape(buffer[at : position + 1], buffer[end:payload], position + 1 - at, end - at, payload - at)


def block_of(runs: Sequence[Sequence[Frame]], consumer_id: int, partition: int, topic: str) -> EntryBlock:
    """Returns the entries of MESSAGE frames, in order; each run of frames lies in one buffer. Several runs are joined.

    Frames for other consumers are left out. Raises ChecksumFailed naming the entry, MalformedFrame for a frame that is
    no MESSAGE.
    """
    pieces = [run[0].buffer[run[0].start : run[-1].end] for run in runs] if len(runs) > 1 else []
    block = EntryBlock(b"".join(pieces) if pieces else runs[0][0].buffer, partition)
    offset = 0
    for run in runs:
        shift = offset - run[0].start if pieces else 0
        _add_run(block, run, shift, consumer_id, topic)
        offset += run[-1].end - run[0].start
    return block


def _add_run(block: EntryBlock, run: Sequence[Frame], shift: int, consumer_id: int, topic: str) -> None:
    """Adds the entries of frames in one buffer, which lie `shift` bytes later in the block's.

    A command is parsed once; as long as the next frame has the same bytes around its entry id, only that id is read.
    """
    buffer = run[0].buffer
    view = memoryview(buffer)
    add_start, add_end = block.starts.append, block.ends.append
    add_ledger, add_entry = block.ledger_ids.append, block.entry_ids.append
    prefix, suffix, id_at, suffix_at, payload_at = _NO_SHAPE
    ledger_id = -1
    for _, start, end in run:
        at = start + 4
        payload = at + payload_at
        if buffer[at : at + id_at] == prefix and buffer[at + suffix_at : payload] == suffix:
            entry_id = shift_bits = 0
            for byte in buffer[at + id_at : at + suffix_at]:
                entry_id |= (byte & 127) << shift_bits
                shift_bits += 7
        else:
            command, payload = parse_command(buffer, start, end)
            message = command.message
            if message.consumer_id != consumer_id:
                continue
            ledger_id, entry_id = signed(message.message_id.ledgerId), signed(message.message_id.entryId)
            prefix, suffix, id_at, suffix_at, payload_at = _shape_of(buffer, start, payload)
        entry = payload
        magic, checksum = _HEAD.unpack_from(buffer, payload) if end - payload >= _HEAD.size else (0, 0)
        if magic == _BROKER_METADATA_MAGIC:
            payload += _HEAD.size + checksum
            magic, checksum = _HEAD.unpack_from(buffer, payload) if end - payload >= _HEAD.size else (0, 0)
        if magic == _CHECKSUM_MAGIC and checksum != (
            # A small part is copied faster than a view of it is made.
            crc32c(buffer[payload + 6 : end] if end - payload < _SMALL_BYTES else view[payload + 6 : end])
        ):
            raise ChecksumFailed(f"{topic}: the checksum of entry {ledger_id}:{entry_id} does not match its bytes")
        add_start(entry + shift)
        add_end(end + shift)
        add_ledger(ledger_id)
        add_entry(entry_id)


def permits_of(block: EntryBlock) -> int:
    """Counts the permits that the broker charged for the entries of a block: the messages of each, by its metadata."""
    buffer = block.buffer
    head_of, find, head_size = _LONG_HEAD.unpack_from, buffer.find, _LONG_HEAD.size
    total = len(block)
    for start, end in zip(block.starts, block.ends, strict=True):
        first = start + head_size
        if first <= end:
            magic, checksum, size = head_of(buffer, start)
            if magic == _BROKER_METADATA_MAGIC:
                start += _HEAD.size + checksum  # which is a size there
            # Most entries of a topic without batches end here: nothing was cut out of them.
            elif magic == _CHECKSUM_MAGIC and find(_BATCH_TAG, first, first + size) < 0:
                continue
        metadata = _metadata(buffer, start, end)
        if _BATCH_TAG in metadata:
            total += message_count(metadata) - 1
    return total


def head_of(buffer: bytes, start: int, end: int) -> tuple[int, int | None]:
    """Returns where an entry begins behind the broker's metadata, if there are any, and the checksum there, None if the
    entry has none."""
    magic, value = _HEAD.unpack_from(buffer, start) if end - start >= _HEAD.size else (0, 0)
    if magic == _BROKER_METADATA_MAGIC:
        start += _HEAD.size + value
        magic, value = _HEAD.unpack_from(buffer, start) if end - start >= _HEAD.size else (0, 0)
    return start, value if magic == _CHECKSUM_MAGIC else None


def _metadata(buffer: bytes, start: int, end: int) -> bytes:
    """Returns the serialized metadata of an entry, as far as there are any."""
    magic, _, size = _LONG_HEAD.unpack_from(buffer, start) if end - start >= _LONG_HEAD.size else (0, 0, 0)
    if magic == _CHECKSUM_MAGIC:
        return buffer[start + _LONG_HEAD.size : min(start + _LONG_HEAD.size + size, end)]
    return buffer[start + 4 : min(start + 4 + int.from_bytes(buffer[start : start + 4], "big"), end)]


def message_count(metadata: bytes) -> int:
    """Returns the messages of an entry by its serialized metadata; 1 when it is no batch or cannot be read."""
    try:
        return max(1, MessageMetadata.FromString(metadata).num_messages_in_batch)
    except DecodeError:
        return 1


def message_count_of(block: EntryBlock, index: int) -> int:
    """Returns the messages of one entry of a block, by its metadata."""
    return message_count(_metadata(block.buffer, block.starts[index], block.ends[index]))
