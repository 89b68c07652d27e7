"""`/metrics`: Pulsar's metric names for what exists here, in the Prometheus text format (admin-rest.md 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from spark_pulsar.broker import usage

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from spark_pulsar.broker.core import Core
    from spark_pulsar.broker.topics import Topic

_TOPIC_LABELS = ("cluster", "namespace", "topic")
_SUBSCRIPTION_LABELS = (*_TOPIC_LABELS, "subscription")


_STORAGE: Final[tuple[tuple[str, str, Callable[[Core, Topic], int]], ...]] = (
    ("pulsar_storage_size", "Bytes stored.", lambda _, topic: usage.storage_bytes(topic)),
    ("pulsar_storage_logical_size", "Bytes stored, one copy.", lambda _, topic: usage.storage_bytes(topic)),
    (
        "pulsar_storage_backlog_size",
        "Bytes that the slowest subscription has not acknowledged.",
        lambda _, topic: usage.backlog_bytes(topic),
    ),
    (
        "pulsar_storage_backlog_age_seconds",
        "Age of the oldest message that the slowest subscription has not acknowledged; -1: none, or not looked at.",
        usage.oldest_backlog_age_s,
    ),
    (
        "pulsar_storage_backlog_quota_limit",
        "Bytes at which the backlog quota takes effect; -1: never.",
        lambda core, topic: core.policies_of(topic.name).size_quota.limit_bytes,
    ),
    (
        "pulsar_storage_backlog_quota_limit_time",
        "Seconds at which the backlog quota takes effect; -1: never.",
        lambda core, topic: core.policies_of(topic.name).age_quota.limit_time_s,
    ),
)


def metrics_text(core: Core) -> bytes:
    """All metrics of this moment."""
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    registry.register(_Collector(core))
    return generate_latest(registry)


class _Collector:
    """Reads the core when asked."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def collect(self) -> Iterator[Metric]:
        """Every family once."""
        yield from self._broker()
        yield from self._topics()
        yield from self._storage()
        yield from self._subscriptions()

    def _broker(self) -> Iterator[Metric]:
        core = self._core
        topics = core.topics.values()
        for name, text, value in (
            ("pulsar_broker_topics_count", "Topics.", len(core.state.topics)),
            ("pulsar_broker_subscriptions_count", "Subscriptions.", sum(len(each.subscriptions) for each in topics)),
            ("pulsar_broker_producers_count", "Connected producers.", sum(len(each.producers) for each in topics)),
            ("pulsar_broker_consumers_count", "Connected consumers.", sum(each.consumer_count for each in topics)),
            ("pulsar_active_connections", "Connections.", len(core.sessions)),
            ("pulsar_broker_pending_publish_bytes", "Entries that wait for the disk.", core.pending_publish_bytes),
        ):
            family = GaugeMetricFamily(name, text, labels=("cluster",))
            family.add_metric((core.config.cluster_name,), value)
            yield family

    def _topics(self) -> Iterator[Metric]:
        gauges = {
            "pulsar_producers_count": GaugeMetricFamily("pulsar_producers_count", "Producers.", labels=_TOPIC_LABELS),
            "pulsar_consumers_count": GaugeMetricFamily("pulsar_consumers_count", "Consumers.", labels=_TOPIC_LABELS),
            "pulsar_subscriptions_count": GaugeMetricFamily(
                "pulsar_subscriptions_count", "Subscriptions.", labels=_TOPIC_LABELS
            ),
            "pulsar_msg_backlog": GaugeMetricFamily(
                "pulsar_msg_backlog", "Entries not acknowledged, over all subscriptions.", labels=_TOPIC_LABELS
            ),
        }
        messages = CounterMetricFamily("pulsar_in_messages", "Messages since the start.", labels=_TOPIC_LABELS)
        size = CounterMetricFamily("pulsar_in_bytes", "Bytes of entries since the start.", labels=_TOPIC_LABELS)
        for topic in self._core.topics.values():
            labels = (self._core.config.cluster_name, topic.name.namespace_name, topic.full_name)
            backlog = sum(max(0, each.backlog) for each in topic.subscriptions.values() if each.is_durable)
            gauges["pulsar_producers_count"].add_metric(labels, len(topic.producers))
            gauges["pulsar_consumers_count"].add_metric(labels, topic.consumer_count)
            gauges["pulsar_subscriptions_count"].add_metric(labels, len(topic.subscriptions))
            gauges["pulsar_msg_backlog"].add_metric(labels, backlog)
            messages.add_metric(labels, topic.messages_in)
            size.add_metric(labels, topic.bytes_in)
        yield from gauges.values()
        yield messages
        yield size

    def _storage(self) -> Iterator[Metric]:
        """What is stored, and how far it is from its quotas (BQ-10)."""
        core = self._core
        for name, text, value in _STORAGE:
            family = GaugeMetricFamily(name, text, labels=_TOPIC_LABELS)
            for topic in core.topics.values():
                labels = (core.config.cluster_name, topic.name.namespace_name, topic.full_name)
                family.add_metric(labels, value(core, topic))
            yield family

    def _subscriptions(self) -> Iterator[Metric]:
        backlog = GaugeMetricFamily(
            "pulsar_subscription_back_log", "Entries not acknowledged.", labels=_SUBSCRIPTION_LABELS
        )
        unacked = GaugeMetricFamily(
            "pulsar_subscription_unacked_messages", "Delivered, not acknowledged.", labels=_SUBSCRIPTION_LABELS
        )
        consumers = GaugeMetricFamily(
            "pulsar_subscription_consumers_count", "Connected consumers.", labels=_SUBSCRIPTION_LABELS
        )
        expired = GaugeMetricFamily(
            "pulsar_subscription_total_msg_expired", "Expired since the start.", labels=_SUBSCRIPTION_LABELS
        )
        messages = CounterMetricFamily("pulsar_out_messages", "Messages since the start.", labels=_SUBSCRIPTION_LABELS)
        size = CounterMetricFamily("pulsar_out_bytes", "Bytes of entries since the start.", labels=_SUBSCRIPTION_LABELS)
        for topic in self._core.topics.values():
            for name, each in topic.subscriptions.items():
                labels = (self._core.config.cluster_name, topic.name.namespace_name, topic.full_name, name)
                backlog.add_metric(labels, max(0, each.backlog))
                unacked.add_metric(labels, sum(consumer.unacked for consumer in each.consumers))
                consumers.add_metric(labels, len(each.consumers))
                expired.add_metric(labels, each.entries_expired)
                messages.add_metric(labels, each.messages_out)
                size.add_metric(labels, each.bytes_out)
        yield from (backlog, unacked, consumers, expired, messages, size)
