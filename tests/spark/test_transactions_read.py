"""Topics with transactions are read: nothing of open and aborted ones, everything else one time, and no read waits."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.model.positions.ids import TransactionId
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.eventually import eventually
from tests.spark.flows import Collected, Flows, texts, values
from tests.spark.test_limits import Run
from tests.spark.test_splitting import parts
from tests.spark.versions import SPARK, offset_of

TIMEOUT_MS = 600_000


def send(client: PulsarClient, topic: str, payloads: Iterable[str], transaction: TransactionId | None = None) -> None:
    """Publishes one entry for each payload."""
    if transaction is not None:
        client.add_partitions(transaction, [topic])
    with client.publisher(topic, transaction=transaction) as publisher:
        for payload in payloads:
            publisher.send(MessageMetadata(partition_key=payload), payload.encode())


def transact(client: PulsarClient, topic: str, payloads: Iterable[str], *, commit: bool) -> None:
    """Publishes in a transaction of its own."""
    transaction = client.open_transaction(0, TIMEOUT_MS)
    send(client, topic, payloads, transaction)
    client.end_transaction(transaction, commit=commit)


def history(client: PulsarClient, topic: str, size: int = 5) -> list[str]:
    """Fills a topic with all kinds of entries; what is to be read of them, in order. It ends with aborted ones."""
    send(client, topic, texts(size, prefix="plain"))
    transact(client, topic, texts(size, prefix="aborted"), commit=False)
    transact(client, topic, texts(size, prefix="committed"), commit=True)
    first, second = (client.open_transaction(0, TIMEOUT_MS) for _ in range(2))
    for number in range(size):
        send(client, topic, [f"first{number}"], first)
        send(client, topic, [f"between{number}"])
        send(client, topic, [f"second{number}"], second)
    client.end_transaction(second, commit=True)
    client.end_transaction(first, commit=False)
    empty = client.open_transaction(0, TIMEOUT_MS)
    client.add_partitions(empty, [topic])
    client.end_transaction(empty, commit=True)
    transact(client, topic, texts(3 * size, prefix="late"), commit=False)
    mixed = [f"{name}{number}" for number in range(size) for name in ("between", "second")]
    return [*texts(size, prefix="plain"), *texts(size, prefix="committed"), *mixed]


LIMITS: list[dict[str, Any]] = [
    {},
    {"maxMessagesPerTrigger": 3},
    {"maxBytesPerTrigger": 300},
    {"minPartitions": 4},
    {"maxMessagesPerTrigger": 7, "maxRecordsPerPartition": 2},
    {"minMessagesPerTrigger": 4},
]


def read_on(
    flows: Flows, topic: str, start: SourceOffset | None = None, **limits: Any
) -> tuple[list[str], SourceOffset]:
    """The rows up to the end of the topic in micro-batches of a query without Spark, and the offset there."""
    run = Run(flows, topic, **limits)
    run.planner.freeze()
    run.at = run.at if start is None else start
    rows: list[str] = []
    while True:
        before = run.at
        rows += run.next()
        if run.at is before:
            return rows, run.at


def read_batch(flows: Flows, topic: str, **options: Any) -> list[str]:
    """The rows of the tasks of a batch read."""
    return [row for part in parts(flows, topic, **options) for row in part]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_micro_batches_have_what_is_committed(flows: Flows, limits: dict[str, Any]) -> None:
    # covers TXN-7
    topic, client = flows.broker.topic(), flows.wire()
    expected = history(client, topic)
    rows, end = read_on(flows, topic, **limits)
    assert rows == expected
    assert read_on(flows, topic, end, **limits) == ([], end)
    transact(client, topic, ["gone"], commit=False)
    send(client, topic, ["new"])
    transact(client, topic, ["newer"], commit=True)
    assert read_on(flows, topic, end, **limits)[0] == ["new", "newer"]


@pytest.mark.parametrize(
    "limits",
    [{}, pytest.param({"maxMessagesPerTrigger": 7, "smallBatchMaxMessages": 0}, marks=pytest.mark.long)],
    ids=str,
)
def test_a_stream_reads_what_is_committed(flows: Flows, limits: dict[str, Any]) -> None:
    # covers TXN-7
    topic, client = flows.broker.topic(), flows.wire()
    expected = history(client, topic)
    checkpoint = flows.checkpoint()
    batches = flows.drain(flows.stream(topic, **limits), checkpoint)
    assert [value for batch in batches for value in values(batch)] == expected
    assert flows.drain(flows.stream(topic, **limits), checkpoint) == []
    transact(client, topic, ["gone"], commit=False)
    send(client, topic, ["new"])
    transact(client, topic, ["newer"], commit=True)
    batches = flows.drain(flows.stream(topic, **limits), checkpoint)
    assert [value for batch in batches for value in values(batch)] == ["new", "newer"]


def test_a_batch_read_yields_what_is_committed(flows: Flows) -> None:
    # covers TXN-7
    topic, only_aborted, client = flows.broker.topic(), flows.broker.topic(), flows.wire()
    expected = history(client, topic)
    transact(client, only_aborted, texts(5), commit=False)
    limits: list[dict[str, Any]] = [{}, {"minPartitions": 7}, {"maxRecordsPerPartition": 2}]
    for each in limits:
        assert read_batch(flows, topic, **each) == expected
        assert read_batch(flows, only_aborted, **each) == []
    assert sorted(values(flows.batch(topic, minPartitions=7).collect())) == sorted(expected)
    assert values(flows.batch(only_aborted).collect()) == []


def test_a_read_may_begin_and_end_anywhere(flows: Flows) -> None:
    # covers TXN-7
    topic, client = flows.broker.topic(), flows.wire()
    expected = history(client, topic, 2)
    last = client.last_message_id(topic)
    assert last is not None
    rows = flows.batch(topic, metadataColumns="__entryId").collect()
    entries = dict(zip((row["__entryId"] for row in rows), values(rows), strict=True))
    assert list(entries.values()) == expected
    for at in range(last.entry_id + 2):
        place = json.dumps({topic: f"{last.ledger_id}:{at}:-1:-1"})
        before = [value for entry, value in entries.items() if entry < at]
        assert read_batch(flows, topic, endingOffsets=place) == before
        assert read_batch(flows, topic, startingOffsets=place) == expected[len(before) :]


def test_an_open_transaction_ends_a_read_and_hides_what_is_behind_it(flows: Flows) -> None:
    # covers TXN-7
    topic, client, checkpoint = flows.broker.topic(), flows.wire(), flows.checkpoint()
    send(client, topic, texts(3))
    transaction = client.open_transaction(0, TIMEOUT_MS)
    send(client, topic, texts(3, prefix="open"), transaction)
    send(client, topic, texts(3, prefix="behind"))
    assert values(flows.batch(topic).collect()) == texts(3)
    assert [values(batch) for batch in flows.drain(flows.stream(topic), checkpoint)] == [texts(3)]
    assert flows.drain(flows.stream(topic), checkpoint) == []
    client.end_transaction(transaction, commit=True)
    expected = [*texts(3, prefix="open"), *texts(3, prefix="behind")]
    assert [values(batch) for batch in flows.drain(flows.stream(topic), checkpoint)] == [expected]


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({}, marks=pytest.mark.long),
        {"maxMessagesPerTrigger": 2, "smallBatchMaxMessages": 0, "subscriptionName": "job"},
    ],
    ids=str,
)
def test_a_query_that_runs_goes_on_when_transactions_end(flows: Flows, limits: dict[str, Any]) -> None:
    # covers TXN-7
    topic, client, seen = flows.broker.topic(partitions=2), flows.wire(), Collected()
    partitions = client.partitions_of(topic)
    writer = flows.stream(topic, **limits).writeStream.foreachBatch(seen)
    query = flows.start(writer.option("checkpointLocation", flows.checkpoint()))
    expected: list[str] = []
    for number, commit in enumerate((True, False, False, True)):
        transaction = client.open_transaction(0, TIMEOUT_MS)
        for side, partition in enumerate(partitions):
            send(client, partition, texts(3, prefix=f"{number}-{side}-in"), transaction)
            send(client, partition, texts(2, prefix=f"{number}-{side}-behind"))
            expected += texts(2, prefix=f"{number}-{side}-behind")
            expected += texts(3, prefix=f"{number}-{side}-in") if commit else []
        client.end_transaction(transaction, commit=commit)
        eventually(lambda: len(seen.all) >= len(expected), 60)  # noqa: B023 it is called at once
        query.processAllAvailable()
        assert sorted(seen.all) == sorted(expected)
    assert query.exception() is None
    if SPARK >= (4, 2):  # SPARK-4: older ones request no lag
        assert offset_of(query.lastProgress.sources[0], "latestOffset")["lag"]["messages"] == 0


def test_a_query_that_starts_at_the_latest_reads_what_is_open_then(flows: Flows) -> None:
    # covers TXN-7
    topic, client, seen = flows.broker.topic(), flows.wire(), Collected()
    send(client, topic, texts(3))
    transaction = client.open_transaction(0, TIMEOUT_MS)
    send(client, topic, ["open"], transaction)
    writer = flows.stream(topic, startingOffsets="latest").writeStream.foreachBatch(seen)
    query = flows.start(writer.option("checkpointLocation", flows.checkpoint()))
    query.processAllAvailable()
    client.end_transaction(transaction, commit=True)
    send(client, topic, ["behind"])
    eventually(lambda: seen.all == ["open", "behind"], 60)


@pytest.mark.parametrize("limits", [{}, {"maxMessagesPerTrigger": 9}, {"minPartitions": 4}], ids=str)
def test_ledgers_of_aborted_messages_alone_are_no_loss(rolling: Flows, limits: dict[str, Any]) -> None:
    # covers TXN-7
    topic, client, limits = rolling.broker.topic(), rolling.wire(), limits | {"subscriptionName": "job"}
    client.publisher(topic).close()
    client.ensure_subscription([topic], "job", "earliest")
    send(client, topic, texts(15))
    rows, end = read_on(rolling, topic, **limits)
    assert rows == texts(15)
    transact(client, topic, texts(45, prefix="aborted"), commit=False)
    assert read_on(rolling, topic, end, **limits)[0] == []
    transact(client, topic, texts(25, prefix="committed"), commit=True)
    transact(client, topic, texts(45, prefix="aborted"), commit=False)
    send(client, topic, ["last"])
    transact(client, topic, texts(35, prefix="aborted"), commit=False)
    rows, end = read_on(rolling, topic, end, **limits)
    assert rows == [*texts(25, prefix="committed"), "last"]
    assert read_on(rolling, topic, end, **limits) == ([], end)


def test_reads_by_time_find_their_place_among_aborted_messages(flows: Flows) -> None:
    # covers TXN-7
    topic, client = flows.broker.topic(), flows.wire()
    send(client, topic, texts(3))
    transact(client, topic, texts(20, prefix="aborted"), commit=False)
    send(client, topic, ["later"])
    rows = flows.batch(topic).selectExpr("value", "unix_millis(__publishTime) AS t")
    times = {bytes(row["value"]).decode(): row["t"] for row in rows.collect()}
    between = (times["m2"] + times["later"]) // 2 + 1
    assert times["m2"] < between <= times["later"]
    assert values(flows.batch(topic, startingTime=between).collect()) == ["later"]
    assert values(flows.batch(topic, endingTime=between).collect()) == texts(3)


def test_a_compacted_read_leaves_out_what_was_aborted(flows: Flows) -> None:
    # covers TXN-7
    topic, client = flows.broker.topic(), flows.wire()
    expected = history(client, topic, 3)
    assert sorted(values(flows.batch(topic, readCompacted=True).collect())) == sorted(expected)
