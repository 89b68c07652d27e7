"""Statistics of partitioned topics over REST: those of all partitions together (ST-5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from .topic_stats import COMPACTION, EVERYTHING, NOT_HERE, THROTTLED, Wanted, topic_stats_in_steps

if TYPE_CHECKING:
    from spark_pulsar.admin.http.slices import Steps
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic

_SUMMED: Final = (
    "msgRateIn",
    "msgThroughputIn",
    "msgRateOut",
    "msgThroughputOut",
    "bytesInCounter",
    "msgInCounter",
    "bytesOutCounter",
    "msgOutCounter",
    "storageSize",
    "backlogSize",
    "publishRateLimitedTimes",
    "ongoingTxnCount",
    "abortedTxnCount",
    "committedTxnCount",
    "delayedMessageIndexSizeInBytes",
    "nonContiguousDeletedMessagesRanges",
    "nonContiguousDeletedMessagesRangesSerializedSize",
)
_SUBSCRIPTION_SUMMED: Final = (
    "msgRateOut",
    "msgThroughputOut",
    "msgRateRedeliver",
    "messageAckRate",
    "chunkedMessageRate",
    "msgRateExpired",
    "msgInReplay",
    "bytesOutCounter",
    "msgOutCounter",
    "msgBacklog",
    "backlogSize",
    "msgBacklogNoDelayed",
    "msgDelayed",
    "unackedMessages",
    "totalMsgExpired",
    "msgExpired",
    "nonContiguousDeletedMessagesRanges",
    *THROTTLED,
)
_SUBSCRIPTION_LATEST: Final = (
    "lastExpireTimestamp",
    "lastConsumedFlowTimestamp",
    "lastConsumedTimestamp",
    "lastAckedTimestamp",
    "lastMarkDeleteAdvancedTimestamp",
    "blockedSubscriptionOnUnackedMsgs",
)
_CONSUMER_SUMMED: Final = (
    "msgRateOut",
    "msgThroughputOut",
    "bytesOutCounter",
    "msgOutCounter",
    "msgRateRedeliver",
    "messageAckRate",
    "chunkedMessageRate",
    "availablePermits",
    "unackedMessages",
)
_CONSUMER_LATEST: Final = (
    "blockedConsumerOnUnackedMsgs",
    "lastAckedTimestamp",
    "lastConsumedTimestamp",
    "lastConsumedFlowTimestamp",
)
_CONSUMER_FIRST: Final = ("firstMessagesSentTimestamp", "firstConsumedFlowTimestamp")
_PUBLISHER_SUMMED: Final = ("msgRateIn", "msgThroughputIn", "chunkedMessageRate")


def partitioned_stats(
    core: Core, partitions: int, topics: Iterable[Topic], wanted: Wanted = EVERYTHING, *, per_partition: bool = True
) -> Steps[dict[str, Any]]:
    """Sums the statistics of all partitions of a topic; with `per_partition` every partition is shown too."""
    by_name: dict[str, dict[str, Any]] = {}
    for topic in topics:
        if core.topics.get(topic.full_name) is not topic:
            continue  # deleted meanwhile
        by_name[topic.full_name] = yield from topic_stats_in_steps(core, topic, wanted)
    stats = list(by_name.values())
    total: dict[str, Any] = {}
    for key in _SUMMED:
        total[key] = sum(one[key] for one in stats)
        yield
    publishers = yield from _merged_publishers([one["publishers"] for one in stats])
    subscriptions = yield from _sum_subscriptions(stats)
    ages = [one["oldestBacklogMessageAgeSeconds"] for one in stats]
    limits = stats[0] if stats else {"backlogQuotaLimitSize": -1, "backlogQuotaLimitTime": -1}
    return {
        **total,
        "averageMsgSize": total["msgThroughputIn"] / total["msgRateIn"] if total["msgRateIn"] else 0.0,
        "msgChunkPublished": any(one["msgChunkPublished"] for one in stats),
        "backlogQuotaLimitSize": limits["backlogQuotaLimitSize"],
        "backlogQuotaLimitTime": limits["backlogQuotaLimitTime"],
        "oldestBacklogMessageAgeSeconds": max(ages, default=-1),
        "earliestMsgPublishTimeInBacklogs": _oldest_of([one["earliestMsgPublishTimeInBacklogs"] for one in stats]),
        **NOT_HERE,
        "topicCreationTimeStamp": min((one["topicCreationTimeStamp"] for one in stats), default=0),
        "lastPublishTimeStamp": max((one["lastPublishTimeStamp"] for one in stats), default=0),
        "publishers": publishers,
        "waitingPublishers": sum(one["waitingPublishers"] for one in stats),
        "subscriptions": subscriptions,
        "compaction": _compaction([one["compaction"] for one in stats]),
        "metadata": {"partitions": partitions, "deleted": False},
        "partitions": by_name if per_partition else {},
    }


def _compaction(partitions: Sequence[dict[str, int]]) -> dict[str, int]:
    """Returns the events that compaction has removed from all partitions, and the latest of its times."""
    totals = {name: max((one[name] for one in partitions), default=0) for name in COMPACTION}
    removed = "lastCompactionRemovedEventCount"
    return totals | {removed: sum(one[removed] for one in partitions)}


def _sum_subscriptions(partitions: Iterable[dict[str, Any]]) -> Steps[dict[str, Any]]:
    merged: dict[str, Any] = {}
    for stats in partitions:
        for name, subscription in stats["subscriptions"].items():
            yield
            known = merged.get(name)
            if known is None:
                merged[name] = {**subscription, "consumers": [dict(consumer) for consumer in subscription["consumers"]]}
                continue
            for key in _SUBSCRIPTION_SUMMED:
                known[key] += subscription[key]
            for key in _SUBSCRIPTION_LATEST:
                known[key] = max(known[key], subscription[key])
            own = subscription["consumers"]
            _merge(known["consumers"], own, "consumerName", _CONSUMER_SUMMED, _CONSUMER_LATEST, _CONSUMER_FIRST)
            times = [stats["earliestMsgPublishTimeInBacklog"] for stats in (known, subscription)]
            known["earliestMsgPublishTimeInBacklog"] = _oldest_of(times)
    return merged


def _merged_publishers(partitions: Iterable[list[dict[str, Any]]]) -> Steps[list[dict[str, Any]]]:
    merged: list[dict[str, Any]] = []
    for publishers in partitions:
        yield
        _merge(merged, publishers, "producerName", _PUBLISHER_SUMMED)
    for publisher in merged:
        publisher["averageMsgSize"] = (
            publisher["msgThroughputIn"] / publisher["msgRateIn"] if publisher["msgRateIn"] else 0.0
        )
    return merged


def _merge(
    known: list[dict[str, Any]],
    more: list[dict[str, Any]],
    name: str,
    summed: Iterable[str],
    latest: Iterable[str] = (),
    first: Iterable[str] = (),
) -> None:
    """Merges the clients of one more partition into those of the others: a client of a partitioned topic is connected
    to each partition, by the same name or, where names are generated, in the same place among them. Names and addresses
    are those of the first partition."""
    alike: dict[str, deque[int]] = {}
    for index, one in enumerate(known):
        alike.setdefault(one[name], deque()).append(index)
    places = [indices.popleft() if (indices := alike.get(other[name])) else -1 for other in more]
    taken = set(places)
    free = iter([index for index in range(len(known)) if index not in taken])
    for other, place in zip(more, places, strict=True):
        index = place if place >= 0 else next(free, -1)
        if index < 0:
            known.append(dict(other))
            continue
        one = known[index]
        one.update({member: one[member] + other[member] for member in summed})
        one.update({member: max(one[member], other[member]) for member in latest})
        one.update({member: _oldest_of([one[member], other[member]]) for member in first})


def _oldest_of(times: list[int]) -> int:
    """Returns the oldest time, or 0 or -1 when there is none."""
    return min((time_ms for time_ms in times if time_ms > 0), default=min(times, default=0))
