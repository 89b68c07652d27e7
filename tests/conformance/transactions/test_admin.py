"""What /admin/v3/transactions, topic stats and metrics tell of transactions."""

from __future__ import annotations

import urllib.request
from typing import Any

import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.transactions.transacting import Transacting, acking, filled, local, remaining
from tests.eventually import eventually

UNKNOWN = "The transaction with this txdID `({},{})`not found "


def test_the_coordinators(broker: Broker, client: Transacting) -> None:
    # covers TX-22, TX-2
    status, coordinators = client.admin("coordinators")
    assert (status, coordinators) == (200, [{"id": 0, "brokerServiceUrl": broker.service_url}])
    transaction = client.begin()
    _, every = client.admin("coordinatorStats")
    _, one = client.admin("coordinatorStats?coordinatorId=0")
    assert list(every) == ["0"]
    for stats in (every["0"], one):
        assert list(stats) == [
            "state",
            "leastSigBits",
            "lowWaterMark",
            "ongoingTxnSize",
            "recoverStartTime",
            "recoverEndTime",
        ]
        assert (stats["state"], stats["leastSigBits"]) == ("Ready", transaction[1])
        assert stats["ongoingTxnSize"] >= 1
    client.abort(transaction)
    for path in ("coordinatorStats?coordinatorId=9", "slowTransactions/1?coordinatorId=9"):
        reason = "Transaction coordinator not found! coordinator id : 9"
        assert client.admin(path) == (404, {"reason": reason}), path
    reason = "Number of transaction coordinators should be more than the current number of transaction coordinator"
    for count in (0, 1):
        assert client.admin("transactionCoordinator/replicas", "POST", count) == (406, {"reason": reason})


def test_the_metadata_of_a_transaction(client: Transacting) -> None:
    # covers TX-22
    topic, positions = filled(client)
    transaction = client.begin(ttl_ms=600_000)
    status, told = client.metadata(transaction)
    assert status == 200
    assert list(told) == ["txnId", "status", "openTimestamp", "timeoutAt", "producedPartitions", "ackedPartitions"]
    assert (told["txnId"], told["status"], told["timeoutAt"]) == (f"(0,{transaction[1]})", "OPEN", 600_000)
    assert (told["producedPartitions"], told["ackedPartitions"]) == ({}, {})
    client.add_topics(transaction, topic)
    client.add_subscription(transaction, topic)
    ledger_id, entry_id = client.send(b"in", transaction)
    client.ack(positions[0], transaction)
    _, told = client.metadata(transaction)
    assert told["producedPartitions"] == {topic: {"startPosition": f"{ledger_id}:{entry_id}", "aborted": False}}
    assert told["ackedPartitions"] == {topic: {"s": {}}}
    client.commit(transaction)
    reason = {"reason": UNKNOWN.format(*transaction)}
    assert eventually(lambda: client.metadata(transaction) == (404, reason))


def test_what_nobody_knows(client: Transacting, broker: Broker) -> None:
    # covers TX-22
    assert client.metadata((0, 99_999_999)) == (404, {"reason": UNKNOWN.format(0, 99_999_999)})
    for number in (9, -1):
        reason = f"Transaction coordinator with id {number} not found!"
        assert client.metadata((number, 1)) == (404, {"reason": reason})
    missing = broker.topic("missing")
    for path in (
        f"transactionBufferStats/{local(missing)}",
        f"transactionInBufferStats/{local(missing)}/0/1",
        f"pendingAckStats/{local(missing)}/s",
    ):
        assert client.admin(path) == (404, {"reason": f"Topic not found {missing}"}), path


def test_slow_transactions(client: Transacting) -> None:
    # covers TX-22
    transaction = client.begin()
    name = f"(0,{transaction[1]})"
    assert eventually(lambda: name in client.admin("slowTransactions/1")[1])
    assert client.admin("slowTransactions/1?coordinatorId=0")[1][name] == client.metadata(transaction)[1]
    assert name not in client.admin("slowTransactions/3600000")[1]
    client.abort(transaction)
    assert eventually(lambda: name not in client.admin("slowTransactions/1")[1])


def test_aborting_by_the_admin_api(client: Transacting) -> None:
    # covers TX-22, TX-6
    topic, positions = filled(client, count=1)
    transaction = client.begin(topic, subscriptions={topic: "s"})
    client.send(b"gone", transaction)
    client.ack(positions[0], transaction)
    path = f"abortTransaction/{transaction[0]}/{transaction[1]}"
    assert client.admin(path, "POST")[0] == 204
    assert client.take(1) == [b"0"]
    assert eventually(lambda: client.metadata(transaction)[0] == 404)
    assert client.end(transaction, "COMMIT")["error"] == "TransactionNotFound"
    status, answer = client.admin(path, "POST")
    assert status >= 400
    assert UNKNOWN.format(*transaction).strip() in answer["reason"]


