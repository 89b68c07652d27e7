"""Statistics of topics over REST, member for member as Apache Pulsar's TopicStats (ST-6, T-6, T-7), also of all topics
at once (ADM-72: `broker_stats`).

Counters count since the start of the broker, those of clients that are gone included (ST-9), sizes are those of stored
entries, rates and average sizes are those of the last interval of `rates`. None is negative but permits (ST-4), which
follows from the counts and is checked in `broker.invariants`. Quotas of the backlog are shown beside its oldest message
(BQ-10). Members of our own: `readOnlyReason`, of a damaged topic only; `backlogQuotaEvictions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.admin.http.slices import finish
from spark_pulsar.broker.entities import exclusive_access, meters
from spark_pulsar.broker.entities.topic import OpenTransactions
from spark_pulsar.broker.message_lifetime import delayed_delivery
from spark_pulsar.broker.subscriptions.consumer_stats import timestamp
from spark_pulsar.broker.topic_log import backlog_bytes
from spark_pulsar.ledger.state.compaction import Compaction
from spark_pulsar.ledger.state.cursors.records import RANGE_BYTES

from . import key_shared_stats

if TYPE_CHECKING:
    from spark_pulsar.admin.http.slices import Steps
    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.producer import Producer
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.entities.topic import Topic

_NEVER: Final = "1970-01-01T00:00:00Z"
NOT_HERE: Final[dict[str, Any]] = {
    "systemTopicBytesInCounter": 0,
    "bytesOutInternalCounter": 0,
    "offloadedStorageSize": 0,
    "lastOffloadLedgerId": 0,
    "lastOffloadSuccessTimeStamp": 0,
    "lastOffloadFailureTimeStamp": 0,
    "replication": {},
}
"""Members of features that this broker has not."""
_STORED: Final = frozenset({"deduplicationStatus"})
_NOTHING_STORED: Final = {
    "msgDropRate": 0.0,
    "backlogQuotaLimitSize": 0,
    "backlogQuotaLimitTime": 0,
    "oldestBacklogMessageAgeSeconds": 0,
}
"""Members of a non-persistent topic in their place."""
_FILTERS: Final = dict.fromkeys(
    ("filterProcessedMsgCount", "filterAcceptedMsgCount", "filterRejectedMsgCount", "filterRescheduledMsgCount"), 0
)
THROTTLED: Final = {
    f"dispatchThrottled{what}EventsBy{level}Limit": 0
    for what in ("Msg", "Bytes")
    for level in ("Subscription", "Topic", "Broker")
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Parts of the statistics that a caller requested."""

    publishers: bool = True
    consumers: bool = True
    subscription_backlog_bytes: bool = True
    owner_broker: str = ""
    """Id of this broker."""
    earliest: Mapping[tuple[str, str], int] | None = None
    """Publish time of the oldest entry of each backlog, by topic and subscription; None when that was not requested."""


EVERYTHING: Final = Wanted()
COMPACTION: Final = (
    "lastCompactionRemovedEventCount",
    "lastCompactionSucceedTimestamp",
    "lastCompactionFailedTimestamp",
    "lastCompactionDurationTimeInMills",
)
"""Members about the last compaction of a topic."""


def topic_stats(core: Core, topic: Topic, wanted: Wanted = EVERYTHING) -> dict[str, Any]:
    """Returns the statistics of a topic or partition. They contain the oldest entry of the backlog if
    `backlog_bytes.with_oldest` was called before."""
    return finish(topic_stats_in_steps(core, topic, wanted))


