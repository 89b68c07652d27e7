"""Inactive topics are deleted, where a policy requires it (TN-11, RET-6); non-persistent ones without clients always
are (NP-7: `topics.non_persistent_topic`).

A topic is in use while it has a producer, or a subscription; with the mode `delete_when_subscriptions_caught_up` only a
subscription with a consumer or a backlog counts. Topics are checked in rounds; one that was not in use in two rounds at
least `max_inactive_s` apart nor in between, and whose retention time is over since then, is deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.broker.turn.slices import every
from spark_pulsar.ledger.state.documents import GLOBAL_TOPIC_POLICIES, TOPIC_POLICIES
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.policies.effective_policies import NO_SUBSCRIPTIONS
from spark_pulsar.model.policies.policy_table import INACTIVE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.ledger.state.topics import TopicState

_CHECKS_A_TURN: Final = 64


class InactiveTopics:
    """Rounds of checks, and the time since which each topic was found without use."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._since_ms: dict[int, int] = {}

    def start(self) -> None:
        """Begins the rounds."""
        core = self._core
        every(core, lambda: core.config.inactive_check_interval_ms, self._topics_to_check, self._check, _CHECKS_A_TURN)

    def _topics_to_check(self) -> Iterable[TopicState]:
        if self._is_on_anywhere():
            topics = self._core.state.topics
            for gone in [topic_id for topic_id in self._since_ms if topic_id not in topics]:
                del self._since_ms[gone]
            return topics.values()
        self._since_ms.clear()
        return ()

    def _is_on_anywhere(self) -> bool:
        core, documents = self._core, self._core.state.documents
        texts = (*core.state.namespaces.values(), *documents[TOPIC_POLICIES].values())
        return core.config.delete_inactive_topics or any(
            INACTIVE_TOPIC in text for text in (*texts, *documents[GLOBAL_TOPIC_POLICIES].values())
        )

    def _check(self, state: TopicState) -> None:
        if state.topic_id not in self._core.state.topics:
            return
        core, name = self._core, TopicName.parse(state.name)
        policies = core.policies_of(name)
        policy = policies.inactive_topic
        if not policy.delete_while_inactive or name.is_system or self._in_use(state, policy.mode):
            self._since_ms.pop(state.topic_id, None)
            return
        topic = core.topics.get(state.name)
        if topic is not None and topic.was_used:  # for a while since the last round
            topic.was_used = False
            self._since_ms[state.topic_id] = core.now_ms
        unused_ms = core.now_ms - self._since_ms.setdefault(state.topic_id, core.now_ms)
        retained_ms = policies.retention.time_ms
        if unused_ms < 1000 * policy.max_inactive_s or retained_ms < 0 or unused_ms < retained_ms:
            return
        topic = registry.find(core, name)
        assert topic is not None, "its state exists"
        del self._since_ms[state.topic_id]
        lifecycle.delete(core, topic)

    def _in_use(self, state: TopicState, mode: str) -> bool:
        topic = self._core.topics.get(state.name)
        if topic is not None and (topic.producers or topic.consumer_count):
            return True
        if mode == NO_SUBSCRIPTIONS:
            return bool(state.cursors) or (topic is not None and bool(topic.subscriptions))
        return any(cursor.backlog() > 0 for cursor in state.cursors.values())
