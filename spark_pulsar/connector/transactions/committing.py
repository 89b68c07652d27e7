"""The end of a write in a transaction: what the driver does at Spark's commit or abort."""

from __future__ import annotations

from collections.abc import Sequence

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.errors import DeliveryGuaranteeError
from spark_pulsar.connector.options.options import TRANSACTIONAL, Options
from spark_pulsar.connector.transactions.commit_log import is_committed
from spark_pulsar.connector.transactions.results import TaskResult
from spark_pulsar.connector.transactions.transaction import ENDED, LOG, abort, commit, has_ended


def commit_written(client: PulsarClient, options: Options, results: Sequence[TaskResult]) -> None:
    """Commits the transaction of a write, or aborts it if an earlier run has committed the micro-batch.

    Raises DeliveryGuaranteeError when the transaction has ended otherwise, and nothing is committed.
    """
    if not results:
        raise DeliveryGuaranteeError(f"deliveryGuarantee = {TRANSACTIONAL}: no task has told its transaction")
    transaction = results[0].transaction
    if any(result.was_committed for result in results):
        LOG.info("an earlier run has committed this micro-batch: what was written again is aborted")
        abort(client, transaction)
        return
    place = next((result.log for result in results if result.log is not None), None)
    try:
        commit(client, transaction)
    except ENDED as error:
        if place is None or not is_committed(client, options, place, transaction):
            raise has_ended(transaction, error) from error


def abort_written(client: PulsarClient, results: Sequence[TaskResult]) -> None:
    """Aborts the transaction of a write that failed, if a task has told which it was."""
    for transaction in {result.transaction for result in results}:
        abort(client, transaction)
