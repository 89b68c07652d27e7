"""Tenants, namespaces and topics of a cluster that are to be moved, and their subscriptions (MOVE-6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, TypeVar

from spark_pulsar.cli.move.sides import Side
from spark_pulsar.cli.values import namespace_path, segment
from spark_pulsar.model.names import NON_PERSISTENT, PERSISTENT, TopicName
from spark_pulsar.model.positions.ids import Position

OWN_SUBSCRIPTION: Final = "spark-pulsar-move"
"""Subscription that keeps the messages of the target until the others are there."""
Item = TypeVar("Item")
Result = TypeVar("Result")
_THREADS: Final = 8
_OWN_TENANTS: Final = frozenset({"pulsar"})
_COMPACTION: Final = "__compaction"
_OWN_CURSORS: Final = frozenset({"pulsar.dedup", _COMPACTION, OWN_SUBSCRIPTION})
_SYSTEM: Final = re.compile(r"__(change_events|transaction_.*)|.*__transaction_pending_ack|.*-multiTopicsReader-.*")


@dataclass
class Partition:
    """One partition, or a topic without: its ledgers and cursors as the admin API shows them."""

    name: str
    exists: bool = True
    """False for a partition that no client has used yet."""
    entries: int = 0
    size_bytes: int = 0
    last_entry: Position | None = None
    """The last entry, of whatever kind."""
    is_terminated: bool = False
    is_compacted: bool = False
    cursors: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Durable subscriptions by name: members of the internal statistics, and `stats` of the others."""


@dataclass
class Topic:
    """One topic to move."""

    name: TopicName
    partition_count: int
    """0 for a topic without partitions."""
    properties: dict[str, str]
    deduplicates: bool
    partitions: list[Partition] = field(default_factory=list)

    @property
    def is_stored(self) -> bool:
        """Returns whether it has messages to move."""
        return self.name.domain == PERSISTENT

    @property
    def path(self) -> str:
        """REST path of the topic."""
        return topic_path(self.name)

    @property
    def schema_path(self) -> str:
        """REST path of its schemas."""
        return f"/admin/v2/schemas/{self.name.tenant}/{self.name.namespace}/{segment(self.name.local)}"

    def names_of_partitions(self) -> list[str]:
        """Returns the full names to read from."""
        if not self.partition_count:
            return [str(self.name)]
        return [f"{self.name}-partition-{number}" for number in range(self.partition_count)]


@dataclass
class Namespace:
    """One namespace to move, with its policies as one document."""

    name: str
    document: dict[str, Any]
    topics: list[Topic] = field(default_factory=list)

    @property
    def path(self) -> str:
        """REST path of the namespace."""
        return namespace_path(self.name)

    @property
    def tenant(self) -> str:
        """Tenant of the namespace."""
        return self.name.partition("/")[0]


def topic_path(name: TopicName) -> str:
    """Returns the REST path of a topic."""
    return f"/admin/v2/{name.domain}/{name.tenant}/{name.namespace}/{segment(name.local)}"


def places_of(source: Side, namespaces: Sequence[str], patterns: Sequence[str]) -> list[Namespace]:
    """Returns the namespaces and topics to move, all but the broker's own without `namespaces`, those topics whose
    names fit one of `patterns` (`*` and `?`) if there are some. Raises RestError."""
    places = []
    for name in namespaces or list(_all_namespaces(source)):
        namespace = Namespace(name, source.get(namespace_path(name)))
        chosen = [
            (topic, count)
            for topic, count in _topics(source, name)
            if not patterns or any(fnmatchcase(text, p) for p in patterns for text in (str(topic), topic.local))
        ]
        namespace.topics = at_once(lambda one: _topic(source, *one), chosen)
        places.append(namespace)
    return places


def at_once(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Returns the results of requests about many places, some at a time. Raises the first error."""
    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(work, items))


def _all_namespaces(source: Side) -> Iterator[str]:
    for tenant in source.get("/admin/v2/tenants"):
        if tenant not in _OWN_TENANTS:
            yield from source.get(f"/admin/v2/namespaces/{tenant}")


def _topics(source: Side, namespace: str) -> Iterator[tuple[TopicName, int]]:
    """Yields the topics of a namespace with their numbers of partitions, 0 for none."""
    for domain in (PERSISTENT, NON_PERSISTENT):
        partitioned = {TopicName.parse(name) for name in source.get(f"/admin/v2/{domain}/{namespace}/partitioned")}
        listed = map(TopicName.parse, source.get(f"/admin/v2/{domain}/{namespace}"))
        for topic in sorted({name for name in listed if name.domain == domain and name.base not in partitioned}):
            if not _SYSTEM.fullmatch(topic.local) and topic not in partitioned:
                yield topic, 0
        for topic in sorted(name for name in partitioned if name.domain == domain):
            if not _SYSTEM.fullmatch(topic.local):
                yield topic, source.get(f"{topic_path(topic)}/partitions")["partitions"]


def _topic(source: Side, name: TopicName, partition_count: int) -> Topic:
    path = topic_path(name)
    properties = source.get_if_there(f"{path}/properties") or {} if name.domain == PERSISTENT else {}
    topic = Topic(name, partition_count, properties, deduplicates=False)
    topic.partitions = [Partition(one) for one in topic.names_of_partitions()]
    if topic.is_stored:
        for partition in topic.partitions:
            topic.deduplicates |= fill(source, partition)
    return topic


def fill(side: Side, partition: Partition) -> bool:
    """Reads the state of a partition; returns whether it de-duplicates. Raises RestError."""
    path = topic_path(TopicName.parse(partition.name))
    stats, internal = side.get_if_there(f"{path}/stats"), side.get_if_there(f"{path}/internalStats")
    if stats is None or internal is None:
        partition.exists = False
        return False
    partition.entries = int(internal.get("numberOfEntries", 0))
    partition.size_bytes = int(internal.get("totalSize", 0))
    ledger_id, _, entry_id = str(internal.get("lastConfirmedEntry", "")).partition(":")
    partition.last_entry = Position(int(ledger_id), int(entry_id)) if entry_id.isdigit() else None
    partition.is_terminated = internal.get("state") == "Terminated"
    partition.is_compacted = _COMPACTION in internal.get("cursors", {})
    partition.cursors = {
        subscription: {**internal["cursors"][subscription], "stats": of_subscription}
        for subscription, of_subscription in stats.get("subscriptions", {}).items()
        if of_subscription.get("durable", of_subscription.get("isDurable", True))
        and subscription not in _OWN_CURSORS
        and subscription in internal.get("cursors", {})
    }
    return bool(stats.get("deduplicationStatus") == "Enabled")


def partitions_of(places: Iterable[Namespace]) -> Iterator[tuple[Topic, Partition]]:
    """Yields the partitions with messages to move."""
    for namespace in places:
        for topic in namespace.topics:
            if topic.is_stored:
                yield from ((topic, partition) for partition in topic.partitions)
