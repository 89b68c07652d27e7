"""Replay queues of a Key_Shared subscription: entries that were read and cannot be sent yet (KS-14).

An entry waits in its consumer's queue when only that consumer is not ready. It is parked by its sticky hash when that
has no consumer, or while it drains: it moved, and its old consumer still holds entries of it (KS-10). As long as order
is kept, at most one consumer holds entries of a sticky hash. Entries whose delay is over wait here like others
(DEL-13). What comes again after a negative ack waits, too, while later entries of its key may be out already (KS-13).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_pulsar.model.positions.entry_sets import EntrySet

from .sticky_hashes import StickyHashBook

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_pulsar.broker.dispatch.base import EntryRange
    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.model.positions.ids import Position

    from .selectors import Selector


def pending_of(consumer: Consumer) -> EntrySet:
    """Narrows the unacknowledged entries of a Key_Shared consumer to their type."""
    pending = consumer.pending
    assert isinstance(pending, EntrySet), "entries of one key are seldom next to each other"
    return pending


@dataclass(slots=True)
class Drain:
    """A sticky hash that moved while its old consumer still holds entries of it."""

    holder: Consumer
    left: int = 0
    """Entries of the sticky hash that the old consumer holds."""


class ReplayQueues:
    """All replay queues of one subscription."""

    def __init__(self, selector: Selector, *, keeps_order: bool) -> None:
        self.of: dict[Consumer, EntrySet] = {}
        """Replay queue of each consumer; it goes out before anything newer."""
        self.parked: dict[int, EntrySet] = {}
        """Sticky hash → entries that wait until it has a consumer, or is drained."""
        self.draining: dict[int, Drain] = {}
        self.drained: dict[Consumer, int] = {}
        """Count of sticky hashes that each consumer drained since it joined."""
        self.sticky_hashes = StickyHashBook()
        self._selector = selector
        self._keeps_order = keeps_order

    def clear(self) -> None:
        """Empties all queues; no consumer holds entries either."""
        self.sticky_hashes.clear()
        self.parked.clear()
        self.draining.clear()
        for replay_queue in self.of.values():
            replay_queue.clear()

    def count(self) -> int:
        """Counts the entries that wait."""
        return sum(replay_queue.count() for replay_queue in self.of.values()) + sum(
            replay_queue.count() for replay_queue in self.parked.values()
        )

    def open(self, consumer: Consumer) -> None:
        """Opens the queue of a consumer that joined."""
        self.of[consumer] = EntrySet()
        self.drained[consumer] = 0

    def close(self, consumer: Consumer) -> EntrySet:
        """Closes the queue of a consumer that left; returns its entries."""
        del self.drained[consumer]
        return self.of.pop(consumer)

    def reassign(self, left: Iterable[EntrySet] = ()) -> None:
        """Assigns all waiting entries anew after sticky hashes moved, those of `left` too, and finds the ones that
        drain."""
        self.draining = {}
        if self._keeps_order:
            for consumer in self.of:
                self._note_draining(consumer)
        waiting: dict[int, list[int]] = {}
        for replay_queue in (*self.of.values(), *self.parked.values(), *left):
            for ledger_id, entry_ids in replay_queue.by_ledger():
                waiting.setdefault(ledger_id, []).extend(entry_ids)
        for replay_queue in self.of.values():
            replay_queue.clear()
        self.parked = {}
        for ledger_id, entry_ids in waiting.items():
            entry_ids.sort()
            sticky_hashes = self.sticky_hashes.of(ledger_id, entry_ids[0], entry_ids[-1] + 1)
            self.wait_each(ledger_id, [(entry_id, sticky_hashes[entry_id - entry_ids[0]]) for entry_id in entry_ids])

    def _note_draining(self, consumer: Consumer) -> None:
        if not consumer.pending:
            return
        table, owners = self._selector.table()
        own = owners.index(consumer) if consumer in owners else -1
        assert isinstance(consumer.pending, EntrySet), "entries of one key are seldom next to each other"
        for ledger_id, entry_ids in consumer.pending.by_ledger():
            sticky_hashes = self.sticky_hashes.of_each(ledger_id, entry_ids)
            for sticky_hash, entries in Counter(
                [sticky_hash for sticky_hash in sticky_hashes if table[sticky_hash] != own]
            ).items():
                drain = self.draining.get(sticky_hash)
                if drain is None:
                    drain = self.draining[sticky_hash] = Drain(consumer)
                drain.left += entries

    def wait(self, ledger_id: int, first: int, sticky_hashes: Sequence[int]) -> None:
        """Queues entries from `first` on by their sticky hashes."""
        self.wait_each(ledger_id, zip(range(first, first + len(sticky_hashes)), sticky_hashes, strict=True))

    def wait_for(self, owner: Consumer | None, ledger_id: int, entry_ids: list[int]) -> None:
        """Queues rising entries for a consumer, or by their sticky hashes when it is None (KS-8)."""
        if owner is None:
            for entry_id, sticky_hash in zip(entry_ids, self.sticky_hashes.of_each(ledger_id, entry_ids), strict=True):
                self.parked.setdefault(sticky_hash, EntrySet()).add_all(ledger_id, (entry_id,))
        else:
            self.of[owner].add_all(ledger_id, entry_ids)

    def wait_each(self, ledger_id: int, entries: Iterable[tuple[int, int]]) -> None:
        """Queues rising entries by their sticky hashes."""
        (table, owners), draining = self._selector.table(), self.draining
        lists: dict[Consumer, list[int]] = {}
        for entry_id, sticky_hash in entries:
            owner = owners[table[sticky_hash]]
            if owner is None or sticky_hash in draining:
                replay_queue = self.parked.get(sticky_hash)
                if replay_queue is None:
                    replay_queue = self.parked[sticky_hash] = EntrySet()
                replay_queue.add_all(ledger_id, (entry_id,))
            elif owner in lists:
                lists[owner].append(entry_id)
            else:
                lists[owner] = [entry_id]
        for owner, entry_ids in lists.items():
            self.of[owner].add_all(ledger_id, entry_ids)

    def release(self, consumer: Consumer, ledger_id: int, first: int, end: int) -> bool:
        """Counts down draining sticky hashes before a consumer releases entries. True when entries that waited for that
        may be sent (KS-10)."""
        is_free = False
        for low, high in consumer.pending.pieces_in(ledger_id, first, end):
            for sticky_hash in self.sticky_hashes.of(ledger_id, low, high):
                drain = self.draining.get(sticky_hash)
                if drain is not None and drain.holder is consumer:
                    drain.left -= 1
                    if not drain.left:
                        is_free |= self._free(sticky_hash, consumer)
        return is_free

    def _free(self, sticky_hash: int, consumer: Consumer) -> bool:
        del self.draining[sticky_hash]
        self.drained[consumer] += 1
        owner = self._selector.owner(sticky_hash)
        if owner is None or sticky_hash not in self.parked:
            return False
        for ledger_id, entry_ids in self.parked.pop(sticky_hash).by_ledger():
            self.of[owner].add_all(ledger_id, entry_ids)
        return True

    def withdraw(self, ranges: list[EntryRange]) -> bool:
        """Removes entries from all queues. True when there were some."""
        before = self.count()
        if not before:
            return False
        for ledger_id, first, end in ranges:
            for replay_queue in self.of.values():
                if replay_queue:
                    replay_queue.remove(ledger_id, first, end)
            if self.parked:
                for entry_id, sticky_hash in enumerate(self.sticky_hashes.of(ledger_id, first, end), first):
                    parked = self.parked.get(sticky_hash)
                    if parked is not None:
                        parked.remove(ledger_id, entry_id, entry_id + 1)
                        if not parked:
                            del self.parked[sticky_hash]
        return self.count() < before

    def remove_through(self, position: Position) -> None:
        """Removes entries up to a position, which are acknowledged (KS-15)."""
        for replay_queue in (*self.of.values(), *self.parked.values()):
            replay_queue.remove_through(*position)
        self.reassign()

    def check(self, consumers: list[Consumer]) -> None:
        """Asserts the invariants of the queues between turns."""
        assert self.of.keys() == self.drained.keys() == set(consumers), "each consumer has a queue"
        replay_queues = [*self.of.values(), *self.parked.values()]
        holders: dict[int, Consumer] = {}
        lefts: dict[int, int] = {}
        for consumer in consumers:
            for ledger_id, first, end in consumer.pending:
                assert not any(replay_queue.intersects(ledger_id, first, end) for replay_queue in replay_queues), (
                    "pending, and waits"
                )
                for sticky_hash in self.sticky_hashes.of(ledger_id, first, end):
                    holder = holders.setdefault(sticky_hash, consumer)
                    assert holder is consumer or not self._keeps_order, (
                        f"sticky hash {sticky_hash} is at two consumers (KS-1)"
                    )
                    if self._keeps_order and self._selector.owner(sticky_hash) is not consumer:
                        lefts[sticky_hash] = lefts.get(sticky_hash, 0) + 1
        assert lefts == {sticky_hash: drain.left for sticky_hash, drain in self.draining.items()}, "what drains (KS-10)"
        for consumer, replay_queue in self.of.items():
            for ledger_id, first, end in replay_queue:
                for sticky_hash in self.sticky_hashes.of(ledger_id, first, end):
                    assert self._selector.owner(sticky_hash) is consumer, "a queue holds what its consumer gets"
                    assert sticky_hash not in self.draining, "what drains is parked"
