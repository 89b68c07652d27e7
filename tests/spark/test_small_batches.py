"""Small micro-batches travel with the plan; idle queries wait for news. Both without a row lost or read twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StreamingQuery

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.connector.columns import READ_COLUMNS
from spark_pulsar.connector.micro_batches.offset_planner import OffsetPlanner
from spark_pulsar.connector.micro_batches.small_batches import SmallBatches
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.connector.reading.projection import Projection
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.brokers import Broker
from tests.eventually import eventually
from tests.spark.flows import BATCHED, Collected, Flows, texts, values

VALUE = Projection(("value",))


class Seen:
    """A foreachBatch function that keeps rows and their task."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.batches: dict[int, list[Row]] = {}
        self.fails_at = fails_at

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = frame.selectExpr("*", "spark_partition_id() AS task").collect()
        if batch_id == self.fails_at:
            raise RuntimeError("after reading")

    def tasks(self, batch_id: int) -> set[int]:
        return {row["task"] for row in self.batches[batch_id]}


def follow(flows: Flows, frame: DataFrame, sink: Any, checkpoint: str | None = None) -> StreamingQuery:
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint or flows.checkpoint())
    return flows.start(writer)


def bytes_to_workers(query: StreamingQuery) -> int:
    """Bytes that were sent to Python workers, by Spark's own metric: of all queries until now, for each task of the
    scan of the last micro-batch."""
    plan = query._jsq.streamingQuery().lastExecution().executedPlan()
    return sum(
        plan.collectLeaves().apply(index).metrics().apply("pythonDataSent").value()
        for index in range(plan.collectLeaves().size())
    )


def read_all(query: StreamingQuery, count: int) -> None:
    eventually(lambda: sum(progress["numInputRows"] for progress in query.recentProgress) == count, 120)


@pytest.mark.versions
@pytest.mark.spark_alone
@pytest.mark.parametrize(("most", "by_worker"), [("5000", False), ("0", True), ("29", True)])
def test_a_small_micro_batch_needs_no_python_worker(flows: Flows, most: str, by_worker: bool) -> None:
    sent_before = bytes_of_one_task(flows)
    topic = flows.broker.topic("small", partitions=3)
    for index in range(3):
        flows.send(f"{topic}-partition-{index}", texts(10, 10 * index), **BATCHED)
    query = follow_into_nothing(flows, flows.stream(topic, smallBatchMaxMessages=most))
    read_all(query, 30)
    sent = bytes_to_workers(query)
    for total in range(60, 360, 30):
        if by_worker or sent == sent_before:
            break  # else messages came too late to go along, as they may on a busy machine
        for index in range(3):
            flows.send(f"{topic}-partition-{index}", texts(10), **BATCHED)
        read_all(query, total)
        sent_before, sent = sent, bytes_to_workers(query)
    assert (sent > sent_before) == by_worker
    assert query.lastProgress["sources"][0]["latestOffset"] is not None
    assert query.lastProgress["sources"][0]["endOffset"] is not None


def follow_into_nothing(flows: Flows, frame: DataFrame) -> StreamingQuery:
    return flows.start(frame.writeStream.format("noop").option("checkpointLocation", flows.checkpoint()))


def bytes_of_one_task(flows: Flows) -> int:
    """Bytes that were sent to Python workers until now, those of a micro-batch of one task among them."""
    topic = flows.broker.topic("one-task")
    flows.send(topic, texts(1))
    query = follow_into_nothing(flows, flows.stream(topic, smallBatchMaxMessages="0"))
    read_all(query, 1)
    query.stop()
    return bytes_to_workers(query)


def test_the_rows_are_those_of_a_batch_read(flows: Flows) -> None:
    topic = flows.broker.topic("same", partitions=2)
    flows.send(topic, texts(25), {"partition_key": "k", "properties": {"a": "1", "b": ""}}, **BATCHED)
    flows.send(topic, [None, b"", b"\xff" * 1000], {"event_timestamp": 1_790_000_000_123})
    flows.send(topic, texts(5), compression_type=pulsar.CompressionType.ZSTD, **BATCHED)
    seen = Seen()
    query = follow(flows, flows.stream(topic), seen)
    eventually(lambda: sum(map(len, seen.batches.values())) == 33, 120)
    flows.send(topic, texts(3, 40))
    eventually(lambda: sum(map(len, seen.batches.values())) == 36, 120)
    query.stop()
    names = [column.name for column in READ_COLUMNS]
    rows = [tuple(row[name] for name in names) for batch in seen.batches.values() for row in batch]
    expected = [tuple(row) for row in flows.batch(topic).select(*names).collect()]
    assert sorted(map(repr, rows)) == sorted(map(repr, expected))
    assert all(seen.tasks(batch_id) == {0} for batch_id in seen.batches)


@pytest.mark.spark_alone
def test_a_replay_has_the_same_rows_in_the_same_tasks(flows: Flows) -> None:
    topic, checkpoint = flows.broker.topic("replayed", partitions=3), flows.checkpoint()
    seen = Seen(fails_at=1)
    frame = flows.stream(topic)
    query = follow(flows, frame, seen, checkpoint)
    eventually(lambda: 0 in seen.batches or not query.isActive, 120)
    flows.send(topic, texts(60), **BATCHED)
    with pytest.raises(StreamingQueryException, match="after reading"):
        query.awaitTermination(120)
    assert not (Path(checkpoint) / "commits" / "1").exists()
    first = seen.batches.pop(1)
    flows.send(topic, texts(60, 60), **BATCHED)
    with pytest.raises(StreamingQueryException, match="after reading"):
        follow(flows, frame, seen, checkpoint).awaitTermination(120)
    assert seen.batches[1] == first
    assert seen.tasks(1) == {0}
    seen.fails_at = None
    query = follow(flows, frame, seen, checkpoint)
    eventually(lambda: sum(map(len, seen.batches.values())) >= 120, 120)
    query.stop()
    assert sorted(value for batch in seen.batches.values() for value in values(batch)) == sorted(texts(120))


