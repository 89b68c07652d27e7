"""The ids in an ACK of entries that lie about, as a Key_Shared consumer sends it: read by columns.

Ids that differ in their entry ids alone have the same size, so byte i of all of them is a slice of the frame. Bytes
that must be the same are compared at once, and the entry ids are put together from those that differ.
"""

from __future__ import annotations

from itertools import islice
from operator import lt
from struct import unpack
from typing import Final

from spark_pulsar.model.errors import MalformedFrame
from spark_pulsar.model.ids import signed
from spark_pulsar.model.singles import Singles
from spark_pulsar.wire import varint

_SAMPLE: Final = 16
"""Steps from id to id that are looked at first; ids of fewer entries are not read here."""
_IN_A_ROW: Final = 12
"""With so many steps of one among these, ranges are the better form."""
_FEWEST_BYTES: Final = 6 * _SAMPLE
_WIDEST: Final = 6
"""Bytes of an entry id: more than any ledger has."""
_MOST_BLOCKS: Final = 8
"""Each block costs a look at all that is left. Ids of one ledger that rise make one for each width of theirs."""
_TOP_BIT: Final = bytes(128) + b"\1" * 128
_LOW_BITS: Final = bytes(range(128)) * 2


class _Shape:
    """What all ids of a block have in common: the one at `at` is read with care."""

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
    """The ids from `at` on, and where they end; None unless they are plain, many, mostly apart from each other, rising
    and of one ledger."""
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
    """The entry ids of all ids from `at` on that have the shape of the first."""
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
    """The lowest fourteen bits of numbers by the first two bytes of their varints: all of them as two large integers,
    whose bits are moved at once."""
    count = len(first)
    lows, highs = (int.from_bytes(column.translate(_LOW_BITS), "little") for column in (first, second))
    odd = highs & int.from_bytes(b"\1" * count, "little")
    words = bytearray(2 * count)
    words[0::2] = (lows | odd << 7).to_bytes(count, "little")
    words[1::2] = ((highs ^ odd) >> 1).to_bytes(count, "little")
    return list(unpack(f"<{count}H", words))


def is_plain_rest(buffer: bytes, at: int, end: int) -> bool:
    """Whether the fields after the entry id are only partition, batch index and batch size, which do not matter."""
    while at < end:
        if buffer[at] not in (0x18, 0x20, 0x30):
            return False
        _, at = varint.decode(buffer, at + 1, end)
    return True
