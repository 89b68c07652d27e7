"""Cases where StreamNative's connector fails or surprises, and what is expected here; README.md lists all of them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_pulsar.connector.micro_batches.offset_planner import OffsetPlanner
from spark_pulsar.connector.options.parsing import parse_options
from tests.brokers import Broker, topic_path
from tests.eventually import eventually
from tests.spark.flows import BATCHED, Flows, texts, values

TXN_COMMIT = 22
"""A marker of Apache Pulsar's transactions, which no client is sent."""


def send_with_markers(flows: Flows, topic: str, values_and_markers: list[str | None]) -> None:
    """Publish values, and a marker for each None, as a broker does."""
    raw = flows.broker.raw()
    raw.request("LOOKUP", topic=topic)
    assert raw.request("PRODUCER", topic=topic, producer_id=1).type == "PRODUCER_SUCCESS"
    # Our broker takes none from clients that say so; one that is not told apart is delivered, to be passed over.
    said = {"marker": True} if flows.broker.kind == "apache-pulsar" else {}
    marker = {"marker_type": TXN_COMMIT, "txnid_least_bits": 1, "txnid_most_bits": 1}
    for number, value in enumerate(values_and_markers):
        if value is None:
            raw.send_message(1, number, b"", metadata=marker, **said)
        else:
            raw.send_message(1, number, value.encode())
        raw.expect("SEND_RECEIPT")
    raw.close()


def test_markers_are_no_gap_and_no_rows(flows: Flows) -> None:
    # covers OFFSET-4
    topic, checkpoint = flows.broker.topic("markers"), flows.checkpoint()
    send_with_markers(flows, topic, [None, "a", None, "b", None, None, "c", None])
    assert values(flows.batch(topic, pollTimeoutMs=20_000).collect()) == ["a", "b", "c"]
    frame = flows.stream(topic, maxMessagesPerTrigger=2, pollTimeoutMs=20_000)
    assert [values(batch) for batch in flows.drain(frame, checkpoint) if batch] == [["a", "b"], ["c"]]
    send_with_markers(flows, topic, [None, "d", None])
    assert [values(batch) for batch in flows.drain(frame, checkpoint) if batch] == [["d"]]


def test_latest_reads_no_old_row_with_available_now_either(flows: Flows) -> None:
    # covers OFFSET-2
    topic, checkpoint = flows.broker.topic("latest-now"), flows.checkpoint()
    flows.send(topic, texts(25), **BATCHED)
    frame = flows.stream(topic, startingOffsets="latest")
    assert sum(map(len, flows.drain(frame, checkpoint))) == 0
    flows.send(topic, texts(13, 25), **BATCHED)
    assert [value for batch in flows.drain(frame, checkpoint) for value in values(batch)] == texts(13, 25)


def test_a_new_query_starts_where_it_says_and_not_at_the_cursor(flows: Flows) -> None:
    # covers OFFSET-12
    topic = flows.broker.topic("fresh")
    wire = flows.wire()
    flows.send(topic, texts(4))
    wire.ensure_subscription([topic], "mine", initial="earliest")
    before = wire.cursor_positions([topic], "mine")[topic]
    base = {"service.url": flows.broker.service_url, "topic": topic, "subscriptionName": "mine"}
    latest = OffsetPlanner(wire, parse_options(base))
    start = latest.initial()
    assert start.positions[topic].message_id.position == wire.end_positions([topic])[topic].position
    assert wire.cursor_positions([topic], "mine")[topic] == before  # a start alone passes nothing over
    flows.send(topic, texts(2, 4))
    end = latest.latest(start, None)
    latest.commit(end)
    assert wire.cursor_positions([topic], "mine")[topic].position == end.positions[topic].message_id.position
    again = OffsetPlanner(wire, parse_options(base | {"startingOffsets": "earliest"}))
    [work] = again.ranges(again.initial(), again.latest(again.initial(), None))
    assert work.start[:2] < start.positions[topic][:2]
    assert wire.cursor_positions([topic], "mine")[topic].position == end.positions[topic].message_id.position


def test_no_partition_keeps_a_subscription(flows: Flows) -> None:
    # covers READ-2
    topic = flows.broker.topic("partitioned-traces", partitions=2)
    flows.send(topic, texts(8))
    frame = flows.stream(topic)
    seen: list[set[str]] = []

    def look(batch: DataFrame, _: int) -> None:
        batch.count()
        seen.append(durable(flows, topic))

    writer = frame.writeStream.foreachBatch(look).option("checkpointLocation", flows.checkpoint())
    assert flows.start(writer.trigger(availableNow=True)).awaitTermination(120)
    assert flows.batch(topic).count() == 8
    assert seen
    assert set().union(*seen, durable(flows, topic)) == set()


def durable(flows: Flows, topic: str) -> set[str]:
    """Durable subscriptions of the partitions of a topic."""
    found = set()
    for partition in flows.wire().partitions_of(topic):
        status, stats = flows.broker.rest("GET", f"{topic_path(partition)}/stats")
        assert status == 200, (status, stats)
        found |= {name for name, one in stats["subscriptions"].items() if one.get("durable", one.get("isDurable"))}
    return found


