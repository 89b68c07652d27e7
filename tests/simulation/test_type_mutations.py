"""Would the simulation notice? Broken promises of subscription types, of times, of access, of topics that keep nothing
and of topics that end. What the broker's own invariants would say is switched off where it would come first."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from spark_pulsar.broker.dispatch.failover import FailoverDispatcher
from spark_pulsar.broker.dispatch.key_shared.dispatcher import KeySharedDispatcher
from spark_pulsar.broker.dispatch.key_shared.replay_queues import ReplayQueues
from spark_pulsar.broker.dispatch.key_shared.selectors import StickySelector
from spark_pulsar.broker.dispatch.non_persistent_dispatch import (
    NonPersistentExclusiveDispatcher,
    NonPersistentSharedDispatcher,
)
from spark_pulsar.broker.entities import exclusive_access
from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.entities.exclusive_access import Access
from spark_pulsar.broker.message_lifetime import delayed_delivery
from spark_pulsar.broker.message_lifetime.delayed_delivery import DelayWatch
from spark_pulsar.broker.policies import documents
from spark_pulsar.broker.publishing import deduplication, storing_entries
from spark_pulsar.broker.schemas import registry
from spark_pulsar.broker.topic_log import termination
from spark_pulsar.broker.topics.non_persistent_topic import publish
from spark_pulsar.ledger.state.delays import Delays
from spark_pulsar.ledger.state.schemas import SchemaAdded
from spark_pulsar.ledger.state.topics import TopicEpochSet, TopicTerminated
from spark_pulsar.model.policies.json_values import SUBSCRIPTION_TYPES

from .mutations import Mutation, Mutations, breaks, find, in_memory_only


def nothing(*_: Any) -> None:
    """Does nothing."""


REPLAY_CHECK = (ReplayQueues, "check")
MUTATIONS: Mutations = {
    "a_takeover_does_not_wait": Mutation(FailoverDispatcher, "start_delay_ms", 0, "types", 60),
    "sticky_hashes_move_at_once": Mutation(ReplayQueues, "_note_draining", nothing, "types", silenced=REPLAY_CHECK),
    "what_is_due_is_not_sent": Mutation(DelayWatch, "free", nothing, "delays", 64),
    "what_waits_goes_on_waiting": Mutation(
        delayed_delivery, "policies_changed", nothing, "policies+delays", 3063
    ),  # although delayed delivery is switched off
    "nothing_is_de_duplicated": Mutation(deduplication, "apply_policy", nothing, "policies", 41),
    "schemas_are_in_memory_only": in_memory_only(SchemaAdded, "schemas"),
    "a_version_is_told_before_it_is_on_disk": Mutation(registry, "group_of", lambda *_: 0, "schemas"),
    "a_schema_is_added_twice": Mutation(registry, "equal_version", nothing, "schemas"),
    "epochs_are_in_memory_only": in_memory_only(TopicEpochSet, "access"),
    "a_fenced_producer_goes_on": Mutation(exclusive_access, "fence", nothing, "access", 27),
    "an_old_epoch_is_good_enough": Mutation(exclusive_access, "check_epoch", nothing, "access", 120),
    "who_waits_waits_for_ever": Mutation(Access, "promote", nothing, "access", 66),
    "a_topic_that_has_ended_takes_more": Mutation(termination, "admit_producer", nothing, "termination"),
    "the_end_is_in_memory_only": in_memory_only(TopicTerminated, "termination"),
    "the_end_is_told_too_early": Mutation(termination, "_has_all", lambda _subscription: True, "termination", 55),
    "the_last_ack_tells_nobody": Mutation(termination, "notify_if_all_acked", nothing, "termination", 170),
}
broken = partial(breaks, MUTATIONS)


# ---- Failover


@broken(FailoverDispatcher, "_candidate", "types", 54)
def the_newest_consumer_is_active(_real: Any, _self: FailoverDispatcher, consumers: Any) -> Any:
    return max(consumers, key=lambda each: each.name)


@broken(FailoverDispatcher, "rewind", "types", 87)
def a_takeover_goes_on_where_the_other_was(real: Any, self: FailoverDispatcher) -> None:
    """Loses the entries that the old active consumer holds for the new one."""
    if self.position.ledger_id < 0:
        real(self)


@broken(FailoverDispatcher, "redeliver", "types", 317)
def a_passive_consumer_has_things_sent_again(real: Any, self: FailoverDispatcher, consumer: Any, *more: Any) -> None:
    real(self, self.active_consumer or consumer, *more)


@broken(FailoverDispatcher, "_notify", "types", 54)
def the_old_active_consumer_is_not_notified(real: Any, self: FailoverDispatcher, consumer: Any) -> None:
    if consumer is self.active_consumer:
        real(self, consumer)


# ---- Key_Shared


@broken(KeySharedDispatcher, "_sticky_hashes_in", "types", silenced=REPLAY_CHECK)
def keys_wander(real: Any, self: KeySharedDispatcher, run: Any, low: int, high: int) -> list[int]:
    """Makes sticky hashes depend on how many entries were looked at before."""
    return [1 + (sticky_hash + 9_000 * run.first_entry_id) % 65_534 for sticky_hash in real(self, run, low, high)]


@broken(ReplayQueues, "_free", "types", 93)
def what_is_drained_stays_parked(_real: Any, self: ReplayQueues, sticky_hash: int, consumer: Any) -> bool:
    del self.draining[sticky_hash]
    self.drained[consumer] += 1
    return False


@broken(ReplayQueues, "reassign", "types")
def what_a_leaver_held_is_lost(real: Any, self: ReplayQueues, _left: Any = ()) -> Any:
    return real(self)


@broken(KeySharedDispatcher, "_send_new_entries", "types", 263)
def what_waits_is_overtaken(real: Any, self: KeySharedDispatcher) -> bool:
    """New entries go to whoever can have them, also past what waits for them."""
    replay_queues, self.replay_queues.of = (
        self.replay_queues.of,
        {each: type(queue)() for each, queue in self.replay_queues.of.items()},
    )
    try:
        return bool(real(self))
    finally:
        for consumer, queue in self.replay_queues.of.items():
            for ledger_id, entry_ids in queue.by_ledger():
                replay_queues[consumer].add_all(ledger_id, entry_ids)
        self.replay_queues.of = replay_queues


@broken(StickySelector, "_arrange", "types", 61)
def sticky_ranges_are_off_by_one_consumer(real: Any, self: StickySelector) -> None:
    real(self)
    somebody = next((each for each in self.owners if each is not None), None)
    self.owners = [somebody if each is None else each for each in self.owners]


# ---- delayed delivery


@broken(Delays, "due", "delays")
def a_time_comes_early(real: Any, self: Delays, key: Any, time_ms: int) -> Any:
    return real(self, key, time_ms + 2_000)


@broken(delayed_delivery, "adopt", "delays", 114, silenced=(DelayWatch, "check"))
def times_are_forgotten_by_a_restart(_real: Any, core: Core, topic: Any) -> None:
    """Nothing is waited for until something else is delayed."""
    if topic.state.delays is not None:
        topic.delays = DelayWatch(core, topic, topic.state.delays)


# ---- policies


@broken(documents, "effective", "policies", 21)
def any_type_may_join(real: Any, *args: Any) -> Any:
    return replace(real(*args), subscription_types=frozenset(SUBSCRIPTION_TYPES))


@broken(documents, "effective", "policies", 21)
def a_disabled_type_stays_disabled(real: Any, *args: Any, disabled: set[str] = set()) -> Any:  # noqa: B006
    policies = real(*args)
    disabled.update(set(SUBSCRIPTION_TYPES) - policies.subscription_types)
    return replace(policies, subscription_types=policies.subscription_types - disabled)


@broken(deduplication, "apply_policy", "policies", 372)
def de_duplication_goes_on(real: Any, core: Core, topic: Any) -> None:
    """De-duplicates although it is switched off."""
    if not topic.deduplicates:
        real(core, topic)


@broken(deduplication, "_remove_silent", "policies", 1196)
def who_was_away_for_a_moment_is_forgotten(real: Any, core: Core, timeout_ms: int) -> None:
    real(core, timeout_ms // 2)


@broken(deduplication, "_remove_silent", "policies", 212)
def who_came_back_is_forgotten(real: Any, core: Core, timeout_ms: int) -> None:
    """Forgets a producer although it came back, as its time goes on."""
    before = {topic: topic.producers for topic in core.topics.values()}
    for topic in before:
        topic.producers = {}
    real(core, timeout_ms)
    for topic, producers in before.items():
        topic.producers = producers


# ---- schemas


@broken(registry, "delete", "schemas")
def a_version_is_used_again(real: Any, core: Core, topic: Any) -> int:
    """After a deletion."""
    version: int = real(core, topic)
    registry.delete_all(core, topic)
    return version


@broken(registry, "latest", "schemas")
def an_older_version_is_shown(_real: Any, core: Core, topic: Any) -> Any:
    return next(iter(registry.versions_of(core, topic)), None)


# ---- access


@broken(Access, "promote", "access")
def the_last_waiter_is_the_first(real: Any, self: Access) -> None:
    self.waiters.reverse()
    real(self)
    self.waiters.reverse()


# ---- non-persistent topics


@broken(NonPersistentSharedDispatcher, "deliver", "live", 24)
def a_non_persistent_entry_goes_out_twice(real: Any, self: NonPersistentSharedDispatcher, run: Any) -> None:
    real(self, run)
    real(self, run)


@broken(NonPersistentExclusiveDispatcher, "deliver", "live", 25)
def a_non_persistent_entry_is_dropped_for_nothing(real: Any, self: NonPersistentExclusiveDispatcher, run: Any) -> None:
    if run.first_entry_id % 2 == 0:
        real(self, run)


@broken(storing_entries, "publish", "live", 11)
def non_persistent_entries_wait_for_the_disk(_real: Any, core: Core, producer: Any, sends: Any) -> None:
    core.when_durable(lambda: publish(core, producer, sends))


# ---- the end of topics


@broken(Core, "when_group_durable", "termination")
def the_end_is_told_before_it_is_on_disk(_real: Any, _self: Core, _group: int, due: Any) -> None:
    due()


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_promise_to_clients_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers SC-1, SC-9, SC-10, SUB-3, DED-1, DED-2, DED-9, FO-1, FO-2, FO-5, FO-6
    # covers KS-1, KS-7, KS-10, DEL-2, DEL-3, DEL-4, DEL-7, PR-6, PR-7, PR-8, NP-1, NP-2, NP-3, TN-13
    find(MUTATIONS[name], monkeypatch)
