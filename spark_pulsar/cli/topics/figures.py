"""Figures of topics as the admin API's statistics of a whole broker have them, one call for all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

_LIVE_WITHIN_S: Final = 20.0
"""A broker whose counters differ at two samples in a row that are no further apart does not hold its answers back."""
_COUNTERS: Final = ("msgInCount", "msgOutCount", "bytesInCount", "bytesOutCount")


@dataclass(slots=True)
class Figures:
    """A row: one topic, with its partitions together unless they are shown each."""

    topic: str
    partitions: int
    rate_in: float
    rate_out: float
    mb_in: float
    mb_out: float
    backlog: int
    unacked: int
    producers: int
    consumers: int
    subscriptions: int
    storage: int

    def as_json(self) -> dict[str, Any]:
        """Returns the row as an object of JSON."""
        return asdict(self)


def topics_of(statistics: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the topics of an answer of `broker-stats/topics` with their statistics: it is nested by namespace, bundle
    and domain."""
    for bundles in statistics.values():
        for domains in bundles.values():
            for topics in domains.values():
                yield from topics.items()


class Sampler:
    """Rows of one sample after the other.

    Brokers sample rates once a minute (`statsUpdateFrequencyInSecs`). Where counters move from sample to sample, rates
    are their differences; Apache Pulsar holds this answer back as long as that, and there its own rates are shown.
    """

    def __init__(self) -> None:
        self._counts: dict[str, tuple[float, ...]] = {}
        self._sampled_s: float | None = None
        self._moved = 0
        self.is_live = False

    def rows(self, statistics: Mapping[str, Any], now_s: float, scope: str, *, each_partition: bool) -> list[Figures]:
        """Returns the rows of topics within a scope: a tenant, a namespace, or empty for all but the system's own."""
        topics = [(name, topic) for name, topic in topics_of(statistics) if is_within(name, scope)]
        counts = {name: tuple(float(topic.get(counter, 0)) for counter in _COUNTERS) for name, topic in topics}
        elapsed_s = None if self._sampled_s is None else now_s - self._sampled_s
        self._learn(counts, elapsed_s)
        rows: dict[str, Figures] = {}
        for name, topic in topics:
            base, separator, number = name.rpartition("-partition-")
            is_partition = bool(separator) and number.isdecimal()
            shown = base if is_partition and not each_partition else name
            row = _row(shown, topic, self._rates(name, counts[name], topic, elapsed_s), is_partition)
            rows[shown] = row if shown not in rows else _sum(rows[shown], row)
        self._counts, self._sampled_s = counts, now_s
        return list(rows.values())

    def _learn(self, counts: Mapping[str, tuple[float, ...]], elapsed_s: float | None) -> None:
        if elapsed_s is None:
            return
        moved = any(self._counts.get(name, values) != values for name, values in counts.items())
        self._moved = self._moved + 1 if moved and elapsed_s <= _LIVE_WITHIN_S else 0
        self.is_live = self.is_live or self._moved >= 2

    def _rates(
        self, name: str, counts: tuple[float, ...], topic: Mapping[str, Any], elapsed_s: float | None
    ) -> tuple[float, ...]:
        before = self._counts.get(name)
        if self.is_live and elapsed_s and before is not None:
            return tuple(max(0.0, now - then) / elapsed_s for now, then in zip(counts, before, strict=True))
        names = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")
        return tuple(float(topic.get(counter, 0)) for counter in names)


def is_within(topic: str, scope: str) -> bool:
    """Returns whether a topic is in a tenant or namespace, if one is named; the broker's own are in `pulsar` alone."""
    tenant, _, rest = topic.partition("://")[2].partition("/")
    namespace, _, local = rest.rpartition("/")  # brokers of Apache Pulsar keep topics with a cluster in their names
    if scope and scope not in (tenant, f"{tenant}/{namespace}"):
        return False
    return bool(scope) if tenant == "pulsar" else not local.startswith("__")


def _row(name: str, topic: Mapping[str, Any], rates: tuple[float, ...], is_partition: bool) -> Figures:
    subscriptions = topic.get("subscriptions") or {}
    return Figures(
        topic=name,
        partitions=int(is_partition),
        rate_in=round(rates[0], 1),
        rate_out=round(rates[1], 1),
        mb_in=round(rates[2] / 1e6, 3),
        mb_out=round(rates[3] / 1e6, 3),
        backlog=sum(int(subscription.get("msgBacklog", 0)) for subscription in subscriptions.values()),
        unacked=sum(_unacked(subscription) for subscription in subscriptions.values()),
        producers=int(topic.get("producerCount", 0)),
        consumers=sum(len(subscription.get("consumers") or ()) for subscription in subscriptions.values()),
        subscriptions=len(subscriptions),
        storage=int(topic.get("storageSize", 0)),
    )


def _unacked(subscription: Mapping[str, Any]) -> int:
    if "unackedMessages" in subscription:
        return int(subscription["unackedMessages"])
    return sum(int(consumer.get("unackedMessages", 0)) for consumer in subscription.get("consumers") or ())


def _sum(one: Figures, other: Figures) -> Figures:
    """Adds a partition to the row of its topic. Each partition has all subscriptions."""
    for name, value in other.as_json().items():
        if name == "subscriptions":
            one.subscriptions = max(one.subscriptions, value)
        elif name != "topic":
            setattr(one, name, round(getattr(one, name) + value, 3))
    return one
