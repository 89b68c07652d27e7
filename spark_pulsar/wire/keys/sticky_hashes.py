"""The sticky hashes of the keys of many entries at once (KS-2, KS-3).

Entries of one producer are alike up to their key but for sequence id and time, so the layout of the first of them fits
the next ones. Columns show whether it does: byte i of all entries is a slice of their beginnings. The bytes from the
size of the key to the end of the metadata decide the hash; it is computed once and looked up by these bytes from then
on. That table holds facts about bytes, not about any topic; it is emptied when full.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import repeat
from operator import gt
from struct import Struct
from typing import Final

from spark_pulsar.wire.keys.murmur3 import murmur3_32
from spark_pulsar.wire.keys.sticky_keys import MAX_SEQUENCE_BYTES, is_plain, sticky_key

_SIZE: Final = Struct(">I")
_MAGIC: Final = b"\x0e\x01"
_NAME_AT: Final = 12
"""Behind magic, checksum, metadata size, and the name's tag and size."""
_NAME_TAG, _SEQUENCE_TAG, _TIME_TAG, _KEY_TAG = 0x0A, 0x10, 0x18, 0x32
_TIME_BYTES: Final = 8
_TIME_THEN_KEY: Final = re.compile(rb"\x18[\x80-\xff]{5}[\x00-\x7f]\x32", re.DOTALL)
"""Publish time in six bytes, then the tag of the key."""
_MOST_LEARNT: Final = 16_384
_LONGEST_BYTES: Final = 1_024
"""Bytes of a key and the rest of the metadata that are remembered together."""
_FEWEST: Final = 4
_FIRST_BLOCK: Final = 64
_LARGEST_BLOCK: Final = 1_024
_DENSE: Final = 16
"""Ratio of an entry's length to its beginning from which on a copy does not pay."""
_GOES_ON: Final = bytes(range(0x80, 0x100))
"""The bytes after which a number goes on."""
_UNKNOWN: Final = -1


class StickyHashes:
    """Finds sticky hashes, as `sticky_hash_of` makes them of a masked Murmur hash."""

    __slots__ = ("_known", "sticky_hash_of")

    def __init__(self, sticky_hash_of: Callable[[int], int]) -> None:
        self.sticky_hash_of = sticky_hash_of
        self._known = _Known(sticky_hash_of)

    def of(self, buffer: bytes, starts: Sequence[int], ends: Sequence[int]) -> list[int]:
        """Returns the sticky hash of each entry `buffer[starts[i]:ends[i]]`."""
        sticky_hashes: list[int] = []
        count, size = len(starts), _FIRST_BLOCK
        while len(sticky_hashes) < count:
            low = len(sticky_hashes)
            high = min(count, low + size)
            if high - low < _FEWEST:  # a layout that may be new would cost more than it spares
                sticky_hashes += map(self._hash_one, repeat(buffer), starts[low:high], ends[low:high])
                break
            layout = _layout_of(buffer, starts[low], ends[low])
            hashes = self._alike(buffer, starts[low:high], ends[low:high], layout) if layout else []
            sticky_hashes += hashes
            low += len(hashes)
            is_mixed = 2 * len(hashes) < size
            if is_mixed:  # the common layout failed for most: hash the rest one by one
                sticky_hashes += map(self._hash_one, repeat(buffer), starts[low:high], ends[low:high])
            size = _FIRST_BLOCK if hashes and is_mixed else min(4 * size, _LARGEST_BLOCK)
        return sticky_hashes

    def _hash_one(self, buffer: bytes, start: int, end: int) -> int:
        return self.sticky_hash_of(murmur3_32(sticky_key(buffer, start, end)))

    def _alike(self, buffer: bytes, starts: Sequence[int], ends: Sequence[int], layout: _Layout) -> list[int]:
        """Returns the sticky hashes of the first entries, as many as have this layout."""
        size = layout.size
        if starts[-1] + size > len(buffer):
            starts = [start for start in starts if start + size <= len(buffer)]
        first, count = starts[0], len(starts)
        stride = (starts[-1] - first) // (count - 1) if count > 1 else size
        is_dense = size <= stride <= _DENSE * size
        if is_dense and starts == [*range(first, first + count * stride, stride)]:  # one size, as they arrived
            begins = buffer[first : starts[-1] + size]
        else:
            begins, stride = b"".join([buffer[start : start + size] for start in starts]), size
        alike = layout.fitting(begins, stride, count)
        stops = layout.stops(starts, begins, stride)
        if any(map(gt, stops, ends)):
            alike = min(alike, next(index for index, stop in enumerate(stops) if stop > ends[index]))
        if alike < len(starts):
            starts, stops = starts[:alike], stops[:alike]
        tails = [buffer[start + size : stop] for start, stop in zip(starts, stops, strict=True)]
        sticky_hashes = [*map(self._known.__getitem__, tails)]
        if _UNKNOWN in sticky_hashes:
            for index, sticky_hash in enumerate(sticky_hashes):
                if sticky_hash == _UNKNOWN:
                    sticky_hashes[index] = self._hash_one(buffer, starts[index], ends[index])
        return sticky_hashes


