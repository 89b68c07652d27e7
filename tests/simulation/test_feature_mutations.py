"""Would the simulation notice? Broken rules of what only some histories have: administration, compaction, expiry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from spark_pulsar.broker.dispatch.compacted import CompactedDispatcher
from spark_pulsar.broker.dispatch.limits.dispatch_limiter import DispatchLimiter
from spark_pulsar.broker.dispatch.redelivery import RedeliveringDispatcher
from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.message_lifetime import compaction, expire_by_time
from spark_pulsar.broker.publishing import encryption
from spark_pulsar.broker.publishing.encryption import RequiredEncryption
from spark_pulsar.broker.publishing.publish_rates import PublishLimit
from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.broker.topic_log.entry_walk import EntryWalk
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.broker.turn.effects import CompactTopic
from spark_pulsar.broker.upkeep import idle_subscriptions
from spark_pulsar.broker.upkeep.idle_subscriptions import IdleSubscriptions
from spark_pulsar.broker.upkeep.inactive_topics import InactiveTopics
from spark_pulsar.ledger.state.compaction import Compaction
from spark_pulsar.ledger.state.topics import PartitionedTopicDeleted, PartitionedTopicSet, TopicState
from spark_pulsar.model.policies.effective_policies import NO_SUBSCRIPTIONS, RetentionPolicy
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.server.compaction import compactor
from spark_pulsar.server.compaction.compactor import Compactor
from spark_pulsar.wire.entries.batch_items import Portion
from spark_pulsar.wire.entries.compacted import unpacked_payload
from spark_pulsar.wire.entries.entry_bytes import metadata_of

from .profile import NEWEST
from .test_mutations import Patch, find_mutation


def skipping_takes_one_too_many(patch: pytest.MonkeyPatch) -> None:
    real = cursor_moves.nth_unacked
    patch.setattr(cursor_moves, "nth_unacked", lambda subscription, number: real(subscription, number + 1))


def clearing_takes_what_is_not_on_disk(patch: pytest.MonkeyPatch) -> None:
    def clear_backlog(core: Core, subscription: Any) -> int:
        return cursor_moves.mark_deleted(core, subscription, subscription.topic.ledger.last_position)

    patch.setattr(cursor_moves, "clear_backlog", clear_backlog)


def a_reset_takes_the_excluded_one_too(patch: pytest.MonkeyPatch) -> None:
    real = cursor_moves.reset_to_position
    patch.setattr(cursor_moves, "reset_to_position", lambda *args, excluded, **more: real(*args, **more))


def expiring_takes_younger_ones(patch: pytest.MonkeyPatch) -> None:
    real = expire_by_time.older_than
    patch.setattr(
        expire_by_time, "older_than", lambda core, each, time_ms, done: real(core, each, time_ms + 1_000, done)
    )


def expiring_stops_early(patch: pytest.MonkeyPatch) -> None:
    """Stops at the first entry that must be read."""

    class ShortWalk(EntryWalk):
        def walk(self, budget: int) -> int:
            left = super().walk(budget)
            self.is_over |= self.is_reading
            self._resume = lambda: None
            return left

    patch.setattr(expire_by_time, "EntryWalk", ShortWalk)


def what_a_skip_took_is_still_held(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RedeliveringDispatcher, "passed", lambda _self: None)


def a_topic_goes_under_its_clients(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lifecycle, "disconnect_all", lambda _core, _topic: None)


def new_partitions_lack_subscriptions(patch: pytest.MonkeyPatch) -> None:
    def create_partitioned(core: Core, name: Any, partitions: int, properties: Any) -> Iterator[None]:
        core.append(PartitionedTopicSet(name.full, partitions, dict(properties)))
        for index in range(partitions):
            if not registry.exists(core, name.at_partition(index)):
                lifecycle.create(core, name.at_partition(index))
            yield

    patch.setattr(lifecycle, "create_partitioned_in_steps", create_partitioned)


def a_partition_outlives_its_topic(patch: pytest.MonkeyPatch) -> None:
    real = registry.partition_count

    def delete_partitioned(core: Core, name: Any) -> Iterator[None]:
        for index in range((real(core, name) or 0) - 1):
            topic = registry.find(core, name.at_partition(index))
            if topic is not None:
                lifecycle.delete(core, topic)
            yield
        core.append(PartitionedTopicDeleted(name.full))

    patch.setattr(lifecycle, "delete_partitioned_in_steps", delete_partitioned)


# ---- compaction


def the_first_of_a_key_is_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Compactor, "_put", lambda self, _database, key, place: self._gathered.setdefault(key, place))


def a_key_comes_back(patch: pytest.MonkeyPatch) -> None:
    """An empty value does not count as the last one."""
    real = Compactor._note

    def note(self: Compactor, database: Any, found: Any) -> None:
        metadata = metadata_of(found.buffer, found.start, found.end)
        if metadata.num_messages_in_batch > 1 or unpacked_payload(metadata, found.buffer, found.start, found.end):
            real(self, database, found)

    patch.setattr(Compactor, "_note", note)


def what_was_compacted_before_is_left_out(patch: pytest.MonkeyPatch) -> None:
    real = Compactor.__init__

    def init(self: Compactor, task: CompactTopic, *args: Any) -> None:
        real(self, replace(task, compacted=()), *args)

    patch.setattr(Compactor, "__init__", init)


def what_is_to_be_compacted_is_trimmed(patch: pytest.MonkeyPatch) -> None:
    def slowest_mark_delete(self: TopicState) -> Position | None:
        return min((cursor.mark_delete for cursor in self.cursors.values()), default=None)

    patch.setattr(TopicState, "slowest_mark_delete", slowest_mark_delete)


def a_batch_stays_whole(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(compactor, "pieces_left", lambda data, first, bounds, kept: [data[bounds[0] : bounds[-1]]])


def a_value_that_is_no_more_stays_in_a_batch(patch: pytest.MonkeyPatch) -> None:
    real = compactor.portions_of

    def portions_of(data: bytes, messages: int) -> Iterator[Portion]:
        return (portion._replace(empty=[]) for portion in real(data, messages))

    patch.setattr(compactor, "portions_of", portions_of)


def an_unfinished_compaction_stays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(compaction, "begin", lambda _core: None)


def the_compacted_view_begins_late(patch: pytest.MonkeyPatch) -> None:
    real = Compaction.entry_before
    patch.setattr(Compaction, "entry_before", lambda self, position: real(self, position) + 1)


def the_compacted_view_goes_on_late(patch: pytest.MonkeyPatch) -> None:
    """Passes over the entries just behind the horizon."""
    real = CompactedDispatcher.dispatch

    def dispatch(self: CompactedDispatcher) -> bool:
        before = self.position
        told = real(self)
        view = self.subscription.topic.state.compaction
        if view is not None and before <= view.horizon < self.position:
            self.position = Position(self.position.ledger_id, self.position.entry_id + 1)
        return told

    patch.setattr(CompactedDispatcher, "dispatch", dispatch)


# ---- idle subscriptions


def an_idle_subscription_goes_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(idle_subscriptions, "_MINUTE_MS", 59_999)


def an_idle_subscription_goes_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(idle_subscriptions, "_MINUTE_MS", 62_000)


def a_use_is_not_noted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(IdleSubscriptions, "joined", lambda _self, _subscription: None)


def what_was_idle_before_a_restart_stays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(IdleSubscriptions, "check", lambda _self, _topic: None)


# ---- inactive topics


def an_inactive_topic_goes_early(patch: pytest.MonkeyPatch) -> None:
    real = InactiveTopics._check

    def check(self: InactiveTopics, state: TopicState) -> None:
        self._since_ms = {topic_id: since_ms - 20_000 for topic_id, since_ms in self._since_ms.items()}
        real(self, state)

    patch.setattr(InactiveTopics, "_check", check)


def an_inactive_topic_stays(patch: pytest.MonkeyPatch) -> None:
    real = InactiveTopics._check

    def check(self: InactiveTopics, state: TopicState) -> None:
        self._since_ms.clear()
        real(self, state)

    patch.setattr(InactiveTopics, "_check", check)


def a_backlog_is_no_use(patch: pytest.MonkeyPatch) -> None:
    real = InactiveTopics._in_use
    patch.setattr(
        InactiveTopics, "_in_use", lambda self, state, mode: mode == NO_SUBSCRIPTIONS and real(self, state, mode)
    )


def retention_does_not_keep_a_topic(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RetentionPolicy, "time_ms", 0)


# ---- rates


def no_rate_of_publishing_holds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PublishLimit, "_store", lambda self, producer, sends: self._pass_on(producer, sends))


def what_a_rate_holds_back_never_goes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PublishLimit, "_go_on", lambda _self: None)


def what_is_sent_costs_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DispatchLimiter, "spend", lambda _self, _messages, _size_bytes: None)


def bytes_are_not_limited(patch: pytest.MonkeyPatch) -> None:
    real = DispatchLimiter.spend
    patch.setattr(DispatchLimiter, "spend", lambda self, messages, _size_bytes: real(self, messages, 0))


def who_waits_for_a_rate_waits_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DispatchLimiter, "check", lambda _self, _onward: None)  # else the invariants find it
    patch.setattr(DispatchLimiter, "_time_is_over", lambda _self: None)


# ---- encryption


def what_is_not_encrypted_is_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(encryption, "allowed_parts", lambda sends: iter([(sends, None)]))


def the_first_of_a_run_speaks_for_all(patch: pytest.MonkeyPatch) -> None:
    real = encryption.allowed_parts
    patch.setattr(encryption, "allowed_parts", lambda sends: iter([(sends, next(real(sends))[1])]))


def everybody_may_produce(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RequiredEncryption, "admit_producer", lambda _self, _topic, _command: None)


def who_does_not_encrypt_may_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(encryption, "disconnect_after_receipts", lambda _core, _producer: None)


FEATURE_MUTATIONS: list[tuple[str, Patch]] = [
    ("moves", skipping_takes_one_too_many),
    ("moves", clearing_takes_what_is_not_on_disk),
    ("moves", a_reset_takes_the_excluded_one_too),
    ("moves", expiring_takes_younger_ones),
    ("moves", expiring_stops_early),
    ("moves", what_a_skip_took_is_still_held),
    ("deletion", a_topic_goes_under_its_clients),
    ("partitions", new_partitions_lack_subscriptions),
    ("partitions", a_partition_outlives_its_topic),
    ("idleness", an_idle_subscription_goes_early),
    ("idleness", an_idle_subscription_goes_late),
    ("idleness", a_use_is_not_noted),
    ("idleness", what_was_idle_before_a_restart_stays),
    ("inactivity", an_inactive_topic_goes_early),
    ("inactivity", an_inactive_topic_stays),
    ("inactivity", a_backlog_is_no_use),
    ("inactivity", retention_does_not_keep_a_topic),
    ("rates", no_rate_of_publishing_holds),
    ("rates", what_a_rate_holds_back_never_goes),
    ("rates", what_is_sent_costs_nothing),
    ("rates", bytes_are_not_limited),
    ("rates", who_waits_for_a_rate_waits_for_ever),
    ("encryption", what_is_not_encrypted_is_stored),
    ("encryption", the_first_of_a_run_speaks_for_all),
    ("encryption", everybody_may_produce),
    ("encryption", who_does_not_encrypt_may_stay),
    ("compaction", the_first_of_a_key_is_left),
    ("compaction", a_key_comes_back),
    ("compaction", what_was_compacted_before_is_left_out),
    ("compaction", what_is_to_be_compacted_is_trimmed),
    ("compaction", a_batch_stays_whole),
    ("compaction", a_value_that_is_no_more_stays_in_a_batch),
    ("compaction", an_unfinished_compaction_stays),
    ("compaction", the_compacted_view_begins_late),
    ("compaction", the_compacted_view_goes_on_late),
]


@pytest.mark.parametrize(("feature", "mutation"), FEATURE_MUTATIONS, ids=lambda each: getattr(each, "__name__", each))
def test_a_broken_rule_of_administration_is_found(
    feature: str, mutation: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    # covers CUR-11, CUR-14, TTL-8, PT-7, CMP-C1, CMP-C3, CMP-C4, CUR-17, TN-11, RET-6, PR-12, PR-14, SUB-6, SUB-7
    mutation(monkeypatch)
    without = NEWEST - {feature}
    find_mutation(mutation, None, lambda profile: feature in profile.features, without)
