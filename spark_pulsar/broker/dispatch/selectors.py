"""Which consumer of a Key_Shared subscription a slot belongs to: three ways to share out the slots (8.2 ... 8.4).

All three come down to one table: rising bounds and as many owners. A slot belongs to the owner of the first bound that
is not below it; None is nobody.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, ClassVar

from spark_pulsar.model.errors import ConsumerAssignFailed
from spark_pulsar.wire.hashes import SLOTS, murmur3_32, range_slot, ring_slot
from spark_pulsar.wire.sticky_slots import StickySlots

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_pulsar.broker.consumers import Consumer


class Selector(ABC):
    """Shares out the slots among consumers."""

    slots: ClassVar = StickySlots(range_slot)
    """Tells the slots of entries."""

    slot_of: Callable[[int], int] = staticmethod(range_slot)
    """The slot of a masked Murmur hash."""

    is_fixed = False
    """Whether consumers name their slots (STICKY)."""

    def __init__(self) -> None:
        self.bounds: list[int] = [SLOTS]
        self.owners: list[Consumer | None] = [None]
        self._table: tuple[array[int], list[Consumer | None]] | None = None

    @abstractmethod
    def join(self, consumer: Consumer) -> None:
        """Give a consumer its slots; ConsumerAssignFailed, and nothing changes, when that cannot be."""

    @abstractmethod
    def leave(self, consumer: Consumer) -> None:
        """Take the slots of a consumer back."""

    def rival(self, ranges: Sequence[tuple[int, int]]) -> Consumer | None:
        """A consumer that has some of these slots, if newcomers cannot just take them."""
        return None

    def owner(self, slot: int) -> Consumer | None:
        """Who gets the entries of a slot."""
        return self.owners[bisect_left(self.bounds, slot)]

    def table(self) -> tuple[array[int], list[Consumer | None]]:
        """The number of each slot's owner, and the owners by number, nobody being 0: 64 KB, made when asked for."""
        if self._table is None:
            names = list(dict.fromkeys((None, *self.owners)))
            numbers = {owner: number for number, owner in enumerate(names)}
            slots = array("B" if len(names) <= 256 else "H")
            for bound, owner in zip(self.bounds, self.owners, strict=True):
                slots.extend(array(slots.typecode, [numbers[owner]]) * (min(bound, SLOTS) + 1 - len(slots)))
            self._table = slots, names
        return self._table

    def _changed(self) -> None:
        """The slots have been shared out anew."""
        self._table = None

    def ranges_of(self, consumer: Consumer) -> list[tuple[int, int]]:
        """The slots of a consumer, from … to, both inclusive, in the words of Apache Pulsar's statistics."""
        lows = [0, *(bound + 1 for bound in self.bounds)]
        return [
            (low, bound) for low, bound, owner in zip(lows, self.bounds, self.owners, strict=False) if owner is consumer
        ]


class HalvedRanges(Selector):
    """AUTO_SPLIT by ranges: a newcomer takes half of the widest one (KS-4, KS-5)."""

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
        # Its slots go to its right neighbour; those of the last one to the left.
        del self.bounds[index if index < len(self.owners) else index - 1]


class HashRing(Selector):
    """AUTO_SPLIT by consistent hashing: each consumer has many points on a ring, and the slots before them (KS-6)."""

    slots: ClassVar = StickySlots(ring_slot)
    slot_of = staticmethod(ring_slot)

    def __init__(self, points: int) -> None:
        super().__init__()
        self._points = points
        self._lines: dict[int, list[Consumer]] = {}
        """Slot of a point → who has it, and who waits in line for it."""
        self._numbers: dict[str, dict[Consumer, int]] = {}
        """Name → consumers with that name, and their numbers."""

    def join(self, consumer: Consumer) -> None:
        alike = self._numbers.setdefault(consumer.name, {})
        taken = set(alike.values())
        alike[consumer] = next(number for number in range(len(taken) + 1) if number not in taken)
        for point in self._points_of(consumer):
            self._lines.setdefault(point, []).append(consumer)
        self._arrange()

    def leave(self, consumer: Consumer) -> None:
        for point in self._points_of(consumer):
            line = self._lines[point]
            line.remove(consumer)
            if not line:
                del self._lines[point]
        alike = self._numbers[consumer.name]
        del alike[consumer]
        if not alike:
            del self._numbers[consumer.name]
        self._arrange()

    def ranges_of(self, consumer: Consumer) -> list[tuple[int, int]]:
        ranges: list[tuple[int, int]] = []
        for low, high in super().ranges_of(consumer):
            low, high = max(low, 1), min(high, SLOTS - 1)
            if ranges and ranges[-1][1] + 1 == low:
                ranges[-1] = (ranges[-1][0], high)
            elif low <= high:
                ranges.append((low, high))
        return ranges

    def _points_of(self, consumer: Consumer) -> list[int]:
        front = f"{consumer.name}\0{self._numbers[consumer.name][consumer]}\0"
        return [ring_slot(murmur3_32(f"{front}{index}".encode())) for index in range(self._points)]

    def _arrange(self) -> None:
        self._changed()
        lines = self._lines
        points = sorted(lines)
        self.bounds = [*points, SLOTS]
        self.owners = [lines[point][0] for point in points]
        self.owners.append(self.owners[0] if points else None)


class FixedRanges(Selector):
    """STICKY: each consumer names its ranges; what nobody names waits (KS-7, KS-8)."""

    is_fixed = True

    def __init__(self) -> None:
        super().__init__()
        self._consumers: list[Consumer] = []

    def join(self, consumer: Consumer) -> None:
        ranges = consumer.hash_ranges
        if not ranges:
            raise ConsumerAssignFailed("Ranges for KeyShared policy must not be empty.")
        for start, end in ranges:
            if start > end:
                raise ConsumerAssignFailed(f"Fixed hash range start > end for range: [{start},{end}]")
        assert self.rival(ranges) is None, "rivals were asked before"
        for index, mine in enumerate(ranges):
            for another in ranges[:index]:
                if _overlap(mine, another):
                    raise ConsumerAssignFailed(f"Consumer's own ranges conflict: {list(another)} and {list(mine)}")
        self._consumers.append(consumer)
        self._arrange()

    def rival(self, ranges: Sequence[tuple[int, int]]) -> Consumer | None:
        for other in self._consumers:
            if any(_overlap(mine, theirs) for mine in ranges for theirs in other.hash_ranges):
                return other
        return None

    def leave(self, consumer: Consumer) -> None:
        self._consumers.remove(consumer)
        self._arrange()

    def ranges_of(self, consumer: Consumer) -> list[tuple[int, int]]:
        return list(consumer.hash_ranges)

    def _arrange(self) -> None:
        self._changed()
        self.bounds, self.owners = [], []
        following = 0
        parts = [(start, end, each) for each in self._consumers for start, end in each.hash_ranges]
        for start, end, consumer in sorted(parts, key=lambda part: part[:2]):
            if end < 0 or start >= SLOTS:
                continue
            if start > following:
                self.bounds.append(start - 1)
                self.owners.append(None)
            self.bounds.append(end)
            self.owners.append(consumer)
            following = end + 1
        self.bounds.append(max(SLOTS, following))
        self.owners.append(None)


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return max(one[0], other[0]) <= min(one[1], other[1])
