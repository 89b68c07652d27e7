"""Which consumer of a Key_Shared subscription a slot belongs to: what all ways to share out the slots have in common,
and the two that go by ranges (8.2, 8.4). The third one is in `hash_ring`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from spark_pulsar.model.errors import ConsumerAssignFailed
from spark_pulsar.wire.hashes import STICKY_HASHES, range_hash
from spark_pulsar.wire.sticky_hashes import StickyHashes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_pulsar.broker.entities.consumer import Consumer


class Selector(ABC):
    """Shares out the slots among consumers."""

    sticky_hashes: ClassVar = StickyHashes(range_hash)
    """Tells the slots of entries."""

    sticky_hash_of: Callable[[int], int] = staticmethod(range_hash)
    """The slot of a masked Murmur hash."""

    is_fixed = False
    """Whether consumers name their slots (STICKY)."""

    @abstractmethod
    def join(self, consumer: Consumer) -> None:
        """Give a consumer its slots; ConsumerAssignFailed, and nothing changes, when that cannot be."""

    @abstractmethod
    def leave(self, consumer: Consumer) -> None:
        """Take the slots of a consumer back."""

    def rival(self, ranges: Sequence[tuple[int, int]]) -> Consumer | None:
        """A consumer that has some of these slots, if newcomers cannot just take them."""
        return None

    @abstractmethod
    def owner(self, sticky_hash: int) -> Consumer | None:
        """Who gets the entries of a slot."""

    @abstractmethod
    def table(self) -> tuple[array[int], list[Consumer | None]]:
        """The number of each slot's owner, and the owners by number, nobody being 0: 64 KB, made when asked for."""

    @abstractmethod
    def ranges_of(self, consumer: Consumer) -> list[tuple[int, int]]:
        """The slots of a consumer, from … to, both inclusive, in the words of Apache Pulsar's statistics."""


class RangeSelector(Selector):
    """Rising bounds and as many owners. A slot belongs to the owner of the first bound that is not below it; None is
    nobody."""

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
        """The slots have been shared out anew."""
        self._table = None

    def ranges_of(self, consumer: Consumer) -> list[tuple[int, int]]:
        lows = [0, *(bound + 1 for bound in self.bounds)]
        return [
            (low, bound) for low, bound, owner in zip(lows, self.bounds, self.owners, strict=False) if owner is consumer
        ]


class AutoSplitSelector(RangeSelector):
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


class StickySelector(RangeSelector):
    """STICKY: each consumer names its ranges; what nobody names waits (KS-7, KS-8). They may be tens of thousands."""

    is_fixed = True

    def __init__(self) -> None:
        super().__init__()
        self._consumers: dict[Consumer, None] = {}
        """In the order they came."""
        self._parts: list[tuple[int, int, Consumer]] = []
        """All ranges, rising; none overlap."""

    def join(self, consumer: Consumer) -> None:
        ranges = consumer.hash_ranges
        if not ranges:
            raise ConsumerAssignFailed("Ranges for KeyShared policy must not be empty.")
        for start, end in ranges:
            if start > end:
                raise ConsumerAssignFailed(f"Fixed hash range start > end for range: [{start},{end}]")
        assert self.rival(ranges) is None, "rivals were asked before"
        rising = sorted(range(len(ranges)), key=ranges.__getitem__)
        for lower, higher in pairwise(rising):
            if ranges[higher][0] <= ranges[lower][1]:
                former, latter = ("[{},{}]".format(*ranges[each]) for each in sorted((lower, higher)))
                raise ConsumerAssignFailed(f"Consumer's own ranges conflict: {former} overlaps with {latter}")
        if (
            len(self._parts) + len(ranges) > STICKY_HASHES
        ):  # some are beyond the slots: nobody needs them, and all are kept
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
            done = at  # the last one that was looked at may overlap further ones, but is among the rivals already
        return next((each for each in self._consumers if each in rivals), None) if rivals else None

    def leave(self, consumer: Consumer) -> None:
        del self._consumers[consumer]
        self._arrange()

    def ranges_of(self, consumer: Consumer) -> list[tuple[int, int]]:
        return list(consumer.hash_ranges)

    def _arrange(self) -> None:
        self._changed()
        self._parts = sorted(
            ((start, end, each) for each in self._consumers for start, end in each.hash_ranges),
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