def topic_stats_in_steps(core: Core, topic: Topic, wanted: Wanted = EVERYTHING) -> Steps[dict[str, Any]]:
    """Returns what `topic_stats` does. Who comes meanwhile may be left out."""
    subscriptions: dict[str, dict[str, Any]] = {}
    for name, subscription in list(topic.subscriptions.items()):
        subscriptions[name] = yield from subscription_stats_in_steps(subscription, wanted)
    publishers: list[dict[str, Any]] = []
    for producer in list(topic.producers.values()) if wanted.publishers else ():
        publishers.append(publisher_stats(producer))
        yield
    yield
    policies = core.policies_of(topic.name)
    rate = meters.published(topic)
    stats = {
        "msgRateIn": rate.messages,
        "msgThroughputIn": rate.bytes,
        "msgRateOut": sum(subscription["msgRateOut"] for subscription in subscriptions.values()),
        "msgThroughputOut": sum(subscription["msgThroughputOut"] for subscription in subscriptions.values()),
        "bytesInCounter": topic.bytes_in,
        "msgInCounter": topic.messages_in,
        "bytesOutCounter": topic.bytes_out_before
        + sum(subscription["bytesOutCounter"] for subscription in subscriptions.values()),
        "msgOutCounter": topic.messages_out_before
        + sum(subscription["msgOutCounter"] for subscription in subscriptions.values()),
        "averageMsgSize": rate.average_message_bytes,
        "msgChunkPublished": topic.state.has_chunks,
        "storageSize": backlog_bytes.storage_bytes(topic),
        "backlogSize": backlog_bytes.backlog_bytes(topic),
        "backlogQuotaLimitSize": policies.size_quota.limit_bytes,
        "backlogQuotaLimitTime": policies.age_quota.limit_time_s,
        **_oldest(core, topic, wanted),
        **NOT_HERE,
        **_transactions(topic),
        "publishRateLimitedTimes": topic.publish_limited_times,
        "topicCreationTimeStamp": topic.state.created_ms,
        "lastPublishTimeStamp": topic.last_published_ms,
        "publishers": publishers,
        "waitingPublishers": len(topic.access.waiters) if topic.access is not None else 0,
        "subscriptions": subscriptions,
        "deduplicationStatus": "Enabled" if topic.deduplicates else "Disabled",
        "compaction": _compaction(core, topic),
        "nonContiguousDeletedMessagesRanges": sum(
            subscription["nonContiguousDeletedMessagesRanges"] for subscription in subscriptions.values()
        ),
        "nonContiguousDeletedMessagesRangesSerializedSize": sum(
            subscription["nonContiguousDeletedMessagesRangesSerializedSize"] for subscription in subscriptions.values()
        ),
        "delayedMessageIndexSizeInBytes": delayed_delivery.index_bytes(topic),
        **({} if (epoch := exclusive_access.announced_epoch(topic)) is None else {"topicEpoch": epoch}),
        "backlogQuotaEvictions": {"size": topic.evictions_by_size, "time": topic.evictions_by_age},
        "ownerBroker": wanted.owner_broker,
    }
    if topic.non_persistent is not None:
        return {**{name: value for name, value in stats.items() if name not in _STORED}, **_NOTHING_STORED}
    damage = topic.state.damage
    return stats if damage is None else {**stats, "readOnlyReason": str(damage)}


def _transactions(topic: Topic) -> dict[str, int]:
    ended = topic.transactions or OpenTransactions()
    return {
        "ongoingTxnCount": len(topic.state.open_transactions),
        "abortedTxnCount": ended.aborted,
        "committedTxnCount": ended.committed,
    }


def _compaction(core: Core, topic: Topic) -> dict[str, int]:
    last = topic.state.compaction or Compaction()
    failed_ms = core.compactions.failed_ms.get(topic.state.topic_id, 0)
    figures = (last.removed, last.finished_ms, failed_ms, last.finished_ms - last.begun_ms)
    return dict(zip(COMPACTION, figures, strict=True))


def _oldest(core: Core, topic: Topic, wanted: Wanted) -> dict[str, Any]:
    oldest = backlog_bytes.oldest_known(topic)
    if oldest is None or oldest.publish_ms is None:
        return {"oldestBacklogMessageAgeSeconds": -1, "earliestMsgPublishTimeInBacklogs": 0}
    return {
        "oldestBacklogMessageAgeSeconds": max(0, core.wall_ms - oldest.publish_ms) // 1000,
        "oldestBacklogMessageSubscriptionName": oldest.subscription,
        "earliestMsgPublishTimeInBacklogs": oldest.publish_ms if wanted.earliest is not None else 0,
    }


def _earliest(subscription: Subscription, wanted: Wanted) -> int:
    """Returns the publish time of the oldest entry: -1 without a backlog, 0 when it was not requested."""
    if wanted.earliest is None:
        return 0
    return wanted.earliest.get((subscription.topic.full_name, subscription.name), -1)


