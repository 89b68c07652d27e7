"""One transaction as the driver and the tasks of a write use it: opened, given partitions, committed or aborted, as a
whole (TXN-1), also when workers, driver or broker are killed (TXN-8). Which write it belongs to, an attempt says
(`effectively_once.attempt`, TXN-4, TXN-5); which is committed, the log (`commit_log`, TXN-2)."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Collection
from typing import Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.errors import DeliveryGuaranteeError
from spark_pulsar.connector.options.options import TRANSACTIONAL, Options
from spark_pulsar.connector.options.timeouts import naming
from spark_pulsar.model.errors import (
    InvalidTransactionStatus,
    NotAllowed,
    PulsarError,
    TopicNotFound,
    TransactionNotFound,
)
from spark_pulsar.model.positions.ids import TransactionId

LOG: Final = logging.getLogger("spark_pulsar")

ENDED: Final = (TransactionNotFound, InvalidTransactionStatus)
"""Answers about a transaction that has ended, or is about to."""


@naming("operationTimeoutMs")
def open_transaction(client: PulsarClient, options: Options) -> TransactionId:
    """Opens a transaction (TXN-6). Raises DeliveryGuaranteeError where transactions are off.

    The same write gets the same coordinator each time: numbers, which identify rows, grow at each of them alone.
    """
    try:
        count = client.coordinator_count()
        if count == 0:
            raise TopicNotFound("the cluster has no transaction coordinators")
        name = f"{options.topic} {options.producer_name}"
        return client.open_transaction(zlib.crc32(name.encode()) % count, options.transaction_timeout_ms)
    except (NotAllowed, TopicNotFound) as error:
        raise DeliveryGuaranteeError(
            f"deliveryGuarantee = {TRANSACTIONAL}: transactions are off at {options.service_url}: set "
            f"transactionCoordinatorEnabled=true in the configuration of the brokers ({error})"
        ) from error


def add_partitions(client: PulsarClient, transaction: TransactionId, partitions: Collection[str]) -> None:
    """Adds partitions that are about to be written to. Raises DeliveryGuaranteeError when the transaction has ended."""
    try:
        client.add_partitions(transaction, partitions)
    except ENDED as error:
        raise has_ended(transaction, error) from error


@naming("operationTimeoutMs")
def commit(client: PulsarClient, transaction: TransactionId) -> None:
    """Commits a transaction. Raises TransactionNotFound or InvalidTransactionStatus when it has ended before, also when
    it was this that has ended it."""
    client.end_transaction(transaction, commit=True)


def abort(client: PulsarClient, transaction: TransactionId) -> None:
    """Aborts a transaction, if it has not ended; a broker that does not answer aborts it at its time-out (TXN-3)."""
    try:
        client.end_transaction(transaction, commit=False)
    except ENDED:
        return
    except PulsarError as error:
        LOG.warning("transaction %s is not aborted before its time-out: %s", transaction, error)


def has_ended(transaction: TransactionId, error: PulsarError) -> DeliveryGuaranteeError:
    """Returns the error of a write whose transaction has ended (TXN-6)."""
    return DeliveryGuaranteeError(
        f"deliveryGuarantee = {TRANSACTIONAL}: transaction {transaction} has ended before it was committed, and what "
        "was written in it is gone: it took longer than transactionTimeoutMs, an admin has aborted it, or the query "
        "runs a second time elsewhere. Start the query again; before you run a batch job again, check whether its rows "
        f"exist: the answer to a commit may have been lost with a connection ({error})"
    )
