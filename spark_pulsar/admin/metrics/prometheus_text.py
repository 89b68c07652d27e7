"""`/metrics` in the Prometheus text format, version 0.0.4 (ADM-9: `metric_table`).

The text is made metric by metric in blocks of some hundred lines, so that ten thousand topics neither hold up the
broker nor fill its memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.registry import Collector

from spark_pulsar.admin.brokers.disk import metric_lines
from spark_pulsar.admin.http.answers import Piecewise

from .coordinator_metrics import COORDINATOR, values
from .metric_table import BROKER, GAUGES, NAMESPACE, SUBSCRIPTION, TOPIC, Scrape

if TYPE_CHECKING:
    from prometheus_client import Metric

    from spark_pulsar.admin.brokers.disk import Space
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic

_LINES_A_BLOCK: Final = 512
_LINES_A_STEP: Final = 64
"""Lines in one step, the least that a slice does: some numbers of a topic take 40 µs."""
_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Exposition(Piecewise):
    """The answer to a scrape."""

    def __init__(self, core: Core, space: Space | None = None) -> None:
        super().__init__(_all_blocks(Scrape(core), space), _CONTENT_TYPE)


def _all_blocks(scrape: Scrape, space: Space | None) -> Iterator[bytes]:
    yield _process(scrape.core.config.cluster_name)
    yield "".join(metric_lines(space)).encode()
    yield from blocks(scrape)


class _LabelledProcess(Collector):
    """The metrics of the process with the label of the cluster, which Apache Pulsar gives them."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._process = ProcessCollector(registry=None)

    def collect(self) -> Iterator[Metric]:
        for metric in self._process.collect():
            metric.samples = [sample._replace(labels={"cluster": self._cluster}) for sample in metric.samples]
            yield metric


def _process(cluster: str) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_LabelledProcess(cluster))
    return generate_latest(registry)


def blocks(scrape: Scrape) -> Iterator[bytes]:
    """Makes all metrics but those of the process, in blocks. Topics that are created meanwhile are not in it."""
    for line in _broker_lines(scrape):  # a number of the broker is a sum over all topics
        yield line.encode()
    block: list[str] = []
    for line in chain(_coordinator_lines(scrape), _topic_lines(scrape)):
        block.append(line)
        if len(block) >= _LINES_A_BLOCK:
            yield "".join(block).encode()
            block.clear()
        elif len(block) % _LINES_A_STEP == 0:
            yield b""
    yield "".join(block).encode()


def _cluster(scrape: Scrape) -> str:
    return f'cluster="{_escaped(scrape.core.config.cluster_name)}"'


def _broker_lines(scrape: Scrape) -> Iterator[str]:
    """Writes the metrics of the broker; an empty line is a step that wrote nothing."""
    cluster, last = _cluster(scrape), ""
    host = _escaped(scrape.core.config.advertised_address or "localhost")
    for metric in BROKER:
        yield from _head(metric.name, metric.help, last)
        last = metric.name
        value = metric.value(scrape)
        if isinstance(value, Iterator):
            total: float = 0
            for part in value:
                total += part
                yield ""
            value = total
        yield f"{metric.name}{{{cluster}{metric.labels.replace('{broker}', host)}}} {value}\n"


def _topic_lines(scrape: Scrape) -> Iterator[str]:
    """Writes the metrics of topics and subscriptions; an empty line is a step that wrote nothing."""
    core, cluster, last = scrape.core, _cluster(scrape), ""
    yield from _namespace_lines(scrape)
    named = []
    for topic in scrape.topics:
        labels = f'{cluster},namespace="{topic.name.namespace_name}",topic="{_escaped(topic.full_name)}"'
        named.append((topic, labels))
        yield ""
    for metric in TOPIC:
        yield from _head(metric.name, metric.help, last)
        last = metric.name
        for topic, labels in named:
            value = metric.value(core, topic)
            yield "" if value is None else f"{metric.name}{{{labels}{metric.labels}}} {value}\n"
    for one in SUBSCRIPTION:
        yield from _head(one.name, one.help, last)
        last = one.name
        for topic, labels in named:
            yield ""
            for name, subscription in list(topic.subscriptions.items()):
                labelled = f'{labels},subscription="{_escaped(name)}"{one.labels}'
                number = one.value(subscription)
                yield "" if number is None else f"{one.name}{{{labelled}}} {number}\n"


def _coordinator_lines(scrape: Scrape) -> Iterator[str]:
    cluster = _cluster(scrape)
    for metric in COORDINATOR if scrape.core.config.transactions_enabled else ():
        yield f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} gauge\n"
        for most, number in values(scrape.core, metric):
            yield f'{metric.name}{{{cluster},coordinator_id="{most}"}} {number}\n'


def _namespace_lines(scrape: Scrape) -> Iterator[str]:
    """Writes the metrics of namespaces; an empty line is a step that wrote nothing."""
    topics: dict[str, list[Topic]] = {}
    for topic in scrape.topics:
        topics.setdefault(topic.name.namespace_name, []).append(topic)
        yield ""
    for metric in NAMESPACE:
        yield from _head(metric.name, metric.help, "")
        for namespace, namespace_topics in topics.items():
            total: float = 0
            for topic in namespace_topics:
                total += metric.value(topic)
                yield ""
            yield f'{metric.name}{{{_cluster(scrape)},namespace="{namespace}"}} {total}\n'


def _head(name: str, text: str, last: str) -> Iterator[str]:
    """Returns the lines of help and type that stand before a metric."""
    if name != last:
        kind = "counter" if name.endswith("_total") and name not in GAUGES else "gauge"
        yield f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
