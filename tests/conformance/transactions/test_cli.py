"""`spark-pulsar admin transactions`, and messages of transactions that `topics peek-messages` leaves out."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from spark_pulsar.cli.main import app
from tests.brokers import Broker
from tests.conformance.transactions.transacting import Transacting, filled
from tests.eventually import eventually


def run(broker: Broker, *words: str) -> tuple[int, str, str]:
    """Status, output and error of `spark-pulsar admin WORDS`."""
    done = CliRunner().invoke(app, ["admin", "--admin-url", broker.admin_url, *words])
    return done.exit_code, done.stdout, done.stderr


def told(broker: Broker, *words: str) -> Any:
    """What `spark-pulsar admin transactions WORDS` prints, which must succeed."""
    status, text, error = run(broker, "transactions", *words)
    assert (status, error) == (0, ""), (words, error)
    return json.loads(text) if text else None


def test_every_command(broker: Broker, client: Transacting) -> None:
    # covers TX-22, ADM-9
    topic, positions = filled(client, count=3)
    transaction = client.begin(topic, subscriptions={topic: "s"}, ttl_ms=90_000)
    ledger_id, entry_id = client.send(b"in", transaction)
    client.ack(positions[1], transaction)
    of_id = ("-m", str(transaction[0]), "-l", str(transaction[1]))
    assert told(broker, "coordinators-list")[0]["id"] == 0
    assert told(broker, "coordinator-stats")["0"]["state"] == "Ready"
    assert told(broker, "coordinator-stats", "-c", "0")["ongoingTxnSize"] >= 1
    metadata = told(broker, "transaction-metadata", *of_id)
    assert (metadata["status"], list(metadata["ackedPartitions"])) == ("OPEN", [topic])
    name = f"({transaction[0]},{transaction[1]})"
    assert told(broker, "slow-transactions", "-t", "1m", "-c", "0")[name] == metadata
    assert name not in told(broker, "slow-transactions", "--time", "2m")
    first = f"{ledger_id}:{entry_id}"
    assert told(broker, "transaction-in-buffer-stats", *of_id, "-t", topic)["startPosition"] == first
    buffer = told(broker, "transaction-buffer-stats", "-t", topic, "-l", "-s")
    assert (buffer["ongoingTxnSize"], "lowWaterMarks" in buffer) == (1, True)
    assert told(broker, "pending-ack-stats", "-t", topic, "-s", "s")["ongoingTxnSize"] == 1
    assert told(broker, "transaction-in-pending-ack-stats", *of_id, "-t", topic, "-s", "s") == {}
    ids = ("-l", str(positions[1][0]), "-e", str(positions[1][1]))
    state = told(broker, "position-stats-in-pending-ack", "-t", topic, "-s", "s", *ids)
    assert state == {"state": "PendingAck"}
    assert told(broker, "abort-transaction", *of_id) is None
    assert eventually(lambda: run(broker, "transactions", "transaction-metadata", *of_id)[0] == 1)
    status, _, error = run(broker, "transactions", "scale-transactionCoordinators", "-r", "1")
    assert (status, "should be more than the current number" in error) == (1, True)


def test_topics_that_store_nothing_have_no_transactions(broker: Broker) -> None:
    # covers TX-22
    name = "non-persistent://public/default/t"
    status, _, error = run(broker, "transactions", "transaction-buffer-stats", "-t", name)
    assert (status, f"want a persistent topic, got '{name}'" in " ".join(error.split())) == (2, True)


def test_peeking_shows_committed_messages(broker: Broker, client: Transacting, topic: str) -> None:
    # covers TX-22, TX-11, CUR-15
    client.subscribe(topic, permits=0)
    client.produce(topic)
    client.send(b"plain")
    for payload, end in ((b"aborted", client.abort), (b"committed", client.commit)):
        transaction = client.begin(topic)
        client.send(payload, transaction)
        end(transaction)
    opened = client.begin(topic)
    client.send(b"open", opened)
    client.send(b"behind")

    def shown(*words: str) -> list[str]:
        status, text, error = run(broker, "topics", "peek-messages", topic, "-s", "s", *words, "-o", "json")
        assert (status, error) == (0, "")
        return [each["value"] for each in json.loads(text)]

    assert shown("-n", "9") == ["plain", "committed"]
    assert shown("-n", "1") == ["plain"]
    everything = shown("-n", "9", "-til", "READ_UNCOMMITTED")
    assert [each for each in everything if each != "aborted"] == ["plain", "committed", "open", "behind"]
    client.abort(opened)
