"""`spark.readStream.format("pulsar")`: no row twice, none missing, whatever happens in between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

import spark_pulsar
from tests.eventually import eventually
from tests.spark.flows import BATCHED, UNBATCHED, Collected, Flows, texts, values
from tests.spark.test_data_loss import Run
from tests.spark.versions import needs_spark


def follow(flows: Flows, frame: DataFrame, checkpoint: str, sink: Any) -> StreamingQuery:
    return flows.start(frame.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint))


def offsets(checkpoint: str, batch_id: int) -> dict[str, Any]:
    lines = (Path(checkpoint) / "offsets" / str(batch_id)).read_text().splitlines()
    loaded: dict[str, Any] = json.loads(lines[2])
    return loaded


def test_rows_are_followed_as_they_come(flows: Flows) -> None:
    topic = flows.broker.topic("follow")
    flows.send(topic, texts(5))
    sink = Collected()
    query = follow(flows, flows.stream(topic), flows.checkpoint(), sink)
    eventually(lambda: len(sink.all) == 5, 120)
    flows.send(topic, texts(25, 5), **BATCHED)
    eventually(lambda: len(sink.all) >= 30, 120)
    flows.send(topic, texts(1, 30))
    eventually(lambda: len(sink.all) >= 31, 120)
    query.stop()
    assert sink.all == texts(31)


@pytest.mark.versions
def test_a_stream_starts_at_latest_by_default(flows: Flows) -> None:
    # covers OFFSET-2
    topic = flows.broker.topic("latest")
    flows.send(topic, texts(13), **BATCHED)
    sink = Collected()
    reader = (
        flows.spark.readStream.format("pulsar").option("service.url", flows.broker.service_url).option("topic", topic)
    )
    query = follow(flows, reader.load(), flows.checkpoint(), sink)
    eventually(lambda: query.lastProgress is not None and query.lastProgress["batchId"] >= 0, 120)
    flows.send(topic, texts(3, 13), **BATCHED)
    eventually(lambda: len(sink.all) >= 3, 120)
    assert sink.all == texts(3, 13)


def test_a_stream_starts_at_a_time(flows: Flows) -> None:
    topic, begin_ms = flows.broker.topic("since"), 1_790_000_000_000
    flows.send_at(topic, {"a": begin_ms, "b": begin_ms + 10})
    since = {"startingTime": str(begin_ms + 10), "subscriptionName": "since"}
    run = Run(flows, topic, **since)
    end, rows = run.next(run.planner.initial())
    assert rows == ["b"]
    flows.send_at(topic, {"late": begin_ms + 1})
    assert Run(flows, topic, **since).next(end)[1] == ["late"]  # the checkpoint wins


def test_a_stream_that_starts_at_a_time_to_come_reads_what_comes_next(flows: Flows) -> None:
    # covers OFFSET-3
    topic, checkpoint = flows.broker.topic("future"), flows.checkpoint()
    flows.send(topic, ["before"])
    frame = flows.stream(topic, startingTime=32_503_680_000_000)
    assert flows.drain(frame, checkpoint) == [[]]  # where it began is in the checkpoint
    flows.send(topic, ["after"])
    assert [values(batch) for batch in flows.drain(frame, checkpoint)] == [["after"]]


@pytest.mark.versions
def test_a_restart_goes_on_at_the_message(flows: Flows) -> None:
    # covers OFFSET-1
    topic, checkpoint = flows.broker.topic("restart"), flows.checkpoint()
    flows.send(topic, texts(25), **BATCHED)
    frame = flows.stream(topic, maxMessagesPerTrigger=7)
    first = flows.drain(frame, checkpoint)
    assert [len(batch) for batch in first] == [7, 7, 7, 4]
    flows.send(topic, texts(4, 25), **BATCHED)
    second = flows.drain(frame, checkpoint)
    assert [value for batch in first + second for value in values(batch)] == texts(29)
    assert flows.drain(frame, checkpoint) == []


def test_latest_is_where_the_query_first_started(flows: Flows) -> None:
    # covers OFFSET-1: a restart between offsets/0 and commits/0 while latest moves on
    topic, checkpoint = flows.broker.topic("initial"), flows.checkpoint()
    flows.send(topic, texts(7))
    frame = flows.stream(topic, startingOffsets="latest")
    sink = Collected()
    sink.fail = True
    with pytest.raises(StreamingQueryException, match="this sink fails"):
        follow(flows, frame, checkpoint, sink).awaitTermination(120)
    assert (Path(checkpoint) / "offsets" / "0").exists()
    assert not (Path(checkpoint) / "commits" / "0").exists()
    assert "initial" in offsets(checkpoint, 0)
    flows.send(topic, texts(23, 7))
    batches = flows.drain(frame, checkpoint)
    assert [value for batch in batches for value in values(batch)] == texts(23, 7)
    assert "initial" not in offsets(checkpoint, 1)


@pytest.mark.spark_alone
def test_a_replayed_batch_reads_the_same_on_other_cores(flows: Flows) -> None:
    # covers READ-18: the number of cores is no input of planning
    topic, checkpoint = flows.broker.topic("replay", partitions=3), flows.checkpoint()
    flows.send(topic, texts(60), **UNBATCHED)
    frame = flows.stream(topic, maxMessagesPerTrigger=20)
    seen: list[list[tuple[str, str]]] = []

    def fails_on_the_second(batch: DataFrame, batch_id: int) -> None:
        rows = batch.selectExpr("spark_partition_id() AS task", "__topic", "string(value) AS v").collect()
        seen.append([(f"{row['task']} {row['__topic']}", row["v"]) for row in rows])
        if batch_id == 1:
            raise RuntimeError("after reading")

    with pytest.raises(StreamingQueryException, match="after reading"):
        follow(flows, frame, checkpoint, fails_on_the_second).awaitTermination(120)
    flows.send(topic, texts(60, 60), **UNBATCHED)
    with pytest.raises(StreamingQueryException, match="after reading"):
        follow(flows, frame, checkpoint, fails_on_the_second).awaitTermination(120)
    assert len(seen) == 3
    assert seen[1] == seen[2]
    assert len(seen[1]) == 20


@pytest.mark.spark_alone
def test_available_now_with_one_row_a_batch(flows: Flows) -> None:
    # covers READ-1: limit 1 row
    topic = flows.broker.topic("one-row")
    flows.send(topic, texts(5), batching_enabled=True, batching_max_messages=3, batching_max_publish_delay_ms=60_000)
    batches = flows.drain(flows.stream(topic, maxMessagesPerTrigger=1), flows.checkpoint())
    assert [values(batch) for batch in batches] == [[text] for text in texts(5)]


def test_available_now_without_data(flows: Flows) -> None:
    # covers READ-1: no data
    topic, checkpoint = flows.broker.topic("no-data"), flows.checkpoint()
    flows.send(topic, [])
    assert sum(map(len, flows.drain(flows.stream(topic), checkpoint))) == 0
    flows.send(topic, texts(2))
    assert [values(batch) for batch in flows.drain(flows.stream(topic), checkpoint)] == [texts(2)]


@needs_spark("4.2", "SPARK-2")
def test_available_now_ends_at_what_was_there(flows: Flows) -> None:
    # covers READ-1: data arriving meanwhile
    topic, checkpoint = flows.broker.topic("meanwhile"), flows.checkpoint()
    flows.send(topic, texts(4))
    seen: list[str] = []

    def send_more(batch: DataFrame, batch_id: int) -> None:
        seen.extend(values(batch.collect()))
        flows.send(topic, texts(3, 4 + 3 * batch_id))

    frame = flows.stream(topic, maxMessagesPerTrigger=2)
    writer = (
        frame.writeStream.foreachBatch(send_more).option("checkpointLocation", checkpoint).trigger(availableNow=True)
    )
    assert flows.start(writer).awaitTermination(120)
    assert seen == texts(4)
    rest = flows.drain(frame, checkpoint)
    assert [value for batch in rest for value in values(batch)] == texts(6, 4)


@needs_spark("4.2", "SPARK-2")
@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_available_now_with_a_topic_deleted_meanwhile(flows: Flows, fail_on_data_loss: str) -> None:
    # covers READ-1: a topic deleted meanwhile
    kept, gone = flows.broker.topic("kept"), flows.broker.topic("gone")
    flows.send(kept, texts(4, prefix="k"))
    flows.send(gone, texts(4, prefix="g"))
    seen: list[str] = []

    def delete_one(batch: DataFrame, batch_id: int) -> None:
        seen.extend(values(batch.collect()))
        if batch_id == 0:
            flows.delete(gone)

    # Without rows that were read ahead, which a topic's deletion does not take back.
    options = {"maxMessagesPerTrigger": 4, "failOnDataLoss": fail_on_data_loss, "smallBatchMaxMessages": 0}
    frame = flows.stream(topics=f"{kept},{gone}", **options)
    writer = frame.writeStream.foreachBatch(delete_one).option("checkpointLocation", flows.checkpoint())
    query = flows.start(writer.trigger(availableNow=True))
    if fail_on_data_loss == "true":
        with pytest.raises(StreamingQueryException, match="Set failOnDataLoss to false"):
            query.awaitTermination(120)
    else:
        assert query.awaitTermination(120)
        assert sorted(value for value in seen if value.startswith("k")) == texts(4, prefix="k")


def test_what_was_published_first_is_read_first(flows: Flows) -> None:
    # covers READ-1
    topic, begin_ms = flows.broker.topic("oldest", partitions=2), 1_790_000_000_000
    flows.send_at(f"{topic}-partition-0", {f"a{ms}": begin_ms + ms for ms in range(40)})
    flows.send_at(f"{topic}-partition-1", {f"b{ms}": begin_ms + ms for ms in range(30, 40)})
    batches = flows.drain(flows.stream(topic, maxMessagesPerTrigger=10), flows.checkpoint())
    assert [sorted(values(batch)) for batch in batches] == [
        sorted([*texts(9, prefix="a"), "b30"]),  # one of each partition at least
        sorted([*texts(9, 9, prefix="a"), "b31"]),
        sorted([*texts(9, 18, prefix="a"), "b32"]),
        sorted([*texts(8, 27, prefix="a"), "b33", "b34"]),
        sorted([*texts(5, 35, prefix="a"), *texts(5, 35, prefix="b")]),
    ]


def test_no_partition_gets_less_than_one_message(flows: Flows) -> None:
    topic = flows.broker.topic("shared", partitions=3)
    for index, count in enumerate((40, 10, 1)):
        flows.send(f"{topic}-partition-{index}", texts(count, prefix=f"p{index}-"))
    batches = flows.drain(flows.stream(topic, maxMessagesPerTrigger=10), flows.checkpoint())
    shares = [
        [sum(value.startswith(f"p{index}-") for value in values(batch)) for index in range(3)] for batch in batches
    ]
    assert shares[0] == [8, 1, 1]
    assert [sum(share) for share in shares] == [10, 10, 10, 10, 10, 1]
    assert [sum(column) for column in zip(*shares, strict=True)] == [40, 10, 1]


@pytest.mark.long
@pytest.mark.spark_alone
def test_partitions_stay_together_whatever_the_sizes_of_their_batches(flows: Flows) -> None:
    # One of two equal partitions begins with small entries, as a producer's that starts slowly.
    topic, minute_ms = flows.broker.topic("watermark", partitions=2), 60_000
    for minute in range(24):
        message = {"event_timestamp": 1_790_000_000_000 + minute * minute_ms}
        flows.send(f"{topic}-partition-0", texts(100), message, **(UNBATCHED if minute < 6 else BATCHED))
        flows.send(f"{topic}-partition-1", texts(100), message, **BATCHED)
    counts: dict[Any, int] = {}

    def update(batch: DataFrame, _: int) -> None:
        counts.update(batch.select("window.start", "count").collect())

    frame = flows.stream(topic, maxMessagesPerTrigger=500).withWatermark("__eventTime", "1 minute")
    writer = frame.groupBy(F.window("__eventTime", "1 minute")).count().writeStream.outputMode("update")
    query = flows.follow(writer.foreachBatch(update), flows.checkpoint())
    operators = [operator for progress in query.recentProgress for operator in progress["stateOperators"]]
    assert sum(operator["numRowsDroppedByWatermark"] for operator in operators) == 0
    assert sorted(counts.values()) == [200] * 24


def test_new_partitions_are_read_from_their_start(flows: Flows) -> None:
    # covers OFFSET-11
    topic = flows.broker.topic("growing", partitions=1)
    flows.send(f"{topic}-partition-0", texts(3))
    sink = Collected()
    follow(flows, flows.stream(topic, startingOffsets="latest"), flows.checkpoint(), sink)
    eventually(lambda: 0 in sink.batches, 120)
    flows.add_partitions(topic, 2)
    flows.send(f"{topic}-partition-1", texts(4, 3))
    eventually(lambda: len(sink.all) >= 4, 120)
    assert sink.all == texts(4, 3)


def test_new_topics_of_a_pattern_are_read_from_their_start(flows: Flows) -> None:
    # covers OFFSET-11
    prefix = flows.broker.topic("family")
    local = prefix.rsplit("/", 1)[1]
    sink = Collected()
    follow(flows, flows.stream(topicsPattern=f"{local}-.*"), flows.checkpoint(), sink)
    eventually(lambda: 0 in sink.batches, 120)
    assert sink.all == []
    flows.send(f"{prefix}-a", texts(2, prefix="a"))
    eventually(lambda: len(sink.all) >= 2, 120)
    flows.send(f"{prefix}-b", texts(2, prefix="b"))
    eventually(lambda: len(sink.all) >= 4, 120)
    assert sink.all == texts(2, prefix="a") + texts(2, prefix="b")


def test_a_chunked_message_at_the_border_of_two_batches(flows: Flows) -> None:
    topic, checkpoint = flows.broker.topic("border"), flows.checkpoint()
    big = b"x" * 12_000_000
    flows.send(topic, ["first"])
    flows.send(topic, [big], chunking_enabled=True, batching_enabled=False)
    flows.send(topic, ["last"])
    batches = flows.drain(flows.stream(topic, maxMessagesPerTrigger=1), checkpoint)
    assert [[len(row["value"]) for row in batch] for batch in batches] == [[5], [len(big)], [4]]


def test_nothing_is_left_on_the_broker(flows: Flows) -> None:
    # covers READ-2
    topic = flows.broker.topic("traces")
    flows.send(topic, texts(5))
    before = flows.subscriptions(topic)
    flows.drain(flows.stream(topic, maxMessagesPerTrigger=2), flows.checkpoint())
    assert flows.batch(topic).count() == 5
    eventually(lambda: flows.subscriptions(topic) == before, 120)


def test_the_backlog_of_a_named_subscription_is_zero_after_available_now(flows: Flows) -> None:
    # covers OFFSET-10
    topic = flows.broker.topic("cursor", partitions=2)
    flows.send(topic, texts(40), **UNBATCHED)
    frame = flows.stream(topic, subscriptionName="spark-job", maxMessagesPerTrigger=15)
    flows.drain(frame, flows.checkpoint())
    flows.send(topic, texts(2, 100), **UNBATCHED)
    consumer = flows.official().subscribe(topic, "spark-job")
    received = sorted(consumer.receive(30_000).data().decode() for _ in range(2))
    assert received == texts(2, 100)
    consumer.close()


def test_a_named_subscription_follows_a_running_query(flows: Flows) -> None:
    # covers OFFSET-10
    topic = flows.broker.topic("cursor-live")
    flows.send(topic, texts(5))
    sink = Collected()
    follow(flows, flows.stream(topic, subscriptionName="live"), flows.checkpoint(), sink)
    eventually(lambda: len(sink.all) == 5, 120)
    assert "live" in flows.subscriptions(topic)
    wire = flows.wire()
    end = wire.end_positions([topic])[topic]
    eventually(lambda: wire.cursor_positions([topic], "live")[topic][:2] == end[:2], 120)


@needs_spark("4.2", "SPARK-4")
def test_progress_shows_newest_positions_and_lag(flows: Flows) -> None:
    # covers READ-4, READ-31
    topic = flows.broker.topic("progress")
    flows.send(topic, texts(10))
    frame = flows.stream(topic, maxMessagesPerTrigger=4)
    writer = frame.writeStream.format("noop").option("checkpointLocation", flows.checkpoint())
    query = flows.start(writer.trigger(availableNow=True))
    assert query.awaitTermination(120)
    reports = [json.loads(progress["sources"][0]["latestOffset"]) for progress in query.recentProgress]
    assert [report["lag"]["entries"] for report in reports][:3] == [6, 2, 0]
    assert all(list(report["positions"]) == [topic] for report in reports)
    lags = [report["lag"] for report in reports]
    assert [lag["messages"] for lag in lags][:3] == [6, 2, 0]
    assert [lag["partitions"] for lag in lags][:3] == [1, 1, 0]
    assert lags[0]["bytes"] > lags[1]["bytes"] > lags[2]["bytes"] == 0
    assert {name: lags[0][name] for name in ("messages", "entries", "bytes")} == {
        name: lags[0]["ofPartitions"][topic][name] for name in ("messages", "entries", "bytes")
    }
    told = spark_pulsar.explain(query).splitlines()  # covers READ-32
    assert told[0] == f"{query.id} is stopped"
    assert told[1] == f"reads {topic}: read to the end when the last micro-batch began"
    assert told[2].startswith("batch 2 at ")
    assert 0 < lags[0]["seconds"] < 600
    assert lags[2]["seconds"] == 0
    assert sum(progress["numInputRows"] for progress in query.recentProgress) == 10


@pytest.mark.spark_alone
def test_options_of_a_batch_read_are_refused(flows: Flows) -> None:
    query = flows.start(flows.stream("t", endingOffsets="latest").writeStream.format("noop"))
    with pytest.raises(StreamingQueryException, match="endingOffsets is for batch read only"):
        query.awaitTermination(120)
