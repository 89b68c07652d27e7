"""Without `transactionCoordinatorEnabled` each request of a transaction is refused, on a connection that stays open."""

from __future__ import annotations

from typing import Any

import pytest

from tests.brokers import Broker

REFUSED: dict[str, dict[str, Any]] = {
    "TC_CLIENT_CONNECT_REQUEST": {"tc_id": 0},
    "NEW_TXN": {"txn_ttl_millis": 60, "tc_id": 0},
    "ADD_PARTITION_TO_TXN": {"txnid_least_bits": 1, "txnid_most_bits": 0, "partitions": ["t"]},
    "ADD_SUBSCRIPTION_TO_TXN": {
        "txnid_least_bits": 1,
        "txnid_most_bits": 0,
        "subscription": [{"topic": "t", "subscription": "s"}],
    },
    "END_TXN": {"txnid_least_bits": 1, "txnid_most_bits": 0, "txn_action": "COMMIT"},
}


@pytest.mark.parametrize("command", REFUSED)
def test_a_command_is_refused(switched_broker: Broker, command: str) -> None:
    # covers TX-1
    raw = switched_broker.raw()
    answer = raw.request(command, **REFUSED[command])
    assert (answer.type, answer["error"]) == ("ERROR", "NotAllowedError")
    raw.barrier()


def test_the_admin_api_tells_why(switched_broker: Broker) -> None:
    # covers TX-1, TX-22
    base, topic = "/admin/v3/transactions", switched_broker.topic()
    local = topic.partition("://")[2]
    calls = [
        ("GET", "coordinators"),
        ("GET", "coordinatorStats"),
        ("GET", "transactionMetadata/0/0"),
        ("GET", "slowTransactions/1"),
        ("GET", f"transactionBufferStats/{local}"),
        ("GET", f"transactionInBufferStats/{local}/0/0"),
        ("GET", f"pendingAckStats/{local}/s"),
        ("GET", f"transactionInPendingAckStats/{local}/s/0/0"),
        ("GET", f"positionStatsInPendingAck/{local}/s/0/0"),
        ("POST", "abortTransaction/0/0"),
    ]
    reason = "This Broker is not configured with transactionCoordinatorEnabled=true."
    assert {switched_broker.rest(method, f"{base}/{path}")[1]["reason"] for method, path in calls} == {reason}
    assert {switched_broker.rest(method, f"{base}/{path}")[0] for method, path in calls} == {503}
    assert switched_broker.rest("POST", f"{base}/transactionCoordinator/replicas", 2) == (503, {"reason": reason})


def test_messages_and_acks_in_a_transaction_are_refused(switched_broker: Broker) -> None:
    # covers TX-1
    raw, topic = switched_broker.raw(), switched_broker.topic()
    raw.request("LOOKUP", topic=topic)
    raw.request("PRODUCER", topic=topic, producer_id=1, producer_name="p")
    raw.request("SUBSCRIBE", topic=topic, subscription="s", subType="Shared", consumer_id=1, consumer_name="c")
    ids: dict[str, Any] = {"txnid_least_bits": 1, "txnid_most_bits": 0}
    raw.send_message(1, 0, b"in a transaction", **ids)
    assert raw.expect("SEND_ERROR")["error"] == "NotAllowedError"
    raw.send_message(1, 1, b"plain")
    ledger_id, entry_id = raw.expect("SEND_RECEIPT").position
    message_id = [{"ledgerId": ledger_id, "entryId": entry_id}]
    answer = raw.request("ACK", consumer_id=1, ack_type="Individual", message_id=message_id, **ids)
    assert (answer.type, answer["error"]) == ("ACK_RESPONSE", "NotAllowedError")


@pytest.mark.parametrize(
    "path",
    [
        "coordinators",
        "coordinatorStats",
        "slowTransactions/1",
        "transactionMetadata/0/1",
        "transactionBufferStats/public/default/t",
        "transactionInBufferStats/public/default/t/0/1",
        "pendingAckStats/public/default/t/s",
        "transactionInPendingAckStats/public/default/t/s/0/1",
        "positionStatsInPendingAck/public/default/t/s/1/1",
    ],
)
def test_the_admin_api_says_what_is_off(switched_broker: Broker, path: str) -> None:
    # covers TX-1, TX-22
    reason = "This Broker is not configured with transactionCoordinatorEnabled=true."
    assert switched_broker.rest("GET", f"/admin/v3/transactions/{path}") == (503, {"reason": reason})


@pytest.mark.parametrize(("path", "body"), [("abortTransaction/0/1", None), ("transactionCoordinator/replicas", 2)])
def test_the_admin_api_changes_nothing_when_off(switched_broker: Broker, path: str, body: int | None) -> None:
    # covers TX-1, TX-22
    assert switched_broker.rest("POST", f"/admin/v3/transactions/{path}", body)[0] == 503
