"""Classic Key_Shared dispatcher: the rule of order of Apache Pulsar before 4.0, chosen by configuration (KS-9).

A consumer that joins others gets nothing from the read position of that moment on until everything before is
acknowledged; until then it gets only redelivered entries from before. So one consumer that does not acknowledge keeps
all newcomers waiting. Sticky hashes that move drain here too: without that, entries of a key that were read and not
sent would pass those that its old consumer still holds. Differs from Apache Pulsar, which has a ring of its own for
this rule: selectors are the same as without it.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from .dispatcher import KeySharedDispatcher

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_pulsar.broker.dispatch.base import EntryRange
    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.model.positions.entry_sets import EntrySet
    from spark_pulsar.model.positions.ids import Position

    from .selectors import Selector


class ClassicKeySharedDispatcher(KeySharedDispatcher):
    """A dispatcher whose newcomers wait until everything from before they joined is acknowledged."""

    def __init__(self, core: Core, subscription: Subscription, selector: Selector) -> None:
        self.newcomers: dict[Consumer, Position] = {}
        """Consumers that wait, in the order they came, which is that of the first positions they may not get yet."""
        self.joined_at: dict[Consumer, Position] = {}
        """Read position when each consumer joined, for statistics."""
        super().__init__(core, subscription, selector, keeps_order=True)

    def rewind(self) -> None:
        super().rewind()
        self.newcomers.clear()

    def attach(self, consumer: Consumer) -> None:
        if len(self.subscription.consumers) > 1 and self.subscription.cursor.next_to_read < self.position:
            self.newcomers[consumer] = self.position
        super().attach(consumer)
        self.joined_at[consumer] = self.position

    def detach(self, consumer: Consumer) -> None:
        self.newcomers.pop(consumer, None)
        del self.joined_at[consumer]
        super().detach(consumer)

    # Sending

    def dispatch(self) -> bool:
        self._admit_newcomers()
        return super().dispatch()

    def has_work(self) -> bool:
        self._admit_newcomers()
        return super().has_work()

    def _allowance(self, consumer: Consumer) -> int:
        allowance = super()._allowance(consumer)
        if consumer not in self.newcomers:
            return allowance
        # Redelivered entries go to no newcomer from the first position on that any of them may not have.
        limit = next(iter(self.newcomers.values()))
        return min(allowance, _count_before(self.replay_queues.of[consumer], limit))

    def _can_send_to(self, consumer: Consumer) -> bool:
        return consumer.can_receive and (consumer not in self.newcomers or self._allowance(consumer) > 0)

    # Newcomers

    def acked(self, consumer: Consumer, ranges: Iterable[EntryRange]) -> None:
        super().acked(consumer, ranges)
        self._admit_newcomers()

    def expired(self, ranges: Iterable[EntryRange]) -> None:
        super().expired(ranges)
        self._admit_newcomers()

    def passed(self) -> None:
        super().passed()
        self._admit_newcomers()

    def _admit_newcomers(self) -> None:
        """Lets newcomers have everything once all entries before their position are acknowledged."""
        if self.newcomers:
            following = self.subscription.cursor.next_to_read
            for consumer in [consumer for consumer, position in self.newcomers.items() if position <= following]:
                del self.newcomers[consumer]
                self._wake()

    def check(self) -> None:
        super().check()
        cursor, consumers = self.subscription.cursor, self.subscription.consumers
        for consumer, position in self.newcomers.items():
            assert consumer in consumers, "a newcomer is connected"
            assert position <= self.position, "a consumer joins at the read position"
            if self.subscription.is_durable:  # its entries are not trimmed
                assert cursor.next_to_read < position, f"{consumer.name} waits for nothing (KS-9)"
            ends = [(ledger_id, end - 1) for ledger_id, _, end in consumer.pending]
            assert all(last < position for last in ends), "sent before its time (KS-9)"
        assert sorted(self.newcomers.values()) == list(self.newcomers.values()), "in the order they came"


def _count_before(replay_queue: EntrySet, limit: Position) -> int:
    """Counts the entries of a replay queue that lie before a position."""
    count = 0
    for ledger_id, entry_ids in replay_queue.by_ledger():
        if ledger_id < limit.ledger_id:
            count += len(entry_ids)
        elif ledger_id == limit.ledger_id:
            count += bisect_left(entry_ids, limit.entry_id)
    return count
