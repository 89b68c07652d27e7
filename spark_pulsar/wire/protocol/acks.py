"""ACKs of whole entries, read by hand: ranges of entries, without an object per message id.

An ACK has an id for each entry. Ids in a row differ in the low byte of the entry id alone and become ranges, up to 128
ids at a time. Ids that lie apart, as a Key_Shared consumer acknowledges them, are read by columns: they have the same
size, so byte i of all of them is a slice of the frame. Bytes that must be the same are compared at once, and the entry
ids are put together from those that differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from operator import lt
from struct import Struct, unpack
from typing import Final, NamedTuple

from spark_pulsar.model.errors import MalformedFrame
from spark_pulsar.model.positions.ids import signed
from spark_pulsar.model.positions.singles import Singles
from spark_pulsar.wire.protocol import varint
from spark_pulsar.wire.protocol.frames import command_end
from spark_pulsar.wire.protocol.varint import RAMP

_ACK_START: Final = b"\x08\x0a\x52"
"""The first bytes of an ACK command: its type, and the tag of its content."""
_NO_ENTRY_FROM: Final = 1 << 62

_SAMPLE: Final = 16
"""Steps from id to id that are read first; ids of fewer entries are not read here."""
_IN_A_ROW: Final = 12
"""Number of steps of one among these from which on ranges are the better form."""
_FEWEST_BYTES: Final = 6 * _SAMPLE
_WIDEST: Final = 6
"""Bytes of an entry id: more than any ledger has."""
_MOST_BLOCKS: Final = 8
"""Each block costs a pass over all that is left. Ids of one ledger that rise make one for each width of theirs."""
_TOP_BIT: Final = bytes(128) + b"\1" * 128
_LOW_BITS: Final = bytes(range(128)) * 2


class PlainAck(NamedTuple):
    """An ACK of whole entries: `ranges` are (ledger, first entry, end entry exclusive), neighbours merged.

    Of many entries apart from each other the ranges are `Singles`. Others come in the order of the frame, so they may
    repeat or overlap, and name entries that do not exist. Ids that no entry can have (-1, for one) are left out. A
    cumulative one has one range of one entry. `request_id` requests an ACK_RESPONSE.
    """

    consumer_id: int
    is_cumulative: bool
    ranges: Sequence[tuple[int, int, int]]
    request_id: int | None


def parse_ack_ids(buffer: bytes, start: int, end: int) -> PlainAck | None:
    """Returns the acknowledgement in the frame `buffer[start:end]`, or None when protobuf must read it.

    That is when the frame is no ACK, or one with a bitmap, a transaction, a validation error, properties, or fields
    in an order that official clients do not write; or a cumulative one that names no entry (`L:-1` says "nothing of
    this ledger yet") or several. MalformedFrame only for sizes that do not fit.
    """
    if not buffer.startswith(_ACK_START, start + 8):
        return None
    if command_end(buffer, start, end) != end:
        return None
    try:
        size, at = varint.decode(buffer, start + 11, end)
        if at + size != end or at >= end or buffer[at] != 0x08:
            return None
        consumer_id, at = varint.decode(buffer, at + 1, end)
        ranges: Sequence[tuple[int, int, int]]
        if at + 2 > end or buffer[at] != 0x10 or buffer[at + 1] > 1:
            return None
        is_cumulative = buffer[at + 1] == 1
        at += 2
        apart = None if is_cumulative else read_ack_columns(buffer, at, end)
        if apart is not None:
            ranges, at = apart
        else:
            ids: list[tuple[int, int, int]] = []
            at, ranges = _read_ids(buffer, at, end, ids), ids
        request_id = None
        if 0 <= at < end and buffer[at] == 0x40:
            request_id, at = varint.decode(buffer, at + 1, end)
    except MalformedFrame:
        return None
    if is_cumulative and [end - first for _, first, end in ranges] != [1]:
        return None
    return PlainAck(consumer_id, is_cumulative, ranges, request_id) if at == end else None


def _read_ids(buffer: bytes, at: int, end: int, ranges: list[tuple[int, int, int]]) -> int:
    """Reads the ids from `at` on into `ranges`; returns where they end, or -1 when one of them is not plain."""
    ledger_id, first, following = -1, 0, -1
    while at < end and buffer[at] == 0x1A:
        stop = at + 2 + buffer[at + 1] if at + 1 < end else end + 1
        if not at + 3 <= stop <= end or buffer[at + 1] > 127 or buffer[at + 2] != 0x08:
            return -1
        this_ledger, entry_at = varint.decode(buffer, at + 3, stop)
        if entry_at >= stop or buffer[entry_at] != 0x10:
            return -1
        entry_at += 1
        entry, rest_at = varint.decode(buffer, entry_at, stop)
        if not is_plain_rest(buffer, rest_at, stop):
            return -1
        if entry >= _NO_ENTRY_FROM:
            at = stop
            continue
        if this_ledger != ledger_id or entry != following:
            if following > first:
                ranges.append((signed(ledger_id), first, following))
            ledger_id, first = this_ledger, entry
        stride, entry_offset = stop - at, entry_at - at
        limit = min((end - at) // stride, 128)
        alike = _consecutive(buffer, at, stride, entry_offset, min(limit, 128 - (entry & 127)))
        following = entry + alike
        at += alike * stride
        if alike == 1 and limit > 2:
            lows = _alike(buffer, at, stride, entry_offset, limit - 1)
            high = entry - buffer[entry_at]
            for low in lows:
                if high + low != following:
                    ranges.append((signed(ledger_id), first, following))
                    first = following = high + low
                following += 1
            at += len(lows) * stride
    if following > first:
        ranges.append((signed(ledger_id), first, following))
    return at


def _consecutive(buffer: bytes, at: int, stride: int, entry_offset: int, limit: int) -> int:
    """Counts the ids from `at` on, 1 to `limit`, that repeat the first with its entry id counting up by one."""
    low = buffer[at + entry_offset]
    if limit == 1 or buffer[at + stride + entry_offset] != low + 1:
        return 1
    lows = buffer[at + entry_offset : at + entry_offset + (limit - 1) * stride + 1 : stride]
    alike = _common(lows, RAMP[low : low + limit])
    while alike > 1:
        block = bytearray(buffer[at : at + stride] * alike)
        block[entry_offset::stride] = RAMP[low : low + alike]
        if buffer.startswith(block, at):
            return alike
        alike //= 2
    return 1


def _common(one: bytes, other: bytes) -> int:
    """Counts the bytes that two strings of one length begin with in common."""
    if one == other:
        return len(one)
    low, high = 0, len(one)
    while high - low > 1:
        middle = (low + high) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle
    return low


def _alike(buffer: bytes, at: int, stride: int, entry_offset: int, limit: int) -> list[int]:
    """Returns the first bytes of the entry ids of those ids from `at` on that are otherwise the same as the one before
    `at`."""
    last = at - stride
    head, tail = buffer[last : last + entry_offset], buffer[last + entry_offset + 1 : at]
    continued = buffer[last + entry_offset] & 128
    lows: list[int] = []
    for this_head, low, this_tail in _id_layout(len(head), len(tail)).iter_unpack(buffer[at : at + limit * stride]):
        if this_tail != tail or this_head != head or low & 128 != continued:
            break
        lows.append(low)
    return lows


@lru_cache(maxsize=256)
def _id_layout(head_size: int, tail_size: int) -> Struct:
    """Returns an id in an ACK: up to its entry id, the first byte of that, the rest."""
    return Struct(f"{head_size}sB{tail_size}s")


class _Shape:
    """The shape that all ids of a block have: the id at `at` is read with care."""

    __slots__ = ("entry_at", "ledger_id", "size", "width")

    def __init__(self, buffer: bytes, at: int, end: int) -> None:
        """MalformedFrame when that is no plain id."""
        stop = at + 2 + buffer[at + 1] if at + 1 < end else end + 1
        if not at + 3 <= stop <= end or buffer[at + 1] > 127 or buffer[at + 2] != 0x08:
            raise MalformedFrame("no plain id")
        self.ledger_id, entry_at = varint.decode(buffer, at + 3, stop)
        if entry_at >= stop or buffer[entry_at] != 0x10:
            raise MalformedFrame("no plain id")
        _, rest_at = varint.decode(buffer, entry_at + 1, stop)
        self.size = stop - at
        self.entry_at = entry_at + 1 - at
        self.width = rest_at - entry_at - 1
        if self.width > _WIDEST or not is_plain_rest(buffer, rest_at, stop):
            raise MalformedFrame("no plain id")


def read_ack_columns(buffer: bytes, at: int, end: int) -> tuple[Singles, int] | None:
    """Returns the ids from `at` on, and where they end; None unless they are plain, many, mostly apart from each other,
    rising and of one ledger."""
    if at + _FEWEST_BYTES > end or buffer[at] != 0x1A:
        return None
    try:
        return _read(buffer, at, end)
    except MalformedFrame:
        return None


def _read(buffer: bytes, at: int, end: int) -> tuple[Singles, int] | None:
    shape = _Shape(buffer, at, end)
    low_at = at + shape.entry_at
    lows = buffer[low_at : min(end, low_at + _SAMPLE * shape.size + 1) : shape.size]
    if len(lows) <= _SAMPLE or sum(lows[i + 1] - lows[i] == 1 for i in range(_SAMPLE)) >= _IN_A_ROW:
        return None
    ledger_id = shape.ledger_id
    entry_ids: list[int] = []
    blocks = 0
    while at < end and buffer[at] == 0x1A:
        if entry_ids:
            shape = _Shape(buffer, at, end)
            if shape.ledger_id != ledger_id or blocks == _MOST_BLOCKS:
                return None
        blocks += 1
        block = _block(buffer, at, end, shape)
        entry_ids += block
        at += len(block) * shape.size
    if not all(map(lt, entry_ids, islice(entry_ids, 1, None))):
        return None
    return Singles(signed(ledger_id), entry_ids), at


def _block(buffer: bytes, at: int, end: int, shape: _Shape) -> list[int]:
    """Returns the entry ids of all ids from `at` on that have the shape of the first."""
    size, entry_at, entry_end = shape.size, shape.entry_at, shape.entry_at + shape.width
    count = (end - at) // size
    region = buffer[at : at + count * size]
    for index in range(size):
        column = region[index::size]
        if entry_at <= index < entry_end:
            column = column.translate(_TOP_BIT)
        count = min(count, len(column) - len(column.lstrip(column[:1])))
    columns = [region[index : count * size : size] for index in range(entry_at, entry_end)]
    entry_ids = list(columns[0]) if shape.width == 1 else _lowest_14(columns[0], columns[1])
    base = -sum(128 << shift for shift in range(14, 7 * (shape.width - 1), 7))
    differing: list[tuple[bytes, int]] = []
    for shift, column in enumerate(columns[2:], 2):
        if column.count(column[:1]) == count:
            base += column[0] << 7 * shift
        else:
            differing.append((column, 7 * shift))
    for column, shift in differing:
        entry_ids = [low + (high << shift) + base for low, high in zip(entry_ids, column, strict=True)]
        base = 0
    return [entry_id + base for entry_id in entry_ids] if base else entry_ids


def _lowest_14(first: bytes, second: bytes) -> list[int]:
    """Returns the lowest fourteen bits of numbers by the first two bytes of their varints: all of them as two large
    integers, whose bits are moved at once."""
    count = len(first)
    lows, highs = (int.from_bytes(column.translate(_LOW_BITS), "little") for column in (first, second))
    odd = highs & int.from_bytes(b"\1" * count, "little")
    words = bytearray(2 * count)
    words[0::2] = (lows | odd << 7).to_bytes(count, "little")
    words[1::2] = ((highs ^ odd) >> 1).to_bytes(count, "little")
    return list(unpack(f"<{count}H", words))


def is_plain_rest(buffer: bytes, at: int, end: int) -> bool:
    """Returns whether only fields without effect follow the entry id: partition, batch index and batch size."""
    while at < end:
        if buffer[at] not in (0x18, 0x20, 0x30):
            return False
        _, at = varint.decode(buffer, at + 1, end)
    return True
