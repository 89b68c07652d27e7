"""`spark-pulsar admin transactions`."""

from typing import Final

from spark_pulsar.cli.admin.command import Command
from spark_pulsar.model.policies.policy_columns import Option, Written

_TRANSACTIONS: Final = "/admin/v3/transactions"
_ID: Final = (
    Option("most", "--most-sig-bits -m", Written.COUNT, "First number of the transaction's id."),
    Option("least", "--least-sig-bits -l", Written.COUNT, "Second number of the transaction's id."),
)
_SUBSCRIPTION: Final = Option("subscription", "--sub-name -s", Written.TEXT, "Name of the subscription.")
_COORDINATOR: Final = Option("coordinatorId", "--coordinator-id -c", Written.COUNT, "Of this coordinator alone.", None)
_MARKS: Final = Option(
    "lowWaterMarks", "--low-water-mark -l", Written.FLAG, "With ids below which no transaction is open.", False
)
_OF_TOPIC: Final = "{topic_option}"
COMMANDS: Final = (
    Command("transactions coordinators-list", "GET", f"{_TRANSACTIONS}/coordinators", "List the coordinators."),
    Command(
        "transactions coordinator-stats",
        "GET",
        f"{_TRANSACTIONS}/coordinatorStats",
        "Show how many transactions the coordinators have open.",
        query=(_COORDINATOR,),
    ),
    Command(
        "transactions scale-transactionCoordinators",
        "POST",
        f"{_TRANSACTIONS}/transactionCoordinator/replicas",
        "Make more coordinators.",
        body=(Option("", "--replicas -r", Written.POSITIVE, "Number of coordinators, above the present one."),),
    ),
    Command(
        "transactions transaction-metadata",
        "GET",
        f"{_TRANSACTIONS}/transactionMetadata/{{most}}/{{least}}",
        "Show an open transaction: its topics and subscriptions.",
        placed=_ID,
    ),
    Command(
        "transactions slow-transactions",
        "GET",
        f"{_TRANSACTIONS}/slowTransactions/{{timeout}}",
        "Show the open transactions whose time-out is longer than a time.",
        placed=(Option("timeout", "--time -t", Written.MILLISECONDS, "1s, 10s, 1m, 5h, 3d."),),
        query=(_COORDINATOR,),
    ),
    Command(
        "transactions abort-transaction",
        "POST",
        f"{_TRANSACTIONS}/abortTransaction/{{most}}/{{least}}",
        "Abort an open transaction.",
        placed=_ID,
    ),
    Command(
        "transactions transaction-buffer-stats",
        "GET",
        f"{_TRANSACTIONS}/transactionBufferStats/{_OF_TOPIC}",
        "Show the transactions of a topic, and up to where consumers get its messages.",
        query=(
            _MARKS,
            Option("segmentStats", "--segment-stats -s", Written.FLAG, "Without effect: there are no segments.", False),
        ),
    ),
    Command(
        "transactions transaction-in-buffer-stats",
        "GET",
        f"{_TRANSACTIONS}/transactionInBufferStats/{_OF_TOPIC}/{{most}}/{{least}}",
        "Show where a transaction begins on a topic, or whether it was aborted.",
        placed=_ID,
    ),
    Command(
        "transactions pending-ack-stats",
        "GET",
        f"{_TRANSACTIONS}/pendingAckStats/{_OF_TOPIC}/{{subscription}}",
        "Show how many transactions have acks pending on a subscription.",
        placed=(_SUBSCRIPTION,),
        query=(_MARKS,),
    ),
    Command(
        "transactions transaction-in-pending-ack-stats",
        "GET",
        f"{_TRANSACTIONS}/transactionInPendingAckStats/{_OF_TOPIC}/{{subscription}}/{{most}}/{{least}}",
        "Show the cumulative ack that a transaction has pending on a subscription.",
        placed=(_SUBSCRIPTION, *_ID),
    ),
    Command(
        "transactions position-stats-in-pending-ack",
        "GET",
        f"{_TRANSACTIONS}/positionStatsInPendingAck/{_OF_TOPIC}/{{subscription}}/{{ledger}}/{{entry}}",
        "Show whether the ack of a message is pending.",
        placed=(
            _SUBSCRIPTION._replace(names="--subscription-name -s"),
            Option("ledger", "--ledger-id -l", Written.COUNT, "First number of the message id."),
            Option("entry", "--entry-id -e", Written.COUNT, "Second number of the message id."),
        ),
        query=(Option("batchIndex", "--batch-index -b", Written.COUNT, "Of this message of a batch.", None),),
    ),
)
