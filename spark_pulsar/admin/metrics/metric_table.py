"""The metrics of this broker: name, meaning, value (ADM-9). Names are Apache Pulsar's; those that begin with
`spark_pulsar_` are ours. `prometheus_text` writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from spark_pulsar import __version__
from spark_pulsar.broker.connections.handshake import SERVER_VERSION
from spark_pulsar.broker.entities import meters
from spark_pulsar.broker.entities.topic import OpenTransactions
from spark_pulsar.broker.topic_log import backlog_bytes

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.ledger.state.compaction import Compaction

Metric = TypeVar("Metric")
_TOPICS_A_PART: Final = 64


class Scrape:
    """A scrape: the core, and its topics at the beginning."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.topics = list(core.topics.values())

    def per_topic(self, value: Callable[[Topic], float]) -> Iterator[float]:
        """Sums a number over all topics in use, in parts."""
        for at in range(0, len(self.topics), _TOPICS_A_PART):
            yield sum(map(value, self.topics[at : at + _TOPICS_A_PART]))


class BrokerMetric(NamedTuple):
    """A number of the broker; its name ends in `_total` when it only grows. One that takes time to find is returned in
    parts that are its sum."""

    name: str
    help: str
    value: Callable[[Scrape], float | Iterator[float]]
    labels: str = ""
    """Further labels as they are written, with a comma before; `{broker}` in them is the broker's host."""


class NamespaceMetric(NamedTuple):
    """A number of each namespace with topics in use: the sum over these."""

    name: str
    help: str
    value: Callable[[Topic], float]


class TopicMetric(NamedTuple):
    """A number of each topic; None for a topic that has it not."""

    name: str
    help: str
    value: Callable[[Core, Topic], float | None]
    labels: str = ""
    """Further labels as they are written, with a comma before."""


class SubscriptionMetric(NamedTuple):
    """A number of each subscription; None for a subscription that has it not."""

    name: str
    help: str
    value: Callable[[Subscription], float | None]
    labels: str = ""
    """Further labels as they are written, with a comma before."""


def _sum(name: str, text: str, value: Callable[[Topic], float], labels: str = "") -> BrokerMetric:
    """Makes the metric of the broker that is the sum over all topics in use."""
    return BrokerMetric(name, text, lambda scrape: scrape.per_topic(value), labels)


def _topic_metric(name: str, text: str, value: Callable[[Topic], float], labels: str = "") -> TopicMetric:
    """Makes the metric of a topic that the topic itself holds."""
    return TopicMetric(name, text, lambda _, topic: value(topic), labels)


def _connection_metric(name: str, text: str, value: Callable[[Core], float]) -> BrokerMetric:
    return BrokerMetric(name, text, lambda scrape: value(scrape.core), ',broker="{broker}",metric="broker_connection"')


def _handshaking(core: Core) -> int:
    return sum(1 for session in core.sessions.values() if not session.connected)


def _compaction_metric(name: str, text: str, value: Callable[[Core, Topic, Compaction], float]) -> TopicMetric:
    """Makes the metric of topics that were compacted."""

    def of_topic(core: Core, topic: Topic) -> float | None:
        compaction = topic.state.compaction
        return None if compaction is None or compaction.ledger is None else value(core, topic, compaction)

    return TopicMetric(name, text, of_topic)


def _transaction_metrics() -> Iterator[TopicMetric]:
    """Yields the metrics of a topic's transactions, which non-persistent topics have not."""

    def ended(count: Callable[[OpenTransactions], int]) -> Callable[[Core, Topic], float | None]:
        none = OpenTransactions()
        return lambda _, topic: None if topic.non_persistent is not None else count(topic.transactions or none)

    yield TopicMetric(
        "pulsar_txn_tb_active_total",
        "Open transactions with messages.",
        lambda _, topic: None if topic.non_persistent is not None else len(topic.state.open_transactions),
    )
    yield TopicMetric(
        "pulsar_txn_tb_committed_total",
        "Committed transactions since the topic came into use.",
        ended(lambda transaction: transaction.committed),
    )
    yield TopicMetric(
        "pulsar_txn_tb_aborted_total",
        "Aborted transactions since the topic came into use.",
        ended(lambda transaction: transaction.aborted),
    )


