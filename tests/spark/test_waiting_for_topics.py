"""`waitingForNonExistedTopic`: a read of topics that are not there yet waits for them, and can be stopped meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming import StreamingQuery

from spark_pulsar.connector.micro_batches.offset_planner import OffsetPlanner
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.table import BATCH_READ
from spark_pulsar.connector.planning.batch_read import plan_batch
from spark_pulsar.connector.positions import EARLIEST
from spark_pulsar.model.errors import TopicNotFound
from tests.eventually import eventually
from tests.spark.flows import Collected, Flows, texts

WAITING = "waitingForNonExistedTopic"


def beside(work: Callable[[], Any], done: list[Any]) -> threading.Thread:
    """Run something in a thread; its result goes into a list."""
    thread = threading.Thread(target=lambda: done.append(work()), daemon=True)
    thread.start()
    return thread


def waiting(flows: Flows, topic: str, checkpoint: str, sink: Collected) -> StreamingQuery:
    """A query that is about to look for a topic, or looks for it."""
    frame = flows.stream(topic, startingOffsets="earliest", **{WAITING: "true"})
    query = flows.start(frame.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint))
    eventually(lambda: "offset" in query.status["message"].lower() or not query.isActive, 60)
    return query


def test_a_query_that_waits_can_be_stopped(flows: Flows) -> None:
    # covers READ-5
    topic, checkpoint = flows.broker.topic("stopped"), flows.checkpoint()
    query = waiting(flows, topic, checkpoint, Collected())
    begin = time.monotonic()
    query.stop()
    assert time.monotonic() - begin < 20
    assert not query.isActive
    assert query.exception() is None
    assert not (Path(checkpoint) / "offsets" / "0").exists()


def test_a_query_that_was_stopped_while_it_waited_reads_what_comes_after_its_restart(flows: Flows) -> None:
    # covers READ-5
    topic, checkpoint, sink = flows.broker.topic("restarted"), flows.checkpoint(), Collected()
    waiting(flows, topic, checkpoint, sink).stop()
    query = waiting(flows, topic, checkpoint, sink)
    flows.send(topic, texts(3))
    eventually(lambda: len(sink.all) == 3 or not query.isActive, 120)
    assert sorted(sink.all) == texts(3)


def test_all_topics_are_waited_for_and_none_loses_what_comes_meanwhile(
    flows: Flows, caplog: pytest.LogCaptureFixture
) -> None:
    there, later = flows.broker.topic("there"), flows.broker.topic("later")
    flows.send(there, texts(2))
    base = {"service.url": flows.broker.service_url, "topics": f"{there},{later}", "startingOffsets": "latest"}
    with pytest.raises(TopicNotFound, match=later):
        OffsetPlanner(flows.wire(), parse_options(base)).initial()
    client = flows.wire()
    planner = OffsetPlanner(client, parse_options(base | {WAITING: "true", "subscriptionName": "waits"}))
    found: list[SourceOffset] = []
    waiting = beside(planner.initial, found)
    eventually(lambda: f"{later} not found" in caplog.text, 30)
    end = client.end_positions([there])[there]
    flows.send(there, texts(3, 2))
    flows.send(later, texts(1))
    waiting.join(60)
    assert found[0].positions[later] == EARLIEST
    assert found[0].positions[there].message_id == end
    assert client.cursor_positions([later], "waits")[later].entry_id <= 0  # it holds what is to be read


def test_a_batch_read_waits_too(flows: Flows) -> None:
    # covers READ-5
    topic = flows.broker.topic("batch")
    options = parse_options({"service.url": flows.broker.service_url, "topic": topic, WAITING: "true"})
    planned: list[Any] = []
    waiting = beside(lambda: plan_batch(flows.wire(), options.for_read(BATCH_READ)), planned)
    flows.send(topic, texts(3))
    waiting.join(60)
    # It may have come between the creation and the messages.
    assert [work.topic for work in planned[0]] in ([topic], [])


def test_a_topic_added_to_a_query_is_waited_for_by_its_next_micro_batches(flows: Flows) -> None:
    topic, added = flows.broker.topic("old"), flows.broker.topic("added")
    flows.send(topic, texts(1))
    base = {"service.url": flows.broker.service_url, "topics": f"{topic},{added}"}
    start = SourceOffset({topic: EARLIEST})
    with pytest.raises(TopicNotFound, match=added):
        OffsetPlanner(flows.wire(), parse_options(base)).latest(start, None)
    planner = OffsetPlanner(flows.wire(), parse_options(base | {WAITING: "true"}))
    end = planner.latest(start, None)
    assert set(end.positions) == {topic}
    flows.send(added, texts(1))
    assert set(planner.latest(end, None).positions) == {topic, added}