def test_topics_of_one_name_on_two_clusters_are_two(flows: Flows, own_broker: Broker, tmp_path: Path) -> None:
    # covers READ-8
    topic, other = flows.broker.topic("twin"), Flows(flows.spark, own_broker, tmp_path / "other")
    flows.send(topic, texts(3, prefix="here"))
    other.send(topic, texts(4, prefix="there"))
    here, there = (each.stream(topic, subscriptionName="mine", smallBatchMaxMessages=0) for each in (flows, other))
    checkpoints = flows.checkpoint(), flows.checkpoint()
    for first in (0, 10):
        assert sorted(values(flows.batch(topic).collect()))[:1] == ["here0"]
        assert sorted(values(other.batch(topic).collect()))[:1] == ["there0"]
        both = [flows.drain(frame, at) for frame, at in zip((here, there), checkpoints, strict=True)]
        read = [[value for batch in batches for value in values(batch)] for batches in both]
        assert read == [texts(3, first, "here"), texts(4, first, "there")]
        flows.send(topic, texts(3, 10, "here"))
        other.send(topic, texts(4, 10, "there"))
    for each in (flows, other):
        behind = each.wire().cursor_positions([topic], "mine")[topic].position
        assert behind < each.wire().end_positions([topic])[topic].position


@pytest.mark.spark_alone
def test_times_are_written_in_milliseconds_and_properties_as_any_map(flows: Flows) -> None:
    # covers SINK-1
    topic = flows.broker.topic("types")
    columns = "'x' AS value, timestamp'2013-01-01 03:24:00.123987' AS __eventTime, map('a', 'b') AS __messageProperties"
    frame = flows.spark.sql(f"SELECT {columns}")
    assert frame.schema["__messageProperties"].dataType.jsonValue()["valueContainsNull"] is False
    flows.write(frame, topic)
    flows.write(frame.withColumn("__eventTime", F.lit(1_357_010_640_123)), topic)
    messages = flows.receive(topic)
    assert [message.event_timestamp() for message in messages] == [1_357_010_640_123] * 2
    assert [message.properties() for message in messages] == [{"a": "b"}] * 2
    none = frame.withColumn("__messageProperties", F.expr("map('a', CAST(NULL AS string))"))
    with pytest.raises(PythonException, match="the property 'a' is null"):
        flows.write(none, topic)


@pytest.mark.spark_alone
def test_no_option_is_ignored(flows: Flows) -> None:
    # covers READ-7
    with pytest.raises(AnalysisException, match=r"(?i)option failOnDataLos;.*did you mean failOnDataLoss\?"):
        flows.stream("t", failOnDataLos=1)


class Gate:
    """A foreachBatch function whose second micro-batch waits until it is let go."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.reached, self.go_on = threading.Event(), threading.Event()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        self.rows += values(batch.collect())
        if batch_id == 1:
            self.reached.set()
            self.go_on.wait(120)


@pytest.mark.parametrize("fail_on_data_loss", ["true", pytest.param("false", marks=pytest.mark.long)])
def test_messages_that_expire_under_a_running_query_are_told(rolling: Flows, fail_on_data_loss: str) -> None:
    # covers OFFSET-9
    topic, gate = rolling.broker.topic("expired"), Gate()
    rolling.send(topic, [])
    rolling.wire().ensure_subscription([topic], "mine")
    rolling.send(topic, texts(60))
    # Without rows that were read ahead, which expiry does not take back.
    options: dict[str, Any] = {"maxMessagesPerTrigger": 10, "smallBatchMaxMessages": 0, "subscriptionName": "mine"}
    frame = rolling.stream(topic, failOnDataLoss=fail_on_data_loss, **options)
    query = rolling.start(frame.writeStream.foreachBatch(gate).option("checkpointLocation", rolling.checkpoint()))
    assert gate.reached.wait(120)
    last = ledgers(rolling, topic)[-1]

    def expired() -> bool:
        # What time to live does, at once: the cursor of a subscription is moved over what is older.
        rolling.broker.rest("POST", f"{topic_path(topic)}/subscription/mine/expireMessages/1")
        rolling.broker.rest("POST", f"{topic_path(topic)}/trim")
        return ledgers(rolling, topic)[0] == last

    eventually(expired, 60)
    rolling.send(topic, texts(5, 60))
    gate.go_on.set()
    if fail_on_data_loss == "true":
        with pytest.raises(StreamingQueryException, match=f"DataLossError.*{topic}"):
            query.awaitTermination(120)
        return
    eventually(lambda: gate.rows[-1] == "m64", 120)
    left = gate.rows[20:]
    assert gate.rows[:20] == texts(20)
    assert left == texts(len(left), 65 - len(left))  # from the first that is left, none passed over
    assert 5 <= len(left) <= 15


def ledgers(flows: Flows, topic: str) -> list[int]:
    """Ids of the ledgers that a topic has."""
    status, answer = flows.broker.rest("GET", f"{topic_path(topic)}/internalStats")
    assert status == 200, (status, answer)
    return [ledger["ledgerId"] for ledger in answer["ledgers"]]
