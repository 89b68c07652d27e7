"""AUTO_SPLIT by consistent hashing: each consumer has many points on a ring, and the slots before them (KS-6).

A thousand consumers have a hundred thousand points. Those lie in one array of machine words, 8 bytes each, in order; a
consumer that comes or goes costs the work for its own points and one copy of the array.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, ClassVar, Final

from spark_pulsar.wire.hashes import STICKY_HASHES, murmur3_32, ring_hash
from spark_pulsar.wire.sticky_hashes import StickyHashes

from .hash_range_selectors import Selector

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.consumer import Consumer

_STICKY_HASH_SHIFT: Final = 44
"""A point is its slot, and in the low bits which consumer's it is, counted as they came."""
_CONSUMER_MASK: Final = (1 << _STICKY_HASH_SHIFT) - 1


class ConsistentHashSelector(Selector):
    """A slot belongs to the owner of the first point that is not below it, the first of all behind the last one. Of
    several consumers with a point at one slot the one that came first has it; the others wait in line."""

    sticky_hashes: ClassVar = StickyHashes(ring_hash)
    sticky_hash_of = staticmethod(ring_hash)

    def __init__(self, points: int) -> None:
        self._points_each = points
        self._points = array("Q")
        """All points in order."""
        self._consumers: dict[int, Consumer] = {}
        """By the number in their points."""
        self._numbers: dict[Consumer, tuple[int, int]] = {}
        """The number in its points, and its number among those of the same name."""
        self._came = 0
        self._alike = _Numbers()
        self._seats: _Seats | None = None
        """The owner of each slot, from the first time that somebody asks for all on."""

    def join(self, consumer: Consumer) -> None:
        number = self._came = self._came + 1
        self._consumers[number] = consumer
        self._numbers[consumer] = number, self._alike.take(consumer.name)
        own = self._points_of(consumer)
        points, merged, done = self._points, array("Q"), 0
        for point in own:
            at = bisect_left(points, point, done)
            merged += points[done:at]
            merged.append(point)
            done = at
        self._points = merged + points[done:]
        if self._seats is not None:
            self._seats.take(consumer)
            self._paint(own)

    def leave(self, consumer: Consumer) -> None:
        own = self._points_of(consumer)
        points, left, done = self._points, array("Q"), 0
        for point in own:
            at = bisect_left(points, point, done)
            left += points[done:at]
            done = at + 1
        self._points = left + points[done:]
        number, alike = self._numbers.pop(consumer)
        del self._consumers[number]
        self._alike.give_back(consumer.name, alike)
        if self._seats is not None:
            if self._points:
                self._paint(own)
                self._seats.give_back(consumer)
            else:
                self._seats = None

    def owner(self, sticky_hash: int) -> Consumer | None:
        points = self._points
        if not points:
            return None
        at = bisect_left(points, sticky_hash << _STICKY_HASH_SHIFT)
        return self._owner_of(points[at] if at < len(points) else points[0])

    def table(self) -> tuple[array[int], list[Consumer | None]]:
        if self._seats is None:
            if not self._points:
                return array("B", bytes(STICKY_HASHES + 1)), [None]
            seats = self._seats = _Seats()
            for consumer in self._numbers:
                seats.take(consumer)
            self._paint(self._points)
        return self._seats.table, self._seats.owners

    def ranges_of(self, consumer: Consumer) -> list[tuple[int, int]]:
        ranges: list[tuple[int, int]] = []
        last: tuple[int, int] | None = None
        for sticky_hash in sorted({point >> _STICKY_HASH_SHIFT for point in self._points_of(consumer)}):
            at = bisect_left(self._points, sticky_hash << _STICKY_HASH_SHIFT)
            if self._owner_of(self._points[at]) is consumer:
                low = (self._points[at - 1] >> _STICKY_HASH_SHIFT) + 1 if at else 1
                _add(ranges, low, sticky_hash)
                if at == 0:
                    last = (self._points[-1] >> _STICKY_HASH_SHIFT) + 1, STICKY_HASHES - 1
        if last is not None:
            _add(ranges, *last)
        return ranges

    def _owner_of(self, point: int) -> Consumer:
        return self._consumers[point & _CONSUMER_MASK]

    def _points_of(self, consumer: Consumer) -> list[int]:
        """Rising, each once."""
        number, alike = self._numbers[consumer]
        front = f"{consumer.name}\0{alike}\0"
        sticky_hashes = {ring_hash(murmur3_32(f"{front}{index}".encode())) for index in range(self._points_each)}
        return [sticky_hash << _STICKY_HASH_SHIFT | number for sticky_hash in sorted(sticky_hashes)]

    def _paint(self, changed: list[int] | array[int]) -> None:
        """Write down who owns the slots before these points, which rise, and came, or are gone."""
        points, seats = self._points, self._seats
        assert seats is not None, "asked before"
        following, end = -1, len(points)
        for point in changed:
            if point >> _STICKY_HASH_SHIFT == following:
                continue
            following = point >> _STICKY_HASH_SHIFT
            at = bisect_left(points, following << _STICKY_HASH_SHIFT)
            at = at if at < end else 0  # the last point is gone
            low = (points[at - 1] >> _STICKY_HASH_SHIFT) + 1 if at else 0
            seats.paint(low, (points[at] >> _STICKY_HASH_SHIFT) + 1, self._owner_of(points[at]))
            if at == 0:
                seats.paint((points[-1] >> _STICKY_HASH_SHIFT) + 1, STICKY_HASHES + 1, self._owner_of(points[0]))


