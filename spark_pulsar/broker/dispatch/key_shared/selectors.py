"""Selectors of Key_Shared subscriptions: the consumer that the entries of a key go to, by the key's sticky hash,
whatever its priority level (KS-17).

| selector | mode | sticky hashes of a consumer |
| --- | --- | --- |
| `AutoSplitSelector` | AUTO_SPLIT, ranges | half of the widest range when it joined (KS-4, KS-5) |
| `ConsistentHashSelector` | AUTO_SPLIT, consistent hashing (default) | those before its points on a ring (KS-6, X8, X9)
|
| `StickySelector` | STICKY | those that it names (KS-7, KS-8) |
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Final

from spark_pulsar.model.errors import ConsumerAssignFailed
from spark_pulsar.wire.keys.murmur3 import STICKY_HASHES, murmur3_32, range_hash, ring_hash
from spark_pulsar.wire.keys.sticky_hashes import StickyHashes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_pulsar.broker.entities.consumer import Consumer

_STICKY_HASH_SHIFT: Final = 44
"""Bits of a consumer's number in a point; the sticky hash stands above them."""
_CONSUMER_MASK: Final = (1 << _STICKY_HASH_SHIFT) - 1


class Selector(ABC):
    """Assigns sticky hashes to consumers."""

    sticky_hashes: ClassVar = StickyHashes(range_hash)
    """Finds the sticky hashes of entries."""

    sticky_hash_of: Callable[[int], int] = staticmethod(range_hash)
    """Maps a masked Murmur hash to the sticky hash."""

    is_fixed = False
    """True when consumers name their sticky hashes (STICKY)."""

    @abstractmethod
    def join(self, consumer: Consumer) -> None:
        """Assigns sticky hashes to a consumer that joins; ConsumerAssignFailed, and nothing changes, when it cannot."""

    @abstractmethod
    def leave(self, consumer: Consumer) -> None:
        """Takes the sticky hashes of a consumer back."""

    def rival(self, ranges: Sequence[tuple[int, int]]) -> Consumer | None:
        """Finds a consumer that has some of these sticky hashes, if a newcomer may not take them."""
        return None

    @abstractmethod
    def owner(self, sticky_hash: int) -> Consumer | None:
        """Finds the consumer of a sticky hash."""

    @abstractmethod
    def table(self) -> tuple[array[int], list[Consumer | None]]:
        """A number for each sticky hash, and the consumers by number, 0 for none: 64 KB, made at the first request."""

    @abstractmethod
    def ranges_of(self, consumer: Consumer) -> list[tuple[int, int]]:
        """Lists the sticky hashes of a consumer, from … to, both inclusive, as in Apache Pulsar's statistics."""


class RangeSelector(Selector):
    """Rising bounds and as many consumers. The first bound that is not below a sticky hash has its consumer, None for
    none (X7)."""

    def __init__(self) -> None:
        self.bounds: list[int] = [STICKY_HASHES]
        self.owners: list[Consumer | None] = [None]
        self._table: tuple[array[int], list[Consumer | None]] | None = None

    def owner(self, sticky_hash: int) -> Consumer | None:
        return self.owners[bisect_left(self.bounds, sticky_hash)]

    def table(self) -> tuple[array[int], list[Consumer | None]]:
        if self._table is None:
            names = list(dict.fromkeys((None, *self.owners)))
            numbers = {owner: number for number, owner in enumerate(names)}
            sticky_hashes = array("B" if len(names) <= 256 else "H")
            for bound, owner in zip(self.bounds, self.owners, strict=True):
                sticky_hashes.extend(
                    array(sticky_hashes.typecode, [numbers[owner]])
                    * (min(bound, STICKY_HASHES) + 1 - len(sticky_hashes))
                )
            self._table = sticky_hashes, names
        return self._table

    def _changed(self) -> None:
        """Drops the table after sticky hashes moved."""
        self._table = None

    def ranges_of(self, consumer: Consumer) -> list[tuple[int, int]]:
        lows = [0, *(bound + 1 for bound in self.bounds)]
        return [
            (low, bound) for low, bound, owner in zip(lows, self.bounds, self.owners, strict=False) if owner is consumer
        ]