GAUGES: Final = frozenset(metric.name for metric in _transaction_metrics())
"""Metrics whose names end in `_total` and that are no counters, as in Apache Pulsar."""


def _throttled(unit: str, name: str, text: str) -> tuple[SubscriptionMetric, ...]:
    """Makes the metrics of the times that rates of a unit (`Msg`, `Bytes`) held back a subscription, by rate."""

    def of_level(level: str) -> SubscriptionMetric:
        member = f"dispatchThrottled{unit}EventsBy{level}Limit"
        return SubscriptionMetric(
            name, text, lambda subscription: subscription.throttled.get(member, 0), f',reason="{level.lower()}"'
        )

    return tuple(map(of_level, ("Subscription", "Topic", "Broker")))


def _evictions(make: Callable[[str, str, Callable[[Topic], float], str], Metric], name: str) -> tuple[Metric, Metric]:
    text = "Times that backlogs lost entries because of a quota."
    return (
        make(name, text, lambda topic: topic.evictions_by_size, ',quota_type="size"'),
        make(name, text, lambda topic: topic.evictions_by_age, ',quota_type="time"'),
    )


def _rate_out(topic: Topic) -> float:
    return sum(meters.delivered(subscription).messages for subscription in topic.subscriptions.values())


def _throughput_out(topic: Topic) -> float:
    return sum(meters.delivered(subscription).bytes for subscription in topic.subscriptions.values())


def _read_rate(topic: Topic) -> float:
    return sum(meters.delivered(subscription).read for subscription in topic.subscriptions.values())


def _backlog(topic: Topic) -> int:
    return sum(max(0, subscription.backlog) for subscription in topic.subscriptions.values() if subscription.is_durable)


def _read_only(scrape: Scrape) -> Iterator[int]:
    states = list(scrape.core.state.topics.values())
    for at in range(0, len(states), _TOPICS_A_PART):
        part = states[at : at + _TOPICS_A_PART]
        yield sum(1 for state in part if state.damages and state.damage is not None)


BROKER: Final = (
    BrokerMetric("pulsar_broker_topics_count", "Topics.", lambda scrape: len(scrape.core.state.topics)),
    _sum(
        "pulsar_broker_subscriptions_count", "Subscriptions of topics in use.", lambda topic: len(topic.subscriptions)
    ),
    _sum("pulsar_broker_producers_count", "Connected producers.", lambda topic: len(topic.producers)),
    _sum("pulsar_broker_consumers_count", "Connected consumers.", lambda topic: topic.consumer_count),
    _sum("pulsar_broker_rate_in", "Messages that come, per second.", lambda topic: meters.published(topic).messages),
    _sum("pulsar_broker_throughput_in", "Bytes that come, per second.", lambda topic: meters.published(topic).bytes),
    _sum("pulsar_broker_rate_out", "Messages that go, per second.", _rate_out),
    _sum("pulsar_broker_throughput_out", "Bytes that go, per second.", _throughput_out),
    _sum("pulsar_broker_storage_size", "Bytes stored.", backlog_bytes.storage_bytes),
    _sum("pulsar_broker_storage_logical_size", "Bytes stored, one copy.", backlog_bytes.storage_bytes),
    _sum(
        "pulsar_broker_storage_write_rate",
        "Entries that are stored, per second.",
        lambda topic: meters.published(topic).stored,
    ),
    _sum("pulsar_broker_storage_read_rate", "Entries that are read for consumers, per second.", _read_rate),
    _sum("pulsar_broker_msg_backlog", "Entries not acknowledged, over all subscriptions.", _backlog),
    *_evictions(_sum, "pulsar_broker_storage_backlog_quota_exceeded_evictions_total"),
    _connection_metric("pulsar_active_connections", "Connections.", lambda core: len(core.sessions)),
    _connection_metric(
        "pulsar_connection_created_total_count", "Connections since the start.", lambda core: core.sessions_opened
    ),
    _connection_metric(
        "pulsar_connection_create_success_count",
        "Connections since the start that did their handshake.",
        lambda core: core.handshakes_done,
    ),
    _connection_metric(
        "pulsar_connection_create_fail_count",
        "Connections since the start that are not open and did no handshake.",
        lambda core: core.sessions_opened - core.handshakes_done - _handshaking(core),
    ),
    _connection_metric(
        "pulsar_connection_closed_total_count",
        "Connections since the start that are closed.",
        lambda core: core.sessions_opened - len(core.sessions),
    ),
    BrokerMetric(
        "pulsar_broker_throttled_connections",
        "Connections that are not read, because of publish rates or because too much waits for the disk.",
        lambda scrape: len(scrape.core.paused_sessions),
    ),
    BrokerMetric(
        "pulsar_health",
        "1 while the broker takes messages, 0 while its disk does not.",
        lambda scrape: int(not scrape.core.disk_reason),
        ',broker="{broker}",metric="broker_health"',
    ),
    BrokerMetric(
        "pulsar_version_info",
        "Version of Apache Pulsar that the broker speaks, and its own in place of a commit.",
        lambda _: 1,
        f',version="{SERVER_VERSION.split()[2]}",commit="spark-pulsar-{__version__}"',
    ),
    _sum("pulsar_ml_count", "Persistent topics in use.", lambda topic: int(topic.non_persistent is None)),
    BrokerMetric(
        "pulsar_ml_cache_used_size", "Bytes of recent entries in memory.", lambda scrape: scrape.core.cache.size_bytes
    ),
    BrokerMetric(
        "spark_pulsar_pending_publish_bytes",
        "Bytes of entries that wait for the disk.",
        lambda scrape: scrape.core.pending_publish_bytes,
    ),
    BrokerMetric(
        "spark_pulsar_disk_full",
        "1 while the disk takes no more messages.",
        lambda scrape: int(bool(scrape.core.disk_full_reason)),
    ),
    BrokerMetric(
        "spark_pulsar_disk_hangs",
        "1 while a write that receipts wait for has not returned for 5 s.",
        lambda scrape: int(bool(scrape.core.disk_hang_reason)),
    ),
    BrokerMetric("spark_pulsar_read_only_topics", "Topics that take no messages because of damage.", _read_only),
)


