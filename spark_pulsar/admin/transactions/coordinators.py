"""Transactions and their coordinators over REST (TX-22). What they do on topics and subscriptions is in
`transaction_states`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.answers import whole_number
from spark_pulsar.admin.http.calls import TRANSACTIONS_PATH, changes, reads, routes, whole_number_in_path
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.broker.transactions import coordinator
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import EARLIEST, Position, TransactionId

if TYPE_CHECKING:
    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.admin.http.slices import Steps
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.ledger.state.cursors.pending_acks import TransactionAcks
    from spark_pulsar.ledger.state.topics import TopicState
    from spark_pulsar.ledger.state.transactions import Transaction

_IDS_A_STEP: Final = 1_024


def check_enabled(core: Core) -> None:
    """Refuses everything of transactions while they are off: 503."""
    if not core.config.transactions_enabled:
        raise Refused(503, "This Broker is not configured with transactionCoordinatorEnabled=true.")


def id_in(call: Call) -> TransactionId:
    """Reads the id of a transaction in a path."""
    return TransactionId(whole_number_in_path(call.parts["most"]), whole_number_in_path(call.parts["least"]))


def open_transaction(core: Core, txn_id: TransactionId) -> Transaction:
    """Finds an open transaction; 404 when it has ended, or never began. Differs from Apache Pulsar, which answers 500
    with a stack trace to the request that aborts it."""
    if not 0 <= txn_id.most < coordinator.count_of(core):
        raise Refused(404, f"Transaction coordinator with id {txn_id.most} not found!")
    transaction = core.state.transactions.get(txn_id)
    if transaction is None:
        raise Refused(404, f"The transaction with this txdID `{txn_id}`not found ")
    return transaction


def low_water_marks(core: Core) -> Steps[dict[int, int]]:
    """Returns, by coordinator, the last id below which no transaction is open; coordinators without an open one are
    left out."""
    marks: dict[int, int] = {}
    for number, (most, least) in enumerate(list(core.state.transactions)):
        marks[most] = min(marks.get(most, least), least - 1)
        if number % _IDS_A_STEP == 0:
            yield
    return marks


def acks_json(acks: TransactionAcks | None) -> dict[str, str]:
    """Returns the JSON of the pending acks of a transaction on a subscription."""
    if acks is None or acks.through == EARLIEST:
        return {}
    return {"cumulativeAckPosition": str(acks.through)}


def entries_json(topic: TopicState | None, transaction: Transaction) -> dict[str, Any]:
    """Returns the JSON of the entries of an open transaction on a topic."""
    entries = None if topic is None else transaction.entries.get(topic.topic_id)
    first = None if entries is None else entries.first()
    return {**({} if first is None else {"startPosition": str(Position(*first))}), "aborted": False}


# ---- coordinators -----------------------------------------------------------------------------------------------


def _coordinators(core: Core, call: Call) -> object:
    check_enabled(core)
    url = call.addresses.binary or call.addresses.binary_tls
    return [{"id": number, "brokerServiceUrl": url} for number in range(coordinator.count_of(core))]


def _chosen(core: Core, call: Call) -> int | None:
    """Reads the coordinator that a query names, None when it names none, for all; 404 when there is none of this id."""
    text = call.query.get("coordinatorId")
    if text is None:
        return None
    most = whole_number_in_path(text)
    if not 0 <= most < coordinator.count_of(core):
        raise Refused(404, f"Transaction coordinator not found! coordinator id : {most}")
    return most


def _coordinator_stats(core: Core, call: Call) -> Steps[object]:
    check_enabled(core)
    chosen = _chosen(core, call)
    marks = yield from low_water_marks(core)
    if chosen is not None:
        return _stats_of(core, chosen, marks)
    stats: dict[str, Any] = {}
    for most in range(coordinator.count_of(core)):
        stats[str(most)] = _stats_of(core, most, marks)
        yield
    return stats


def _stats_of(core: Core, most: int, marks: dict[int, int]) -> dict[str, Any]:
    return {
        "state": "Ready",
        "leastSigBits": core.state.next_transaction_id(most).least - 1,
        "lowWaterMark": marks.get(most, 0),
        "ongoingTxnSize": core.transactions.open.count_of(most),
        "recoverStartTime": core.started_ms,
        "recoverEndTime": core.started_ms,
    }


def _make_coordinators(core: Core, call: Call) -> None:
    body = call.json()
    if body is None:
        raise Refused(400, "The request entity cannot be empty.")
    wanted = whole_number(body, "number of transaction coordinators")
    check_enabled(core)
    if wanted <= coordinator.count_of(core):
        raise Refused(
            406,
            "Number of transaction coordinators should be more than the current number of transaction coordinator",
        )
    try:
        coordinator.set_count(core, wanted)
    except PulsarError as error:
        raise Refused(406, error.message) from error


# ---- transactions -----------------------------------------------------------------------------------------------


def _metadata(core: Core, call: Call) -> Steps[dict[str, Any]]:
    check_enabled(core)
    return (yield from _metadata_of(core, open_transaction(core, id_in(call))))


def _metadata_of(core: Core, transaction: Transaction) -> Steps[dict[str, Any]]:
    """Returns an open transaction. Topics are named as its client has named them."""
    produced: dict[str, Any] = {}
    for text in list(transaction.partitions):
        produced[text] = entries_json(_topic(core, text), transaction)
        yield
    acked: dict[str, dict[str, Any]] = {}
    for text, names in list(transaction.subscriptions.items()):
        topic = _topic(core, text)
        for name in list(names):
            cursor = None if topic is None else topic.cursors.get(name)
            acks = None if cursor is None else transaction.acks.get(cursor.cursor_id)
            acked.setdefault(text, {})[name] = acks_json(acks)
            yield
    return {
        "txnId": str(transaction.txn_id),
        "status": "OPEN",
        "openTimestamp": transaction.opened_ms,
        "timeoutAt": transaction.timeout_ms,
        "producedPartitions": produced,
        "ackedPartitions": acked,
    }


def _topic(core: Core, text: str) -> TopicState | None:
    """Finds a topic by the name that a client gave to it, without taking it into use."""
    try:
        return core.state.topics_by_name.get(TopicName.parse(text).full)
    except PulsarError:
        return None


def _slow(core: Core, call: Call) -> Steps[dict[str, Any]]:
    """Returns the open transactions whose time-out is longer than a time."""
    timeout_ms = whole_number_in_path(call.parts["timeout"])
    check_enabled(core)
    chosen = _chosen(core, call)
    slow: dict[str, Any] = {}
    for transaction in list(core.state.transactions.values()):
        yield
        if transaction.timeout_ms > timeout_ms and chosen in (None, transaction.txn_id.most):
            slow[str(transaction.txn_id)] = yield from _metadata_of(core, transaction)
    return slow


def _abort(core: Core, call: Call) -> None:
    txn_id = id_in(call)
    check_enabled(core)
    coordinator.abort(core, open_transaction(core, txn_id))


ROUTES: Final[Routes] = routes(
    TRANSACTIONS_PATH,
    ("GET /coordinators", access.anyone, reads(_coordinators)),
    ("GET /coordinatorStats", access.coordinators, reads(_coordinator_stats)),
    ("POST /transactionCoordinator/replicas", access.super_user, changes(_make_coordinators)),
    ("GET /transactionMetadata/{most}/{least}", access.owner, reads(_metadata)),
    ("GET /slowTransactions/{timeout}", access.coordinators, reads(_slow)),
    ("POST /abortTransaction/{most}/{least}", access.super_user, changes(_abort)),
)
