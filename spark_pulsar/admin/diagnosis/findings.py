"""Findings: a cause, a sentence with its values, and the command that mends it; the words of these sentences."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from typing import Any

_MOST_NAMES = 5


class State(StrEnum):
    """Weight of a finding."""

    CAUSE = "cause"
    """Something keeps messages from a consumer, or from the topic."""
    NOTE = "note"
    """A fact that explains why some consumers or producers are refused or wait, while others work."""
    OK = "ok"
    """Nothing is wrong."""


class Cause(StrEnum):
    """Name of a finding, for scripts."""

    NO_TOPIC = "no-topic"
    NOT_SERVED = "not-served"
    NO_SUBSCRIPTION = "no-subscription"
    NO_CONSUMER = "no-consumer"
    UNREAD_PARTITIONS = "unread-partitions"
    EXCLUSIVE = "exclusive-held"
    FAILOVER = "failover-standby"
    UNACKED_CONSUMER = "unacked-limit-of-consumer"
    UNACKED_SUBSCRIPTION = "unacked-limit-of-subscription"
    UNACKED_BROKER = "unacked-limit-of-broker"
    DISPATCH_RATE = "dispatch-rate"
    TRANSACTION = "transaction-open"
    DELAYED = "delayed"
    KEYS_UNOWNED = "keys-unowned"
    KEYS_DRAINING = "keys-draining"
    NO_PERMITS = "no-permits"
    UNACKNOWLEDGED = "unacknowledged"
    FILTERED = "filtered"
    UNEXPLAINED = "unexplained"
    AT_LATEST = "at-latest"
    EXPIRED = "expired"
    EVICTED = "evicted"
    DELETED = "deleted"
    ALL_ACKNOWLEDGED = "all-acknowledged"
    NOTHING_PUBLISHED = "nothing-published"
    RECEIVED = "received"
    NOT_STORED = "not-stored"
    MOST_CONSUMERS = "max-consumers"
    TYPES_DISABLED = "types-disabled"
    REPLICATED = "replicated"
    ENCRYPTED = "encrypted"
    ROLE = "role"
    NO_DISK = "disk-full"
    TERMINATED = "terminated"
    BACKLOG_QUOTA = "backlog-quota"
    PRODUCER_EXCLUSIVE = "producer-exclusive"
    PUBLISH_RATE = "publish-rate"
    MOST_PRODUCERS = "max-producers"
    SCHEMA = "schema"
    ENCRYPTION_REQUIRED = "encryption-required"
    NOT_SEEN = "not-seen"


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about a topic or a subscription of it."""

    cause: Cause
    state: State
    sentence: str
    advice: str = ""
    """Command to run, or else what to do."""
    subscription: str = ""
    partitions: tuple[int, ...] = ()
    """Partitions for which it holds, where it does not hold for all."""

    def to_json(self) -> dict[str, Any]:
        """Returns the members as JSON values."""
        return {
            "state": str(self.state),
            "cause": str(self.cause),
            "sentence": self.sentence,
            "advice": self.advice,
            "subscription": self.subscription,
            "partitions": list(self.partitions),
        }


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun: `1 message`, `1,000 messages`."""
    return plural(number, noun, f"{noun}s")


def plural(number: int, one: str, many: str) -> str:
    """Returns a number with the form of its noun."""
    return f"{number:,} {one if number == 1 else many}"


def listed(names: Iterable[object]) -> str:
    """Returns names as a list in a sentence, the first few of many."""
    texts = [str(name) for name in names]
    if len(texts) > _MOST_NAMES:
        return f"{', '.join(texts[:_MOST_NAMES])} and {len(texts) - _MOST_NAMES:,} more"
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def time_text(at_ms: int, now_ms: int, zone: tzinfo | None = None) -> str:
    """Returns a time of day, with its date where that is another than today's; in the local time zone without one."""
    at, now = (datetime.fromtimestamp(ms / 1000, UTC).astimezone(zone) for ms in (at_ms, now_ms))
    return f"{at:%H:%M:%S}" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M:%S}"


def short(topic: str) -> str:
    """Returns the name of a topic without `persistent://public/default/`, quoted for a command."""
    return shlex.quote(topic.removeprefix("persistent://").removeprefix("public/default/"))


def admin_topics(command: str, topic: str, *words: str) -> str:
    """Returns a command of `spark-pulsar admin topics`."""
    return " ".join(["spark-pulsar admin topics", command, *words, short(topic)])


def admin_namespaces(command: str, topic: str, *words: str) -> str:
    """Returns a command of `spark-pulsar admin namespaces` for the namespace of a topic."""
    namespace = "/".join(topic.partition("://")[2].split("/")[:2])
    return " ".join(["spark-pulsar admin namespaces", command, *words, shlex.quote(namespace)])