def _stored(value: Callable[[Topic], float]) -> Callable[[Topic], float]:
    """Leaves out topics that store nothing."""
    return lambda topic: 0 if topic.non_persistent is not None else value(topic)


NAMESPACE: Final = (
    NamespaceMetric("pulsar_topics_count", "Topics in use.", lambda _: 1),
    NamespaceMetric("pulsar_ml_StoredMessagesSize", "Bytes stored.", _stored(backlog_bytes.storage_bytes)),
    NamespaceMetric(
        "pulsar_ml_NumberOfMessagesInBacklog", "Entries not acknowledged, over all subscriptions.", _stored(_backlog)
    ),
    NamespaceMetric(
        "pulsar_ml_AddEntryMessagesRate",
        "Entries that are stored, per second.",
        _stored(lambda topic: meters.published(topic).stored),
    ),
    NamespaceMetric(
        "pulsar_ml_AddEntryBytesRate",
        "Bytes that are stored, per second.",
        _stored(lambda topic: meters.published(topic).bytes),
    ),
    NamespaceMetric(
        "pulsar_ml_ReadEntriesRate", "Entries that are read for consumers, per second.", _stored(_read_rate)
    ),
    NamespaceMetric(
        "pulsar_ml_ReadEntriesBytesRate", "Bytes that are read for consumers, per second.", _stored(_throughput_out)
    ),
)
"""The numbers of namespaces; those of managed ledgers leave out non-persistent topics."""

