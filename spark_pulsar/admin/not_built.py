"""Paths of Apache Pulsar that this broker does not serve, each with the reason: answers of 501 give it, and
docs/admin.md has this table (ADM-8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple


class NotBuilt(NamedTuple):
    """Paths that begin so, below `/admin/v2/` or `/admin/v3/`, and the reason why they are not served."""

    path: str
    reason: str


NO_REASON: Final = "not built"
_FUNCTIONS: Final = "functions and connectors run beside the broker here, as jobs of Spark for example"
_ONE_JOURNAL: Final = "transactions are records of the journal, without logs or snapshots of their own"

NOT_BUILT: Final = (
    NotBuilt("transactions/coordinatorInternalStats", _ONE_JOURNAL),
    NotBuilt("transactions/pendingAckInternalStats", _ONE_JOURNAL),
    NotBuilt("transactions/transactionBufferInternalStats", _ONE_JOURNAL),
    NotBuilt("functions", _FUNCTIONS),
    NotBuilt("sources", _FUNCTIONS),
    NotBuilt("sinks", _FUNCTIONS),
    NotBuilt("worker", _FUNCTIONS),
    NotBuilt("worker-stats", _FUNCTIONS),
    NotBuilt("packages", f"packages hold functions; {_FUNCTIONS}"),
    NotBuilt("bookies", "there are no bookies, the broker stores on its own disk"),
    NotBuilt("proxy-stats", "there is no proxy"),
    NotBuilt("broker-stats/mbeans", "there is no Java process; /metrics has the numbers of this one"),
    NotBuilt(
        "broker-stats/allocator-stats", "there is no Netty; /metrics has the memory of the process and of the cache"
    ),
    NotBuilt("brokers/shutdown", "a broker is stopped by SIGTERM"),
    NotBuilt(
        "namespaces/{tenant}/{namespace}/scanOffloadedLedgers", "nothing is offloaded, the broker keeps all ledgers"
    ),
    NotBuilt("clusters", NO_REASON),
    NotBuilt("tenants", NO_REASON),
    NotBuilt("namespaces", NO_REASON),
    NotBuilt("brokers", NO_REASON),
    NotBuilt("broker-stats", NO_REASON),
    NotBuilt("persistent", NO_REASON),
    NotBuilt("non-persistent", NO_REASON),
)
"""The first one that fits gives the reason. Those at the end stand for whatever else there is below them."""


def reason_of(segments: Sequence[str], *, is_served: bool = False) -> str | None:
    """Returns why a path of the admin API is not served; None for one that Apache Pulsar has not either. `is_served`:
    only if it is excepted from a path that is (`brokers/{cluster}`)."""
    if segments[0] != "admin" or segments[1:2] not in (["v2"], ["v3"]) or len(segments) < 3:
        return None
    return next(
        (row.reason for row in NOT_BUILT if _begins(segments[2:], row.path) and ("/" in row.path or not is_served)),
        None,
    )


def _begins(segments: Sequence[str], path: str) -> bool:
    parts = path.split("/")
    return len(segments) >= len(parts) and all(
        part == segment or part.startswith("{") for part, segment in zip(parts, segments, strict=False)
    )
