"""Transaction buffers of topics and pending acks of subscriptions over REST (TX-22). They are parts of the topic and of
its cursors here, and need no recovery of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import TRANSACTIONS_PATH, reads, routes, shows_later, whole_number_in_path
from spark_pulsar.admin.http.path_names import topic_name
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.transactions import outcome
from spark_pulsar.model.positions.ids import Position

from .coordinators import acks_json, check_enabled, entries_json, id_in, low_water_marks

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.admin.http.slices import Steps
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.ledger.state.cursors.pending_acks import PendingAcks
    from spark_pulsar.model.errors import PulsarError

_TOPIC: Final = "{tenant}/{namespace}/{topic}"
_SUBSCRIPTION: Final = f"{_TOPIC}/{{subscription}}"


def _topic(core: Core, call: Call) -> Topic:
    parts = call.parts
    name = topic_name("persistent", parts["tenant"], parts["namespace"], parts["topic"])
    topic = registry.find(core, name)
    if topic is None:
        raise Refused(404, f"Topic not found {name.full}")
    return topic


def _subscription(core: Core, call: Call) -> Subscription:
    """Finds the subscription of a path; 404 when there is none. Differs from Apache Pulsar, which answers 500 with a
    stack trace."""
    topic, name = _topic(core, call), call.parts["subscription"]
    subscription = topic.subscriptions.get(name)
    if subscription is None:
        raise Refused(404, f"{topic.full_name} not found subscription : {name}")
    return subscription


def _marks(core: Core, call: Call, *, is_used: bool) -> Steps[dict[str, Any]]:
    """Returns the low watermarks if they are requested, which are those of the coordinators."""
    if not call.flag("lowWaterMarks"):
        return {}
    marks = (yield from low_water_marks(core)) if is_used else {}
    return {"lowWaterMarks": {str(most): mark for most, mark in marks.items()}}


# ---- topics -----------------------------------------------------------------------------------------------------


def _buffer(core: Core, call: Call) -> Steps[dict[str, Any]]:
    check_enabled(core)
    topic = _topic(core, call)
    is_used = topic.transactions is not None or bool(topic.ledger.withheld)
    marks = yield from _marks(core, call, is_used=is_used)
    return {
        "state": "Ready" if is_used else "NoSnapshot",
        "maxReadPosition": str(topic.max_read_position),
        "lastSnapshotTimestamps": 0,
        **marks,
        "ongoingTxnSize": len(topic.state.open_transactions),
        "recoverStartTime": core.started_ms,
        "recoverEndTime": core.started_ms,
        "totalAbortedTransactions": 0 if topic.transactions is None else topic.transactions.aborted,
        "snapshotType": "Single",
    }


def _in_buffer(core: Core, call: Call, answer: Callable[[dict[str, Any] | PulsarError], None]) -> None:
    """Answers where the entries of a transaction begin while it is open, and whether it was aborted after."""
    check_enabled(core)
    txn_id, topic = id_in(call), _topic(core, call)
    transaction = core.state.transactions.get(txn_id)
    if transaction is not None:
        answer(entries_json(topic.state, transaction))
    else:
        outcome.was_aborted(core, topic, txn_id, lambda is_aborted: answer({"aborted": bool(is_aborted)}))


# ---- subscriptions ----------------------------------------------------------------------------------------------


def _pending_acks(core: Core, call: Call) -> Steps[dict[str, Any]]:
    check_enabled(core)
    subscription = _subscription(core, call)
    pending = subscription.cursor.pending
    is_used = pending is not None
    marks = yield from _marks(core, call, is_used=is_used)
    return {
        "state": "Ready" if is_used else "None",
        **marks,
        "ongoingTxnSize": 0 if pending is None else len(pending.of),
        "recoverStartTime": core.started_ms if is_used else 0,
        "recoverEndTime": core.started_ms if is_used else 0,
    }


def _in_pending_acks(core: Core, call: Call) -> dict[str, str]:
    check_enabled(core)
    txn_id, cursor = id_in(call), _subscription(core, call).cursor
    return acks_json(None if cursor.pending is None else cursor.pending.of.get(txn_id))


def _position(core: Core, call: Call) -> dict[str, str]:
    position = Position(whole_number_in_path(call.parts["ledger"]), whole_number_in_path(call.parts["entry"]))
    text = call.query.get("batchIndex")
    batch_index = None if text is None else whole_number_in_path(text)
    check_enabled(core)
    cursor = _subscription(core, call).cursor
    if position <= cursor.mark_delete:
        return {"state": "MarkDelete"}
    is_pending = cursor.pending is not None and _is_pending(cursor.pending, position, batch_index)
    return {"state": "PendingAck" if is_pending else "NotInPendingAck"}


def _is_pending(pending: PendingAcks, position: Position, batch_index: int | None) -> bool:
    """Returns whether an ack of an entry is pending, or that of one of its messages; cumulative ones count for none."""
    if pending.ranges.contains(*position):
        return True
    if batch_index is None:
        return position.entry_id in pending.batch_sets.get(position.ledger_id, ())
    parts = pending.parts(*position)
    return 0 <= batch_index < parts.bit_length() and bool(parts >> batch_index & 1)


_STATS: Final = access.topic("GET_STATS")
ROUTES: Final[Routes] = routes(
    TRANSACTIONS_PATH,
    (f"GET /transactionBufferStats/{_TOPIC}", _STATS, reads(_buffer)),
    (f"GET /transactionInBufferStats/{_TOPIC}/{{most}}/{{least}}", _STATS, shows_later(_in_buffer)),
    (f"GET /pendingAckStats/{_SUBSCRIPTION}", _STATS, reads(_pending_acks)),
    (f"GET /transactionInPendingAckStats/{_SUBSCRIPTION}/{{most}}/{{least}}", _STATS, reads(_in_pending_acks)),
    (f"GET /positionStatsInPendingAck/{_SUBSCRIPTION}/{{ledger}}/{{entry}}", _STATS, reads(_position)),
)
