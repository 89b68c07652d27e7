"""Results of tasks: what one reports to the driver about the transaction that it wrote in, and how many rows of which
content (TXN-9). The source imports them, and no client."""

from __future__ import annotations

from typing import NamedTuple

from spark_pulsar.connector.effectively_once.outcomes import TaskOutcome, Totals
from spark_pulsar.model.positions.ids import TransactionId


class LogPlace(NamedTuple):
    """The place where commits of a query are looked up: the topic partition of its log, and its name there."""

    partition: str
    writer: str


class TaskResult(NamedTuple):
    """The transaction, and what the first task of a micro-batch has found in the log."""

    transaction: TransactionId
    log: LogPlace | None = None
    was_committed: bool = False
    """The micro-batch was committed by an earlier run: what this one has written must not be."""
    history: tuple[Totals, ...] = ()
    """Totals of the micro-batches that were committed last."""
    outcome: TaskOutcome | None = None
