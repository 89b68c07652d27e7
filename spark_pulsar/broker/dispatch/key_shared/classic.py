"""The classic rule of order for Key_Shared, of Apache Pulsar before 4.0; chosen by configuration (KS-9).

A consumer that joins others gets nothing from the read position of that moment on until everything before is acked;
until then it gets only what is sent again from before. So no slot needs to be followed, but one consumer that does not
acknowledge keeps all newcomers waiting. Slots that move drain here too: without that, entries of a key that were read
and not sent would pass those that its old owner still holds.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from spark_pulsar.wire.pulsar_api_pb2 import AUTO_SPLIT

from .dispatcher import KeySharedDispatcher, key_shared_dispatcher
from .selector_choice import selector_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_pulsar.broker.dispatch.base import EntryRange
    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.model.entry_sets import EntrySet
    from spark_pulsar.model.ids import Position
    from spark_pulsar.wire.pulsar_api_pb2 import KeySharedMeta

    from .hash_range_selectors import Selector


def classic_key_shared_dispatcher(core: Core, subscription: Subscription, wanted: KeySharedMeta) -> KeySharedDispatcher:
    """The dispatcher for the mode that the first consumer wants.

    The rule is for AUTO_SPLIT in order; whoever names his slots or allows any order is served as always. Slots are
    shared out as always, too: Apache Pulsar has a ring of its own for this rule, which gives keys to other consumers.
    """
    if wanted.keySharedMode == AUTO_SPLIT and not wanted.allowOutOfOrderDelivery:
        return ClassicKeySharedDispatcher(core, subscription, selector_for(core, wanted))
    return key_shared_dispatcher(core, subscription, wanted)


class ClassicKeySharedDispatcher(KeySharedDispatcher):
    """Newcomers wait until everything from before their time is acked."""

    def __init__(self, core: Core, subscription: Subscription, selector: Selector) -> None:
        self.newcomers: dict[Consumer, Position] = {}
        """Who waits, in the order they came, which is that of the first positions they may not get yet."""
        self.joined_at: dict[Consumer, Position] = {}
        """The read position when each consumer joined, for statistics."""
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
        self._let_in()
        return super().dispatch()

    def has_work(self) -> bool:
        self._let_in()
        return super().has_work()

    def _allowance(self, consumer: Consumer) -> int:
        allowance = super()._allowance(consumer)
        if consumer not in self.newcomers:
            return allowance
        # What is sent again goes to no newcomer from the first place on that any of them may not have.
        limit = next(iter(self.newcomers.values()))
        return min(allowance, _count_before(self.replay_queues.of[consumer], limit))

    def _can_send_to(self, consumer: Consumer) -> bool:
        return consumer.can_receive and (consumer not in self.newcomers or self._allowance(consumer) > 0)

    # Letting newcomers in

    def acked(self, consumer: Consumer, ranges: Iterable[EntryRange]) -> None:
        super().acked(consumer, ranges)
        self._let_in()

    def expired(self, ranges: Iterable[EntryRange]) -> None:
        super().expired(ranges)
        self._let_in()

    def passed(self) -> None:
        super().passed()
        self._let_in()

    def _let_in(self) -> None:
        """Everything before their time may be acked by now."""
        if self.newcomers:
            following = self.subscription.cursor.next_to_read
            for consumer in [each for each, position in self.newcomers.items() if position <= following]:
                del self.newcomers[consumer]
                self._wake()

    def check(self) -> None:
        super().check()
        cursor, consumers = self.subscription.cursor, self.subscription.consumers
        for consumer, position in self.newcomers.items():
            assert consumer in consumers, "who waits is there"
            assert position <= self.position, "nobody joins in the future"
            if self.subscription.is_durable:  # what it needs is not trimmed
                assert cursor.next_to_read < position, f"{consumer.name} waits for nothing (KS-9)"
            ends = [(ledger_id, end - 1) for ledger_id, _, end in consumer.pending]
            assert all(last < position for last in ends), "sent before its time (KS-9)"
        assert sorted(self.newcomers.values()) == list(self.newcomers.values()), "in the order they came"


def _count_before(replay_queue: EntrySet, limit: Position) -> int:
    """Entries of a room that lie before a position."""
    count = 0
    for ledger_id, entry_ids in replay_queue.by_ledger():
        if ledger_id < limit.ledger_id:
            count += len(entry_ids)
        elif ledger_id == limit.ledger_id:
            count += bisect_left(entry_ids, limit.entry_id)
    return count