class _Layout:
    """The beginning of entries with producer names of one size and sequence ids of one size, up to the tag of their
    key."""

    __slots__ = ("_ending", "_fixed", "_going_on", "size")

    def __init__(self, name_size: int, sequence_size: int) -> None:
        sequence_at = _NAME_AT + name_size + 1
        time_at = sequence_at + sequence_size
        self.size = time_at + _TIME_BYTES
        self._fixed = (
            *enumerate(_MAGIC),
            (_NAME_AT - 2, _NAME_TAG),
            (_NAME_AT - 1, name_size),
            (sequence_at - 1, _SEQUENCE_TAG),
            (time_at, _TIME_TAG),
            (self.size - 1, _KEY_TAG),
        )
        self._going_on = [*range(sequence_at, time_at - 1), *range(time_at + 1, self.size - 2)]
        self._ending = (time_at - 1, self.size - 2)

    def fitting(self, begins: bytes, stride: int, count: int) -> int:
        """Counts the leading entries that have this layout, of `count` entries that begin `stride` bytes after one
        another."""
        if self._fits(begins, stride, count):
            return count
        low = 0
        while count - low > 1:
            middle = (low + count) // 2
            if self._fits(begins[low * stride : (middle - 1) * stride + self.size], stride, middle - low):
                low = middle
            else:
                count = middle
        return low

    def stops(self, starts: Sequence[int], begins: bytes, stride: int) -> list[int]:
        """Finds the end of the metadata of each entry."""
        if all(begins[at::stride].count(begins[at]) == len(starts) for at in range(6, 10)):
            to_end = 10 + int.from_bytes(begins[6:10], "big")
            return [start + to_end for start in starts]
        size_at = _SIZE.unpack_from
        sizes = [size_at(begins, at)[0] for at in range(6, len(starts) * stride, stride)]
        return [start + 10 + metadata_size for start, metadata_size in zip(starts, sizes, strict=True)]

    def _fits(self, begins: bytes, stride: int, count: int) -> bool:
        return (
            all(begins[at::stride].count(byte) == count for at, byte in self._fixed)
            and not any(begins[at::stride].translate(None, _GOES_ON) for at in self._going_on)
            and all(begins[at::stride].isascii() for at in self._ending)
        )


class _Known(dict[bytes, int]):
    """Size of the key, key, and the rest of the metadata → sticky hash; `_UNKNOWN` when the rest changes the key."""

    def __init__(self, sticky_hash_of: Callable[[int], int]) -> None:
        super().__init__()
        self._sticky_hash_of = sticky_hash_of

    def __missing__(self, tail: bytes) -> int:
        size = tail[0] if tail else 128
        if size > 127 or not size < len(tail) <= _LONGEST_BYTES or not is_plain(tail[1 + size :]):
            return _UNKNOWN
        if len(self) >= _MOST_LEARNT:
            self.clear()
        sticky_hash = self[tail] = self._sticky_hash_of(murmur3_32(tail[1 : 1 + size]))
        return sticky_hash


def _layout_of(buffer: bytes, start: int, end: int) -> _Layout | None:
    """Returns the layout of entries like this one; None when it is not one whose key comes right behind the time."""
    name_end = start + _NAME_AT + (buffer[start + 11] if end - start > _NAME_AT else 128)
    at = name_end + 1
    while at < end and buffer[at] > 127:
        at += 1
    at += 1
    if (
        at + _TIME_BYTES >= end
        or name_end - start - _NAME_AT > 127
        or at - name_end - 1 > MAX_SEQUENCE_BYTES
        or buffer[start + 10] != _NAME_TAG
        or buffer[name_end] != _SEQUENCE_TAG
        or _TIME_THEN_KEY.fullmatch(buffer, at, at + _TIME_BYTES) is None
    ):
        return None
    return _layout(name_end - start - _NAME_AT, at - name_end - 1)


_layout = lru_cache(maxsize=256)(_Layout)
