"""The load report of the broker, as Apache Pulsar's load manager makes it for each broker (ADM-7)."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import ADMIN_PATH, reads, routes
from spark_pulsar.admin.namespaces.bundle_edges import bundle_of
from spark_pulsar.admin.namespaces.namespace_lifecycle import bundle_edges
from spark_pulsar.broker.connections.handshake import SERVER_VERSION
from spark_pulsar.broker.entities import meters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.admin.http.slices import Steps
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic

_MEBIBYTE: Final = 1 << 20
_NO_LIMIT: Final = -1000.0
"""Limit of a bandwidth that is not known, as Apache Pulsar writes it."""
_OF_A_BUNDLE: Final = ("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut")


class _Processor:
    """Use of the processor between two reports."""

    def __init__(self) -> None:
        self._at_s, self._used_s = time.monotonic(), 0.0

    def percent(self) -> float:
        """Returns the percentage of one core that the process used since the last report, or since its start."""
        times = resource.getrusage(resource.RUSAGE_SELF)
        now_s, used_s = time.monotonic(), times.ru_utime + times.ru_stime
        elapsed_s, self._at_s = now_s - self._at_s, now_s
        spent_s, self._used_s = used_s - self._used_s, used_s
        return 100 * spent_s / elapsed_s if elapsed_s > 0 else 0.0


_PROCESSOR: Final = _Processor()


def _cores() -> int:
    return os.cpu_count() or 1


def _memory_bytes() -> int:
    """Returns the resident memory of the process; its greatest one where the system does not report it."""
    with contextlib.suppress(OSError), open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _memory_limit_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * resource.getpagesize()


def _usage(used: float, limit: float) -> dict[str, float]:
    return {"usage": used, "limit": limit}


def _rates(topic: Topic) -> tuple[float, ...]:
    came = meters.published(topic)
    went = [meters.delivered(subscription) for subscription in topic.subscriptions.values()]
    return came.messages, came.bytes, sum(rates.messages for rates in went), sum(rates.bytes for rates in went)


def _bundle(core: Core, topic: Topic) -> str | None:
    namespace = topic.name.namespace_name
    if namespace not in core.state.namespaces:  # deleted meanwhile
        return None
    return f"{namespace}/{bundle_of(bundle_edges(core, namespace), topic.full_name)}"


def _stats(core: Core) -> Iterator[dict[str, dict[str, Any]]]:
    """Yields the statistics of bundles, as far as they are summed up."""
    bundles: dict[str, dict[str, Any]] = {}
    for topic in list(core.topics.values()):
        name = _bundle(core, topic)
        if name is not None:
            empty: dict[str, Any] = {**dict.fromkeys(_OF_A_BUNDLE, 0.0), "consumerCount": 0, "producerCount": 0}
            stats = bundles.setdefault(name, {**empty, "topics": 0, "cacheSize": 0})
            for member, rate in zip(_OF_A_BUNDLE, _rates(topic), strict=True):
                stats[member] += rate
            stats["consumerCount"] += topic.consumer_count
            stats["producerCount"] += len(topic.producers)
            stats["topics"] += 1
        yield bundles
    yield bundles


def _report(core: Core, call: Call) -> Steps[dict[str, Any]]:
    bundles: dict[str, dict[str, Any]] = {}
    for bundles in _stats(core):  # noqa: B007 - the last ones count
        yield
    addresses = call.addresses
    processor, memory = _PROCESSOR.percent(), _memory_bytes() / _MEBIBYTE
    limits = 100.0 * _cores(), _memory_limit_bytes() / _MEBIBYTE
    total = {member: sum(bundle[member] for bundle in bundles.values()) for member in _OF_A_BUNDLE}
    urls = {
        "webServiceUrl": addresses.http,
        "webServiceUrlTls": addresses.http_tls,
        "pulsarServiceUrl": addresses.binary,
        "pulsarServiceUrlTls": addresses.binary_tls,
    }
    return {
        **{member: url for member, url in urls.items() if url is not None},
        "persistentTopicsEnabled": True,
        "nonPersistentTopicsEnabled": core.config.non_persistent_topics,
        "cpu": _usage(processor, limits[0]),
        "memory": _usage(memory, limits[1]),
        "directMemory": _usage(memory, limits[1]),
        "bandwidthIn": _usage(total["msgThroughputIn"] * 8 / 1000, _NO_LIMIT),
        "bandwidthOut": _usage(total["msgThroughputOut"] * 8 / 1000, _NO_LIMIT),
        **total,
        "lastUpdate": core.wall_ms,
        "lastStats": bundles,
        "numTopics": sum(bundle["topics"] for bundle in bundles.values()),
        "numBundles": len(bundles),
        "numConsumers": sum(bundle["consumerCount"] for bundle in bundles.values()),
        "numProducers": sum(bundle["producerCount"] for bundle in bundles.values()),
        "bundles": list(bundles),
        "lastBundleGains": [],
        "lastBundleLosses": [],
        "brokerVersionString": SERVER_VERSION.split()[2],
        "protocols": {},
        "advertisedListeners": {},
        "loadManagerClassName": "",
        "startTimestamp": core.started_ms,
        "maxResourceUsage": max(processor / limits[0], memory / limits[1]),
        "loadReportType": "LocalBrokerData",
    }


ROUTES: Final[Routes] = routes(ADMIN_PATH, ("GET /broker-stats/load-report", access.super_user, reads(_report)))
