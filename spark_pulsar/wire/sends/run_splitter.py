"""The broker's way in: a received buffer becomes runs of SENDs; see `receipts` for the way back.

Nearly everything a broker receives is SENDs that differ from their predecessor in the sequence id alone. `RunSplitter`
cuts frames as `frames.FrameSplitter` does, and gathers consecutive SENDs of one producer into a `SendRun`: one object
with parallel lists, whose entries stay in the received buffer. The first SEND of a run is parsed by hand; after it a
`Struct` made to its measure reads the next frames, as long as their command has the same bytes but for the low seven
bits of the sequence id. Per entry that leaves one unpack, a few comparisons, and the checksum.

A SEND that is not plain is visible: one with a wrong or absent checksum, in a transaction, a marker, a chunk, or with
metadata that do not fit comes in a run of its own kind with `flags` that say so. SENDs that no official client would
write (fields out of order, say) are read by protobuf to the same result.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final, TypeGuard

from crc32c import crc32c

from spark_pulsar.model import array_library
from spark_pulsar.model.errors import MalformedFrame
from spark_pulsar.model.limits import MAX_FRAME_SIZE_BYTES, MIN_TOTAL_SIZE_BYTES
from spark_pulsar.model.positions.ids import TransactionId
from spark_pulsar.wire.protocol import varint
from spark_pulsar.wire.protocol.frames import HEADER, Frame, FrameSplitter, parse_command
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from spark_pulsar.wire.sends.send_runs import (
    CHECKSUM_ABSENT,
    CHECKSUM_WRONG,
    CHUNK,
    IN_RUNS,
    LEAST,
    MARKER,
    METADATA_MALFORMED,
    PLAIN,
    SHADOW,
    STREAK,
    TRANSACTION,
    ColumnarSends,
    SendRun,
)

from .plain_send import (
    CHECKED_AT,
    ENTRY_HEAD,
    ENTRY_HEAD_BYTES,
    HIGHEST_SEQUENCE_ID,
    MAGIC,
    MAGIC_BYTES,
    MESSAGES,
    MOST_MESSAGES,
    PRODUCER_ID,
    SEQUENCE_ID,
    SIZE_AT,
    START,
    START_AT,
    TRANSACTION_LEAST,
    TRANSACTION_MOST,
)

_FIRST_COLUMNAR_SENDS: Final = 64
_GROWTH: Final = 4
_LONGEST_PAUSE: Final = 64
_SIZE: Final = Struct(">I")

Item = Frame | SendRun | ColumnarSends
"""Items of a stream of frames."""


class RunSplitter(FrameSplitter):
    """A FrameSplitter that returns SENDs in bulk. Other frames come as they are, in the order of arrival."""

    __slots__ = ("_most_columnar", "_pause", "expects_columnar_sends", "least_columnar_sends")

    def __init__(self, max_frame_size_bytes: int = MAX_FRAME_SIZE_BYTES) -> None:
        super().__init__(max_frame_size_bytes)
        self.least_columnar_sends = LEAST
        """The fewest SENDs that are read by column."""
        self._most_columnar = _FIRST_COLUMNAR_SENDS
        """SENDs that are read for the next columns: not many more than the last ones had."""
        self._pause = 1
        """Factor of the stretch without a search for columns after a search in vain."""
        self.expects_columnar_sends = False
        """True when the last SENDs were columnar, so that the next ones probably are."""

    def feed_sends(self, data: bytes) -> list[Item]:
        """Returns the runs, columnar SENDs and other frames completed by `data`; fails as `feed` does."""
        buffer = self._gather(data)
        items: list[Item] = []
        if buffer is None:
            return items
        max_total = self._max_total
        position, size = 0, len(buffer)
        header = HEADER.unpack_from
        columnar_sends_from = 0
        while size - position >= 8:
            total, command_size = header(buffer, position)
            end = position + 4 + total
            if end > size or not MIN_TOTAL_SIZE_BYTES <= total <= max_total:
                break
            if buffer.startswith(START, position + START_AT):
                if (
                    (self.expects_columnar_sends or _alternates(items))
                    and position >= columnar_sends_from
                    and size - position >= self.least_columnar_sends * (4 + total)
                ):
                    columnar_sends = _read_columnar_sends(
                        buffer, position, max_total, self.least_columnar_sends, self._most_columnar
                    )
                    self.expects_columnar_sends = columnar_sends is not None
                    if columnar_sends is not None:
                        self._most_columnar, self._pause = max(_FIRST_COLUMNAR_SENDS, _GROWTH * len(columnar_sends)), 1
                        items.append(columnar_sends)
                        position = columnar_sends.ends[-1]
                        continue
                    columnar_sends_from = position + self._pause * self.least_columnar_sends * (4 + total)
                    self._most_columnar, self._pause = _FIRST_COLUMNAR_SENDS, min(_LONGEST_PAUSE, 2 * self._pause)
                try:
                    position = _add_send(items, buffer, position, end, command_size, max_total)
                except MalformedFrame as error:
                    self.failure = MalformedFrame(error.message)
                    break
            else:
                items.append(Frame(buffer, position, end))
                position = end
        self._keep(buffer, position)
        if self.failure is not None and not items:
            raise self.fresh_failure()
        return items


def send_run(command: BaseCommand, buffer: bytes, payload_start: int, end: int) -> SendRun:
    """Returns the run of one SEND that was read by `frames.parse_command`, for a SEND that RunSplitter left as a
    frame."""
    if payload_start == end:
        raise MalformedFrame("a SEND without an entry")
    send = command.send
    run = SendRun(send.producer_id, buffer, send.sequence_id, max(1, send.num_messages), payload_start, end)
    flags = _flaws(buffer, payload_start, end)
    if send.is_chunk:
        flags |= CHUNK
    if send.marker:
        flags |= MARKER
    if send.HasField("message_id"):
        flags |= SHADOW
    if send.HasField("txnid_least_bits") and send.HasField("txnid_most_bits"):
        flags |= TRANSACTION
        run.transaction = TransactionId(send.txnid_most_bits, send.txnid_least_bits)
    if send.HasField("highest_sequence_id"):
        run.highest_sequence_ids = [send.highest_sequence_id]
    run.flags = flags
    return run


def _add_send(items: list[Item], buffer: bytes, position: int, end: int, command_size: int, max_total: int) -> int:
    """Appends the SEND at `position` as an item, or lengthens the last item with it; returns where the SEND ends."""
    payload_start = position + 8 + command_size
    if payload_start + ENTRY_HEAD_BYTES > end:
        return _add_odd(items, buffer, position, end)
    send = _read_plain(buffer, position + SIZE_AT, payload_start)
    magic, checksum, metadata_size = ENTRY_HEAD.unpack_from(buffer, payload_start)
    if (
        send is None
        or magic != MAGIC
        or metadata_size > end - payload_start - ENTRY_HEAD_BYTES
        or crc32c(buffer[payload_start + CHECKED_AT : end]) != checksum
    ):
        return _add_odd(items, buffer, position, end)
    producer_id, sequence_id, message_count, highest, sequence_at, transaction = send
    flags = PLAIN if transaction is None else TRANSACTION
    last = items[-1] if items else None
    if (
        type(last) is SendRun
        and last.producer_id == producer_id
        and last.flags == flags
        and last.transaction == transaction
        and (last.highest_sequence_ids is None) == (highest is None)
    ):
        run = last
        run.sequence_ids.append(sequence_id)
        run.message_counts.append(message_count)
        run.starts.append(payload_start)
        run.ends.append(end)
        if run.highest_sequence_ids is not None and highest is not None:
            run.highest_sequence_ids.append(highest)
    else:
        run = SendRun(producer_id, buffer, sequence_id, message_count, payload_start, end)
        run.flags, run.transaction = flags, transaction
        if highest is not None:
            run.highest_sequence_ids = [highest]
        items.append(run)
    head = buffer[position + 4 : sequence_at]
    if highest is None and sequence_id > 127 and buffer.startswith(head, end + 4):
        return _follow(run, buffer, position, payload_start, head, sequence_at, max_total)
    return end


def _alternates(items: list[Item]) -> bool:
    """Returns whether the SENDs that came last are of different producers."""
    if len(items) < 2:
        return False
    before, last = items[-2:]
    return _is_short(last) and (
        type(before) is ColumnarSends or (_is_short(before) and before.producer_id != last.producer_id)
    )


def _is_short(item: Item) -> TypeGuard[SendRun]:
    return type(item) is SendRun and not item.flags and item.highest_sequence_ids is None and len(item) < STREAK


def _read_columnar_sends(buffer: bytes, position: int, max_total: int, least: int, most: int) -> ColumnarSends | None:
    if not array_library.HAS_NUMPY:
        return None
    from .columnar_reading import read_columnar_sends  # for connections that publish to many topics in turn

    return read_columnar_sends(buffer, position, max_total, least, most)


def _add_odd(items: list[Item], buffer: bytes, position: int, end: int) -> int:
    """Appends a SEND that is not plain, read by protobuf, or joins it to the last run when that is of its kind."""
    command, payload_start = parse_command(buffer, position, end)
    run = send_run(command, buffer, payload_start, end)
    last = items[-1] if items else None
    if (
        type(last) is SendRun
        and run.flags == last.flags
        and run.flags in IN_RUNS
        and run.transaction == last.transaction
        and last.producer_id == run.producer_id
        and last.highest_sequence_ids is None
        and run.highest_sequence_ids is None
    ):
        last.sequence_ids += run.sequence_ids
        last.message_counts += run.message_counts
        last.starts += run.starts
        last.ends += run.ends
    else:
        items.append(run)
    return end


def _follow(
    run: SendRun, buffer: bytes, position: int, payload_start: int, head: bytes, sequence_at: int, max_total: int
) -> int:
    """Adds to `run` the whole, plain SENDs after the one at `position` that differ in the low sequence bits only.

    `head` is that SEND from commandSize up to its sequence id, at `sequence_at`. Stops in front of the first frame
    that is not one of these, whatever it is, and returns where that is.
    """
    (total,) = _SIZE.unpack_from(buffer, position)
    tail = buffer[sequence_at + 1 : payload_start]
    layout = _layout(len(head), len(tail))
    unpack, layout_size = layout.unpack_from, layout.size
    entry_offset = payload_start - position
    checked_offset = entry_offset + CHECKED_AT
    # What a frame holds beside its metadata and payload, as totalSize counts it; sizes up to here are read safely.
    fixed = checked_offset
    sequence_ids, starts, ends = run.sequence_ids, run.starts, run.ends
    high = sequence_ids[-1] - buffer[sequence_at]
    add_sequence_id, add_start, add_end = sequence_ids.append, starts.append, ends.append
    before = len(ends)
    position += 4 + total
    last = len(buffer) - layout_size
    size = len(buffer)
    while position <= last:
        total, this_head, low, this_tail, magic, checksum, metadata_size = unpack(buffer, position)
        end = position + 4 + total
        if (
            this_tail != tail
            or this_head != head
            or low < 128
            or magic != MAGIC
            or end > size
            or not metadata_size + fixed <= total <= max_total
        ):
            break
        if crc32c(buffer[position + checked_offset : end]) != checksum:
            break
        add_sequence_id(high + low)
        add_start(position + entry_offset)
        add_end(end)
        position = end
    added = len(ends) - before
    if added:
        run.message_counts.extend(run.message_counts[-1:] * added)
    return position


@lru_cache(maxsize=256)
def _layout(head_size: int, tail_size: int) -> Struct:
    """totalSize, command up to the sequence id, its first byte, rest of the command, magic, checksum, metadataSize."""
    return Struct(f">I{head_size}sB{tail_size}sHII")


def _read_plain(buffer: bytes, at: int, end: int) -> tuple[int, int, int, int | None, int, TransactionId | None] | None:
    """Returns a CommandSend with nothing rare in it and its fields in order, None for others. `at` is its length byte.

    Returns (producer id, sequence id, message count, highest sequence id, index of the sequence id, transaction).
    Numbers of one and two bytes are read in place.
    """
    if end - at < 5 or buffer[at] != end - at - 1 or buffer[at + 1] != PRODUCER_ID:
        return None
    producer_id = buffer[at + 2]
    at += 3
    if producer_id > 127:
        if buffer[at] < 128:
            producer_id += (buffer[at] << 7) - 128
            at += 1
        else:
            producer_id, at = varint.decode(buffer, at - 1, end)
    if at + 1 >= end or buffer[at] != SEQUENCE_ID:
        return None
    sequence_at = at + 1
    sequence_id = buffer[sequence_at]
    at += 2
    if sequence_id > 127:
        if at < end and buffer[at] < 128:
            sequence_id += (buffer[at] << 7) - 128
            at += 1
        else:
            sequence_id, at = varint.decode(buffer, sequence_at, end)
    message_count = 1
    highest = transaction = None
    if at != end:
        if at + 1 < end and buffer[at] == MESSAGES:
            message_count = buffer[at + 1]
            at += 2
            if message_count > 127:
                message_count, at = varint.decode(buffer, at - 1, end)
        if at + 1 < end and buffer[at] == TRANSACTION_LEAST:
            least, at = varint.decode(buffer, at + 1, end)
            if at + 1 >= end or buffer[at] != TRANSACTION_MOST:
                return None
            most, at = varint.decode(buffer, at + 1, end)
            transaction = TransactionId(most, least)
        if at + 1 < end and buffer[at] == HIGHEST_SEQUENCE_ID:
            highest, at = varint.decode(buffer, at + 1, end)
        if at != end or message_count > MOST_MESSAGES:
            return None
    return producer_id, sequence_id, message_count or 1, highest, sequence_at, transaction


def _flaws(buffer: bytes, start: int, end: int) -> int:
    """Returns the flaws of the entry in `buffer[start:end]`, as flags."""
    if buffer.startswith(MAGIC_BYTES, start):
        if end - start < ENTRY_HEAD_BYTES:
            return METADATA_MALFORMED
        (checksum,) = _SIZE.unpack_from(buffer, start + 2)
        start += CHECKED_AT
        if crc32c(buffer[start:end]) != checksum:
            return CHECKSUM_WRONG
        flags = PLAIN
    else:
        if end - start < 4:
            return CHECKSUM_ABSENT | METADATA_MALFORMED
        flags = CHECKSUM_ABSENT
    (metadata_size,) = _SIZE.unpack_from(buffer, start)
    return flags | METADATA_MALFORMED if metadata_size > end - start - 4 else flags
