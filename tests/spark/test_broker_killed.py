"""A streaming query with a sink outlives the death of its broker: it waits, goes on, and no row is missing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.errors import OperationTimeout
from spark_pulsar.connector.micro_batches.offset_planner import OffsetPlanner
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.brokers import Broker, topic_path
from tests.eventually import eventually
from tests.spark.flows import Flows, texts

KILLS = 1
PATIENCE_MS = 120_000
ROWS = 4_000
"""Files of each micro-batch: writing them takes some tenths of a second."""


@pytest.fixture
def flows(spark: SparkSession, own_broker: Broker, tmp_path: Path) -> Iterator[Flows]:
    """A session as everywhere, on a broker that may be killed."""
    with Flows(spark, own_broker, tmp_path) as ready:
        yield ready


def kept_topic(flows: Flows, partitions: int = 0) -> str:
    """A topic that keeps what is written: a restart ends its ledgers, and what nobody waits for goes with them."""
    topic = flows.broker.topic("outlived", partitions=partitions)
    flows.official().subscribe(topic, "keep", initial_position=pulsar.InitialPosition.Earliest).close()
    return topic


def sink(flows: Flows, frame: DataFrame, topic: str, checkpoint: str) -> StreamingQuery:
    writer = frame.writeStream.format("pulsar").option("service.url", flows.broker.service_url).option("topic", topic)
    # Each row by itself: many are under way when the broker dies.
    writer = writer.option("batchingMaxMessages", 1).option("sendTimeoutMs", PATIENCE_MS)
    writer = writer.option("operationTimeoutMs", PATIENCE_MS)
    return flows.start(writer.option("checkpointLocation", checkpoint))


def written(query: StreamingQuery) -> int:
    """Micro-batches that are done."""
    return -1 if query.lastProgress is None else int(query.lastProgress["batchId"])


def arrived(flows: Flows, topic: str) -> int:
    """Messages that were published since the broker has loaded the topic, by its statistics."""
    kind = "partitioned-stats" if len(flows.official().get_topic_partitions(topic)) > 1 else "stats"
    status, answer = flows.broker.rest("GET", f"{topic_path(topic)}/{kind}")
    assert status == 200, (status, answer)
    return int(answer["msgInCounter"])


def kill_and_restart(flows: Flows, query: StreamingQuery, topic: str) -> None:
    """Kill the broker while the query writes, start it again, wait until the query has gone on."""
    done = written(query)
    eventually(lambda: written(query) > done, 120)
    before = arrived(flows, topic)
    eventually(lambda: arrived(flows, topic) > before, 120)
    flows.broker.kill()
    flows.broker.restart()
    done = written(query)
    eventually(lambda: not query.isActive or written(query) >= done + 2, 120)
    assert query.exception() is None
    assert query.isActive


def numbers(flows: Flows, topic: str) -> list[int]:
    return [int(row["value"]) for row in flows.batch(topic).selectExpr("string(value) AS value").collect()]


@pytest.mark.long  # as the next one, with a source that never ends
def test_rows_of_another_source_are_all_written(flows: Flows) -> None:
    topic, checkpoint = kept_topic(flows, partitions=3), flows.checkpoint()
    rate = flows.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 2)
    run = rate.load().selectExpr("string(value) AS value", "string(value) AS __key")
    query = sink(flows, run, topic, checkpoint)
    for _ in range(KILLS):
        kill_and_restart(flows, query, topic)
    query.stop()
    committed = len(list((Path(checkpoint) / "commits").glob("[0-9]*")))
    assert committed > 2 * KILLS
    found = numbers(flows, topic)
    assert set(range(ROWS * committed)) <= set(found)


def test_from_topic_to_topic(flows: Flows) -> None:
    # covers READ-9
    source, target = kept_topic(flows), kept_topic(flows)
    total = 6 * KILLS * ROWS
    flows.send(source, texts(total, prefix=""), batching_enabled=True, batching_max_messages=100)
    frame = flows.stream(source, maxMessagesPerTrigger=ROWS, subscriptionName="copy", operationTimeoutMs=PATIENCE_MS)
    query = sink(flows, frame.select("value"), target, flows.checkpoint())
    for _ in range(KILLS):
        kill_and_restart(flows, query, target)
    query.processAllAvailable()
    found = numbers(flows, target)
    assert set(found) == set(range(total))


def test_a_query_without_broker_says_which_option_sets_how_long_it_waits(flows: Flows) -> None:
    source, target = kept_topic(flows), kept_topic(flows)
    flows.send(source, ["1"])
    copied = sink(flows, flows.stream(source).select("value"), target, flows.checkpoint())
    limited = flows.stream(source, operationTimeoutMs=2_000).select("value").writeStream.format("noop")
    followed = flows.start(limited.option("checkpointLocation", flows.checkpoint()))
    for query in (copied, followed):
        eventually(lambda at=query: written(at) >= 0, 120)
    flows.broker.kill()
    try:
        with pytest.raises(StreamingQueryException, match=r"timed out after 2000 ms .*\(how long is set by operationT"):
            followed.awaitTermination(120)
        begun = time.monotonic()
        copied.stop()  # while it tries to reach the broker
        assert time.monotonic() - begun < 15
        assert copied.exception() is None
    finally:
        flows.broker.restart()


def test_partitions_of_a_broker_that_hangs_are_waited_for_together(own_broker: Broker) -> None:
    topic = own_broker.topic("hangs", partitions=12)
    base = {"service.url": own_broker.service_url, "topic": topic, "startingOffsets": "earliest"}
    with PulsarClient(ClientConfig(own_broker.service_url, operation_timeout_ms=3_000)) as client:
        for partition in client.partitions_of(topic):
            with client.publisher(partition) as publisher:
                publisher.send(MessageMetadata(), b"1")
        driver = OffsetPlanner(client, parse_options(base | {"operationTimeoutMs": "3000"}))
        start = driver.initial()
        driver.freeze()
        assert own_broker.process is not None
        os.kill(own_broker.process.pid, signal.SIGSTOP)
        try:
            begun = time.monotonic()
            with pytest.raises(OperationTimeout, match=r"how long is set by operationTimeoutMs"):
                driver.latest(start, 100)
            assert time.monotonic() - begun < 9  # not twelve times three
        finally:
            os.kill(own_broker.process.pid, signal.SIGCONT)
        end = driver.latest(start, 100)
        assert len(driver.ranges(start, end)) == 12
        driver.close()
