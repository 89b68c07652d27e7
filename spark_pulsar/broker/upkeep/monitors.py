"""Upkeep: what topics need done without anybody asking, and when it is looked at.

| what | when |
| --- | --- |
| ledgers roll over by time | `rollover`, at the time |
| consumed ledgers go | `retention`: at a roll, at an ack that frees one, when retention is over |
| entries expire | `ttl_monitor`: at the time, and before they would be delivered |
| idle subscriptions go | `idle_subscriptions`: at the time |
| backlogs meet their quotas | `backlog_quota`: at the publish that reaches the limit, at the age |

Beside that every topic is visited after the start, when its policies change and once in a while (the intervals of the
configuration), a few of them in each turn: a topic that needs time of its own is taken into use by that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.dispatch.limits import dispatch_rates
from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.lifetime import ttl
from spark_pulsar.broker.publishing import backlog_quota, publish_rates
from spark_pulsar.broker.topic_log import retention
from spark_pulsar.broker.topic_log.rollover import RollQueue
from spark_pulsar.model.names import TopicName

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.broker.turn.turn import Timer
    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.ledger.state.topics import TopicState

_VISITS_A_TURN: Final = 64
_PAUSE_MS: Final = 1
_FIRST_VISIT_MS: Final = 100


class Monitors:
    """The timers of all topics together."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.rolls = RollQueue(core)
        self._to_visit: dict[int, None] = {}
        self._visiting: Timer | None = None
        core.state.keeps_consumed = self._keeps_consumed
        core.policies.watch(self._policies_changed)

    def start(self) -> None:
        """Called once, with the state as it was recovered."""
        core = self._core
        self.rolls.start()
        core.at(core.now_ms + _FIRST_VISIT_MS, self._visit_all)
        if core.config.retention_check_interval_ms > 0:
            core.at(core.now_ms + core.config.retention_check_interval_ms, self._retention_round)
        if core.config.quota_check_enabled:
            core.at(core.now_ms + core.config.quota_check_interval_ms, self._quota_round)

    def adopt(self, topic: Topic) -> None:
        """A topic came into use, or its policies are others: set up what they ask for."""
        ttl.adopt(self._core, topic)
        backlog_quota.adopt(self._core, topic)
        publish_rates.adopt(self._core, topic)
        dispatch_rates.adopt(self._core, topic)
        self._core.encryption.adopt(topic)

    def adopt_non_persistent(self, topic: Topic) -> None:
        """The same for a non-persistent topic, of which nothing is kept."""
        publish_rates.adopt(self._core, topic)
        dispatch_rates.adopt(self._core, topic)
        self._core.encryption.adopt(topic)

    def appended(self, topic: Topic, run: EntryRun) -> None:
        """A run of entries was appended to a topic whose `bytes_in` has reached its `look_at_bytes`. Called after its
        receipts were ordered."""
        if topic.ttl_monitor is not None:
            topic.ttl_monitor.appended(run)
        if topic.quota is not None:
            backlog_quota.appended(self._core, topic, run)

    def joined(self, topic: Topic) -> None:
        """A subscription was made or moved back: entries that it wants may be expired, its backlog too big."""
        if topic.ttl_monitor is not None:
            topic.ttl_monitor.begin_again()
        if topic.quota is not None:
            backlog_quota.look(self._core, topic)

    def unloaded(self, topic: Topic) -> None:
        """A topic closed all its clients, which come back."""
        dispatch_rates.unloaded(topic)

    def let_go(self, topic: Topic) -> None:
        """A topic is gone."""
        self._core.encryption.let_go(topic)
        publish_rates.let_go(self._core, topic)
        dispatch_rates.let_go(topic)
        if topic.ttl_monitor is not None:
            topic.ttl_monitor.end()
        if topic.quota is not None:
            topic.quota.end()
        if topic.trim_timer is not None:
            topic.trim_timer.cancel()

    # Visits

    def _keeps_consumed(self, state: TopicState) -> bool:
        topic = self._core.topics.get(state.name)
        name = TopicName.parse(state.name) if topic is None else topic.name
        return not self._core.policies_of(name).retention.keeps_nothing

    def _policies_changed(self, namespace: str, topic: str | None) -> None:
        prefix = f"persistent://{namespace}/" if topic is None else topic
        for state in self._core.state.topics.values():
            if state.name.startswith(prefix):
                self._to_visit[state.topic_id] = None
        for non_persistent in self._core.non_persistent.by_name.values():
            if non_persistent.name.namespace_name == namespace and topic in (None, non_persistent.name.base.full):
                self.adopt_non_persistent(non_persistent)
        self._go_on_visiting()

    def _visit_all(self) -> None:
        self._to_visit.update(dict.fromkeys(self._core.state.topics))
        self._go_on_visiting()

    def _retention_round(self) -> None:
        core = self._core
        for state in core.state.topics.values():
            front = state.ledger.front
            if front is not None and front.sealed_ms is not None:
                self._to_visit[state.topic_id] = None
        self._go_on_visiting()
        core.at(core.now_ms + core.config.retention_check_interval_ms, self._retention_round)

    def _quota_round(self) -> None:
        core = self._core
        for topic in core.topics.values():
            if topic.quota is not None:
                backlog_quota.look(core, topic)
        core.at(core.now_ms + core.config.quota_check_interval_ms, self._quota_round)

    def _go_on_visiting(self) -> None:
        if self._to_visit and self._visiting is None:
            self._visiting = self._core.at(self._core.now_ms + _PAUSE_MS, self._visit_some)

    def _visit_some(self) -> None:
        self._visiting = None
        to_visit = self._to_visit
        for _ in range(min(_VISITS_A_TURN, len(to_visit))):
            topic_id = next(iter(to_visit))
            del to_visit[topic_id]
            state = self._core.state.topics.get(topic_id)
            if state is not None:
                self._visit(state)
        self._go_on_visiting()

    def _visit(self, state: TopicState) -> None:
        core = self._core
        core.idle.look(state)
        topic = core.topics.get(state.name)
        name = TopicName.parse(state.name) if topic is None else topic.name
        if state.ledger.current is not None:
            self.rolls.opened(state.ledger.current, name)
        if topic is None:
            front = state.ledger.front
            needs_time = state.cursors and (ttl.is_on(core, name) or backlog_quota.is_on(core, name))
            if not needs_time and (front is None or front.sealed_ms is None):
                return
            topic = registry.find(core, name)
            assert topic is not None, "its state exists"
        else:
            self.adopt(topic)
        retention.trim(core, topic)
