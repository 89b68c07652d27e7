"""The transaction coordinator: opens transactions, adds topics and subscriptions to them, ends them, and aborts those
that nothing ends (TX-1 ... TX-7). Their log is the journal (TX-27: `ledger.state.transactions`)."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.security import authorization
from spark_pulsar.broker.topic_log import disk_full
from spark_pulsar.ledger.state.durable_state import CounterSet
from spark_pulsar.ledger.state.transactions import (
    TransactionOpened,
    TransactionPartitionsAdded,
    TransactionSubscriptionsAdded,
)
from spark_pulsar.model.errors import NotAllowed, TransactionCoordinatorNotFound, TransactionNotFound
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import TransactionId
from spark_pulsar.wire.protocol import transactions as wire
from spark_pulsar.wire.pulsar_api_pb2 import (
    ABORT,
    COMMIT,
    CommandAddPartitionToTxn,
    CommandAddSubscriptionToTxn,
    CommandEndTxn,
    CommandEndTxnOnPartition,
    CommandEndTxnOnSubscription,
    CommandNewTxn,
    CommandTcClientConnectRequest,
)

from . import ending
from .open_transactions import OpenTransactions

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session
    from spark_pulsar.ledger.state.transactions import Transaction

COORDINATORS: Final = "transaction.coordinators"
"""Counter of the coordinators, which a request of the admin API raises."""
MAX_COORDINATORS: Final = 1_024
MAX_OPEN_TRANSACTIONS: Final = 100_000
"""Open transactions of all coordinators, whatever the configuration says (TX-24)."""
MAX_PARTITIONS: Final = 4_096
"""Topics, and likewise subscriptions, that one transaction may be added to: it ends on all in one turn (TX-24)."""
MAX_NAMES_LENGTH: Final = 32 * 1024 * 1024
"""Characters of the names of topics and subscriptions of all open transactions together (TX-24)."""
MAX_TIMEOUT_MS: Final = 1 << 53
DURATIONS_MS: Final = (10, 20, 50, 100, 500, 1_000, 5_000, 15_000, 30_000, 60_000, 300_000, 1_500_000, 3_000_000)
"""Upper bounds of the durations that are counted apart, as Apache Pulsar has them."""


@dataclass(slots=True, eq=False)
class CoordinatorCounts:
    """Transactions of one coordinator since the start of the broker."""

    opened: int = 0
    committed: int = 0
    aborted: int = 0
    timed_out: int = 0
    appended: int = 0
    """Steps that were written to the journal."""
    ended_within: list[int] = field(default_factory=lambda: [0] * (len(DURATIONS_MS) + 1))
    """Ended ones by the least of `DURATIONS_MS` that they took at most; the last number is that of longer ones."""


@dataclass(slots=True, eq=False)
class Coordinators:
    """The coordinators of this broker: open transactions, and counts."""

    open: OpenTransactions
    counts: dict[int, CoordinatorCounts] = field(default_factory=dict)
    names_length: int = 0
    """Characters of the names that were added to open transactions."""

    def of(self, most: int) -> CoordinatorCounts:
        """Finds the counts of a coordinator."""
        return self.counts.setdefault(most, CoordinatorCounts())


def begin(core: Core) -> None:
    """Takes over the transactions that were open when the broker ended: each is aborted at its time-out (TX-7)."""
    for transaction in core.state.transactions.values():
        _watch(core, transaction)


def count_of(core: Core) -> int:
    """Counts the coordinators."""
    return core.state.counters.get(COORDINATORS, 1)


def set_count(core: Core, count: int) -> None:
    """Makes more coordinators; NotAllowed for fewer, whose transactions nothing would end, or too many."""
    present = count_of(core)
    if not present < count <= MAX_COORDINATORS:
        raise NotAllowed(f"Number of transaction coordinators should be above {present} and up to {MAX_COORDINATORS}")
    core.append(CounterSet(COORDINATORS, count))


def _watch(core: Core, transaction: Transaction, session: Session | None = None) -> None:
    core.transactions.names_length += _names_length(transaction)
    core.transactions.open.add(transaction, session)


def new_coordinators(core: Core) -> Coordinators:
    """Makes the coordinators, without their transactions."""

    def time_out(transaction: Transaction) -> None:
        core.transactions.of(transaction.txn_id.most).timed_out += 1
        abort(core, transaction)

    return Coordinators(OpenTransactions(core, time_out))


def abort(core: Core, transaction: Transaction) -> None:
    """Aborts a transaction that no client ends."""
    _end_watch(core, transaction, is_committed=False)
    ending.end_when_durable(core, transaction, is_committed=False)


def _end_watch(core: Core, transaction: Transaction, *, is_committed: bool) -> None:
    """Stops to watch a transaction that ends, and counts it."""
    coordinators, txn_id = core.transactions, transaction.txn_id
    coordinators.names_length -= _names_length(transaction)
    coordinators.open.remove(transaction)
    counts = coordinators.of(txn_id.most)
    counts.ended_within[bisect_left(DURATIONS_MS, core.wall_ms - transaction.opened_ms)] += 1
    counts.appended += 1
    if is_committed:
        counts.committed += 1
    else:
        counts.aborted += 1


# ---- commands ---------------------------------------------------------------------------------------------------


def _check_coordinator(core: Core, most: int) -> None:
    if most >= count_of(core):
        raise TransactionCoordinatorNotFound(f"Transaction coordinator with id {most} not found!")


def _find(
    core: Core, session: Session, command: CommandAddPartitionToTxn | CommandAddSubscriptionToTxn | CommandEndTxn
) -> Transaction:
    """Finds the open transaction that a command names, of which the client must be the owner (TX-25)."""
    txn_id = TransactionId(command.txnid_most_bits, command.txnid_least_bits)
    _check_coordinator(core, txn_id.most)
    transaction = core.state.transactions.get(txn_id)
    if transaction is None:
        raise TransactionNotFound(f"The transaction with this txdID `{txn_id}`not found ")
    principal = session.principal
    is_owner = not core.config.authorization_enabled or principal.client_role == transaction.owner
    if not is_owner and not authorization.is_super_user(core, principal):
        raise TransactionNotFound(
            f"Client ({principal.client_role}) is neither the owner of the transaction {txn_id} nor a super user"
        )
    disk_full.admit_order(core)
    return transaction


def on_tc_client_connect(core: Core, session: Session, command: CommandTcClientConnectRequest) -> None:
    """Handles TC_CLIENT_CONNECT_REQUEST: every coordinator is here. For one that does not exist success, too, as from
    Apache Pulsar: what follows is refused."""
    core.send(session, wire.coordinator_connected(command.request_id))


def on_new_transaction(core: Core, session: Session, command: CommandNewTxn) -> None:
    """Handles NEW_TXN: opens a transaction (TX-3, TX-28)."""
    most = command.tc_id
    _check_coordinator(core, most)
    core.transactions.open.check_room(most, session)
    if len(core.state.transactions) >= MAX_OPEN_TRANSACTIONS:
        raise NotAllowed(f"The broker has {MAX_OPEN_TRANSACTIONS} open transactions: end some first")
    disk_full.admit_order(core)
    txn_id = core.state.next_transaction_id(most)
    timeout_ms = min(command.txn_ttl_millis, MAX_TIMEOUT_MS)
    core.append(TransactionOpened(*txn_id, core.wall_ms, timeout_ms, session.principal.client_role or ""))
    _watch(core, core.state.transactions[txn_id], session)
    counts = core.transactions.of(most)
    counts.opened += 1
    counts.appended += 1
    _answer(core, session, command, txn_id)


def on_add_partitions(core: Core, session: Session, command: CommandAddPartitionToTxn) -> None:
    """Handles ADD_PARTITION_TO_TXN: the transaction will have entries on these topics (TX-4)."""
    transaction = _find(core, session, command)
    for text in command.partitions:
        TopicName.parse(text)
    wanted = tuple(text for text in dict.fromkeys(command.partitions) if text not in transaction.partitions)
    _check_room(len(transaction.partitions) + len(wanted), "topics")
    _count_names(core, sum(map(len, wanted)))
    if wanted:
        core.append(TransactionPartitionsAdded(*transaction.txn_id, wanted))
        core.transactions.of(transaction.txn_id.most).appended += 1
    _answer(core, session, command, transaction.txn_id)


def on_add_subscriptions(core: Core, session: Session, command: CommandAddSubscriptionToTxn) -> None:
    """Handles ADD_SUBSCRIPTION_TO_TXN: the transaction will have acks on these subscriptions (TX-5)."""
    transaction = _find(core, session, command)
    known = transaction.subscriptions
    wanted = dict.fromkeys((pair.topic, pair.subscription) for pair in command.subscription)
    for topic, _ in wanted:
        TopicName.parse(topic)
    pairs = [(topic, name) for topic, name in wanted if name not in known.get(topic, ())]
    _check_room(sum(map(len, known.values())) + len(pairs), "subscriptions")
    _count_names(core, sum(len(topic) + len(name) for topic, name in pairs))
    if pairs:
        topics, names = zip(*pairs, strict=True)
        core.append(TransactionSubscriptionsAdded(*transaction.txn_id, topics, names))
        core.transactions.of(transaction.txn_id.most).appended += 1
    _answer(core, session, command, transaction.txn_id)


def _check_room(count: int, what: str) -> None:
    if count > MAX_PARTITIONS:
        raise NotAllowed(f"A transaction may have up to {MAX_PARTITIONS} {what}")


def _count_names(core: Core, length: int) -> None:
    """Counts names that are added to a transaction."""
    if core.transactions.names_length + length > MAX_NAMES_LENGTH:
        raise NotAllowed("The open transactions have too many topics and subscriptions together: end some first")
    core.transactions.names_length += length


def _names_length(transaction: Transaction) -> int:
    pairs = ((topic, name) for topic, names in transaction.subscriptions.items() for name in names)
    return sum(map(len, transaction.partitions)) + sum(len(topic) + len(name) for topic, name in pairs)


def on_end(core: Core, session: Session, command: CommandEndTxn) -> None:
    """Handles END_TXN: commits or aborts, and answers when that is on disk (TX-6)."""
    transaction = _find(core, session, command)
    if command.txn_action not in (COMMIT, ABORT):
        raise NotAllowed(f"Transaction action {command.txn_action} is neither COMMIT nor ABORT")
    is_committed = command.txn_action == COMMIT
    _end_watch(core, transaction, is_committed=is_committed)
    success, refuse = wire.answers(command, transaction.txn_id)
    ending.answer_end(
        core,
        transaction,
        lambda: core.send(session, success),
        lambda error: core.send(session, refuse(error)),
        is_committed=is_committed,
    )


def on_end_on_partition(core: Core, session: Session, command: CommandEndTxnOnPartition) -> None:
    """Refuses END_TXN_ON_PARTITION, which brokers of a cluster send to each other: here the coordinator does it all."""
    raise NotAllowed("END_TXN_ON_PARTITION is for brokers of a cluster: end the transaction with END_TXN")


def on_end_on_subscription(core: Core, session: Session, command: CommandEndTxnOnSubscription) -> None:
    """Refuses END_TXN_ON_SUBSCRIPTION, likewise."""
    raise NotAllowed("END_TXN_ON_SUBSCRIPTION is for brokers of a cluster: end the transaction with END_TXN")


def _answer(
    core: Core,
    session: Session,
    command: CommandNewTxn | CommandAddPartitionToTxn | CommandAddSubscriptionToTxn,
    txn_id: TransactionId,
) -> None:
    """Answers a command when all that it changed is on disk (TX-17)."""
    success, refuse = wire.answers(command, txn_id)
    disk_full.answer_when_durable(
        core, lambda: core.send(session, success), lambda error: core.send(session, refuse(error))
    )
