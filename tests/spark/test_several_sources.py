"""Queries with several sources: named ones that change places, a backfill beside a live stream, views of streams."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import spark_pulsar
from tests.spark.flows import Flows, texts, values
from tests.spark.versions import SPARK, needs_spark

SETTINGS = {"spark.sql.streaming.queryEvolution.enableSourceEvolution": "true"}
if SPARK < (4, 3):  # 4.2 keeps offsets by name in the second form of its log alone, and writes the first by default
    SETTINGS["spark.sql.streaming.offsetLog.formatVersion"] = "2"


@pytest.fixture
def evolving(flows: Flows) -> Iterator[Flows]:
    """Flows of a session where sources need names."""
    for key, value in SETTINGS.items():
        flows.spark.conf.set(key, value)
    yield flows
    for key in SETTINGS:
        flows.spark.conf.unset(key)


def drained(flows: Flows, frame: DataFrame, checkpoint: str) -> list[str]:
    return sorted(value for batch in flows.drain(frame, checkpoint) for value in values(batch))


@needs_spark("4.2", "READ-46")
def test_named_sources_change_places_come_go_and_return(evolving: Flows) -> None:
    # covers READ-46
    flows, checkpoint = evolving, evolving.checkpoint()
    topics = {name: flows.broker.topic(name) for name in "abc"}

    def united(names: str) -> DataFrame:
        frames = []
        for name in names:
            reader = flows.spark.readStream.format("pulsar").name(name)
            frames.append(flows._options(reader, topics[name], {"startingOffsets": "earliest"}).load().select("value"))
        first, *others = frames
        for frame in others:
            first = first.union(frame)
        return first

    def sent(number: int) -> None:
        for name, topic in topics.items():
            flows.send(topic, [f"{name}{number}"])

    sent(1)
    assert drained(flows, united("ab"), checkpoint) == ["a1", "b1"]
    sent(2)
    assert drained(flows, united("ba"), checkpoint) == ["a2", "b2"]
    sent(3)
    assert drained(flows, united("cba"), checkpoint) == ["a3", "b3", "c1", "c2", "c3"]
    sent(4)
    assert drained(flows, united("ca"), checkpoint) == ["a4", "c4"]
    sent(5)
    assert drained(flows, united("abc"), checkpoint) == ["a5", "b4", "b5", "c5"]
    topics["d"] = topics.pop("a")  # another name begins anew, and the others go on
    assert drained(flows, united("cbd"), checkpoint) == ["a1", "a2", "a3", "a4", "a5"]


def test_a_backfill_and_a_live_stream_meet(flows: Flows) -> None:
    # covers READ-47
    topic, archive = flows.broker.topic("live", partitions=2), flows.broker.topic("archive")
    flows.send(topic, texts(20))
    flows.send(archive, texts(10, prefix="old"))
    ends = flows.batch(topic).groupBy("__topic").agg(F.max_by("__messageId", "__publishTime").alias("id")).collect()
    offsets = spark_pulsar.starting_offsets({row["__topic"]: bytes(row["id"]) for row in ends}, after=True)
    flows.send(topic, texts(20, first=20))
    backfill = flows.batch(topic, endingOffsets=offsets)
    live = flows._options(flows.spark.readStream.format("pulsar"), topic, {"startingOffsets": offsets})
    checkpoint = flows.checkpoint()
    assert sorted(values(backfill.collect())) == sorted(texts(20))
    assert drained(flows, live.load(), checkpoint) == sorted(texts(20, first=20))
    with pytest.raises(AnalysisException, match=r"[Uu]nion between streaming and batch"):
        flows.drain(backfill.union(live.load()), flows.checkpoint())
    both, united = flows.stream(archive).union(live.load()), flows.checkpoint()
    assert drained(flows, both, united) == sorted([*texts(10, prefix="old"), *texts(20, first=20)])
    flows.send(topic, texts(3, first=40))
    assert drained(flows, both, united) == sorted(texts(3, first=40))


def test_a_view_of_a_stream_is_a_stream(flows: Flows) -> None:
    # covers READ-47
    topic = flows.broker.topic("view")
    flows.send(topic, texts(5))
    flows.stream(topic).createOrReplaceTempView("stream_of_view")
    checkpoint = flows.checkpoint()
    table = flows.spark.readStream.table("stream_of_view")
    assert drained(flows, table.where("STRING(value) <> 'm1'"), checkpoint) == ["m0", "m2", "m3", "m4"]
    flows.send(topic, texts(1, first=5))
    name = "STREAM stream_of_view" if SPARK >= (4, 1) else "stream_of_view"  # 4.0 has no such words
    assert drained(flows, flows.spark.sql(f"SELECT value FROM {name}"), checkpoint) == ["m5"]
    options = f"service.url '{flows.broker.service_url}', topic '{topic}'"
    flows.spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW batch_of_view USING pulsar OPTIONS ({options})")
    with pytest.raises(AnalysisException, match="not a temp view of streaming logical plan"):
        flows.spark.readStream.table("batch_of_view").isStreaming  # noqa: B018
