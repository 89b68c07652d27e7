"""Would the simulation notice? Broken rules of what only some histories have: administration, compaction, expiry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from spark_pulsar.broker.dispatch.compacted import CompactedDispatcher
from spark_pulsar.broker.dispatch.limits.dispatch_limiter import DispatchLimiter
from spark_pulsar.broker.dispatch.shared_redelivery import RedeliveringDispatcher
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

from .mutations import Mutation, Mutations, breaks, find


class ShortWalk(EntryWalk):
    """Walk that stops at the first entry that must be read."""

    def walk(self, budget: int) -> int:
        left = super().walk(budget)
        self.is_over |= self.is_reading
        self._resume = lambda: None
        return left


def nothing(*_: Any) -> None:
    """Does nothing."""


MUTATIONS: Mutations = {
    "expiring_stops_early": Mutation(expire_by_time, "EntryWalk", ShortWalk, "moves", 462),
    "what_a_skip_took_is_still_held": Mutation(RedeliveringDispatcher, "passed", nothing, "moves", 22),
    "a_topic_goes_under_its_clients": Mutation(lifecycle, "disconnect_all", nothing, "deletion", 31),
    "an_idle_subscription_goes_early": Mutation(idle_subscriptions, "_MINUTE_MS", 59_999, "idleness", 61),
    "an_idle_subscription_goes_late": Mutation(idle_subscriptions, "_MINUTE_MS", 62_000, "idleness", 212),
    "a_use_is_not_noted": Mutation(IdleSubscriptions, "joined", nothing, "idleness", 36),
    "what_was_idle_before_a_restart_stays": Mutation(IdleSubscriptions, "check", nothing, "idleness", 36),
    "retention_does_not_keep_a_topic": Mutation(RetentionPolicy, "time_ms", 0, "inactivity", 276),
    "what_a_rate_holds_back_never_goes": Mutation(PublishLimit, "_go_on", nothing, "rates", 101),
    "what_is_sent_costs_nothing": Mutation(DispatchLimiter, "spend", nothing, "rates"),
    "who_waits_for_a_rate_waits_for_ever": Mutation(
        DispatchLimiter, "_time_is_over", nothing, "rates", 101, silenced=(DispatchLimiter, "check")
    ),
    "everybody_may_produce": Mutation(RequiredEncryption, "admit_producer", nothing, "encryption", 30),
    "who_does_not_encrypt_may_stay": Mutation(encryption, "disconnect_after_receipts", nothing, "encryption", 30),
    "an_unfinished_compaction_stays": Mutation(compaction, "begin", nothing, "compaction", 24),
}
broken = partial(breaks, MUTATIONS)


@broken(cursor_moves, "nth_unacked", "moves", 22)
def skipping_takes_one_too_many(real: Any, subscription: Any, number: int) -> Any:
    return real(subscription, number + 1)


@broken(cursor_moves, "clear_backlog", "moves", 183)
def clearing_takes_what_is_not_on_disk(_real: Any, core: Core, subscription: Any) -> int:
    return cursor_moves.mark_deleted(core, subscription, subscription.topic.ledger.last_position)


@broken(cursor_moves, "reset_to_position", "moves", 244)
def a_reset_takes_the_excluded_one_too(real: Any, *args: Any, excluded: bool, **more: Any) -> Any:
    return real(*args, **more)


@broken(expire_by_time, "older_than", "moves", 177)
def expiring_takes_younger_ones(real: Any, core: Core, subscription: Any, time_ms: int, done: Any) -> Any:
    return real(core, subscription, time_ms + 1_000, done)


@broken(lifecycle, "create_partitioned_in_steps", "partitions", 40)
def new_partitions_lack_subscriptions(
    _real: Any, core: Core, name: Any, partitions: int, properties: Any
) -> Iterator[None]:
    core.append(PartitionedTopicSet(name.full, partitions, dict(properties)))
    for index in range(partitions):
        if not registry.exists(core, name.at_partition(index)):
            lifecycle.create(core, name.at_partition(index))
        yield


@broken(lifecycle, "delete_partitioned_in_steps", "partitions", 59)
def a_partition_outlives_its_topic(_real: Any, core: Core, name: Any) -> Iterator[None]:
    for index in range((registry.partition_count(core, name) or 0) - 1):
        topic = registry.find(core, name.at_partition(index))
        if topic is not None:
            lifecycle.delete(core, topic)
        yield
    core.append(PartitionedTopicDeleted(name.full))


# ---- compaction


@broken(Compactor, "_put", "compaction", 24)
def the_first_of_a_key_is_left(_real: Any, self: Compactor, _database: Any, key: Any, place: Any) -> None:
    self._gathered.setdefault(key, place)


@broken(Compactor, "_note", "compaction", 36)
def a_key_comes_back(real: Any, self: Compactor, database: Any, found: Any) -> None:
    """An empty value does not count as the last one."""
    metadata = metadata_of(found.buffer, found.start, found.end)
    if metadata.num_messages_in_batch > 1 or unpacked_payload(metadata, found.buffer, found.start, found.end):
        real(self, database, found)


@broken(Compactor, "__init__", "compaction", 12)
def what_was_compacted_before_is_left_out(real: Any, self: Compactor, task: CompactTopic, *args: Any) -> None:
    real(self, replace(task, compacted=()), *args)


@broken(TopicState, "slowest_mark_delete", "compaction", 12)
def what_is_to_be_compacted_is_trimmed(_real: Any, self: TopicState) -> Position | None:
    return min((cursor.mark_delete for cursor in self.cursors.values()), default=None)


@broken(compactor, "pieces_left", "compaction")
def a_batch_stays_whole(_real: Any, data: bytes, _first: int, bounds: list[int], _kept: Any) -> list[bytes]:
    return [data[bounds[0] : bounds[-1]]]


@broken(compactor, "portions_of", "compaction")
def a_value_that_is_no_more_stays_in_a_batch(real: Any, data: bytes, messages: int) -> Iterator[Portion]:
    return (portion._replace(empty=[]) for portion in real(data, messages))


@broken(Compaction, "entry_before", "compaction")
def the_compacted_view_begins_late(real: Any, self: Compaction, position: Position) -> int:
    return int(real(self, position)) + 1


@broken(CompactedDispatcher, "dispatch", "compaction", 991)
def the_compacted_view_goes_on_late(real: Any, self: CompactedDispatcher) -> bool:
    """Passes over the entries just behind the horizon."""
    before = self.position
    is_sent: bool = real(self)
    view = self.subscription.topic.state.compaction
    if view is not None and before <= view.horizon < self.position:
        self.position = Position(self.position.ledger_id, self.position.entry_id + 1)
    return is_sent


# ---- inactive topics


@broken(InactiveTopics, "_check", "inactivity", 121)
def an_inactive_topic_goes_early(real: Any, self: InactiveTopics, state: TopicState) -> None:
    self._since_ms = {topic_id: since_ms - 20_000 for topic_id, since_ms in self._since_ms.items()}
    real(self, state)


@broken(InactiveTopics, "_check", "inactivity")
def an_inactive_topic_stays(real: Any, self: InactiveTopics, state: TopicState) -> None:
    self._since_ms.clear()
    real(self, state)


@broken(InactiveTopics, "_in_use", "inactivity", 187)
def a_backlog_is_no_use(real: Any, self: InactiveTopics, state: TopicState, mode: str) -> bool:
    return mode == NO_SUBSCRIPTIONS and real(self, state, mode)


# ---- rates and encryption


@broken(PublishLimit, "_store", "rates", 30)
def no_rate_of_publishing_holds(_real: Any, self: PublishLimit, producer: Any, sends: Any) -> Any:
    return self._pass_on(producer, sends)


@broken(DispatchLimiter, "spend", "rates", 80)
def bytes_are_not_limited(real: Any, self: DispatchLimiter, messages: int, _size_bytes: int) -> None:
    real(self, messages, 0)


@broken(encryption, "allowed_parts", "encryption", 101)
def what_is_not_encrypted_is_stored(_real: Any, sends: Any) -> Any:
    return iter([(sends, None)])


@broken(encryption, "allowed_parts", "encryption", 101)
def the_first_of_a_run_speaks_for_all(real: Any, sends: Any) -> Any:
    return iter([(sends, next(real(sends))[1])])


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_of_administration_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers CUR-11, CUR-14, TTL-8, PT-7, CMP-C1, CMP-C3, CMP-C4, CUR-17, TN-11, RET-6, PR-12, PR-14, SUB-6, SUB-7
    find(MUTATIONS[name], monkeypatch)