class _Seats:
    """A small number for each consumer, and by slot the number of its owner; nobody's is 0."""

    def __init__(self) -> None:
        self.table = array("B", bytes(STICKY_HASHES + 1))
        self.owners: list[Consumer | None] = [None]
        self._of: dict[Consumer, int] = {}
        self._free: list[int] = []

    def take(self, consumer: Consumer) -> None:
        """Seat a consumer."""
        if self._free:
            self._of[consumer] = seat = heapq.heappop(self._free)
            self.owners[seat] = consumer
            return
        self._of[consumer] = seat = len(self.owners)
        self.owners.append(consumer)
        if seat >> 8 * self.table.itemsize:
            self.table = array("H" if seat < 1 << 16 else "I", self.table)

    def give_back(self, consumer: Consumer) -> None:
        """It is gone, and owns nothing."""
        seat = self._of.pop(consumer)
        self.owners[seat] = None
        heapq.heappush(self._free, seat)

    def paint(self, low: int, end: int, owner: Consumer) -> None:
        """Slots `low … end - 1` are its."""
        self.table[low:end] = array(self.table.typecode, [self._of[owner]]) * (end - low)


class _Numbers:
    """The least number that is free, among consumers of one name."""

    def __init__(self) -> None:
        self._ends: dict[str, int] = {}
        """Name → numbers that were ever taken since somebody had it."""
        self._free: dict[str, list[int]] = {}

    def take(self, name: str) -> int:
        """Take the least."""
        free = self._free.get(name)
        if free:
            number = heapq.heappop(free)
            if not free:
                del self._free[name]
            return number
        number = self._ends.get(name, 0)
        self._ends[name] = number + 1
        return number

    def give_back(self, name: str, number: int) -> None:
        """It may be taken again."""
        free = self._free.setdefault(name, [])
        heapq.heappush(free, number)
        if len(free) == self._ends[name]:
            del self._free[name], self._ends[name]


def _add(ranges: list[tuple[int, int]], low: int, high: int) -> None:
    if ranges and ranges[-1][1] + 1 == low:
        ranges[-1] = (ranges[-1][0], max(high, ranges[-1][1]))
    elif low <= high:
        ranges.append((low, high))