TOPIC: Final = (
    _topic_metric("pulsar_subscriptions_count", "Subscriptions.", lambda topic: len(topic.subscriptions)),
    _topic_metric("pulsar_producers_count", "Producers.", lambda topic: len(topic.producers)),
    _topic_metric("pulsar_consumers_count", "Consumers.", lambda topic: topic.consumer_count),
    _topic_metric("pulsar_rate_in", "Messages that come, per second.", lambda topic: meters.published(topic).messages),
    _topic_metric("pulsar_throughput_in", "Bytes that come, per second.", lambda topic: meters.published(topic).bytes),
    _topic_metric("pulsar_rate_out", "Messages that go, per second.", _rate_out),
    _topic_metric("pulsar_throughput_out", "Bytes that go, per second.", _throughput_out),
    _topic_metric(
        "pulsar_average_msg_size", "Bytes of a message.", lambda topic: meters.published(topic).average_message_bytes
    ),
    _topic_metric("pulsar_in_messages_total", "Messages since the start.", lambda topic: topic.messages_in),
    _topic_metric("pulsar_in_bytes_total", "Bytes of entries since the start.", lambda topic: topic.bytes_in),
    _topic_metric("pulsar_msg_backlog", "Entries not acknowledged, all subscriptions.", _backlog),
    _topic_metric("pulsar_storage_size", "Bytes stored.", backlog_bytes.storage_bytes),
    _topic_metric("pulsar_storage_logical_size", "Bytes stored, one copy.", backlog_bytes.storage_bytes),
    _topic_metric(
        "pulsar_storage_write_rate",
        "Entries that are stored, per second.",
        lambda topic: meters.published(topic).stored,
    ),
    _topic_metric("pulsar_storage_read_rate", "Entries that are read for consumers, per second.", _read_rate),
    _topic_metric(
        "pulsar_storage_backlog_size",
        "Bytes that the slowest subscription has not acknowledged.",
        backlog_bytes.backlog_bytes,
    ),
    TopicMetric(
        "pulsar_storage_backlog_age_seconds",
        "Age of the oldest message that the slowest subscription has not acknowledged; -1: none, or not checked yet.",
        backlog_bytes.oldest_backlog_age_s,
    ),
    TopicMetric(
        "pulsar_storage_backlog_quota_limit",
        "Bytes at which the backlog quota takes effect; -1: never.",
        lambda core, topic: core.policies_of(topic.name).size_quota.limit_bytes,
    ),
    TopicMetric(
        "pulsar_storage_backlog_quota_limit_time",
        "Seconds at which the backlog quota takes effect; -1: never.",
        lambda core, topic: core.policies_of(topic.name).age_quota.limit_time_s,
    ),
    *_evictions(_topic_metric, "pulsar_storage_backlog_quota_exceeded_evictions_total"),
    _topic_metric(
        "pulsar_publish_rate_limit_times",
        "Times that a publish rate held back a connection of a producer.",
        lambda topic: topic.publish_limited_times,
    ),
    *_transaction_metrics(),
    _compaction_metric(
        "pulsar_compaction_compacted_entries_count",
        "Entries of the compacted view.",
        lambda _core, _topic, last: last.ledger.entries if last.ledger else 0,
    ),
    _compaction_metric(
        "pulsar_compaction_compacted_entries_size",
        "Bytes of the compacted view.",
        lambda _core, _topic, last: last.ledger.size_bytes if last.ledger else 0,
    ),
    _compaction_metric(
        "pulsar_compaction_removed_event_count",
        "Messages that the last compaction took out.",
        lambda _core, _topic, last: last.removed,
    ),
    _compaction_metric(
        "pulsar_compaction_duration_time_in_mills",
        "Milliseconds that the last compaction took.",
        lambda _core, _topic, last: last.finished_ms - last.begun_ms,
    ),
    _topic_metric(
        "spark_pulsar_topic_read_only",
        "1 when the topic takes no messages because of damage.",
        lambda topic: int(topic.state.damage is not None),
    ),
)


def _last(of_subscription: str) -> Callable[[Subscription], float]:
    def last(subscription: Subscription) -> float:
        times = [getattr(consumer, of_subscription) for consumer in subscription.consumers]
        return float(max(getattr(subscription, of_subscription), *times, 0))

    return last


