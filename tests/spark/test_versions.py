"""Streaming reads of any Spark, 4.0 and 4.1 among them: limits, restarts and triggers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.spark.flows import Collected, Flows, texts
from tests.spark.versions import until_spark

pytestmark = pytest.mark.versions


@pytest.mark.parametrize("subscription", [None, "cursor"])
def test_limits_hold_from_the_first_micro_batch_on_and_after_a_restart(flows: Flows, subscription: str | None) -> None:
    # covers SPARK-1
    topic, checkpoint = flows.broker.topic("limited"), flows.checkpoint()
    flows.send(topic, texts(7))
    named = {} if subscription is None else {"subscriptionName": subscription}
    frame = flows.stream(topic, maxMessagesPerTrigger=3, **named)
    sink = Collected()

    def run_to(count: int) -> None:
        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
        query = flows.start(writer.trigger(processingTime="0 seconds"))
        deadline = time.monotonic() + 120
        while len(sink.all) < count and query.isActive and time.monotonic() < deadline:
            query.processAllAvailable()
        query.stop()

    run_to(7)
    assert list(sink.batches.values()) == [texts(3), texts(3, 3), texts(1, 6)]
    flows.send(topic, texts(4, 7))
    Path(checkpoint, "commits", "2").unlink()
    for sum_ in Path(checkpoint, "commits").glob(".2.crc"):
        sum_.unlink()
    sink.batches.clear()
    run_to(5)
    assert sink.batches == {2: texts(1, 6), 3: texts(3, 7), 4: texts(1, 10)}


@until_spark("4.2", "SPARK-2")
def test_available_now_is_one_micro_batch(flows: Flows) -> None:
    # covers SPARK-2
    topic, checkpoint = flows.broker.topic("one"), flows.checkpoint()
    flows.send(topic, texts(5))
    sink = Collected()

    def run(**options: object) -> list[str]:
        before = len(sink.batches)
        writer = flows.stream(topic, **options).writeStream.foreachBatch(sink)
        query = flows.start(writer.option("checkpointLocation", checkpoint).trigger(availableNow=True))
        assert query.awaitTermination(120)
        return [value for batch in list(sink.batches.values())[before:] for value in batch]

    assert run(maxMessagesPerTrigger=2) == texts(2)
    assert run() == texts(3, 2)  # without a limit all there is
    flows.send(topic, texts(2, 5))
    assert run() == texts(2, 5)
    assert run() == []


@until_spark("4.2", "SPARK-2")
def test_the_wrapper_of_available_now_is_refused_at_a_restart(flows: Flows) -> None:
    # covers SPARK-2
    setting = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
    topic, checkpoint = flows.broker.topic("wrapped"), flows.checkpoint()
    flows.send(topic, texts(3))
    frame = flows.stream(topic)
    assert [len(batch) for batch in flows.drain(frame, checkpoint)] == [3]
    flows.spark.conf.set(setting, "true")
    try:
        with pytest.raises(Exception, match=r"triggerAvailableNowWrapper\.enabled is true"):
            flows.drain(frame, checkpoint)
    finally:
        flows.spark.conf.unset(setting)
