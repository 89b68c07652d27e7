"""`spark-pulsar admin transactions`."""

from typing import Final

from spark_pulsar.cli.admin.command import rows
from spark_pulsar.model.policies.policy_columns import Option, Written, flag

_ID: Final = (
    Option("most", "--most-sig-bits -m", Written.COUNT, "First number of the transaction's id."),
    Option("least", "--least-sig-bits -l", Written.COUNT, "Second number of the transaction's id."),
)
_SUBSCRIPTION: Final = Option("subscription", "--sub-name -s", Written.TEXT, "Name of the subscription.")
_COORDINATOR: Final = Option("coordinatorId", "--coordinator-id -c", Written.COUNT, "Of this coordinator alone.", None)
_MARKS: Final = flag("lowWaterMarks", "--low-water-mark -l", "With ids below which no transaction is open.")
_transactions: Final = rows("transactions", "/admin/v3/transactions")

COMMANDS: Final = (
    _transactions("coordinators-list", "GET /coordinators", "List the coordinators."),
    _transactions(
        "coordinator-stats",
        "GET /coordinatorStats",
        "Show how many transactions the coordinators have open.",
        query=(_COORDINATOR,),
    ),
    _transactions(
        "scale-transactionCoordinators",
        "POST /transactionCoordinator/replicas",
        "Make more coordinators.",
        body=(Option("", "--replicas -r", Written.POSITIVE, "Number of coordinators, above the present one."),),
    ),
    _transactions(
        "transaction-metadata",
        "GET /transactionMetadata/{most}/{least}",
        "Show an open transaction: its topics and subscriptions.",
        placed=_ID,
    ),
    _transactions(
        "slow-transactions",
        "GET /slowTransactions/{timeout}",
        "Show the open transactions whose time-out is longer than a time.",
        placed=(Option("timeout", "--time -t", Written.MILLISECONDS, "1s, 10s, 1m, 5h, 3d."),),
        query=(_COORDINATOR,),
    ),
    _transactions(
        "abort-transaction", "POST /abortTransaction/{most}/{least}", "Abort an open transaction.", placed=_ID
    ),
    _transactions(
        "transaction-buffer-stats",
        "GET /transactionBufferStats/{topic_option}",
        "Show the transactions of a topic, and up to where consumers get its messages.",
        query=(
            _MARKS,
            flag("segmentStats", "--segment-stats -s", "Without effect: there are no segments."),
        ),
    ),
    _transactions(
        "transaction-in-buffer-stats",
        "GET /transactionInBufferStats/{topic_option}/{most}/{least}",
        "Show where a transaction begins on a topic, or whether it was aborted.",
        placed=_ID,
    ),
    _transactions(
        "pending-ack-stats",
        "GET /pendingAckStats/{topic_option}/{subscription}",
        "Show how many transactions have acks pending on a subscription.",
        placed=(_SUBSCRIPTION,),
        query=(_MARKS,),
    ),
    _transactions(
        "transaction-in-pending-ack-stats",
        "GET /transactionInPendingAckStats/{topic_option}/{subscription}/{most}/{least}",
        "Show the cumulative ack that a transaction has pending on a subscription.",
        placed=(_SUBSCRIPTION, *_ID),
    ),
    _transactions(
        "position-stats-in-pending-ack",
        "GET /positionStatsInPendingAck/{topic_option}/{subscription}/{ledger}/{entry}",
        "Show whether the ack of a message is pending.",
        placed=(
            _SUBSCRIPTION._replace(names="--subscription-name -s"),
            Option("ledger", "--ledger-id -l", Written.COUNT, "First number of the message id."),
            Option("entry", "--entry-id -e", Written.COUNT, "Second number of the message id."),
        ),
        query=(Option("batchIndex", "--batch-index -b", Written.COUNT, "Of this message of a batch.", None),),
    ),
)
