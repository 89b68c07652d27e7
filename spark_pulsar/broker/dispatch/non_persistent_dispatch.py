"""Dispatchers of non-persistent topics: each run that is published is sent at once, and messages that no consumer has
permits for are dropped (NP-1, NP-3), on all four types of subscription (NP-6, X3). Consumers hold nothing, so nothing
is redelivered (NP-5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.broker.dispatch.key_shared.dispatcher import KeySharedDispatcher

from .base import fit
from .exclusive import ExclusiveDispatcher
from .failover import FailoverDispatcher
from .shared import SharedDispatcher
from .shared_redelivery import UNBOUNDED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.ledger.entries import EntryRun

    from .base import Dispatcher, EntryRange


class NonPersistentExclusiveDispatcher(ExclusiveDispatcher):
    """Sends everything to the one consumer that is active, as far as its permits go."""

    def dispatch(self) -> bool:
        self.receiver()  # Failover notifies a new active consumer
        return False

    def deliver(self, run: EntryRun) -> None:
        """Sends a run to the consumer."""
        consumer = self.receiver()
        high = 0
        if consumer is not None:
            high = fit(run.message_counts, run.ends, 0, len(run.starts), consumer.permits, UNBOUNDED)
            self.send_part(consumer, run, 0, high, with_counts=False)
        _drop(self, run, high)

    def redeliver(self, consumer: Consumer, ranges: Iterable[EntryRange] | None, epoch: int | None) -> None:
        consumer.raise_epoch(epoch)


class NonPersistentFailoverDispatcher(NonPersistentExclusiveDispatcher, FailoverDispatcher):
    """Sends everything to the active consumer, which starts without a delay."""

    @property
    def start_delay_ms(self) -> int:
        return 0


class NonPersistentSharedDispatcher(SharedDispatcher):
    """Sends round robin to consumers with permits."""

    def dispatch(self) -> bool:
        return False

    def deliver(self, run: EntryRun) -> None:
        """Sends an equal part of the run to each consumer in turn, as far as permits go."""
        low, entries = 0, len(run.starts)
        share = -(-entries // len(self.subscription.consumers))
        while low < entries:
            consumer = self._next_consumer()
            if consumer is None:
                break
            high = fit(run.message_counts, run.ends, low, min(entries, low + share), consumer.permits, UNBOUNDED)
            self.send_part(consumer, run, low, high, with_counts=True)
            low = high
        _drop(self, run, low)

    def redeliver(self, consumer: Consumer, ranges: Iterable[EntryRange] | None, epoch: int | None) -> None:
        """Does nothing: consumers hold nothing (NP-5)."""


class NonPersistentKeySharedDispatcher(KeySharedDispatcher):
    """Sends each entry to the consumer of its sticky hash; none drains, as consumers hold nothing."""

    def dispatch(self) -> bool:
        return False

    def deliver(self, run: EntryRun) -> None:
        """Sends each consumer the entries of its sticky hashes, as far as permits go."""
        counts = run.message_counts or [1] * len(run.starts)
        left = {consumer: consumer.permits for consumer in self.replay_queues.of if consumer.can_receive}
        picks: dict[Consumer, list[int]] = {}
        for index, sticky_hash in enumerate(self.selector.sticky_hashes.of(run.buffer, run.starts, run.ends)):
            owner = self.selector.owner(sticky_hash)
            if owner is not None and left.get(owner, 0) > 0:
                picks.setdefault(owner, []).append(index)
                left[owner] -= counts[index]
            else:
                self.subscription.messages_dropped += counts[index]
        for consumer, indexes in picks.items():
            self._deliver(consumer, run, indexes)

    def _hold(self, consumer: Consumer, ledger_id: int, entry_ids: list[int], counts: list[int] | None) -> None:
        """Does nothing: consumers hold nothing (NP-5)."""

    def redeliver(self, consumer: Consumer, ranges: Iterable[EntryRange] | None, epoch: int | None) -> None:
        """Does nothing: consumers hold nothing (NP-5)."""


def _drop(dispatcher: Dispatcher, run: EntryRun, low: int) -> None:
    counts = run.message_counts
    dispatcher.subscription.messages_dropped += len(run.starts) - low if counts is None else sum(counts[low:])
