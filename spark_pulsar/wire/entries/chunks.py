"""Large messages in chunks: puts them together, counts chunks among entries, and cuts them (CHK-1 ... CHK-8).

Each chunk is an entry of its own. All chunks of a message carry the same uuid and sequence id; those of several
messages may come interleaved, those of one come in order. Positions are of whatever type the caller keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

from spark_pulsar.model.errors import CorruptMessage, NotAllowed
from spark_pulsar.model.limits import (
    MAX_CHUNKED_MESSAGE_SIZE_BYTES,
    MAX_CHUNKS_PER_MESSAGE,
    MAX_MESSAGE_SIZE_BYTES,
    MAX_PENDING_CHUNKED_BYTES,
    MAX_PENDING_CHUNKED_MESSAGES,
)
from spark_pulsar.wire.entries.delivery_times import metadata_end
from spark_pulsar.wire.entries.entry_bytes import metadata_of
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

P = TypeVar("P")

_TAG: Final = b"\xe8\x01"
"""Tag of `chunk_id`, field 29 of MessageMetadata."""


class Loss(Enum):
    """Reason why chunks were discarded."""

    ORPHAN = "its first chunk never came"
    REPEATED = "it came before"
    CORRUPT = "a chunk is missing or contradicts the others"
    TOO_LARGE = "it exceeds a limit"
    CROWDED_OUT = "too many unfinished messages"


class Lost(NamedTuple, Generic[P]):
    """Chunks that will never be part of a message; the caller acks them or has them redelivered."""

    uuid: str
    positions: list[P]
    reason: Loss


class Assembled(NamedTuple, Generic[P]):
    """A whole message: the metadata of its last chunk, the joined payload (still compressed), where its chunks were."""

    metadata: MessageMetadata
    payload: bytes
    positions: list[P]


@dataclass(slots=True)
class _Unfinished(Generic[P]):
    chunk_count: int
    total_bytes: int
    size_bytes: int = 0
    pieces: list[bytes] = field(default_factory=list)
    positions: list[P] = field(default_factory=list)


class ChunkAssembler(Generic[P]):
    """Collects chunks of interleaved messages until they are whole, within bounds of count and bytes."""

    def __init__(
        self,
        max_messages: int = MAX_PENDING_CHUNKED_MESSAGES,
        max_pending_bytes: int = MAX_PENDING_CHUNKED_BYTES,
        max_message_size_bytes: int = MAX_CHUNKED_MESSAGE_SIZE_BYTES,
    ) -> None:
        self._max_messages = max_messages
        self._max_pending_bytes = max_pending_bytes
        self._max_message_size_bytes = max_message_size_bytes
        self._unfinished: dict[str, _Unfinished[P]] = {}
        self._lost: list[Lost[P]] = []
        self.pending_bytes = 0

    def __len__(self) -> int:
        return len(self._unfinished)

    def add(self, metadata: MessageMetadata, payload: bytes | memoryview, position: P) -> Assembled[P] | None:
        """Takes one chunk, decrypted; returns the message when this was the last. `pop_lost` returns the chunks that it
        cost.

        A first chunk that comes again starts its message anew. A later one that comes again is dropped, a missing one
        ends its message (CHK-5).
        """
        uuid, chunk_id = metadata.uuid, metadata.chunk_id
        count, total = metadata.num_chunks_from_msg, metadata.total_chunk_msg_size
        if chunk_id == 0:
            self._drop(uuid, Loss.REPEATED)
            if not 1 <= count <= MAX_CHUNKS_PER_MESSAGE or not 0 <= total <= self._max_message_size_bytes:
                self._refuse(uuid, position, Loss.TOO_LARGE)
                return None
            self._unfinished[uuid] = _Unfinished(count, total)
        message = self._unfinished.get(uuid)
        if message is None:
            self._refuse(uuid, position, Loss.ORPHAN)
            return None
        if 0 <= chunk_id < len(message.pieces):
            self._refuse(uuid, position, Loss.REPEATED)
            return None
        message.pieces.append(bytes(payload))
        message.positions.append(position)
        message.size_bytes += len(payload)
        self.pending_bytes += len(payload)
        is_complete = len(message.pieces) == message.chunk_count
        if (
            chunk_id != len(message.pieces) - 1
            or (count, total) != (message.chunk_count, message.total_bytes)
            or message.size_bytes > total
            or (is_complete and message.size_bytes != total)
        ):
            self._drop(uuid, Loss.CORRUPT)
            return None
        if is_complete:
            self._remove(uuid)
            return Assembled(metadata, b"".join(message.pieces), message.positions)
        while len(self._unfinished) > self._max_messages or self.pending_bytes > self._max_pending_bytes:
            self._drop(next(iter(self._unfinished)), Loss.CROWDED_OUT)
        return None

    def pop_lost(self) -> list[Lost[P]]:
        """Returns the chunks discarded since the last call."""
        lost, self._lost = self._lost, []
        return lost

    def _refuse(self, uuid: str, position: P, reason: Loss) -> None:
        self._lost.append(Lost(uuid, [position], reason))

    def _drop(self, uuid: str, reason: Loss) -> None:
        message = self._remove(uuid)
        if message is not None:
            self._lost.append(Lost(uuid, message.positions, reason))

    def _remove(self, uuid: str) -> _Unfinished[P] | None:
        message = self._unfinished.pop(uuid, None)
        if message is not None:
            self.pending_bytes -= message.size_bytes
        return message


def chunks_among(buffer: bytes, starts: Sequence[int], ends: Sequence[int], indexes: Iterable[int]) -> int:
    """Counts the chunks among the entries `buffer[starts[i]:ends[i]]`. Metadata that cannot be read count as none.

    Entries without the tag of a chunk id are not parsed (CHK-1).
    """
    return sum(
        buffer.find(_TAG, starts[index], metadata_end(buffer, starts[index], ends[index])) >= 0
        and _is_chunk(buffer, starts[index], ends[index])
        for index in indexes
    )


def _is_chunk(buffer: bytes, start: int, end: int) -> bool:
    try:
        return metadata_of(buffer, start, end).num_chunks_from_msg > 1
    except CorruptMessage:
        return False


def split(
    metadata: MessageMetadata, payload: bytes | memoryview, max_message_size_bytes: int = MAX_MESSAGE_SIZE_BYTES
) -> Iterator[tuple[MessageMetadata, memoryview]]:
    """Yields the entries of one message, as (metadata, payload): itself when it fits, else its chunks in the order to
    send (SINK-7).

    `payload` is compressed already and `metadata` says so. Official clients measure the metadata *before* the chunk
    fields are in, so an entry may exceed the limit by those few bytes, which brokers allow for. NotAllowed when the
    metadata alone fill an entry, or the message would need too many chunks.
    """
    room = max_message_size_bytes - metadata.ByteSize()
    view = memoryview(payload)
    total = len(view)
    if total <= room:
        yield metadata, view
        return
    if room <= 0:
        raise NotAllowed(f"the metadata of a message take {metadata.ByteSize()} of {max_message_size_bytes} bytes")
    count = -(-total // room)
    if count > MAX_CHUNKS_PER_MESSAGE or total > MAX_CHUNKED_MESSAGE_SIZE_BYTES:
        raise NotAllowed(f"a message of {total} bytes is too large even in chunks")
    for chunk_id in range(count):
        chunk = MessageMetadata()
        chunk.CopyFrom(metadata)
        chunk.uuid = f"{metadata.producer_name}-{metadata.sequence_id}"
        chunk.num_chunks_from_msg = count
        chunk.total_chunk_msg_size = total
        chunk.chunk_id = chunk_id
        yield chunk, view[chunk_id * room : (chunk_id + 1) * room]
