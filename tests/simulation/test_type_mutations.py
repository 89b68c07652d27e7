"""Would the simulation notice? Broken promises of subscription types, of times, of access, of topics that keep nothing
and of topics that end. What the broker's own invariants would say is switched off where it would come first."""

from __future__ import annotations

from dataclasses import replace
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
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.delays import Delays
from spark_pulsar.ledger.state.schemas import SchemaAdded
from spark_pulsar.ledger.state.topics import TopicEpochSet, TopicTerminated
from spark_pulsar.model.policies.json_values import SUBSCRIPTION_TYPES

from .test_mutations import Patch, find_mutation

# ---- Failover


def the_newest_consumer_is_active(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FailoverDispatcher, "_candidate", lambda _self, consumers: max(consumers, key=lambda each: each.name))


def a_takeover_goes_on_where_the_other_was(patch: pytest.MonkeyPatch) -> None:
    """Loses the entries that the old active consumer holds for the new one."""
    real = FailoverDispatcher.rewind

    def rewind(self: FailoverDispatcher) -> None:
        if self.position.ledger_id < 0:
            real(self)

    patch.setattr(FailoverDispatcher, "rewind", rewind)


def a_takeover_does_not_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FailoverDispatcher, "start_delay_ms", 0)


def a_passive_consumer_has_things_sent_again(patch: pytest.MonkeyPatch) -> None:
    real = FailoverDispatcher.redeliver

    def redeliver(self: FailoverDispatcher, consumer: Any, ranges: Any, epoch: Any) -> None:
        real(self, self.active_consumer or consumer, ranges, epoch)

    patch.setattr(FailoverDispatcher, "redeliver", redeliver)


def the_old_active_consumer_is_not_notified(patch: pytest.MonkeyPatch) -> None:
    real = FailoverDispatcher._notify

    def notify(self: FailoverDispatcher, consumer: Any) -> None:
        if consumer is self.active_consumer:
            real(self, consumer)

    patch.setattr(FailoverDispatcher, "_notify", notify)


# ---- Key_Shared


def sticky_hashes_move_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReplayQueues, "check", lambda _self, _consumers: None)
    patch.setattr(ReplayQueues, "_note_draining", lambda _self, _consumer: None)


def keys_wander(patch: pytest.MonkeyPatch) -> None:
    """Makes sticky hashes depend on how many entries were looked at before."""
    real = KeySharedDispatcher._sticky_hashes_in

    def look_at(self: KeySharedDispatcher, run: Any, low: int, high: int) -> list[int]:
        return [1 + (sticky_hash + 9_000 * run.first_entry_id) % 65_534 for sticky_hash in real(self, run, low, high)]

    patch.setattr(ReplayQueues, "check", lambda _self, _consumers: None)
    patch.setattr(KeySharedDispatcher, "_sticky_hashes_in", look_at)


def what_is_drained_stays_parked(patch: pytest.MonkeyPatch) -> None:
    def free(self: ReplayQueues, sticky_hash: int, consumer: Any) -> bool:
        del self.draining[sticky_hash]
        self.drained[consumer] += 1
        return False

    patch.setattr(ReplayQueues, "_free", free)


def what_a_leaver_held_is_lost(patch: pytest.MonkeyPatch) -> None:
    real = ReplayQueues.reassign
    patch.setattr(ReplayQueues, "reassign", lambda self, _left=(): real(self))


def what_waits_is_overtaken(patch: pytest.MonkeyPatch) -> None:
    """New entries go to whoever can have them, also past what waits for them."""
    real = KeySharedDispatcher._send_new_entries

    def send_new_entries(self: KeySharedDispatcher) -> bool:
        replay_queues, self.replay_queues.of = (
            self.replay_queues.of,
            {each: type(queue)() for each, queue in self.replay_queues.of.items()},
        )
        try:
            return real(self)
        finally:
            for consumer, queue in self.replay_queues.of.items():
                for ledger_id, entry_ids in queue.by_ledger():
                    replay_queues[consumer].add_all(ledger_id, entry_ids)
            self.replay_queues.of = replay_queues

    patch.setattr(KeySharedDispatcher, "_send_new_entries", send_new_entries)


def sticky_ranges_are_off_by_one_consumer(patch: pytest.MonkeyPatch) -> None:
    real = StickySelector._arrange

    def arrange(self: StickySelector) -> None:
        real(self)
        somebody = next((each for each in self.owners if each is not None), None)
        self.owners = [somebody if each is None else each for each in self.owners]

    patch.setattr(StickySelector, "_arrange", arrange)