SUBSCRIPTION: Final = (
    SubscriptionMetric(
        "pulsar_subscription_back_log", "Entries not acknowledged.", lambda subscription: max(0, subscription.backlog)
    ),
    SubscriptionMetric(
        "pulsar_subscription_back_log_no_delayed",
        "Entries not acknowledged whose time has come.",
        lambda subscription: max(0, subscription.backlog) - subscription.dispatcher.delayed_count,
    ),
    SubscriptionMetric(
        "pulsar_subscription_delayed",
        "Entries that are not due yet.",
        lambda subscription: subscription.dispatcher.delayed_count,
    ),
    SubscriptionMetric(
        "pulsar_subscription_unacked_messages",
        "Delivered, not acknowledged.",
        lambda subscription: sum(consumer.unacked for consumer in subscription.consumers),
    ),
    SubscriptionMetric(
        "pulsar_subscription_blocked_on_unacked_messages",
        "1 while nothing is sent because too much is not acknowledged.",
        lambda subscription: int(subscription.dispatcher.is_blocked),
    ),
    SubscriptionMetric(
        "pulsar_subscription_in_replay",
        "Entries to be sent again.",
        lambda subscription: subscription.dispatcher.replay_count,
    ),
    SubscriptionMetric(
        "pulsar_subscription_consumers_count", "Consumers.", lambda subscription: len(subscription.consumers)
    ),
    SubscriptionMetric(
        "pulsar_subscription_msg_rate_out",
        "Messages that go, per second.",
        lambda subscription: meters.delivered(subscription).messages,
    ),
    SubscriptionMetric(
        "pulsar_subscription_msg_throughput_out",
        "Bytes that go, per second.",
        lambda subscription: meters.delivered(subscription).bytes,
    ),
    SubscriptionMetric(
        "pulsar_subscription_msg_rate_redeliver",
        "Messages that consumers want again, per second.",
        lambda subscription: sum(meters.consumed(consumer).redelivered for consumer in subscription.consumers),
    ),
    SubscriptionMetric(
        "pulsar_subscription_msg_ack_rate",
        "Acknowledged per second; a cumulative acknowledgement counts as one.",
        lambda subscription: sum(meters.consumed(consumer).acked for consumer in subscription.consumers),
    ),
    SubscriptionMetric(
        "pulsar_subscription_msg_rate_expired",
        "Entries that expire, per second.",
        lambda subscription: meters.delivered(subscription).expired,
    ),
    SubscriptionMetric(
        "pulsar_subscription_msg_drop_rate",
        "Messages of a non-persistent topic that are dropped, per second.",
        lambda subscription: meters.delivered(subscription).dropped,
    ),
    *_throttled(
        "Msg",
        "pulsar_subscription_dispatch_throttled_msg_events",
        "Times that a rate of messages held back the subscription.",
    ),
    *_throttled(
        "Bytes",
        "pulsar_subscription_dispatch_throttled_bytes_events",
        "Times that a rate of bytes held back the subscription.",
    ),
    SubscriptionMetric(
        "pulsar_subscription_total_msg_expired",
        "Expired since the start.",
        lambda subscription: subscription.entries_expired,
    ),
    SubscriptionMetric(
        "pulsar_subscription_last_expire_timestamp",
        "When entries expired last, in milliseconds.",
        lambda subscription: subscription.last_expired_ms,
    ),
    SubscriptionMetric(
        "pulsar_subscription_last_acked_timestamp",
        "When a consumer acknowledged last, in milliseconds.",
        _last("last_acked_ms"),
    ),
    SubscriptionMetric(
        "pulsar_subscription_last_consumed_timestamp",
        "When something was sent to a consumer last, in milliseconds.",
        _last("last_sent_ms"),
    ),
    SubscriptionMetric(
        "pulsar_subscription_last_consumed_flow_timestamp",
        "Time of the last permits (FLOW) of a consumer, in milliseconds.",
        _last("last_flow_ms"),
    ),
    SubscriptionMetric(
        "pulsar_subscription_last_mark_delete_advanced_timestamp",
        "When the first unacknowledged entry became another one last, in milliseconds.",
        lambda subscription: subscription.last_moved_ms,
    ),
    SubscriptionMetric(
        "pulsar_txn_tp_committed_count_total",
        "Committed transactions since the start that had acknowledged here, once there was one.",
        lambda subscription: subscription.transactions_committed or None,
        ',status="succeed"',
    ),
    SubscriptionMetric(
        "pulsar_txn_tp_aborted_count_total",
        "Aborted transactions since the start that had acknowledged here, once there was one.",
        lambda subscription: subscription.transactions_aborted or None,
        ',status="succeed"',
    ),
    SubscriptionMetric(
        "pulsar_out_messages_total", "Messages since the start.", lambda subscription: subscription.messages_out
    ),
    SubscriptionMetric(
        "pulsar_out_bytes_total", "Bytes of entries since the start.", lambda subscription: subscription.bytes_out
    ),
)