def subscription_stats_in_steps(subscription: Subscription, wanted: Wanted) -> Steps[dict[str, Any]]:
    """Returns the statistics of a subscription; `msgBacklog` counts entries (BAT-3, ST-1), those that wait for their
    time too (DEL-5), whose bytes `backlog_bytes` knows (ST-3)."""
    consumers_json: list[dict[str, Any]] = []
    for consumer in list(subscription.consumers) if wanted.consumers else ():
        consumers_json.append(consumer_stats(consumer))
        yield
    yield
    consumers = subscription.consumers
    backlog = max(0, subscription.backlog)
    delayed_entries, holes = subscription.dispatcher.delayed_count, subscription.cursor.acked.range_count()
    rate, consumed = meters.delivered(subscription), [meters.consumed(consumer) for consumer in consumers]
    stats = {
        "msgRateOut": rate.messages,
        "msgThroughputOut": rate.bytes,
        "bytesOutCounter": subscription.bytes_out,
        "msgOutCounter": subscription.messages_out,
        "msgRateRedeliver": sum(rates.redelivered for rates in consumed),
        "messageAckRate": sum(rates.acked for rates in consumed),
        "chunkedMessageRate": sum(rates.chunks for rates in consumed),
        "msgBacklog": backlog,
        "backlogSize": backlog_bytes.subscription_backlog_bytes(subscription)
        if wanted.subscription_backlog_bytes
        else -1,
        "earliestMsgPublishTimeInBacklog": _earliest(subscription, wanted),
        "msgBacklogNoDelayed": backlog - delayed_entries,
        "blockedSubscriptionOnUnackedMsgs": subscription.dispatcher.is_blocked,
        "msgDelayed": delayed_entries,
        "msgInReplay": subscription.dispatcher.replay_count,
        "unackedMessages": sum(consumer.unacked for consumer in consumers),
        "type": subscription.type_name,
        "msgRateExpired": rate.expired,
        "totalMsgExpired": subscription.entries_expired,
        "msgExpired": subscription.entries_expired,
        "lastExpireTimestamp": subscription.last_expired_ms,
        "lastConsumedFlowTimestamp": max(
            subscription.last_flow_ms, *(consumer.last_flow_ms for consumer in consumers), 0
        ),
        "lastConsumedTimestamp": max(subscription.last_sent_ms, *(consumer.last_sent_ms for consumer in consumers), 0),
        "lastAckedTimestamp": max(subscription.last_acked_ms, *(consumer.last_acked_ms for consumer in consumers), 0),
        "lastMarkDeleteAdvancedTimestamp": subscription.last_moved_ms,
        "consumers": consumers_json,
        "isDurable": subscription.is_durable,
        "isReplicated": False,
        "consumersAfterMarkDeletePosition": {},
        **key_shared_stats.subscription_members(subscription),
        "nonContiguousDeletedMessagesRanges": holes,
        "nonContiguousDeletedMessagesRangesSerializedSize": RANGE_BYTES * holes if subscription.is_durable else 0,
        "delayedMessageIndexSizeInBytes": 0,
        "subscriptionProperties": dict(subscription.cursor.properties),
        **_FILTERS,
        **THROTTLED,
        **subscription.throttled,
        "durable": subscription.is_durable,
        "replicated": False,
    }
    if subscription.topic.non_persistent is not None:
        stats["msgDropRate"] = rate.dropped
    active = subscription.dispatcher.active_consumer
    if active is not None:
        stats["activeConsumerName"] = active.name
    return stats


def consumer_stats(consumer: Consumer) -> dict[str, Any]:
    """Returns the statistics of a consumer (ST-2)."""
    rate = meters.consumed(consumer)
    return {
        "msgRateOut": rate.messages,
        "msgThroughputOut": rate.bytes,
        "bytesOutCounter": consumer.bytes_out,
        "msgOutCounter": consumer.messages_out,
        "msgRateRedeliver": rate.redelivered,
        "messageAckRate": rate.acked,
        "chunkedMessageRate": rate.chunks,
        "consumerName": consumer.name,
        "availablePermits": consumer.permits,
        "unackedMessages": consumer.unacked,
        "avgMessagesPerEntry": round(consumer.messages_out / consumer.entries_out) if consumer.entries_out else 0,
        "blockedConsumerOnUnackedMsgs": consumer.blocked,
        **key_shared_stats.consumer_members(consumer),
        "address": consumer.session.peer,
        "connectedSince": timestamp(consumer.connected_ms),
        "clientVersion": consumer.session.client_version,
        "lastAckedTimestamp": consumer.last_acked_ms,
        "lastConsumedTimestamp": consumer.last_sent_ms,
        "lastConsumedFlowTimestamp": consumer.last_flow_ms,
        "firstMessagesSentTimestamp": consumer.first_sent_ms,
        "firstConsumedFlowTimestamp": consumer.first_flow_ms,
        "metadata": dict(consumer.properties),
        "lastAckedTime": timestamp(consumer.last_acked_ms) if consumer.last_acked_ms else _NEVER,
        "lastConsumedTime": timestamp(consumer.last_sent_ms) if consumer.last_sent_ms else _NEVER,
    }


def publisher_stats(producer: Producer) -> dict[str, Any]:
    """Returns the statistics of a producer."""
    rate = meters.published(producer)
    return {
        **({} if producer.topic.non_persistent is None else {"msgDropRate": 0.0}),
        "accessMode": exclusive_access.mode_name(producer.access_mode),
        "msgRateIn": rate.messages,
        "msgThroughputIn": rate.bytes,
        "averageMsgSize": rate.average_message_bytes,
        "chunkedMessageRate": rate.chunks,
        "producerId": producer.producer_id,
        "supportsPartialProducer": False,
        "producerName": producer.name,
        "address": producer.session.peer,
        "connectedSince": timestamp(producer.connected_ms),
        "clientVersion": producer.session.client_version,
        "metadata": dict(producer.properties),
    }