class AutoSplitSelector(RangeSelector):
    """AUTO_SPLIT by ranges: a newcomer takes half of the widest one (KS-4, KS-5, X6)."""

    def join(self, consumer: Consumer) -> None:
        self._changed()
        bounds, owners = self.bounds, self.owners
        if owners == [None]:
            owners[0] = consumer
            return
        widths = [high - low for low, high in zip([0, *bounds], bounds, strict=False)]
        width = max(widths)
        if width <= 1:
            raise ConsumerAssignFailed(f"No more range can assigned to new consumer, assigned consumers {len(owners)}")
        index = widths.index(width)
        bounds.insert(index, bounds[index] - (width >> 1))
        owners.insert(index, consumer)

    def leave(self, consumer: Consumer) -> None:
        self._changed()
        index = self.owners.index(consumer)
        if len(self.owners) == 1:
            self.owners[0] = None
            return
        del self.owners[index]
        # Its sticky hashes go to its right neighbour; those of the last one to the left.
        del self.bounds[index if index < len(self.owners) else index - 1]


class StickySelector(RangeSelector):
    """STICKY: each consumer names its ranges, up to tens of thousands; entries of other sticky hashes wait (KS-7,
    KS-8)."""

    is_fixed = True

    def __init__(self) -> None:
        super().__init__()
        self._consumers: dict[Consumer, None] = {}
        """Consumers in the order they came."""
        self._parts: list[tuple[int, int, Consumer]] = []
        """All ranges, rising, without overlaps."""

    def join(self, consumer: Consumer) -> None:
        ranges = consumer.hash_ranges
        if not ranges:
            raise ConsumerAssignFailed("Ranges for KeyShared policy must not be empty.")
        for start, end in ranges:
            if start > end:
                raise ConsumerAssignFailed(f"Fixed hash range start > end for range: [{start},{end}]")
        assert self.rival(ranges) is None, "the caller has checked for rivals"
        rising = sorted(range(len(ranges)), key=ranges.__getitem__)
        for lower, higher in pairwise(rising):
            if ranges[higher][0] <= ranges[lower][1]:
                former, latter = ("[{},{}]".format(*ranges[index]) for index in sorted((lower, higher)))
                raise ConsumerAssignFailed(f"Consumer's own ranges conflict: {former} overlaps with {latter}")
        if len(self._parts) + len(ranges) > STICKY_HASHES:  # some are useless, and all are kept
            raise ConsumerAssignFailed(
                f"Consumers of the subscription name more hash ranges than the {STICKY_HASHES} slots"
            )
        self._consumers[consumer] = None
        self._arrange()

    def rival(self, ranges: Sequence[tuple[int, int]]) -> Consumer | None:
        rivals: set[Consumer] = set()
        done = 0
        for start, end in sorted(ranges):
            if start > end:
                continue
            at = bisect_left(self._parts, start, done, key=lambda part: part[1])
            while at < len(self._parts) and self._parts[at][0] <= end:
                rivals.add(self._parts[at][2])
                at += 1
            done = at  # the last range checked may overlap further ones, but is among the rivals already
        return next((consumer for consumer in self._consumers if consumer in rivals), None) if rivals else None

    def leave(self, consumer: Consumer) -> None:
        del self._consumers[consumer]
        self._arrange()

    def ranges_of(self, consumer: Consumer) -> list[tuple[int, int]]:
        return list(consumer.hash_ranges)

    def _arrange(self) -> None:
        self._changed()
        self._parts = sorted(
            ((start, end, consumer) for consumer in self._consumers for start, end in consumer.hash_ranges),
            key=lambda part: part[:2],
        )
        self.bounds, self.owners = [], []
        following = 0
        for start, end, consumer in self._parts:
            if end < 0 or start >= STICKY_HASHES:
                continue
            if start > following:
                self.bounds.append(start - 1)
                self.owners.append(None)
            self.bounds.append(end)
            self.owners.append(consumer)
            following = end + 1
        self.bounds.append(max(STICKY_HASHES, following))
        self.owners.append(None)