def test_chunked_messages_are_left_to_tasks(flows: Flows) -> None:
    topic, big = flows.broker.topic("chunked"), b"x" * 6_000_000
    sink = Collected()
    follow(flows, flows.stream(topic), sink)
    flows.send(topic, ["first"])
    eventually(lambda: len(sink.all) == 1, 120)
    flows.send(topic, [big], chunking_enabled=True, batching_enabled=False)
    flows.send(topic, ["last"])
    eventually(lambda: len(sink.all) == 3, 120)
    assert [len(value) for value in sink.all] == [5, len(big), 4]


@pytest.mark.spark_alone
def test_sources_of_one_query_do_not_wait_for_each_other(flows: Flows) -> None:
    quiet, busy = flows.broker.topic("quiet"), flows.broker.topic("busy")
    flows.send(quiet, ["q"])
    flows.send(busy, [])
    sink = Collected()
    query = follow(flows, flows.stream(quiet).union(flows.stream(busy)), sink)
    eventually(lambda: sink.all == ["q"], 120)
    for number in range(5):
        flows.send(busy, texts(1, number))
        eventually(lambda number=number: len(sink.all) == number + 2, 120)
    query.processAllAvailable()
    assert sink.all == ["q", *texts(5)]


# ---- the planner itself


@pytest.fixture
def client(broker: Broker) -> Iterator[PulsarClient]:
    with PulsarClient(ClientConfig(service_url=broker.service_url)) as ready:
        yield ready


def options_of(broker: Broker, topic: str, **more: str) -> Options:
    return parse_options({"service.url": broker.service_url, "topic": topic, **more})


def publish(client: PulsarClient, topic: str, *payloads: bytes) -> None:
    with client.publisher(topic) as publisher:
        for payload in payloads:
            publisher.send(MessageMetadata(), payload)
        publisher.flush()


def test_a_poll_waits_and_is_woken_by_a_message(broker: Broker, client: PulsarClient) -> None:
    # covers READ-11
    topic = broker.topic("news")
    publish(client, topic, b"0")
    planner = OffsetPlanner(client, options_of(broker, topic, startingOffsets="earliest"))
    at = planner.latest(planner.initial(), None)
    polls, begun = 0, time.monotonic()
    while time.monotonic() - begun < 2:
        assert planner.latest(at, None) is at
        polls += 1
    assert polls < 25  # 200 without a wait, as Spark asks
    woken = threading.Event()

    def wait_for_news() -> None:
        while planner.latest(at, None) is at:
            pass
        woken.set()

    waiting = threading.Thread(target=wait_for_news)
    waiting.start()
    publish(client, topic, b"1")
    assert woken.wait(10)
    waiting.join(10)
    planner.close()


def test_a_query_with_other_sources_is_not_kept_waiting(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("others")
    publish(client, topic, b"0")
    planner = OffsetPlanner(client, options_of(broker, topic, startingOffsets="earliest"))
    at = planner.latest(planner.initial(), None)
    for _ in range(3):
        assert planner.latest(at, None) is at
    assert planner.tasks(at, at) == []  # a micro-batch without anything of this source, although it has waited
    begun = time.monotonic()
    for _ in range(20):
        assert planner.latest(at, None) is at
    assert time.monotonic() - begun < 3  # 20 waits would be five seconds
    planner.close()


def test_rows_are_at_hand_for_what_was_planned_alone(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("at-hand", partitions=2)
    parts = [f"{topic}-partition-{index}" for index in range(2)]
    options = options_of(broker, topic, startingOffsets="earliest")
    planner = OffsetPlanner(client, options, SmallBatches(client, options, VALUE))
    at = planner.latest(planner.initial(), None)
    for part in parts:
        publish(client, part, b"1", b"2")
    end = planner.latest(at, None)
    assert SourceOffset.from_json(end.to_json()).one_task
    [works] = planner.tasks(at, end)
    assert len(works) == 2
    rows = planner.rows(works, end)
    assert rows is not None
    assert [value for batch in rows for value in batch.column(0).to_pylist()] == [b"1", b"2", b"1", b"2"]
    after_restart = OffsetPlanner(client, options, SmallBatches(client, options, VALUE))
    assert after_restart.tasks(at, end) == [works]
    assert after_restart.rows(works, end) is None
    publish(client, parts[0], *[b"x"] * 6_000)
    large = planner.latest(end, None)
    assert not large.one_task
    assert planner.rows(works, end) is None  # passed
    planner.close()


def test_a_limit_inside_a_batch_cuts_the_rows(broker: Broker, client: PulsarClient, flows: Flows) -> None:
    topic = broker.topic("inside")
    flows.send(topic, texts(10), **BATCHED)
    options = options_of(broker, topic, startingOffsets="earliest", maxMessagesPerTrigger="3")
    planner = OffsetPlanner(client, options, SmallBatches(client, options, VALUE))
    at, found = planner.initial(), []
    for _ in range(4):
        end = planner.latest(at, 3)
        [works] = planner.tasks(at, end)
        rows = planner.rows(works, end)
        assert rows is not None
        found.append([value.decode() for batch in rows for value in batch.column(0).to_pylist()])
        at = end
    assert found == [texts(3), texts(3, 3), texts(3, 6), texts(1, 9)]
    assert ReadPosition(*at.positions[topic]) > EARLIEST
    planner.close()
