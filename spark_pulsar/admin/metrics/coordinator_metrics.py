"""The metrics of transaction coordinators (TX-23): name, meaning, value. Names and types are Apache Pulsar's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_pulsar.broker.transactions.coordinator import DURATIONS_MS, CoordinatorCounts, count_of

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core


class CoordinatorMetric(NamedTuple):
    """A number of each coordinator; a gauge, whatever its name ends in."""

    name: str
    help: str
    value: Callable[[CoordinatorCounts], int]


def _durations() -> Iterator[CoordinatorMetric]:
    for index, end in enumerate((*DURATIONS_MS, "overflow")):
        longest = f"up to {end} ms" if index < len(DURATIONS_MS) else "longer"
        shortest = f", more than {DURATIONS_MS[index - 1]}" if 0 < index < len(DURATIONS_MS) else ""
        yield CoordinatorMetric(
            f"pulsar_txn_execution_latency_le_{end}",
            f"Transactions since the start that took {longest}{shortest}.",
            lambda counts, index=index: counts.ended_within[index],  # type: ignore[misc]
        )


OPEN: Final = CoordinatorMetric("pulsar_txn_active_count", "Open transactions.", lambda _: 0)
"""Its value is in the coordinators' state."""
COORDINATOR: Final = (
    OPEN,
    CoordinatorMetric("pulsar_txn_created_total", "Transactions since the start.", lambda counts: counts.opened),
    CoordinatorMetric(
        "pulsar_txn_committed_total", "Committed transactions since the start.", lambda counts: counts.committed
    ),
    CoordinatorMetric(
        "pulsar_txn_aborted_total", "Aborted transactions since the start.", lambda counts: counts.aborted
    ),
    CoordinatorMetric(
        "pulsar_txn_timeout_total",
        "Transactions since the start that were aborted at their time-out.",
        lambda counts: counts.timed_out,
    ),
    CoordinatorMetric(
        "pulsar_txn_append_log_total",
        "Steps of transactions since the start that are in the journal; an end is one.",
        lambda counts: counts.appended,
    ),
    *_durations(),
)
"""The metrics of each coordinator, while transactions are on."""


def values(core: Core, metric: CoordinatorMetric) -> Iterator[tuple[int, int]]:
    """Yields the value of a metric for each coordinator, after the coordinator's id."""
    unused = CoordinatorCounts()
    for most in range(count_of(core)):
        counts = core.transactions.counts.get(most, unused)
        yield most, core.transactions.open.count_of(most) if metric is OPEN else metric.value(counts)
