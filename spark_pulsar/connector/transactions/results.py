"""Results of tasks: what one tells the driver of the transaction that it wrote in."""

from __future__ import annotations

from typing import NamedTuple

from spark_pulsar.model.ids import TransactionId


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
