"""`/metrics` in the Prometheus text format, version 0.0.4.

The text is made metric by metric in blocks of some hundred lines, so that ten thousand topics neither hold up the
broker nor fill its memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from .answers import Piecewise
from .disk import metric_lines
from .metric_table import BROKER, SUBSCRIPTION, TOPIC, Scrape

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core

    from .disk import Space

_LINES_A_BLOCK: Final = 512
_LINES_A_STEP: Final = 64
"""Lines in one slice: some numbers of a topic take 40 µs."""
_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Exposition(Piecewise):
    """The answer to a scrape."""

    def __init__(self, core: Core, space: Space | None = None) -> None:
        super().__init__(_all_blocks(Scrape(core), space), _CONTENT_TYPE)


def _all_blocks(scrape: Scrape, space: Space | None) -> Iterator[bytes]:
    yield _process()
    yield "".join(metric_lines(space)).encode()
    yield from blocks(scrape)


def _process() -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def blocks(scrape: Scrape) -> Iterator[bytes]:
    """Makes all metrics but those of the process, in blocks. Topics that are created meanwhile are not in it."""
    for line in _broker_lines(scrape):  # a number of the broker is a sum over all topics
        yield line.encode()
    block: list[str] = []
    for line in _topic_lines(scrape):
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
        yield f"{metric.name}{{{cluster}{metric.labels}}} {value}\n"


def _topic_lines(scrape: Scrape) -> Iterator[str]:
    """Writes the metrics of topics and subscriptions; an empty line is a step that wrote nothing."""
    core, cluster, last = scrape.core, _cluster(scrape), ""
    named = []
    for topic in scrape.topics:
        labels = f'{cluster},namespace="{topic.name.namespace_name}",topic="{_escaped(topic.full_name)}"'
        named.append((topic, labels))
        yield ""
    for each in TOPIC:
        yield from _head(each.name, each.help, last)
        last = each.name
        for topic, labels in named:
            yield f"{each.name}{{{labels}{each.labels}}} {each.value(core, topic)}\n"
    for one in SUBSCRIPTION:
        yield from _head(one.name, one.help, last)
        for topic, labels in named:
            yield ""
            for name, subscription in list(topic.subscriptions.items()):
                yield f'{one.name}{{{labels},subscription="{_escaped(name)}"}} {one.value(subscription)}\n'


def _head(name: str, text: str, last: str) -> Iterator[str]:
    """Returns the lines of help and type that stand before a metric."""
    if name != last:
        kind = "counter" if name.endswith("_total") else "gauge"
        yield f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
