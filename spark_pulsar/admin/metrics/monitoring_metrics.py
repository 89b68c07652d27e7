"""Metrics as JSON, `broker-stats monitoring-metrics` of pulsar-admin: those of `/metrics` under Apache Pulsar's older
names, by connection, namespace and managed ledgers (ADM-7, ADM-9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import ADMIN_PATH, reads, routes
from spark_pulsar.broker.entities import meters
from spark_pulsar.broker.topic_log import backlog_bytes

from .metric_table import BROKER, NAMESPACE, Scrape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.admin.http.slices import Steps
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic


def _out(member: str) -> Callable[[Topic], float]:
    return lambda topic: sum(
        getattr(meters.delivered(subscription), member) for subscription in topic.subscriptions.values()
    )


def _backlog(topic: Topic) -> float:
    return sum(max(0, subscription.backlog) for subscription in topic.subscriptions.values() if subscription.is_durable)


_OF_NAMESPACES: Final[Mapping[str, Callable[[Topic], float]]] = {
    "brk_in_rate": lambda topic: meters.published(topic).messages,
    "brk_in_tp_rate": lambda topic: meters.published(topic).bytes,
    "brk_max_replication_delay_second": lambda _: 0.0,
    "brk_msg_backlog": _backlog,
    "brk_no_of_consumers": lambda topic: topic.consumer_count,
    "brk_no_of_producers": lambda topic: len(topic.producers),
    "brk_no_of_replicators": lambda _: 0,
    "brk_no_of_subscriptions": lambda topic: len(topic.subscriptions),
    "brk_out_rate": _out("messages"),
    "brk_out_tp_rate": _out("bytes"),
    "brk_replication_backlog": lambda _: 0.0,
    "brk_storage_size": backlog_bytes.storage_bytes,
}
_OF_LEDGERS: Final = {
    metric.name.replace("pulsar_", "brk_", 1): metric.value
    for metric in NAMESPACE
    if metric.name.startswith("pulsar_ml_")
}


def _sums(values: Mapping[str, Callable[[Topic], float]], topics: list[Topic]) -> Iterator[dict[str, float]]:
    """Yields the sums over topics, as far as they are taken."""
    sums: dict[str, float] = dict.fromkeys(values, 0)
    for topic in topics:
        for name, value in values.items():
            sums[name] += value(topic)
        yield sums
    yield sums


def _metrics(core: Core, call: Call) -> Steps[list[dict[str, Any]]]:
    scrape, broker, cluster = Scrape(core), call.broker_name, core.config.cluster_name
    of_broker: dict[str, dict[str, float]] = {}
    for metric in BROKER:
        kind = metric.labels.rpartition('metric="')[2].rstrip('"') if 'metric="' in metric.labels else ""
        if kind or metric.name.startswith("pulsar_ml_"):
            value = metric.value(scrape)
            total = value if isinstance(value, int | float) else sum(value)
            of_broker.setdefault(kind, {})[metric.name.replace("pulsar_", "brk_", 1)] = total
        yield
    metrics: list[dict[str, Any]] = [
        {
            "metrics": metrics,
            "dimensions": {"broker": broker, "cluster": cluster, "metric": kind} if kind else {},
        }
        for kind, metrics in of_broker.items()
    ]
    topics: dict[str, list[Topic]] = {}
    for topic in scrape.topics:
        topics.setdefault(topic.name.namespace_name, []).append(topic)
    for end, values in (("/persistent", _OF_LEDGERS), ("", _OF_NAMESPACES)):
        for namespace, namespace_topics in topics.items():
            sums: dict[str, float] = {}
            for sums in _sums(values, namespace_topics):  # noqa: B007 - the last ones count
                yield
            metrics.append({"metrics": sums, "dimensions": {"namespace": f"{namespace}{end}"}})
    return metrics


ROUTES: Final[Routes] = routes(ADMIN_PATH, ("GET /broker-stats/metrics", access.super_user, reads(_metrics)))