class ConsistentHashSelector(Selector):
    """AUTO_SPLIT by consistent hashing: a sticky hash belongs to the first point on the ring that is not below it,
    behind the last one to the first. Of several consumers with a point at one sticky hash the one that came first has
    it."""

    sticky_hashes: ClassVar = StickyHashes(ring_hash)
    sticky_hash_of = staticmethod(ring_hash)

    def __init__(self, points: int) -> None:
        self._points_each = points
        self._points = array("Q")
        """All points in order."""
        self._consumers: dict[int, Consumer] = {}
        """Consumers by the number in their points."""
        self._numbers: dict[Consumer, tuple[int, int]] = {}
        """Number of each consumer in its points, and among those of the same name."""
        self._came = 0
        self._names = _Numbers()
        self._table: _ConsumerTable | None = None
        """Table of all sticky hashes, from the first request for it on."""

    def join(self, consumer: Consumer) -> None:
        number = self._came = self._came + 1
        self._consumers[number] = consumer
        self._numbers[consumer] = number, self._names.acquire(consumer.name)
        own = self._points_of(consumer)
        points, merged, done = self._points, array("Q"), 0
        for point in own:
            at = bisect_left(points, point, done)
            merged += points[done:at]
            merged.append(point)
            done = at
        self._points = merged + points[done:]
        if self._table is not None:
            self._table.add(consumer)
            self._update_table(own)

    def leave(self, consumer: Consumer) -> None:
        own = self._points_of(consumer)
        points, left, done = self._points, array("Q"), 0
        for point in own:
            at = bisect_left(points, point, done)
            left += points[done:at]
            done = at + 1
        self._points = left + points[done:]
        number, nth = self._numbers.pop(consumer)
        del self._consumers[number]
        self._names.give_back(consumer.name, nth)
        if self._table is not None:
            if self._points:
                self._update_table(own)
                self._table.give_back(consumer)
            else:
                self._table = None

    def owner(self, sticky_hash: int) -> Consumer | None:
        points = self._points
        if not points:
            return None
        at = bisect_left(points, sticky_hash << _STICKY_HASH_SHIFT)
        return self._owner_of(points[at] if at < len(points) else points[0])

    def table(self) -> tuple[array[int], list[Consumer | None]]:
        if self._table is None:
            if not self._points:
                return array("B", bytes(STICKY_HASHES + 1)), [None]
            numbered = self._table = _ConsumerTable()
            for consumer in self._numbers:
                numbered.add(consumer)
            self._update_table(self._points)
        return self._table.table, self._table.owners

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
        """Computes the points of a consumer, rising, each once."""
        number, nth = self._numbers[consumer]
        front = f"{consumer.name}\0{nth}\0"
        sticky_hashes = {ring_hash(murmur3_32(f"{front}{index}".encode())) for index in range(self._points_each)}
        return [sticky_hash << _STICKY_HASH_SHIFT | number for sticky_hash in sorted(sticky_hashes)]

    def _update_table(self, changed: list[int] | array[int]) -> None:
        """Updates the table for the sticky hashes before points that came or are gone."""
        points, table = self._points, self._table
        assert table is not None, "the caller has checked"
        following, end = -1, len(points)
        for point in changed:
            if point >> _STICKY_HASH_SHIFT == following:
                continue
            following = point >> _STICKY_HASH_SHIFT
            at = bisect_left(points, following << _STICKY_HASH_SHIFT)
            at = at if at < end else 0  # the last point is gone
            low = (points[at - 1] >> _STICKY_HASH_SHIFT) + 1 if at else 0
            table.assign(low, (points[at] >> _STICKY_HASH_SHIFT) + 1, self._owner_of(points[at]))
            if at == 0:
                table.assign((points[-1] >> _STICKY_HASH_SHIFT) + 1, STICKY_HASHES + 1, self._owner_of(points[0]))


class _ConsumerTable:
    """Table of consumers by sticky hash: a small number for each consumer, 0 for none."""

    def __init__(self) -> None:
        self.table = array("B", bytes(STICKY_HASHES + 1))
        self.owners: list[Consumer | None] = [None]
        self._of: dict[Consumer, int] = {}
        self._free: list[int] = []

    def add(self, consumer: Consumer) -> None:
        """Gives a consumer a number."""
        if self._free:
            self._of[consumer] = number = heapq.heappop(self._free)
            self.owners[number] = consumer
            return
        self._of[consumer] = number = len(self.owners)
        self.owners.append(consumer)
        if number >> 8 * self.table.itemsize:
            self.table = array("H" if number < 1 << 16 else "I", self.table)

    def give_back(self, consumer: Consumer) -> None:
        """Frees the number of a consumer that left."""
        number = self._of.pop(consumer)
        self.owners[number] = None
        heapq.heappush(self._free, number)

    def assign(self, low: int, end: int, owner: Consumer) -> None:
        """Assigns sticky hashes `low … end - 1` to a consumer."""
        self.table[low:end] = array(self.table.typecode, [self._of[owner]]) * (end - low)


class _Numbers:
    """Numbers of consumers of one name: the least free one is taken."""

    def __init__(self) -> None:
        self._ends: dict[str, int] = {}
        """Name → one past the largest number in use."""
        self._free: dict[str, list[int]] = {}

    def acquire(self, name: str) -> int:
        """Takes the least free number of a name."""
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
        """Frees a number of a name."""
        free = self._free.setdefault(name, [])
        heapq.heappush(free, number)
        if len(free) == self._ends[name]:
            del self._free[name], self._ends[name]


def _add(ranges: list[tuple[int, int]], low: int, high: int) -> None:
    if ranges and ranges[-1][1] + 1 == low:
        ranges[-1] = (ranges[-1][0], max(high, ranges[-1][1]))
    elif low <= high:
        ranges.append((low, high))