def test_the_buffer_of_a_topic(client: Transacting, topic: str) -> None:
    # covers TX-22, TX-9
    client.produce(topic)
    client.send(b"plain")
    opened, aborted = client.begin(topic), client.begin(topic)
    ledger_id, entry_id = client.send(b"open", opened)
    client.send(b"aborted", aborted)
    client.abort(aborted)
    status, stats = client.admin(f"transactionBufferStats/{local(topic)}")
    assert status == 200
    assert list(stats) == [
        "state",
        "maxReadPosition",
        "lastSnapshotTimestamps",
        "ongoingTxnSize",
        "recoverStartTime",
        "recoverEndTime",
        "totalAbortedTransactions",
        "snapshotType",
    ]
    assert (stats["state"], stats["snapshotType"], stats["maxReadPosition"]) == ("Ready", "Single", f"{ledger_id}:0")
    assert (stats["ongoingTxnSize"], stats["totalAbortedTransactions"]) == (1, 1)
    marks = client.admin(f"transactionBufferStats/{local(topic)}?lowWaterMarks=true")[1]
    assert "lowWaterMarks" in marks

    def told(number: int) -> Any:
        return client.admin(f"transactionInBufferStats/{local(topic)}/0/{number}")

    assert told(opened[1]) == (200, {"startPosition": f"{ledger_id}:{entry_id}", "aborted": False})
    assert told(aborted[1]) == (200, {"aborted": True})
    assert told(99_999_999) == (200, {"aborted": False})
    client.commit(opened)
    assert told(opened[1]) == (200, {"aborted": False})
    stats = client.admin(f"transactionBufferStats/{local(topic)}")[1]
    assert (stats["ongoingTxnSize"], stats["maxReadPosition"]) == (0, f"{ledger_id}:4")


def test_pending_acks_of_a_subscription(client: Transacting) -> None:
    # covers TX-22, TX-12, TX-14
    topic, positions = filled(client, count=2)
    batch = client.send_batch(4)
    client.raw.expect_messages(1)
    keys = ["state", "ongoingTxnSize", "recoverStartTime", "recoverEndTime"]
    status, stats = client.admin(f"pendingAckStats/{local(topic)}/s")
    assert (status, list(stats), stats["ongoingTxnSize"]) == (200, keys, 0)
    transaction = client.begin(subscriptions={topic: "s"})
    client.ack(positions[1], transaction)
    client.ack(batch, transaction, ack_set=remaining(4, 0), batch_size=4)
    stats = client.admin(f"pendingAckStats/{local(topic)}/s")[1]
    assert (list(stats), stats["state"], stats["ongoingTxnSize"]) == (keys, "Ready", 1)
    assert client.admin(f"transactionInPendingAckStats/{local(topic)}/s/0/{transaction[1]}") == (200, {})

    def state(position: tuple[int, int], query: str = "") -> str:
        path = f"positionStatsInPendingAck/{local(topic)}/s/{position[0]}/{position[1]}{query}"
        return str(client.admin(path)[1]["state"])

    assert [state(positions[0]), state(positions[1]), state(batch)] == ["NotInPendingAck", "PendingAck", "PendingAck"]
    assert [state(batch, f"?batchIndex={index}") for index in (0, 1)] == ["PendingAck", "NotInPendingAck"]
    client.commit(transaction)
    assert client.admin(f"pendingAckStats/{local(topic)}/s")[1]["ongoingTxnSize"] == 0


def test_a_pending_cumulative_ack_is_told(client: Transacting) -> None:
    # covers TX-22, TX-13
    topic, positions, transaction = acking(client, "Exclusive")
    client.ack(positions[3], transaction, "Cumulative")
    told = {"cumulativeAckPosition": f"{positions[3][0]}:3"}
    assert client.admin(f"transactionInPendingAckStats/{local(topic)}/s/0/{transaction[1]}") == (200, told)
    assert client.metadata(transaction)[1]["ackedPartitions"] == {topic: {"s": told}}
    client.abort(transaction)


