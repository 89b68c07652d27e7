"""`deliveryGuarantee` effectively-once: what a query or job that runs again leaves out, and what is refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.spark.flows import BATCHED, Flows, texts
from tests.spark.once import begin, counted, in_foreach_batch, new_topic, uncommit

NAMESPACE = "public/once"
ONCE = {"deliveryGuarantee": "effectively-once", "repeatableRowOrder": True}
UNSORTED = {"repeatableRowOrder": False}


def sink_topic(flows: Flows, partitions: int = 0) -> str:
    """A topic that de-duplicates."""
    return new_topic(flows, NAMESPACE, partitions=partitions)


def copy(flows: Flows, frame: DataFrame, topic: str, checkpoint: str, **options: Any) -> None:
    """Writes all that there is as a stream."""
    assert begin(flows, frame, checkpoint, topic, ONCE | options).awaitTermination(180)


def test_a_micro_batch_that_runs_again_is_left_out(flows: Flows) -> None:
    # covers CONN-32
    source, topic, checkpoint = flows.broker.topic("source", partitions=2), sink_topic(flows, 3), flows.checkpoint()
    flows.send(source, texts(95), **BATCHED)
    frame = flows.stream(source, maxMessagesPerTrigger=40).select("value")
    copy(flows, frame, topic, checkpoint)
    assert uncommit(checkpoint) >= 1
    flows.send(source, texts(10, first=95))
    copy(flows, frame, topic, checkpoint)
    assert counted(flows, topic) == Counter(texts(105))


def test_writes_inside_foreach_batch_have_names(flows: Flows) -> None:
    # covers CONN-37
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
    # covers CONN-37
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


def test_rows_behind_a_shuffle_need_an_order(flows: Flows) -> None:
    # covers CONN-38
    source, topic = flows.broker.topic("source"), sink_topic(flows, 1)
    flows.send(source, texts(20))
    frame = flows.stream(source).dropDuplicates(["value"]).select("value")
    with pytest.raises(StreamingQueryException, match=r"come from a shuffle .*__sequenceId.*repeatableRowOrder"):
        copy(flows, frame, topic, flows.checkpoint(), **UNSORTED)
    assert flows.batch(topic).count() == 0
    copy(flows, frame, topic, flows.checkpoint())
    ordered = flows.stream(source, metadataColumns="__sequenceId").dropDuplicates(["value"])
    copy(flows, ordered.select("value", F.col("__sequenceId")).coalesce(1), topic, flows.checkpoint(), **UNSORTED)
    assert counted(flows, topic) == Counter(2 * texts(20))


def test_rows_of_which_a_shuffle_cannot_be_seen_need_an_order(flows: Flows) -> None:
    # covers CONN-38
    source, topic = flows.broker.topic("source"), sink_topic(flows, 1)
    flows.send(source, texts(20))
    plain, setting = flows.stream(source).select("value"), "spark.sql.adaptive.streaming.stateless.enabled"
    with pytest.raises(StreamingQueryException, match=rf"adaptive execution hides .* Set {setting} to false"):
        copy(flows, plain, topic, flows.checkpoint(), **UNSORTED)
    with pytest.raises(
        PythonException, match=r"adaptive execution hides .* Set spark\.sql\.adaptive\.enabled to false"
    ):
        flows.write(flows.rows("value string", [("a",)]), topic, **(ONCE | UNSORTED))
    flows.spark.conf.set(setting, "false")
    try:
        copy(flows, plain, topic, flows.checkpoint(), **UNSORTED)
        with pytest.raises(StreamingQueryException, match="come from a shuffle"):
            copy(flows, plain.repartition(2), topic, flows.checkpoint(), **UNSORTED)
    finally:
        flows.spark.conf.unset(setting)
    assert counted(flows, topic) == Counter(texts(20))


def test_what_cannot_be_promised_is_refused(flows: Flows) -> None:
    # covers CONN-33, CONN-38
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
