"""`deliveryGuarantee` effectively-once: what a query or job that runs again leaves out, and what is refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql import DataFrame

from tests.spark.flows import BATCHED, Flows, texts
from tests.spark.once import counted, in_foreach_batch, lose_last, new_topic, uncommit, write_all

NAMESPACE = "public/once"
ONCE = {"deliveryGuarantee": "effectively-once"}


def sink_topic(flows: Flows, partitions: int = 0) -> str:
    """A topic that de-duplicates."""
    return new_topic(flows, NAMESPACE, partitions=partitions)


def copy(flows: Flows, frame: DataFrame, topic: str, checkpoint: str, **options: Any) -> None:
    """Writes all that there is as a stream."""
    write_all(flows, frame, checkpoint, topic, ONCE | options)


@pytest.mark.versions
def test_a_micro_batch_that_runs_again_is_left_out(flows: Flows) -> None:
    # covers ONCE-1
    source, topic, checkpoint = flows.broker.topic("source", partitions=2), sink_topic(flows, 3), flows.checkpoint()
    flows.send(source, texts(95), **BATCHED)
    frame = flows.stream(source, maxMessagesPerTrigger=40).select("value")
    copy(flows, frame, topic, checkpoint)
    assert uncommit(checkpoint) >= 1
    flows.send(source, texts(10, first=95))
    copy(flows, frame, topic, checkpoint)
    assert counted(flows, topic) == Counter(texts(105))


def test_writes_inside_foreach_batch_have_names(flows: Flows) -> None:
    # covers ONCE-6
    source, topic, checkpoint = flows.broker.topic("source"), sink_topic(flows), flows.checkpoint()
    flows.send(source, texts(20))
    frame = flows.stream(source).select("value")

    run = in_foreach_batch(flows, frame, checkpoint, topic, ONCE)

    with pytest.raises(StreamingQueryException, match="inside foreachBatch needs the option producerName"):
        run("")
    run("first", "second")
    uncommit(checkpoint)
    run("first", "second")
    assert counted(flows, topic) == Counter(2 * texts(20))


def test_a_job_that_is_named_writes_its_rows_one_time(flows: Flows) -> None:
    # covers ONCE-6
    topic = sink_topic(flows, 2)
    frame = flows.spark.range(100).selectExpr("string(id) AS value", "string(id % 7) AS __key", "id AS __sequenceId")
    for _ in range(2):
        flows.write(frame, topic, producerName="nightly", **ONCE)
    assert counted(flows, topic) == Counter(texts(100, prefix=""))
    for _ in range(2):
        flows.write(frame.drop("__sequenceId"), topic, **ONCE)
    assert counted(flows, topic) == Counter(3 * texts(100, prefix=""))
    with pytest.raises(PythonException, match="a batch write with producerName needs the column __sequenceId"):
        flows.write(frame.drop("__sequenceId"), topic, producerName="nightly", **ONCE)


@pytest.mark.spark_alone
def test_rows_of_any_query_are_written_on_the_default_settings(flows: Flows) -> None:
    # covers ONCE-7, ONCE-10
    source, topic, checkpoint = flows.broker.topic("source", partitions=2), sink_topic(flows, 2), flows.checkpoint()
    flows.send(source, texts(60))
    frame = flows.stream(source).select("value")

    def write(batch: DataFrame, _: int) -> None:
        assert batch.groupBy("value").count().count() == 60  # a shuffle earlier in the thread
        flows.write(batch, topic, producerName="plain", **ONCE)
        flows.write(batch.repartition(3), topic, producerName="shuffled", **ONCE)
        moved = batch.sparkSession.createDataFrame(batch.rdd.repartition(3), batch.schema)
        flows.write(moved, topic, producerName="moved", **ONCE)

    for _ in range(2):
        writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
        assert flows.start(writer.trigger(availableNow=True)).awaitTermination(180)
        assert counted(flows, topic) == Counter(3 * texts(60))
        uncommit(checkpoint)


@pytest.mark.spark_alone
def test_rows_that_change_are_refused_and_vouched_for(flows: Flows) -> None:
    # covers ONCE-10
    source, topic, checkpoint = flows.broker.topic("source"), sink_topic(flows, 1), flows.checkpoint()
    flows.send(source, texts(20))
    frame = flows.stream(source).selectExpr("value", "uuid() AS __key")
    copy(flows, frame, topic, checkpoint)
    uncommit(checkpoint)
    changed = flows.stream(source).selectExpr("value", "concat(string(value), '!') AS __key")
    with pytest.raises(StreamingQueryException, match=r"are others now, or in another order.*repeatableRowOrder"):
        copy(flows, changed, topic, checkpoint)
    copy(flows, changed, topic, checkpoint, repeatableRowOrder=True)
    assert counted(flows, topic) == Counter(texts(20))


def test_a_micro_batch_that_is_planned_anew_is_right_or_an_error(flows: Flows) -> None:
    # covers ONCE-10, ONCE-12
    source, topic, checkpoint = flows.broker.topic("source"), sink_topic(flows, 2), flows.checkpoint()
    flows.send(source, texts(40), **BATCHED)

    def frame(**options: Any) -> DataFrame:
        return flows.stream(source, smallBatchMaxMessages=0, **options).select("value")

    copy(flows, frame(maxMessagesPerTrigger=20), topic, checkpoint)
    assert lose_last(checkpoint) == 1
    flows.send(source, texts(40, first=40), **BATCHED)
    copy(flows, frame(), topic, checkpoint)
    assert counted(flows, topic) == Counter(texts(80)), "the same rows first, and then more of them"
    assert lose_last(checkpoint) == 1
    with pytest.raises(StreamingQueryException, match=r"are others now|was planned anew|and the task has"):
        copy(flows, frame(minPartitions=4), topic, checkpoint)


def test_what_cannot_be_promised_is_refused(flows: Flows) -> None:
    # covers ONCE-2, ONCE-7
    source, plain = flows.broker.topic("source"), flows.broker.topic("plain")
    flows.send(source, texts(20))
    frame = flows.stream(source).select("value")
    with pytest.raises(StreamingQueryException, match=r"does not de-duplicate.*set-deduplication --enable public/def"):
        copy(flows, frame, plain, flows.checkpoint())
    row = flows.rows("value string", [("a",)])
    with pytest.raises(AnalysisException, match="option producerName is for deliveryGuarantee effectively-once or"):
        flows.write(row, plain, producerName="x")
    for name, value in (("chunkingEnabled", True), ("batcherBuilder", "KEY_BASED")):
        with pytest.raises(AnalysisException, match=f"{name}.* effectively-once contradict each other"):
            flows.write(row, plain, **ONCE, **{name: value})
    ordered = flows.rows("value string, __sequenceId bigint", [("a", 1)])
    with pytest.raises(AnalysisException, match="batcherBuilder KEY_BASED changes the order of rows"):
        flows.write(ordered, plain, batcherBuilder="KEY_BASED")