# ---- delayed delivery


def a_time_comes_early(patch: pytest.MonkeyPatch) -> None:
    real = Delays.due
    patch.setattr(Delays, "due", lambda self, key, time_ms: real(self, key, time_ms + 2_000))


def times_are_forgotten_by_a_restart(patch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for until something else is delayed."""
    patch.setattr(DelayWatch, "check", lambda _self: None)

    def adopt(core: Core, topic: Any) -> None:
        if topic.state.delays is not None:
            topic.delays = DelayWatch(core, topic, topic.state.delays)

    patch.setattr(delayed_delivery, "adopt", adopt)


def what_is_due_is_not_sent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DelayWatch, "free", lambda _self, _ranges: None)


def what_waits_goes_on_waiting(patch: pytest.MonkeyPatch) -> None:
    """Holds entries back although delayed delivery is switched off."""
    patch.setattr(delayed_delivery, "policies_changed", lambda _core, _topic: None)


# ---- policies


def any_type_may_join(patch: pytest.MonkeyPatch) -> None:
    real = documents.effective

    def effective(*args: Any) -> Any:
        return replace(real(*args), subscription_types=frozenset(SUBSCRIPTION_TYPES))

    patch.setattr(documents, "effective", effective)


def a_disabled_type_stays_disabled(patch: pytest.MonkeyPatch) -> None:
    real = documents.effective
    disabled: set[str] = set()

    def effective(*args: Any) -> Any:
        found = real(*args)
        disabled.update(set(SUBSCRIPTION_TYPES) - found.subscription_types)
        return replace(found, subscription_types=found.subscription_types - disabled)

    patch.setattr(documents, "effective", effective)


def nothing_is_de_duplicated(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deduplication, "apply_policy", lambda _core, _topic: None)


def de_duplication_goes_on(patch: pytest.MonkeyPatch) -> None:
    """De-duplicates although it is switched off."""
    real = deduplication.apply_policy

    def apply_policy(core: Core, topic: Any) -> None:
        if not topic.deduplicates:
            real(core, topic)

    patch.setattr(deduplication, "apply_policy", apply_policy)


def who_was_away_for_a_moment_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    real = deduplication._remove_silent
    patch.setattr(deduplication, "_remove_silent", lambda core, timeout_ms: real(core, timeout_ms // 2))


def who_came_back_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Forgets a producer although it came back, as its time goes on."""
    real = deduplication._remove_silent

    def forget(core: Core, timeout_ms: int) -> None:
        before = {topic: topic.producers for topic in core.topics.values()}
        for topic in before:
            topic.producers = {}
        real(core, timeout_ms)
        for topic, producers in before.items():
            topic.producers = producers

    patch.setattr(deduplication, "_remove_silent", forget)


# ---- schemas


def schemas_are_in_memory_only(patch: pytest.MonkeyPatch) -> None:
    in_memory_only(patch, SchemaAdded)


def a_version_is_told_before_it_is_on_disk(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(registry, "group_of", lambda _core, _topic: 0)


def a_version_is_used_again(patch: pytest.MonkeyPatch) -> None:
    """After a deletion."""
    real = registry.delete

    def delete(core: Core, topic: Any) -> int:
        version = real(core, topic)
        registry.delete_all(core, topic)
        return version

    patch.setattr(registry, "delete", delete)


def a_schema_is_added_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(registry, "equal_version", lambda _core, _topic, _schema: None)


def an_older_version_is_shown(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(registry, "latest", lambda core, topic: next(iter(registry.versions_of(core, topic)), None))


# ---- access


def in_memory_only(patch: pytest.MonkeyPatch, kind: type) -> None:
    """Records of a kind are applied and never written."""
    real = Core.append

    def append(self: Core, record: Any) -> None:
        if isinstance(record, kind):
            apply(self.state, record)
        else:
            real(self, record)

    patch.setattr(Core, "append", append)


def epochs_are_in_memory_only(patch: pytest.MonkeyPatch) -> None:
    in_memory_only(patch, TopicEpochSet)


def a_fenced_producer_goes_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(exclusive_access, "fence", lambda topic: None)


def an_old_epoch_is_good_enough(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(exclusive_access, "check_epoch", lambda _topic, _epoch: None)


def who_waits_waits_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Access, "promote", lambda _self: None)


def the_last_waiter_is_the_first(patch: pytest.MonkeyPatch) -> None:
    real = Access.promote

    def promote(self: Access) -> None:
        self.waiters.reverse()
        real(self)
        self.waiters.reverse()

    patch.setattr(Access, "promote", promote)


# ---- non-persistent topics


def a_non_persistent_entry_goes_out_twice(patch: pytest.MonkeyPatch) -> None:
    real = NonPersistentSharedDispatcher.deliver

    def deliver(self: NonPersistentSharedDispatcher, run: Any) -> None:
        real(self, run)
        real(self, run)

    patch.setattr(NonPersistentSharedDispatcher, "deliver", deliver)


def a_non_persistent_entry_is_dropped_for_nothing(patch: pytest.MonkeyPatch) -> None:
    real = NonPersistentExclusiveDispatcher.deliver

    def deliver(self: NonPersistentExclusiveDispatcher, run: Any) -> None:
        if run.first_entry_id % 2 == 0:
            real(self, run)

    patch.setattr(NonPersistentExclusiveDispatcher, "deliver", deliver)


def non_persistent_entries_wait_for_the_disk(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        storing_entries,
        "publish",
        lambda core, producer, sends: core.when_durable(lambda: publish(core, producer, sends)),
    )


# ---- the end of topics


def a_topic_that_has_ended_takes_more(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(termination, "admit_producer", lambda _topic: None)


def the_end_is_in_memory_only(patch: pytest.MonkeyPatch) -> None:
    in_memory_only(patch, TopicTerminated)


def the_end_is_told_too_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(termination, "_has_all", lambda _subscription: True)


def the_end_is_told_before_it_is_on_disk(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Core, "when_group_durable", lambda _self, _group, due: due())


def the_last_ack_tells_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(termination, "notify_if_all_acked", lambda _core, _subscription: None)


TYPE_MUTATIONS: list[tuple[str, Patch]] = [
    ("types", the_newest_consumer_is_active),
    ("types", a_takeover_goes_on_where_the_other_was),
    ("types", a_takeover_does_not_wait),
    ("types", a_passive_consumer_has_things_sent_again),
    ("types", the_old_active_consumer_is_not_notified),
    ("types", sticky_hashes_move_at_once),
    ("types", keys_wander),
    ("types", what_is_drained_stays_parked),
    ("types", what_a_leaver_held_is_lost),
    ("types", what_waits_is_overtaken),
    ("types", sticky_ranges_are_off_by_one_consumer),
    ("delays", a_time_comes_early),
    ("delays", times_are_forgotten_by_a_restart),
    ("delays", what_is_due_is_not_sent),
    ("policies+delays", what_waits_goes_on_waiting),
    ("policies", any_type_may_join),
    ("policies", a_disabled_type_stays_disabled),
    ("policies", nothing_is_de_duplicated),
    ("policies", de_duplication_goes_on),
    ("policies", who_was_away_for_a_moment_is_forgotten),
    ("policies", who_came_back_is_forgotten),
    ("schemas", schemas_are_in_memory_only),
    ("schemas", a_version_is_told_before_it_is_on_disk),
    ("schemas", a_version_is_used_again),
    ("schemas", a_schema_is_added_twice),
    ("schemas", an_older_version_is_shown),
    ("access", epochs_are_in_memory_only),
    ("access", a_fenced_producer_goes_on),
    ("access", an_old_epoch_is_good_enough),
    ("access", who_waits_waits_for_ever),
    ("access", the_last_waiter_is_the_first),
    ("live", a_non_persistent_entry_goes_out_twice),
    ("live", a_non_persistent_entry_is_dropped_for_nothing),
    ("live", non_persistent_entries_wait_for_the_disk),
    ("termination", a_topic_that_has_ended_takes_more),
    ("termination", the_end_is_in_memory_only),
    ("termination", the_end_is_told_too_early),
    ("termination", the_end_is_told_before_it_is_on_disk),
    ("termination", the_last_ack_tells_nobody),
]


@pytest.mark.parametrize(("feature", "mutation"), TYPE_MUTATIONS, ids=lambda each: getattr(each, "__name__", each))
def test_a_broken_promise_to_clients_is_found(feature: str, mutation: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers SC-1, SC-9, SC-10, SUB-3, DED-1, DED-2, DED-9, FO-1, FO-2, FO-5, FO-6
    # covers KS-1, KS-7, KS-10, DEL-2, DEL-3, DEL-4, DEL-7, PR-6, PR-7, PR-8, NP-1, NP-2, NP-3, TN-13
    mutation(monkeypatch)
    find_mutation(mutation, None, lambda profile: profile.features.issuperset(feature.split("+")))
