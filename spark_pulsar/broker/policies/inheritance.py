"""Effective policies of each topic: its own, else those of its namespace, else the configuration's (ADM-67), computed
when a feature requests them.

`PolicyBook.of` merges the policies of a topic and its namespace once per distinct pair and remembers the result until
one of them changes. A feature calls `core.policies_of(topic.name)` when it needs a value. The monitors
watch changes and notify the features that must act on them, topic by topic (`upkeep.monitors`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spark_pulsar.ledger.state.documents import GLOBAL_TOPIC_POLICIES, TOPIC_POLICIES
from spark_pulsar.model.policies.effective_policies import NO_LIMIT, BacklogQuota, EffectivePolicies, RetentionPolicy

from . import documents as policies

if TYPE_CHECKING:
    from spark_pulsar.broker.configuration.broker_config import BrokerConfig
    from spark_pulsar.ledger.state.durable_state import DurableState
    from spark_pulsar.ledger.state.topics import TopicState
    from spark_pulsar.model.names import TopicName

MAX_REMEMBERED_BYTES: Final = 1 << 25
"""Bytes of the names of topics whose effective policies are remembered: clients may request any name."""

_NAME_OVERHEAD_BYTES: Final = 128

Watcher = Callable[[str, "str | None"], None]
"""A function of a namespace, and of the full name of a topic (without partition) when only its policies changed."""


class PolicyBook:
    """The effective policies of every topic."""

    def __init__(self, state: DurableState, config: BrokerConfig) -> None:
        self._state = state
        self._config = config
        self._by_topic: dict[str, EffectivePolicies] = {}
        self._room = MAX_REMEMBERED_BYTES
        """Bytes that names in `_by_topic` may still take."""
        self._by_texts: dict[tuple[str | None, ...], tuple[EffectivePolicies, EffectivePolicies]] = {}
        """Policies of all topics that have these documents, and of the system topics among them."""
        self._watchers: list[Watcher] = []

    def of(self, name: TopicName) -> EffectivePolicies:
        """Returns the policies in effect for a topic or partition, which need not exist."""
        full = name.full
        known = self._by_topic.get(full)
        if known is None:
            size_bytes = len(full) + _NAME_OVERHEAD_BYTES
            if size_bytes > self._room:
                self._clear()
            self._room -= size_bytes
            known = self._by_topic[full] = self._computed(name)
        return known

    def remove_topic(self, full: str) -> None:
        """Discards the policies of a topic that is deleted."""
        if self._by_topic.pop(full, None) is not None:
            self._room += len(full) + _NAME_OVERHEAD_BYTES

    def of_namespace(self, name: TopicName) -> EffectivePolicies:
        """Returns the policies in effect for a topic without policies of its own."""
        return self._merged((self._state.namespaces.get(name.namespace_name), None, None))[name.is_system]

    def watch(self, watcher: Watcher) -> None:
        """Calls `watcher` after every change, within the turn of the change."""
        self._watchers.append(watcher)

    def changed(self, namespace: str, topic: str | None = None) -> None:
        """Discards computed policies and notifies the watchers: those of a namespace, or of one topic of it, have
        changed."""
        self._clear()
        self._by_texts.clear()
        for watcher in self._watchers:
            watcher(namespace, topic)

    def configure(self, config: BrokerConfig) -> None:
        """Takes another configuration for policies that are not set; the features that act on policies are notified
        elsewhere."""
        self._config = config
        self._clear()
        self._by_texts.clear()

    def _clear(self) -> None:
        self._by_topic.clear()
        self._room = MAX_REMEMBERED_BYTES

    def _computed(self, name: TopicName) -> EffectivePolicies:
        documents, full = self._state.documents, name.base.full
        texts = (
            self._state.namespaces.get(name.namespace_name),
            documents[GLOBAL_TOPIC_POLICIES].get(full),
            documents[TOPIC_POLICIES].get(full),
        )
        holds = self._merged(texts)[name.is_system]
        topic = self._state.topics_by_name.get(name.full)
        return holds if topic is None or topic.damage is None else _deleting_nothing(holds, topic)

    def _merged(self, texts: tuple[str | None, ...]) -> tuple[EffectivePolicies, EffectivePolicies]:
        known = self._by_texts.get(texts)
        if known is None:
            levels = [policies.stored(text).document for text in texts if text]
            effective = policies.effective(policies.merged(levels), self._config)
            known = self._by_texts[texts] = effective, _without_limits(effective)
        return known


def _without_limits(effective: EffectivePolicies) -> EffectivePolicies:
    """Returns the policies of a system topic, which has no limits of clients (PR-13, SUB-5, CUR-18, TN-10)."""
    return replace(
        effective, max_producers=0, max_consumers=0, max_consumers_per_subscription=0, max_subscriptions=0, max_topics=0
    )


def _deleting_nothing(effective: EffectivePolicies, topic: TopicState) -> EffectivePolicies:
    """Returns the policies of a damaged topic, of which nothing is deleted by itself: its own policies may be lost too,
    and entries that cannot be read must not be skipped in silence."""
    return replace(
        effective,
        retention=RetentionPolicy(NO_LIMIT, NO_LIMIT),
        message_ttl_s=0,
        size_quota=BacklogQuota(),
        age_quota=BacklogQuota(),
        deduplication=effective.deduplication or bool(topic.sequences),
        compaction_threshold_bytes=0,
        subscription_expiration_minutes=0,
        inactive_topic=replace(effective.inactive_topic, delete_while_inactive=False),
    )
