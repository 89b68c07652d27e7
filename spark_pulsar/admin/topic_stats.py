"""Statistics of topics, in the shape of Apache Pulsar's TopicStats as far as the numbers exist (section 17)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from spark_pulsar.broker.stats import timestamp

if TYPE_CHECKING:
    from spark_pulsar.broker.consumers import Consumer
    from spark_pulsar.broker.producers import Producer
    from spark_pulsar.broker.subscriptions import Subscription
    from spark_pulsar.broker.topics import Topic


def topic_stats(topic: Topic) -> dict[str, Any]:
    """One topic or partition. Counters that start with the broker count since its start."""
    ledger = topic.ledger
    subscriptions = {name: subscription_stats(each) for name, each in topic.subscriptions.items()}
    return {
        "msgInCounter": topic.messages_in,
        "bytesInCounter": topic.bytes_in,
        "msgOutCounter": sum(each["msgOutCounter"] for each in subscriptions.values()),
        "bytesOutCounter": sum(each["bytesOutCounter"] for each in subscriptions.values()),
        "storageSize": ledger.size_bytes,
        "topicCreationTimeStamp": topic.state.created_ms,
        "publishers": [publisher_stats(each) for each in topic.producers.values()],
        "waitingPublishers": 0,
        "subscriptions": subscriptions,
        "replication": {},
        "deduplicationStatus": "Enabled" if topic.deduplicates else "Disabled",
    }


def subscription_stats(subscription: Subscription) -> dict[str, Any]:
    """One subscription; `msgBacklog` counts entries."""
    consumers = [consumer_stats(each) for each in subscription.consumers]
    return {
        "msgBacklog": max(0, subscription.backlog),
        "unackedMessages": sum(each.unacked for each in subscription.consumers),
        "msgOutCounter": subscription.messages_out,
        "bytesOutCounter": subscription.bytes_out,
        "type": subscription.type_name,
        "isDurable": subscription.is_durable,
        "durable": subscription.is_durable,
        "isReplicated": False,
        "replicated": False,
        "consumers": consumers,
        "subscriptionProperties": dict(subscription.cursor.properties),
        "nonContiguousDeletedMessagesRanges": subscription.cursor.acked.range_count(),
    }


def consumer_stats(consumer: Consumer) -> dict[str, Any]:
    """One consumer."""
    return {
        "consumerName": consumer.name,
        "availablePermits": consumer.permits,
        "unackedMessages": consumer.unacked,
        "blockedConsumerOnUnackedMsgs": consumer.blocked,
        "msgOutCounter": consumer.messages_out,
        "bytesOutCounter": consumer.bytes_out,
        "lastAckedTimestamp": consumer.last_acked_ms,
        "lastConsumedTimestamp": consumer.last_sent_ms,
        "address": consumer.session.peer,
        "connectedSince": timestamp(consumer.connected_ms),
        "clientVersion": consumer.session.client_version,
        "metadata": dict(consumer.properties),
    }


def publisher_stats(producer: Producer) -> dict[str, Any]:
    """One producer."""
    return {
        "producerId": producer.producer_id,
        "producerName": producer.name,
        "accessMode": "Shared",
        "address": producer.session.peer,
        "connectedSince": timestamp(producer.connected_ms),
        "clientVersion": producer.session.client_version,
        "metadata": dict(producer.properties),
    }


def partitioned_stats(partitions: int, topics: Iterable[Topic]) -> dict[str, Any]:
    """All partitions of a topic: sums, and each by itself."""
    each = {topic.full_name: topic_stats(topic) for topic in topics}
    summed = ("msgInCounter", "bytesInCounter", "msgOutCounter", "bytesOutCounter", "storageSize")
    total: dict[str, Any] = {key: sum(stats[key] for stats in each.values()) for key in summed}
    total["subscriptions"] = _sum_subscriptions(each.values())
    total["publishers"] = [publisher for stats in each.values() for publisher in stats["publishers"]]
    return {**total, "metadata": {"partitions": partitions, "deleted": False}, "partitions": each}


def _sum_subscriptions(partitions: Iterable[dict[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for stats in partitions:
        for name, subscription in stats["subscriptions"].items():
            known = merged.get(name)
            if known is None:
                merged[name] = {**subscription, "consumers": list(subscription["consumers"])}
                continue
            for key in ("msgBacklog", "unackedMessages", "msgOutCounter", "bytesOutCounter"):
                known[key] += subscription[key]
            known["consumers"] += subscription["consumers"]
    return merged
