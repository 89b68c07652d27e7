"""What rows and options say about how they are published: delivery times, chunks, batches by key, properties."""

from __future__ import annotations

import datetime

import pulsar
import pytest
from pyspark.errors import PythonException
from pyspark.sql import functions as F

from spark_pulsar.client.clock import wall_ms
from tests.spark.flows import Flows, texts, values

EARLIEST = pulsar.InitialPosition.Earliest


def test_rows_are_delivered_late_and_the_others_at_once(flows: Flows) -> None:
    # covers SINK-5
    topic = flows.broker.topic("delayed")
    consumer = flows.official().subscribe(topic, "s", pulsar.ConsumerType.Shared, initial_position=EARLIEST)
    at = datetime.datetime.fromtimestamp(wall_ms() // 1000 + 3_600, datetime.UTC).replace(tzinfo=None)
    rows = [("far", at, None), ("late", None, 2_000), ("now", None, None)]
    flows.write(flows.rows("value string, __deliverAt timestamp, __deliverAfterMs int", rows).coalesce(1), topic)
    assert values(flows.batch(topic).collect()) == ["far", "late", "now"]
    assert consumer.receive(30_000).data() == b"now"
    assert consumer.receive(30_000).data() == b"late"
    with pytest.raises(pulsar.Timeout):
        consumer.receive(200)
    with pytest.raises(PythonException, match="__deliverAt and __deliverAfterMs"):
        flows.write(flows.rows("value string, __deliverAt timestamp, __deliverAfterMs int", [("x", at, 5)]), topic)


def test_large_rows_go_out_in_chunks_and_come_back(flows: Flows) -> None:
    # covers SINK-6, SINK-7
    topic = flows.broker.topic("chunks", partitions=2)
    frame = flows.spark.range(20, numPartitions=2).select(
        F.repeat(F.col("id").cast("string"), F.when(F.col("id") % 5 == 0, 100_000).otherwise(3)).alias("value")
    )
    settings = {"chunkingEnabled": "true", "chunkMaxMessageSize": "30000", "producerProperties": '{"team": "x"}'}
    flows.write(frame, topic, **settings)
    sent = sorted(row["value"] for row in frame.collect())
    assert sorted(message.data().decode() for message in flows.receive(topic)) == sent
    assert sorted(values(flows.batch(topic).collect())) == sent


def test_a_stream_batches_by_key(flows: Flows) -> None:
    # covers SINK-8
    source, target = flows.broker.topic("source"), flows.broker.topic("keyed", partitions=2)
    flows.send(source, texts(60))
    key = F.concat(F.lit("k"), F.substring("value", -1, 1).cast("string"))
    frame = flows.stream(source).select("value", key.alias("__key"))
    writer = frame.writeStream.format("pulsar").option("service.url", flows.broker.service_url).option("topic", target)
    writer = writer.option("batcherBuilder", "key_based").option("checkpointLocation", flows.checkpoint())
    assert flows.start(writer.trigger(availableNow=True)).awaitTermination(180)
    keys: dict[tuple[int, int, int], set[str]] = {}
    for message in flows.receive(target):
        at = message.message_id()
        keys.setdefault((at.partition(), at.ledger_id(), at.entry_id()), set()).add(message.partition_key())
    assert sorted(next(iter(found)) for found in keys.values()) == [f"k{number}" for number in range(10)]
    assert {len(found) for found in keys.values()} == {1}