@pytest.mark.ours_only("TX-22: 404 in place of 500 with a stack trace, or of no answer at all")
def test_what_apache_pulsar_answers_with_a_stack_trace(client: Transacting) -> None:
    # covers TX-22
    topic, _ = filled(client, count=1)
    place = local(topic)
    unknown = {"reason": UNKNOWN.format(0, 99_999_999)}
    assert client.admin("abortTransaction/0/99999999", "POST") == (404, unknown)
    assert client.admin("abortTransaction/9/1", "POST")[0] == 404
    missing = {"reason": f"{topic} not found subscription : nobody"}
    for path in (
        f"pendingAckStats/{place}/nobody",
        f"transactionInPendingAckStats/{place}/nobody/0/1",
        f"positionStatsInPendingAck/{place}/nobody/0/0",
    ):
        assert client.admin(path) == (404, missing), path
    for path in ("transactionMetadata/x/1", "slowTransactions/x", f"transactionInBufferStats/{place}/x/1"):
        assert client.admin(path) == (404, {"reason": "'x' is no number"}), path
    nowhere = client.begin("persistent://public/default/nowhere", subscriptions={"persistent://a/b/c": "s"})
    told = client.metadata(nowhere)[1]
    assert told["producedPartitions"] == {"persistent://public/default/nowhere": {"aborted": False}}
    assert told["ackedPartitions"] == {"persistent://a/b/c": {"s": {}}}
    client.abort(nowhere)


@pytest.mark.ours_only("TX-27: there are no logs, buffers and snapshots of their own")
def test_logs_that_there_are_not(broker: Broker, client: Transacting) -> None:
    # covers TX-22, TX-27
    place = local(broker.topic())
    for path in (
        "coordinatorInternalStats/0",
        f"pendingAckInternalStats/{place}/s",
        f"transactionBufferInternalStats/{place}",
    ):
        status, answer = client.admin(path)
        assert (status, "transactions are records of the journal" in answer["reason"]) == (501, True), path


def test_partitions_tell_their_transactions(broker: Broker, client: Transacting) -> None:
    # covers TX-22
    topic = broker.topic(partitions=2)
    client.produce(f"{topic}-partition-1")
    transaction = client.begin(f"{topic}-partition-1")
    client.send(b"in", transaction)
    client.commit(transaction)
    _, stats = broker.rest("GET", f"{topic_path(topic)}/partitioned-stats")
    assert stats["partitions"][f"{topic}-partition-1"]["committedTxnCount"] == 1
    assert {"ongoingTxnCount", "committedTxnCount", "abortedTxnCount"} <= stats.keys()


@pytest.mark.ours_only("TX-22: Apache Pulsar tells the numbers of one of the partitions")
def test_partitioned_statistics_are_sums(broker: Broker, client: Transacting) -> None:
    # covers TX-22
    topic = broker.topic(partitions=2)
    for partition in (0, 1):
        client.produce(f"{topic}-partition-{partition}", partition)
        for end in (client.abort, client.commit, lambda _: None):
            transaction = client.begin(f"{topic}-partition-{partition}")
            client.send(b"in", transaction, partition)
            end(transaction)
    _, stats = broker.rest("GET", f"{topic_path(topic)}/partitioned-stats")
    assert [stats[f"{name}TxnCount"] for name in ("ongoing", "committed", "aborted")] == [2, 2, 2]


def _metrics(broker: Broker) -> dict[str, float]:
    with urllib.request.urlopen(f"{broker.admin_url}/metrics/", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    samples = [line.rpartition(" ") for line in lines if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in samples if "pulsar_txn_" in name}


def test_metrics_and_statistics_count_transactions(broker: Broker, client: Transacting, topic: str) -> None:
    # covers TX-22, TX-23
    client.produce(topic)
    client.abort(client.begin())
    before = _metrics(broker)
    for action in ("COMMIT", "COMMIT", "ABORT", None):
        transaction = client.begin(topic)
        client.send(b"in", transaction)
        if action:
            client.end(transaction, action)

    def grown(name: str, labels: str) -> float:
        (now,) = [value for key, value in _metrics(broker).items() if key.startswith(name + "{") and labels in key]
        return now - sum(value for key, value in before.items() if key.startswith(name + "{") and labels in key)

    names = ("created_total", "committed_total", "aborted_total", "active_count")
    grown_by = [grown(f"pulsar_txn_{name}", 'coordinator_id="0"') for name in names]
    assert (grown_by[0], grown_by[1]) == (4, 2)
    assert grown_by[2] >= 1
    counts = [client.stats(topic)[f"{name}TxnCount"] for name in ("ongoing", "committed", "aborted")]
    assert counts == [1, 2, 1]
    labels = f'namespace="public/default",topic="{topic}"'
    assert [grown(f"pulsar_txn_tb_{name}_total", labels) for name in ("active", "committed", "aborted")] == [1, 2, 1]
    assert 'pulsar_txn_timeout_total{cluster="standalone",coordinator_id="0"}' in before
    client.abort(transaction)
