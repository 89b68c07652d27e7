"""SENDs of many producers in turn, as a connection brings them that publishes to many topics at once.

A run per producer would be an object per entry then. A sweep is columnar instead: one object for a stretch of SENDs,
the producer a column like the others.

Reading is learnt: what stands before the first byte of a sequence id (the head) tells the producer, what stands behind
it (the tail) the higher bits and the message count. Both are looked up in tables that hold what a careful parse of the
same bytes has found before, so a known pair costs two lookups. The tables are facts about bytes, not state of a
connection, hence shared; they are emptied when full.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Final

from google_crc32c import value as checksum_of

from spark_pulsar.wire.frames import HEADER

if TYPE_CHECKING:
    from spark_pulsar.wire.send_runs import SendRun

STREAK: Final = 16
"""So many SENDs of one producer in a row are better off in a run of their own."""

_MAGIC: Final = 0x0E01
_MOST_LEARNT: Final = 16_384

_producer_of_head: dict[bytes, int] = {}
_count_of_tail: dict[bytes, int] = {}
_rest_of_tail: dict[bytes, tuple[int, int]] = {}
_layout_of_shape: dict[tuple[int, int], tuple[Struct, int]] = {}


class SendSweep:
    """Consecutive plain SENDs of several producers in one buffer; index i of every list is the i-th of them.

    The lists mean what they mean in a SendRun; there are no highest sequence ids and no flaws in a sweep. Neighbours
    may be of one producer.
    """

    __slots__ = ("buffer", "ends", "message_counts", "producer_ids", "sequence_ids", "starts")

    def __init__(self, run: SendRun) -> None:
        """A sweep that begins with the entries of a plain run, whose lists it takes over."""
        self.buffer = run.buffer
        self.producer_ids = [run.producer_id] * len(run)
        self.sequence_ids = run.sequence_ids
        self.message_counts = run.message_counts
        self.starts = run.starts
        self.ends = run.ends

    def __len__(self) -> int:
        return len(self.ends)

    def __repr__(self) -> str:
        return f"SendSweep(entries={len(self)})"

    def add(self, producer_id: int, sequence_id: int, message_count: int, start: int, end: int) -> None:
        """Append one SEND."""
        self.producer_ids.append(producer_id)
        self.sequence_ids.append(sequence_id)
        self.message_counts.append(message_count)
        self.starts.append(start)
        self.ends.append(end)

    def takes(self, producer_id: int) -> bool:
        """Whether a SEND of this producer still belongs here, or a streak of its own has begun."""
        return self.producer_ids[-1] != producer_id or self.producer_ids[-STREAK:] != [producer_id] * STREAK

    def follow(self, position: int, max_total: int) -> int:
        """Add the whole, plain SENDs from `position` on whose head and tail are known, until a streak begins.

        Stops in front of the first frame that is not one of these, and returns where that is.
        """
        buffer = self.buffer
        size = len(buffer)
        learnt = _layout_at(buffer, position, size)
        if learnt is None:
            return position
        layout, entry_offset = learnt
        unpack, last = layout.unpack_from, size - layout.size
        producer_of, rest_of, count_of = _producer_of_head.get, _rest_of_tail.get, _count_of_tail.get
        add_producer, add_sequence = self.producer_ids.append, self.sequence_ids.append
        add_count, add_start, add_end = self.message_counts.append, self.starts.append, self.ends.append
        previous, streak = self.producer_ids[-1], 1
        while position <= last:
            total, head, low, tail, magic, checksum, metadata_size = unpack(buffer, position)
            producer_id = producer_of(head)
            if producer_id is None:
                other = _layout_at(buffer, position, size)
                if other is None or other[0] is layout:
                    break
                layout, entry_offset = other
                unpack, last = layout.unpack_from, size - layout.size
                continue
            if low > 127:
                rest = rest_of(tail)
                if rest is None:
                    break
                high, count = rest
                low += high
            else:
                count = count_of(tail, 0)
                if not count:
                    break
            end = position + 4 + total
            if (
                magic != _MAGIC
                or end > size
                or not metadata_size + entry_offset + 6 <= total <= max_total
                or checksum_of(buffer[position + entry_offset + 6 : end]) != checksum
            ):
                break
            add_producer(producer_id)
            add_sequence(low)
            add_count(count)
            add_start(position + entry_offset)
            add_end(end)
            position = end
            if producer_id != previous:
                previous, streak = producer_id, 1
                continue
            streak += 1
            if streak >= STREAK:
                break
        return position


def learn(buffer: bytes, position: int, sequence_at: int, payload_start: int, send: tuple[int, int, int]) -> None:
    """Remember what the SEND at `position` means: (producer id, sequence id, message count), in usual field order."""
    producer_id, sequence_id, message_count = send
    low = buffer[sequence_at]
    tail = buffer[sequence_at + 1 : payload_start]
    for table in (_producer_of_head, _rest_of_tail, _count_of_tail, _layout_of_shape):
        if len(table) >= _MOST_LEARNT:
            table.clear()
    _producer_of_head[buffer[position + 4 : sequence_at]] = producer_id
    if low > 127:
        _rest_of_tail[tail] = sequence_id - low, message_count
    else:
        _count_of_tail[tail] = message_count
    shape = (payload_start - position - 8, sequence_at - position)
    _layout_of_shape[shape] = _layout(sequence_at - position - 4, len(tail)), payload_start - position


def _layout_at(buffer: bytes, position: int, size: int) -> tuple[Struct, int] | None:
    """(how to read the SEND at `position`, offset of its entry), None for a shape not seen yet."""
    if size - position < 16:
        return None
    _, command_size = HEADER.unpack_from(buffer, position)
    # The producer id begins at offset 13; its last byte is the first one below 128, then comes a tag.
    sequence_offset = 15
    while buffer[position + sequence_offset - 2] > 127:
        sequence_offset += 1
        if position + sequence_offset >= size:
            return None
    return _layout_of_shape.get((command_size, sequence_offset))


@lru_cache(maxsize=256)
def _layout(head_size: int, tail_size: int) -> Struct:
    """totalSize, command up to the sequence id, its first byte, rest of the command, magic, checksum, metadataSize."""
    return Struct(f">I{head_size}sB{tail_size}sHII")
