"""The metrics of this broker: name, meaning, value (admin-rest.md 7). Names are Apache Pulsar's; those that begin with
`spark_pulsar_` are ours. `metrics` writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from spark_pulsar.broker.entities import meters
from spark_pulsar.broker.topic_log import backlog_size

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.entities.topic import Topic

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
    """A number of the broker; its name ends in `_total` when it only grows. One that takes time to find is told in
    parts that are its sum."""

    name: str
    help: str
    value: Callable[[Scrape], float | Iterator[float]]
    labels: str = ""


class TopicMetric(NamedTuple):
    """A number of each topic."""

    name: str
    help: str
    value: Callable[[Core, Topic], float]
    labels: str = ""
    """Further labels as they are written, with a comma before."""


class SubscriptionMetric(NamedTuple):
    """A number of each subscription."""

    name: str
    help: str
    value: Callable[[Subscription], float]


def _sum(name: str, text: str, value: Callable[[Topic], float], labels: str = "") -> BrokerMetric:
    """Makes the metric of the broker that is the sum over all topics in use."""
    return BrokerMetric(name, text, lambda scrape: scrape.per_topic(value), labels)


def _of(name: str, text: str, value: Callable[[Topic], float], labels: str = "") -> TopicMetric:
    """Makes the metric of a topic that the topic itself tells."""
    return TopicMetric(name, text, lambda _, topic: value(topic), labels)


def _evictions(make: Callable[[str, str, Callable[[Topic], float], str], Metric], name: str) -> tuple[Metric, Metric]:
    text = "Times that backlogs lost entries because of a quota."
    return (
        make(name, text, lambda topic: topic.evictions_by_size, ',quota_type="size"'),
        make(name, text, lambda topic: topic.evictions_by_age, ',quota_type="time"'),
    )


def _rate_out(topic: Topic) -> float:
    return sum(meters.delivered(each).messages for each in topic.subscriptions.values())


def _throughput_out(topic: Topic) -> float:
    return sum(meters.delivered(each).bytes for each in topic.subscriptions.values())


def _read_rate(topic: Topic) -> float:
    return sum(meters.delivered(each).read for each in topic.subscriptions.values())


def _backlog(topic: Topic) -> int:
    return sum(max(0, each.backlog) for each in topic.subscriptions.values() if each.is_durable)


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
    _sum("pulsar_broker_storage_size", "Bytes stored.", backlog_size.storage_bytes),
    _sum("pulsar_broker_storage_logical_size", "Bytes stored, one copy.", backlog_size.storage_bytes),
    _sum(
        "pulsar_broker_storage_write_rate",
        "Entries that are stored, per second.",
        lambda topic: meters.published(topic).stored,
    ),
    _sum("pulsar_broker_storage_read_rate", "Entries that are read for consumers, per second.", _read_rate),
    _sum("pulsar_broker_msg_backlog", "Entries not acknowledged, over all subscriptions.", _backlog),
    *_evictions(_sum, "pulsar_broker_storage_backlog_quota_exceeded_evictions_total"),
    BrokerMetric("pulsar_active_connections", "Connections.", lambda scrape: len(scrape.core.sessions)),
    BrokerMetric(
        "pulsar_broker_pending_publish_bytes",
        "Entries that wait for the disk.",
        lambda scrape: scrape.core.pending_publish_bytes,
    ),
    BrokerMetric(
        "spark_pulsar_disk_full",
        "1 while the disk takes no more messages.",
        lambda scrape: int(bool(scrape.core.disk_full_reason)),
    ),
    BrokerMetric("spark_pulsar_read_only_topics", "Topics that take no messages because of damage.", _read_only),
)

TOPIC: Final = (
    _of("pulsar_subscriptions_count", "Subscriptions.", lambda topic: len(topic.subscriptions)),
    _of("pulsar_producers_count", "Producers.", lambda topic: len(topic.producers)),
    _of("pulsar_consumers_count", "Consumers.", lambda topic: topic.consumer_count),
    _of("pulsar_rate_in", "Messages that come, per second.", lambda topic: meters.published(topic).messages),
    _of("pulsar_throughput_in", "Bytes that come, per second.", lambda topic: meters.published(topic).bytes),
    _of("pulsar_rate_out", "Messages that go, per second.", _rate_out),
    _of("pulsar_throughput_out", "Bytes that go, per second.", _throughput_out),
    _of("pulsar_average_msg_size", "Bytes of a message.", lambda topic: meters.published(topic).average_message_bytes),
    _of("pulsar_in_messages_total", "Messages since the start.", lambda topic: topic.messages_in),
    _of("pulsar_in_bytes_total", "Bytes of entries since the start.", lambda topic: topic.bytes_in),
    _of("pulsar_msg_backlog", "Entries not acknowledged, all subscriptions.", _backlog),
    _of("pulsar_storage_size", "Bytes stored.", backlog_size.storage_bytes),
    _of("pulsar_storage_logical_size", "Bytes stored, one copy.", backlog_size.storage_bytes),
    _of(
        "pulsar_storage_write_rate",
        "Entries that are stored, per second.",
        lambda topic: meters.published(topic).stored,
    ),
    _of("pulsar_storage_read_rate", "Entries that are read for consumers, per second.", _read_rate),
    _of(
        "pulsar_storage_backlog_size",
        "Bytes that the slowest subscription has not acknowledged.",
        backlog_size.backlog_bytes,
    ),
    TopicMetric(
        "pulsar_storage_backlog_age_seconds",
        "Age of the oldest message that the slowest subscription has not acknowledged; -1: none, or not looked at.",
        backlog_size.oldest_backlog_age_s,
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
    *_evictions(_of, "pulsar_storage_backlog_quota_exceeded_evictions_total"),
    _of(
        "spark_pulsar_topic_read_only",
        "1 when the topic takes no messages because of damage.",
        lambda topic: int(topic.state.damage is not None),
    ),
)


def _last(of_subscription: str) -> Callable[[Subscription], float]:
    def last(subscription: Subscription) -> float:
        times = [getattr(each, of_subscription) for each in subscription.consumers]
        return float(max(getattr(subscription, of_subscription), *times, 0))

    return last


SUBSCRIPTION: Final = (
    SubscriptionMetric("pulsar_subscription_back_log", "Entries not acknowledged.", lambda each: max(0, each.backlog)),
    SubscriptionMetric(
        "pulsar_subscription_back_log_no_delayed",
        "Entries not acknowledged whose time has come.",
        lambda each: max(0, each.backlog),
    ),
    SubscriptionMetric(
        "pulsar_subscription_unacked_messages",
        "Delivered, not acknowledged.",
        lambda each: sum(consumer.unacked for consumer in each.consumers),
    ),
    SubscriptionMetric(
        "pulsar_subscription_blocked_on_unacked_messages",
        "1 while nothing is sent because too much is not acknowledged.",
        lambda each: int(each.dispatcher.is_blocked),
    ),
    SubscriptionMetric(
        "pulsar_subscription_in_replay", "Entries to be sent again.", lambda each: each.dispatcher.replay_count
    ),
    SubscriptionMetric("pulsar_subscription_consumers_count", "Consumers.", lambda each: len(each.consumers)),
    SubscriptionMetric(
        "pulsar_subscription_msg_rate_out",
        "Messages that go, per second.",
        lambda each: meters.delivered(each).messages,
    ),
    SubscriptionMetric(
        "pulsar_subscription_msg_throughput_out",
        "Bytes that go, per second.",
        lambda each: meters.delivered(each).bytes,
    ),
    SubscriptionMetric(
        "pulsar_subscription_msg_rate_redeliver",
        "Messages that consumers want again, per second.",
        lambda each: sum(meters.consumed(consumer).redelivered for consumer in each.consumers),
    ),
    SubscriptionMetric(
        "pulsar_subscription_msg_ack_rate",
        "Acknowledged per second; a cumulative acknowledgement counts as one.",
        lambda each: sum(meters.consumed(consumer).acked for consumer in each.consumers),
    ),
    SubscriptionMetric(
        "pulsar_subscription_msg_rate_expired",
        "Entries that expire, per second.",
        lambda each: meters.delivered(each).expired,
    ),
    SubscriptionMetric(
        "pulsar_subscription_total_msg_expired", "Expired since the start.", lambda each: each.entries_expired
    ),
    SubscriptionMetric(
        "pulsar_subscription_last_expire_timestamp",
        "When entries expired last, in milliseconds.",
        lambda each: each.last_expired_ms,
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
        "When a consumer asked for messages last, in milliseconds.",
        _last("last_flow_ms"),
    ),
    SubscriptionMetric(
        "pulsar_subscription_last_mark_delete_advanced_timestamp",
        "When the first unacknowledged entry became another one last, in milliseconds.",
        lambda each: each.last_moved_ms,
    ),
    SubscriptionMetric("pulsar_out_messages_total", "Messages since the start.", lambda each: each.messages_out),
    SubscriptionMetric("pulsar_out_bytes_total", "Bytes of entries since the start.", lambda each: each.bytes_out),
)
