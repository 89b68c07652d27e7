"""Records of what tasks do, for Spark's table of worker logs (`spark.tvf.python_worker_logs()`) (READ-33).

They are there with `spark.sql.pyspark.worker.logging.enabled`: then each range that is read, each write of a task, and
messages that did not decode are a record of the logger `spark_pulsar` at the level INFO, with its figures in the column
`context`. Losses are warnings, as ever. Without that setting nothing is recorded, and nothing is counted.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.client.clock import monotonic_ms

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_pulsar.connector.planning.ranges import TopicRange

LOG: Final = logging.getLogger("spark_pulsar")

MOST_RANGES: Final = 100
"""Ranges that one task records; it mostly has one."""
_MOST_REASON: Final = 200
_ENABLED: Final = "PYSPARK_SPARK_SESSION_UUID"
"""Environment variable by which Spark notifies its workers that their logs are kept."""


def begin_records() -> None:
    """Lets records of the level INFO through where Spark keeps the logs of this worker, unless a level was set."""
    if _ENABLED in os.environ and LOG.level == logging.NOTSET:
        LOG.setLevel(logging.INFO)


def recorded_reads(work: TopicRange, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the record batches of one range, the `number`th of its task, and records the range when it ends."""
    if number >= MOST_RANGES or not LOG.isEnabledFor(logging.INFO):
        yield from batches
        return
    began_ms, rows, size, outcome = monotonic_ms(), 0, 0, "failed"
    try:
        for batch in batches:
            rows, size = rows + batch.num_rows, size + batch.nbytes
            yield batch
        outcome = "read"
    except GeneratorExit:
        outcome = "given up"
        raise
    finally:
        facts = {"topic": work.topic, "start": str(work.start), "end": str(work.end)}
        _record(f"{outcome} {rows} rows of {work.topic}", facts, began_ms, rows=rows, bytes=size, outcome=outcome)


class RecordedWrite:
    """Record batches of one task on their way to the sink; counted only where they are recorded."""

    def __init__(self, topic: str | None, batches: Iterable[pa.RecordBatch]) -> None:
        self._topic = topic
        self._batches = batches
        self._size = 0
        self._began_ms = monotonic_ms()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if not LOG.isEnabledFor(logging.INFO):
            return iter(self._batches)
        return self._counted()

    def _counted(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self._size += batch.nbytes
            yield batch

    def done(self, rows: int, left_out: int = 0) -> None:
        """Records that all rows are stored, and how many of them were left out because of their `__sequenceId`."""
        facts = {} if self._topic is None else {"topic": self._topic}
        if left_out:
            facts["leftOut"] = str(left_out)
        _record(f"wrote {rows} rows", facts, self._began_ms, rows=rows, bytes=self._size, outcome="written")


def record_undecoded(topic: str, count: int, reason: str, mode: str) -> None:
    """Records messages that did not decode in one task."""
    if count and LOG.isEnabledFor(logging.INFO):
        facts = {"topic": topic, "decodeErrors": str(count), "reason": reason[:_MOST_REASON], "mode": mode}
        LOG.info("%d messages of %s did not decode", count, topic, extra={"context": facts})


def _record(text: str, facts: dict[str, str], began_ms: int, **figures: Any) -> None:
    if LOG.isEnabledFor(logging.INFO):
        context = {**facts, **{name: str(value) for name, value in figures.items()}}
        LOG.info("%s", text, extra={"context": {**context, "milliseconds": str(monotonic_ms() - began_ms)}})
