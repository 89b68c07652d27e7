"""The slots of the sticky keys of many entries at once (KS-2, KS-3).

Entries of one producer are alike up to their key but for sequence id and time, so a `Struct` made from the first of
them fits the next ones. What stands from the size of the key to the end of the metadata says all that is left to know;
whose slot it is was found out with care once, and is looked up from then on. That table holds facts about bytes, not
about any topic; it is emptied when full.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import repeat
from operator import gt
from struct import Struct
from typing import Final

from spark_pulsar.wire.hashes import murmur3_32
from spark_pulsar.wire.sticky_keys import MAX_SEQUENCE_BYTES, is_plain, sticky_key

_MAGIC: Final = b"\x0e\x01"
_NAME_AT: Final = 12
"""Behind magic, checksum, metadata size, and the name's tag and size."""
_TIME_BYTES: Final = 8
_TIME_THEN_KEY: Final = re.compile(rb"\x18[\x80-\xff]{5}[\x00-\x7f]\x32", re.DOTALL)
"""Publish time in six bytes, then the tag of the key."""
_MOST_LEARNT: Final = 16_384
_LONGEST_BYTES: Final = 1_024
"""Of a key and the rest of the metadata that are remembered together."""
_FIRST_BLOCK: Final = 64
_LARGEST_BLOCK: Final = 1_024
_HIGH_BITS: Final = bytes(byte & 0x80 for byte in range(256))
"""What remains of each byte: whether a number goes on after it."""
_UNKNOWN: Final = -1


class StickySlots:
    """Finds slots, as `slot_of` makes them of a masked Murmur hash."""

    __slots__ = ("_known", "slot_of")

    def __init__(self, slot_of: Callable[[int], int]) -> None:
        self.slot_of = slot_of
        self._known = _Known(slot_of)

    def of(self, buffer: bytes, starts: Sequence[int], ends: Sequence[int]) -> list[int]:
        """The slot of each entry `buffer[starts[i]:ends[i]]`."""
        slots: list[int] = []
        count, size = len(starts), _FIRST_BLOCK
        while len(slots) < count:
            low = len(slots)
            high = min(count, low + size)
            head, layout = _layout_of(buffer, starts[low], ends[low])
            found = self._alike(buffer, starts[low:high], ends[low:high], head, layout) if layout else []
            slots += found
            low += len(found)
            is_mixed = 2 * len(found) < size
            if is_mixed:  # looked at in vain: not again for each entry
                slots += map(self._of_one, repeat(buffer), starts[low:high], ends[low:high])
            size = _FIRST_BLOCK if found and is_mixed else min(4 * size, _LARGEST_BLOCK)
        return slots

    def _of_one(self, buffer: bytes, start: int, end: int) -> int:
        return self.slot_of(murmur3_32(sticky_key(buffer, start, end)))

    def _alike(
        self, buffer: bytes, starts: Sequence[int], ends: Sequence[int], head: bytes, layout: Struct
    ) -> list[int]:
        """The slots of the first entries, as many as have this layout."""
        size = layout.size
        shape = b"\x80" * (size - 10 - len(head) - _TIME_BYTES - 1) + b"\0"
        if starts[-1] + size > len(buffer):
            starts = [start for start in starts if start + size <= len(buffer)]
        magics, metadata_sizes, heads, sequences, times = zip(
            *map(layout.unpack_from, repeat(buffer), starts), strict=True
        )
        alike = len(starts)
        if (
            magics.count(_MAGIC) < alike
            or heads.count(head) < alike
            or b"".join(sequences).translate(_HIGH_BITS) != shape * alike
            or not all(map(_is_time, set(times)))
        ):
            alike = next(
                index
                for index, row in enumerate(zip(magics, heads, sequences, times, strict=True))
                if row[:2] != (_MAGIC, head) or row[2].translate(_HIGH_BITS) != shape or not _is_time(row[3])
            )
        stops = [start + 10 + metadata_size for start, metadata_size in zip(starts, metadata_sizes, strict=True)]
        if any(map(gt, stops, ends)):
            alike = min(alike, next(index for index, stop in enumerate(stops) if stop > ends[index]))
        if alike < len(starts):
            starts, stops = starts[:alike], stops[:alike]
        tails = [buffer[start + size : stop] for start, stop in zip(starts, stops, strict=True)]
        slots = [*map(self._known.__getitem__, tails)]
        if _UNKNOWN in slots:
            for index, slot in enumerate(slots):
                if slot == _UNKNOWN:
                    slots[index] = self._of_one(buffer, starts[index], ends[index])
        return slots


class _Known(dict[bytes, int]):
    """Size of the key, key, and the rest of the metadata → slot; `_UNKNOWN` when the rest changes the key."""

    def __init__(self, slot_of: Callable[[int], int]) -> None:
        super().__init__()
        self._slot_of = slot_of

    def __missing__(self, tail: bytes) -> int:
        size = tail[0] if tail else 128
        if size > 127 or not size < len(tail) <= _LONGEST_BYTES or not is_plain(tail[1 + size :]):
            return _UNKNOWN
        if len(self) >= _MOST_LEARNT:
            self.clear()
        slot = self[tail] = self._slot_of(murmur3_32(tail[1 : 1 + size]))
        return slot


def _layout_of(buffer: bytes, start: int, end: int) -> tuple[bytes, Struct | None]:
    """What the metadata begins with, up to the tag of the sequence id, and the layout of entries like this one; None
    when it is not one whose key comes right behind the time."""
    name_end = start + _NAME_AT + (buffer[start + 11] if end - start > _NAME_AT else 128)
    at = name_end + 1
    while at < end and buffer[at] > 127:
        at += 1
    at += 1
    head = buffer[start + 10 : name_end + 1]
    if (
        at + _TIME_BYTES >= end
        or name_end - start - _NAME_AT > 127
        or at - name_end - 1 > MAX_SEQUENCE_BYTES
        or head[0] != 0x0A
        or head[-1] != 0x10
        or not _is_time(buffer[at : at + _TIME_BYTES])
    ):
        return head, None
    return head, _layout(len(head), at - name_end - 1)


def _is_time(some: bytes) -> bool:
    return _TIME_THEN_KEY.fullmatch(some) is not None


@lru_cache(maxsize=1024)
def _layout(head_size: int, sequence_size: int) -> Struct:
    """Magic, checksum, size of the metadata, head, sequence id, time and tag of the key."""
    return Struct(f">2s4xI{head_size}s{sequence_size}s{_TIME_BYTES}s")
