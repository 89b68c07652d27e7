"""Dispatchers of non-persistent topics: each run that is published is dealt out at once, and what nobody can take is
dropped (NP-1, NP-3, NP-6). Nothing is held, so nothing is ever sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.dispatch.key_shared.dispatcher import KeySharedDispatcher
from spark_pulsar.broker.dispatch.key_shared.selector_choice import selector_for
from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe

from .base import Dispatcher, fit
from .exclusive import ExclusiveDispatcher
from .failover import FailoverDispatcher
from .shared import SharedDispatcher

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.wire.pulsar_api_pb2 import KeySharedMeta

    from .base import EntryRange

_UNBOUNDED: Final = 1 << 62


class NonPersistentExclusiveDispatcher(ExclusiveDispatcher):
    """Everything to the one consumer."""

    def dispatch(self) -> bool:
        return False

    def deliver(self, run: EntryRun) -> None:
        """Send what the consumer has permits for."""
        _give(self, self.receiver(), run)

    def redeliver(self, consumer: Consumer, ranges: Iterable[EntryRange] | None, epoch: int | None) -> None:
        """There is nothing to send again (NP-5)."""
        consumer.raise_epoch(epoch)


class NonPersistentFailoverDispatcher(FailoverDispatcher):
    """Everything to the active consumer, which starts without a delay."""

    @property
    def start_delay_ms(self) -> int:
        return 0

    def dispatch(self) -> bool:
        self.receiver()  # a new active consumer is told that it is
        return False

    def deliver(self, run: EntryRun) -> None:
        """Send what the active consumer has permits for."""
        _give(self, self.receiver(), run)

    def redeliver(self, consumer: Consumer, ranges: Iterable[EntryRange] | None, epoch: int | None) -> None:
        """There is nothing to send again (NP-5)."""
        consumer.raise_epoch(epoch)


class NonPersistentSharedDispatcher(SharedDispatcher):
    """Round robin over those with permits."""

    def dispatch(self) -> bool:
        return False

    def deliver(self, run: EntryRun) -> None:
        """An equal part of the run to each consumer in turn, as far as permits go."""
        low, entries = 0, len(run.starts)
        share = -(-entries // len(self.subscription.consumers))
        while low < entries:
            consumer = self._next_consumer()
            if consumer is None:
                break
            high = fit(run.message_counts, run.ends, low, min(entries, low + share), consumer.permits, _UNBOUNDED)
            self.send_part(consumer, run, low, high, with_counts=True)
            low = high
        _drop(self, run, low)

    def redeliver(self, consumer: Consumer, ranges: Iterable[EntryRange] | None, epoch: int | None) -> None:
        """There is nothing to send again (NP-5)."""


class NonPersistentKeySharedDispatcher(KeySharedDispatcher):
    """Each entry to the owner of its slot; nothing drains, as nobody holds anything."""

    def dispatch(self) -> bool:
        return False

    def deliver(self, run: EntryRun) -> None:
        """Send each owner what it has permits for."""
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
        """Nobody holds what is not stored."""

    def redeliver(self, consumer: Consumer, ranges: Iterable[EntryRange] | None, epoch: int | None) -> None:
        """There is nothing to send again (NP-5)."""


def _give(dispatcher: Dispatcher, consumer: Consumer | None, run: EntryRun) -> None:
    entries = high = len(run.starts)
    if consumer is None:
        high = 0
    else:
        high = fit(run.message_counts, run.ends, 0, entries, consumer.permits, _UNBOUNDED)
        dispatcher.send_part(consumer, run, 0, high, with_counts=False)
    _drop(dispatcher, run, high)


def _drop(dispatcher: Dispatcher, run: EntryRun, low: int) -> None:
    counts = run.message_counts
    dispatcher.subscription.messages_dropped += len(run.starts) - low if counts is None else sum(counts[low:])


def non_persistent_dispatcher(
    core: Core, subscription: Subscription, subscription_type: int, key_shared: KeySharedMeta
) -> Dispatcher:
    """The dispatcher of a subscription type; `key_shared` says how a Key_Shared one shares out its keys."""
    if subscription_type == CommandSubscribe.Key_Shared:
        keeps_order = not key_shared.allowOutOfOrderDelivery
        return NonPersistentKeySharedDispatcher(
            core, subscription, selector_for(core, key_shared), keeps_order=keeps_order
        )
    if subscription_type == CommandSubscribe.Shared:
        return NonPersistentSharedDispatcher(core, subscription)
    if subscription_type == CommandSubscribe.Failover:
        return NonPersistentFailoverDispatcher(core, subscription)
    return NonPersistentExclusiveDispatcher(core, subscription)
