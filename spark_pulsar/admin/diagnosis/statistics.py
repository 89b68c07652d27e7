"""Statistics of topics as facts: `stats` and `partitioned-stats` in two samples, and `internalStats`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from spark_pulsar.admin.diagnosis.facts import Consumer, Log, Publisher, Subscription

_LEVELS: Final = {"subscription": "Subscription", "topic": "Topic", "broker": "Broker"}
_PARTITION: Final = "-partition-"

Json = Mapping[str, Any]


def logs_of(topic: str, partitions: int, first: Json, second: Json, internal: Mapping[str, Json]) -> Iterator[Log]:
    """Yields the topic, or each of its partitions that exists, from two samples of its statistics."""
    if not partitions:
        yield _log(topic, None, first, second, internal.get(topic))
        return
    before = {_number(name): statistics for name, statistics in (first.get("partitions") or {}).items()}
    after = {_number(name): (name, statistics) for name, statistics in (second.get("partitions") or {}).items()}
    for number in sorted(after):
        name, statistics = after[number]
        yield _log(name, number, before.get(number, statistics), statistics, internal.get(name))


def _number(name: str) -> int:
    number = name.rpartition(_PARTITION)[2]
    return int(number) if number.isdecimal() else -1


def _log(name: str, number: int | None, first: Json, second: Json, internal: Json | None) -> Log:
    before = first.get("subscriptions") or {}
    last_entry = str((internal or {}).get("lastConfirmedEntry", "")).rpartition(":")[2]
    return Log(
        name,
        number,
        publishers=tuple(map(_publisher, second.get("publishers") or ())),
        waiting_publishers=_int(second, "waitingPublishers"),
        subscriptions={
            subscription: _subscription(subscription, before.get(subscription, {}), statistics)
            for subscription, statistics in (second.get("subscriptions") or {}).items()
        },
        stored_bytes=_int(second, "storageSize"),
        published=_int(second, "msgInCounter"),
        published_lately=_increase(first, second, "msgInCounter"),
        last_publish_ms=_int(second, "lastPublishTimeStamp"),
        rate_limited=_int(second, "publishRateLimitedTimes"),
        rate_limited_lately=_increase(first, second, "publishRateLimitedTimes"),
        open_transactions=_int(second, "ongoingTxnCount"),
        backlog_bytes=_int(second, "backlogSize"),
        backlog_age_s=_int(second, "oldestBacklogMessageAgeSeconds", -1),
        evicted=sum((second.get("backlogQuotaEvictions") or {}).values()),
        entries=None if internal is None else _int(internal, "numberOfEntries"),
        had_entries=last_entry.isdecimal(),
        added_entries=_int(internal or {}, "entriesAddedCounter"),
        is_terminated=(internal or {}).get("state") == "Terminated",
    )


def _publisher(statistics: Json) -> Publisher:
    return Publisher(
        str(statistics.get("producerName", "")),
        _address(statistics),
        _time_ms(statistics.get("connectedSince")),
        str(statistics.get("accessMode", "Shared")),
    )


def _subscription(name: str, first: Json, second: Json) -> Subscription:
    throttled = {level: _throttled(second, word) for level, word in _LEVELS.items()}
    return Subscription(
        name,
        type=str(second.get("type") or ""),
        backlog=_int(second, "msgBacklog"),
        delayed=_int(second, "msgDelayed"),
        unacked=_int(second, "unackedMessages"),
        is_blocked=bool(second.get("blockedSubscriptionOnUnackedMsgs")),
        sent=_int(second, "msgOutCounter"),
        sent_lately=_increase(first, second, "msgOutCounter") if first else 0,
        expired=_int(second, "totalMsgExpired"),
        last_expire_ms=_int(second, "lastExpireTimestamp"),
        last_acked_ms=_int(second, "lastAckedTimestamp"),
        last_sent_ms=_int(second, "lastConsumedTimestamp"),
        oldest_ms=_int(second, "earliestMsgPublishTimeInBacklog"),
        dropped=float(second.get("msgDropRate") or 0),
        active_consumer=str(second.get("activeConsumerName") or ""),
        consumers=tuple(map(_consumer, second.get("consumers") or ())),
        is_replicated=bool(second.get("isReplicated", second.get("replicated"))),
        key_shared_mode=str(second.get("keySharedMode") or ""),
        out_of_order=bool(second.get("allowOutOfOrderDelivery")),
        throttled={level: events for level, events in throttled.items() if events},
        throttled_lately=frozenset(
            level for level, word in _LEVELS.items() if first and throttled[level] > _throttled(first, word)
        ),
        rejected=_int(second, "filterRejectedMsgCount"),
    )


def _consumer(statistics: Json) -> Consumer:
    ranges = statistics.get("keyHashRangeArrays")
    if not ranges:  # "[0, 65535]", as Apache Pulsar 3 has them
        ranges = [str(text).strip("[] ").split(",") for text in statistics.get("keyHashRanges") or ()]
    return Consumer(
        str(statistics.get("consumerName", "")),
        _address(statistics),
        _time_ms(statistics.get("connectedSince")),
        permits=_int(statistics, "availablePermits"),
        unacked=_int(statistics, "unackedMessages"),
        per_entry=max(1, _int(statistics, "avgMessagesPerEntry", 1)),
        is_blocked=bool(statistics.get("blockedConsumerOnUnackedMsgs")),
        sent=_int(statistics, "msgOutCounter"),
        hash_ranges=tuple((int(low), int(high)) for low, high in ranges),
        draining_hashes=_int(statistics, "drainingHashesCount"),
        draining_unacked=_int(statistics, "drainingHashesUnackedMessages"),
    )


def _address(statistics: Json) -> str:
    return str(statistics.get("address") or "").lstrip("/")


def _time_ms(text: object) -> int:
    try:
        return int(datetime.fromisoformat(str(text)).timestamp() * 1000)
    except ValueError:
        return 0


def _throttled(statistics: Json, level: str) -> int:
    return sum(_int(statistics, f"dispatchThrottled{unit}EventsBy{level}Limit") for unit in ("Msg", "Bytes"))


def _increase(first: Json, second: Json, name: str) -> int:
    return max(0, _int(second, name) - _int(first, name))


def _int(statistics: Json, name: str, default: int = 0) -> int:
    value = statistics.get(name)
    return default if value is None else int(value)
