"""The commands `transactions` of Apache's own `pulsar-admin`: they print the same on both brokers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.brokers import Broker
from tests.clients.java_client import Java, JavaClient
from tests.clients.pulsar_admin import run

NOTHING = ""
TIMEOUT_MS = 600_000
QUIET_MS = 300
TIME = 1
_NUMBER = r"-?\d+"
COORDINATOR_LINE = (
    rf"^0    TransactionCoordinatorStats\(state=Ready, leastSigBits={_NUMBER}, lowWaterMark={_NUMBER}, "
    rf"ongoingTxnSize={_NUMBER}, recoverStartTime={TIME}, recoverEndTime={TIME}\)$"
)
COORDINATOR = (
    rf'^{{\s+"state" : "Ready",\s+"leastSigBits" : {_NUMBER},\s+"lowWaterMark" : {_NUMBER},\s+'
    rf'"ongoingTxnSize" : {_NUMBER},\s+"recoverStartTime" : {TIME},\s+"recoverEndTime" : {TIME}\s+}}$'
)
NO_COORDINATOR = "Reason: Transaction coordinator not found! coordinator id : 9"
NEVER_FEWER = "Reason: Number of transaction coordinators should be more than the current number"

Answer = str | dict[str, Any] | re.Pattern[str]
"""What is printed, the JSON that is, or what it is searched for."""


@dataclass(frozen=True, slots=True)
class World:
    """A topic with a message that the open transaction acknowledges, and with one message of each transaction.

    Attributes:
        acked: Ledger and entry of that message.
    """

    topic: str
    consumer: Any
    acked: tuple[int, int]
    open: Any
    aborted: Any
    committed: Any


@pytest.fixture(scope="module")
def client(java: Java, broker: Broker) -> Iterator[JavaClient]:
    opened = java.client(broker.service_url, transactions=True)
    yield opened
    opened.client.close()


@pytest.fixture
def world(broker: Broker, java: Java, client: JavaClient) -> World:
    topic = broker.topic()
    producer = client.producer(topic, java.api.Schema.STRING)
    consumer = client.consumer(topic, java.api.Schema.STRING, type_="Shared")
    producer.send("acknowledged")
    message_id = client.receive(consumer).getMessageId()
    transactions = [client.begin(TIMEOUT_MS) for _ in range(3)]
    for transaction, value in zip(transactions, ("open", "aborted", "committed"), strict=True):
        producer.newMessage(transaction).value(value).send()
    consumer.acknowledgeAsync(message_id, transactions[0]).get()
    transactions[1].abort().get()
    transactions[2].commit().get()
    return World(topic, consumer, (message_id.getLedgerId(), message_id.getEntryId()), *transactions)


def number(transaction: Any) -> str:
    """As options of a command."""
    id_ = transaction.getTxnID()
    return f"--most-sig-bits {id_.getMostSigBits()} --least-sig-bits {id_.getLeastSigBits()}"


def name(transaction: Any) -> str:
    return str(transaction.getTxnID().toString())


def not_found(transaction: Any) -> re.Pattern[str]:
    return re.compile(re.escape(f"The transaction with this txdID `{name(transaction)}`not found"))


def commands_and_answers(world: World) -> list[tuple[str, Answer]]:
    topic, (ledger, entry) = world.topic, world.acked
    at, of_subscription = f"--topic {topic}", f"--topic {topic} --sub-name s"
    position = f"--topic {topic} --subscription-name s --ledger-id {ledger} --entry-id {entry}"
    produced = {"startPosition": f"{ledger}:{entry + 1}", "aborted": False}
    recovered = {"recoverStartTime": TIME, "recoverEndTime": TIME}
    in_text = (
        f"{name(world.open)}    TransactionMetadata(txnId={name(world.open)}, status=OPEN, openTimestamp={TIME}, "
        f"timeoutAt={TIMEOUT_MS}, producedPartitions={{{topic}=TransactionInBufferStats("
        f"startPosition={ledger}:{entry + 1}, aborted=false)}}, "
        f"ackedPartitions={{{topic}={{s=TransactionInPendingAckStats(cumulativeAckPosition=null)}}}}, owner=null)"
    )
    metadata = {
        "txnId": name(world.open),
        "status": "OPEN",
        "openTimestamp": TIME,
        "timeoutAt": TIMEOUT_MS,
        "producedPartitions": {topic: produced},
        "ackedPartitions": {topic: {"s": {}}},
    }
    buffer: Answer = {
        "state": "Ready",
        "maxReadPosition": f"{ledger}:{entry}",
        "lastSnapshotTimestamps": TIME,
        "ongoingTxnSize": 1,
        **recovered,
        "totalAbortedTransactions": 1,
        "snapshotType": "Single",
    }
    return [
        ("coordinators-list", re.compile(r"^0    pulsar://127\.0\.0\.1:\d+$")),
        ("coordinator-stats", re.compile(COORDINATOR_LINE)),
        ("coordinator-stats --coordinator-id 0", re.compile(COORDINATOR)),
        ("coordinator-stats --coordinator-id 9", re.compile(NO_COORDINATOR)),
        (f"transaction-metadata {number(world.open)}", metadata),
        (f"transaction-metadata {number(world.aborted)}", not_found(world.aborted)),
        ("slow-transactions --time 1s", re.compile(re.escape(in_text))),
        ("slow-transactions --time 1h --coordinator-id 0", NOTHING),
        (f"transaction-buffer-stats {at}", buffer),
        (f"transaction-buffer-stats {at}-none", re.compile(f"Reason: Topic not found {topic}-none")),
        (f"transaction-in-buffer-stats {at} {number(world.open)}", produced),
        (f"transaction-in-buffer-stats {at} {number(world.aborted)}", {"aborted": True}),
        (f"transaction-in-buffer-stats {at} {number(world.committed)}", {"aborted": False}),
        (f"pending-ack-stats {of_subscription}", {"state": "Ready", "ongoingTxnSize": 1, **recovered}),
        (f"transaction-in-pending-ack-stats {of_subscription} {number(world.open)}", {}),
        (f"position-stats-in-pending-ack {position}", NOTHING),  # whatever the broker says
        ("scale-transactionCoordinators --replicas 1", re.compile(NEVER_FEWER)),
    ]


def cleaned(printed: str) -> str:
    """With `TIME` for every time."""
    return re.sub(r'("?[a-zA-Z]*Time[a-z]*"?)( : |=)\d+', rf"\g<1>\g<2>{TIME}", printed)


def test_commands_print_what_they_print_on_apache_pulsar(broker: Broker, world: World, tmp_path: Path) -> None:
    # covers TX-22
    rows = commands_and_answers(world)
    all_done = run(broker.admin_url, [f"transactions {command}" for command, _ in rows], tmp_path)
    for done, (_, answer) in zip(all_done, rows, strict=True):
        printed = cleaned(done.printed)
        if isinstance(answer, dict):
            assert json.loads(printed) == answer, done.command
        elif isinstance(answer, str):
            assert printed == answer, done.command
        else:
            assert answer.search(printed), done


def test_a_transaction_is_aborted(broker: Broker, java: Java, client: JavaClient, world: World, tmp_path: Path) -> None:
    # covers TX-22
    abort = f"transactions abort-transaction {number(world.open)}"
    first, again = run(broker.admin_url, [abort, abort], tmp_path)
    assert first.printed == NOTHING
    assert not_found(world.open).search(again.printed), again
    with pytest.raises(Py4JJavaError) as refused:
        world.open.commit().get()
    assert "TransactionNotFoundException" in str(refused.value.java_exception.toString())
    came = {client.receive(world.consumer).getValue() for _ in range(2)}
    assert came == {"acknowledged", "committed"}
    assert world.consumer.receive(QUIET_MS, java.jvm.java.util.concurrent.TimeUnit.MILLISECONDS) is None


@pytest.mark.ours_only("TX-22")
def test_internal_statistics_say_why_there_are_none(broker: Broker, world: World, tmp_path: Path) -> None:
    # covers TX-22
    commands = (
        "coordinator-internal-stats --coordinator-id 0",
        f"pending-ack-internal-stats --topic {world.topic} --subscription-name s",
        f"buffer-snapshot-internal-stats --topic {world.topic}",
    )
    for done in run(broker.admin_url, (f"transactions {each}" for each in commands), tmp_path):
        assert "transactions are records of the journal" in done.printed.partition("Reason: ")[2], done
