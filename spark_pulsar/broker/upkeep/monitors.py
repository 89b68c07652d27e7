"""Monitors: the work on topics that the clock, or a change of policies, requires.

| work | time |
| --- | --- |
| ledgers roll over by time | `rollover`, at the time |
| consumed ledgers are trimmed | `retention`: at a roll, at an ack that frees one, when retention is over |
| entries expire | `ttl_monitor`: at the time, and before they would be delivered |
| idle subscriptions are deleted | `idle_subscriptions`: at the time |
| backlogs meet their quotas (BQ-3) | `backlog_quota`: at the publish that reaches the limit, at the age |

Unused topics are deleted by `inactive_topics` (TN-11). Beside that every topic is visited after the start, when its
policies change and once in a while (the intervals of the configuration): a topic that needs time of its own is taken
into use by that. One round at a time goes over the names of all topics, in slices: at most `VISITS_A_TURN` topics are
visited in one turn. Checks that are requested meanwhile wait for the next round. Policies that are set for one topic,
or for a namespace while no round goes on, take effect in the same turn on the first `VISITS_A_TURN` topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.dispatch.limits import dispatch_rates
from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.message_lifetime import compaction, delayed_delivery, ttl
from spark_pulsar.broker.publishing import backlog_quota, deduplication, publish_rates
from spark_pulsar.broker.topic_log import retention
from spark_pulsar.broker.topic_log.rollover import RollQueue
from spark_pulsar.broker.turn.slices import PAUSE_MS, run_in_slices
from spark_pulsar.model.names import TopicName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.broker.turn.turn import Timer
    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.ledger.state.topics import TopicState

VISITS_A_TURN: Final = 64
_NAMES_A_VISIT: Final = 32
"""Names of topics that are passed over at the price of one visit."""
_FIRST_ROUND_MS: Final = 100
_PARTITION: Final = "-partition-"


class _Reasons:
    """Reasons for which a round visits topics."""

    __slots__ = ("changed", "is_new_configuration", "is_quota_check", "is_retention_check", "is_start", "visited")

    def __init__(self) -> None:
        self.changed: set[str] = set()
        """Namespaces (`persistent://tenant/namespace/`) and topics (without partition) that have other policies."""
        self.visited: set[str] = set()
        """Topics that took the policies of `changed` topics already."""
        self.is_start = self.is_retention_check = self.is_quota_check = self.is_new_configuration = False

    def __bool__(self) -> bool:
        return (
            bool(self.changed)
            or self.is_start
            or self.is_retention_check
            or self.is_quota_check
            or self.is_new_configuration
        )

    def has_changed(self, full_name: str) -> bool:
        """Returns whether a topic has other policies, which it did not take yet."""
        changed = self.changed
        return self.is_new_configuration or (
            bool(changed)
            and (
                full_name[: full_name.rindex("/") + 1] in changed
                or (
                    (full_name in changed or full_name.rpartition(_PARTITION)[0] in changed)
                    and full_name not in self.visited
                )
            )
        )


class Monitors:
    """Monitors of all topics: the queue of rolls, and the rounds."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.rolls = RollQueue(core)
        self._next = _Reasons()
        """Reasons of the next round."""
        self._is_going_round = False
        self._retention_timer: Timer | None = None
        self._quota_timer: Timer | None = None
        self._intervals_ms = 0, 0
        """Intervals that the two timers were set for."""
        core.state.keeps_consumed = self._keeps_consumed
        core.policies.watch(self._policies_changed)

    def start(self) -> None:
        """Starts the rounds, with the state as it was recovered."""
        core = self._core
        self.rolls.start()
        core.at(core.now_ms + _FIRST_ROUND_MS, self._start_round)
        self._set_intervals()

    def configure(self) -> None:
        """Visits all topics, whose policies may be others with another configuration (ADM-1)."""
        self._set_intervals()
        self._next.is_new_configuration = True
        self._begin_round()

    def _set_intervals(self) -> None:
        """Sets the timers of the two checks, unless they are set for these intervals."""
        config = self._core.config
        wanted = config.retention_check_interval_ms, config.quota_check_interval_ms if config.quota_check_enabled else 0
        if wanted != self._intervals_ms:
            self._intervals_ms = wanted
            self._set_retention_timer()
            self._set_quota_timer()

    def _set_retention_timer(self) -> None:
        self._retention_timer = self._set_timer(self._retention_timer, self._intervals_ms[0], self._retention_round)

    def _set_quota_timer(self) -> None:
        self._quota_timer = self._set_timer(self._quota_timer, self._intervals_ms[1], self._quota_round)

    def _set_timer(self, before: Timer | None, interval_ms: int, check: Callable[[], None]) -> Timer | None:
        if before is not None:
            before.cancel()
        return self._core.at(self._core.now_ms + interval_ms, check) if interval_ms > 0 else None

    def adopt(self, topic: Topic) -> None:
        """Sets up the monitors of a persistent topic that is loaded, or whose policies change."""
        core = self._core
        ttl.adopt(core, topic)
        backlog_quota.adopt(core, topic)
        self._adopt_limits(topic)
        deduplication.apply_policy(core, topic)
        compaction.prepare(core, topic)

    def adopt_non_persistent(self, topic: Topic) -> None:
        """Sets up the monitors of a non-persistent topic, which stores nothing."""
        self._adopt_limits(topic)

    def _adopt_limits(self, topic: Topic) -> None:
        publish_rates.adopt(self._core, topic)
        dispatch_rates.adopt(self._core, topic)
        self._core.encryption.adopt(topic)
        self._core.message_sizes.adopt(topic)

    def appended(self, topic: Topic, run: EntryRun) -> None:
        """Checks TTL and quotas when a run brought the `bytes_in` of its topic to `check_at_bytes`. Called after its
        receipts were ordered."""
        if topic.ttl_monitor is not None:
            topic.ttl_monitor.appended(run)
        if topic.quota is not None:
            backlog_quota.appended(self._core, topic, run)

    def joined(self, topic: Topic) -> None:
        """Checks TTL and quotas for a subscription that was made or moved back: entries that it wants may be expired,
        its backlog too big."""
        if topic.ttl_monitor is not None:
            topic.ttl_monitor.begin_again()
        if topic.quota is not None:
            backlog_quota.check(self._core, topic)

    def unloaded(self, topic: Topic) -> None:
        """Discards the consumers of a topic that was unloaded, which come back."""
        dispatch_rates.unloaded(topic)

    def remove_topic(self, topic: Topic) -> None:
        """Ends all that was set up for a topic that is deleted."""
        self._core.encryption.remove_topic(topic)
        self._core.message_sizes.remove_topic(topic)
        publish_rates.remove_topic(self._core, topic)
        dispatch_rates.remove_topic(topic)
        if topic.ttl_monitor is not None:
            topic.ttl_monitor.end()
        if topic.quota is not None:
            topic.quota.end()
        if topic.trim_timer is not None:
            topic.trim_timer.cancel()

    # Rounds

    def _keeps_consumed(self, state: TopicState) -> bool:
        topic = self._core.topics.get(state.name)
        name = TopicName.parse(state.name) if topic is None else topic.name
        return not self._core.policies_of(name).retention.keeps_nothing

    def _policies_changed(self, namespace: str, topic: str | None) -> None:
        if topic is None:
            self._next.changed |= {f"persistent://{namespace}/", f"non-persistent://{namespace}/"}
            self._begin_round()
            return
        known = self._core.state.partitioned.get(topic)
        partitions = 0 if known is None else known.partitions
        for index in range(-1, min(partitions, VISITS_A_TURN - 1)):
            full_name = topic if index < 0 else f"{topic}{_PARTITION}{index}"
            self._visit(full_name, has_changed=True)
            self._next.visited.add(full_name)
        # The round visits further partitions, and topics that bear the name of one.
        self._next.changed.add(topic)
        self._core.at(self._core.now_ms + PAUSE_MS, self._begin_round)

    def _start_round(self) -> None:
        self._next.is_start = True
        self._begin_round()

    def _retention_round(self) -> None:
        self._next.is_retention_check = True
        self._set_retention_timer()
        self._begin_round()

    def _quota_round(self) -> None:
        self._next.is_quota_check = True
        self._set_quota_timer()
        self._begin_round()

    def _begin_round(self) -> None:
        if self._next and not self._is_going_round:
            self._is_going_round = True
            reasons, self._next = self._next, _Reasons()
            run_in_slices(self._core, self._round(reasons), VISITS_A_TURN, self._end_round)

    def _end_round(self) -> None:
        self._is_going_round = False
        if self._next:
            self._core.at(self._core.now_ms + PAUSE_MS, self._begin_round)

    def _round(self, reasons: _Reasons) -> Iterator[None]:
        """Visits the topics that there is a reason for; each step is a visit, or names that are passed over."""
        core = self._core
        for number, full_name in enumerate([*core.state.topics_by_name, *core.non_persistent.by_name]):
            if self._visit_for(reasons, full_name) or number % _NAMES_A_VISIT == _NAMES_A_VISIT - 1:
                yield

    def _visit_for(self, reasons: _Reasons, full_name: str) -> bool:
        """Visits a topic if there is a reason, and returns whether there was one."""
        core = self._core
        topic, state = core.topics.get(full_name), core.state.topics_by_name.get(full_name)
        is_visit = reasons.has_changed(full_name)
        if not is_visit and state is not None:
            front = state.ledger.front
            is_sealed = front is not None and front.sealed_ms is not None
            is_visit = reasons.is_start or (reasons.is_retention_check and is_sealed)
        if is_visit:
            self._visit(full_name, has_changed=reasons.has_changed(full_name))
        if reasons.is_quota_check and topic is not None and topic.quota is not None:
            backlog_quota.check(core, topic)
            return True
        return is_visit

    def _visit(self, full_name: str, *, has_changed: bool) -> None:
        """Does for a topic what its policies and its age require; notifies its subscriptions when policies changed."""
        core = self._core
        state, topic = core.state.topics_by_name.get(full_name), core.topics.get(full_name)
        if state is not None:
            topic = self._visit_persistent(state, topic)
        elif topic is not None:
            self.adopt_non_persistent(topic)
        if topic is not None and has_changed:
            dispatch_rates.refresh(topic)
            delayed_delivery.policies_changed(core, topic)
            for subscription in topic.subscriptions.values():
                subscription.dispatcher.limits_changed()

    def _visit_persistent(self, state: TopicState, topic: Topic | None) -> Topic | None:
        """Returns the topic if it is in use, or is taken into use because it needs time of its own."""
        core = self._core
        core.idle.check(state)
        name = TopicName.parse(state.name) if topic is None else topic.name
        if state.ledger.current is not None:
            self.rolls.opened(state.ledger.current, name)
        if topic is None:
            front = state.ledger.front
            needs_time = state.cursors and (ttl.is_on(core, name) or backlog_quota.is_on(core, name))
            if not needs_time and (front is None or front.sealed_ms is None):
                deduplication.remove_if_off(core, name, state)
                return None
            topic = registry.find(core, name)
            assert topic is not None, "its state exists"
        else:
            self.adopt(topic)
        retention.trim(core, topic)
        return topic
