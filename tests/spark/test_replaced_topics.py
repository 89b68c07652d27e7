"""Other messages under the ids of those that a query has read, and subscriptions that are gone: told, never passed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from spark_pulsar.connector.errors import DataLossError
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.positions import ReadPosition
from tests.brokers import Broker, topic_path
from tests.conftest import started
from tests.eventually import eventually
from tests.spark.flows import BATCHED, Flows, texts, values
from tests.spark.test_data_loss import HOLDER, Run, hold, ledgers, trim_front


@pytest.fixture
def steps(rolling_broker: Broker, tmp_path: Path) -> Iterator[Flows]:
    """Steps on a broker with small ledgers, of queries without Spark."""
    with Flows(None, rolling_broker, tmp_path) as bound:
        yield bound


def stored(offset: SourceOffset) -> SourceOffset:
    """An offset as a checkpoint gives it back."""
    return SourceOffset.from_json(json.loads(json.dumps(offset.to_json())))


def read(flows: Flows, topic: str, limit: int | None = None, **options: str) -> SourceOffset:
    """The offset of a query after one micro-batch."""
    run = Run(flows, topic, **options)
    return run.next(run.planner.initial(), limit)[0]


def as_if_replaced(offset: SourceOffset, topic: str) -> SourceOffset:
    """The offset of a query that had read other messages under the ids of `topic`."""
    entry = offset.seen[topic]
    other = entry._replace(publish_time_ms=entry.publish_time_ms - 60_000, checksum=entry.checksum ^ 1)
    return replace(offset, seen={topic: other})


def durable(flows: Flows, topic: str) -> set[str]:
    """The subscriptions of a topic but those of readers."""
    return {name for name in flows.subscriptions(topic) if not name.startswith("spark-pulsar-reader-")}


@pytest.mark.parametrize("unread", [0, 15])
def test_other_messages_under_the_same_ids_are_told(
    steps: Flows, unread: int, caplog: pytest.LogCaptureFixture
) -> None:
    # covers OFFSET-17, OFFSET-18
    topic = steps.broker.topic("other")
    hold(steps, topic)
    steps.send(topic, texts(15))
    start = as_if_replaced(read(steps, topic), topic)
    steps.send(topic, texts(unread, 15))
    at = start.positions[topic]
    with pytest.raises(DataLossError, match=f"{topic} holds other messages .*{at.ledger_id}:{at.entry_id - 1}") as told:
        Run(steps, topic).planner.latest(start)
    assert str(told.value).count("published at 20") == 2
    with pytest.raises(DataLossError, match=f"{topic} holds other messages"):  # an error repeats
        Run(steps, topic).planner.latest(start, 4)
    tolerant = Run(steps, topic, failOnDataLoss="false")
    end, rows = tolerant.next(start)
    assert rows == texts(15 + unread)
    assert f"{topic} holds other messages" in caplog.text
    assert Run(steps, topic).rows(Run(steps, topic).planner.ranges(start, end)) == rows  # and a replay
    assert tolerant.planner.latest(end) is end
    assert Run(steps, topic).planner.latest(end) is end  # it is the topic that is read, from now on
    steps.send(topic, texts(3, 15 + unread))
    again = Run(steps, topic)
    assert again.next(end)[1] == texts(3, 15 + unread)
    assert stored(again.planner.latest(end)).replaced == frozenset()


def test_limited_reads_of_a_replaced_topic_begin_anew(steps: Flows) -> None:
    # covers OFFSET-18
    topic = steps.broker.topic("limited")
    steps.send(topic, texts(8), batching_enabled=True, batching_max_messages=4, batching_max_publish_delay_ms=60_000)
    start = as_if_replaced(read(steps, topic, 6), topic)
    assert start.positions[topic].batch_index == 2
    with pytest.raises(DataLossError, match=f"{topic} holds other messages"):
        Run(steps, topic).planner.latest(start, 3)
    run, rows = Run(steps, topic, failOnDataLoss="false"), []
    for _ in range(3):
        start, more = run.next(start, 3)
        rows.append(more)
    assert rows == [texts(3), texts(3, 3), texts(2, 6)]


def test_a_replay_of_a_planned_micro_batch_is_checked_too(steps: Flows, caplog: pytest.LogCaptureFixture) -> None:
    # covers OFFSET-19
    topic = steps.broker.topic("replayed")
    steps.send(topic, texts(5))
    start = read(steps, topic)
    steps.send(topic, texts(5, 5))
    end = stored(Run(steps, topic).planner.latest(start))
    assert [len(works) for works in Run(steps, topic).planner.tasks(start, end)] == [1]
    other = as_if_replaced(end, topic)
    with pytest.raises(DataLossError, match=f"{topic} holds other messages"):
        Run(steps, topic).planner.tasks(start, other)
    tolerant = Run(steps, topic, failOnDataLoss="false")
    assert len(tolerant.planner.tasks(start, other)) == 1
    assert f"{topic} holds other messages" in caplog.text
    assert tolerant.next(other)[1] == texts(10)


def test_what_is_the_same_is_no_loss(steps: Flows) -> None:
    # covers OFFSET-20
    def goes_on(topic: str, limit: int | None = None, sent: int = 6, **producer: Any) -> SourceOffset:
        start = read(steps, topic, limit)
        assert topic in start.seen
        steps.send(topic, texts(3, sent), **producer)
        end, rows = Run(steps, topic).next(start)
        assert rows == texts(sent + 3 - (limit or sent), limit or sent)
        return end

    plain, batched, emptied, compacted, ended, latest = (
        steps.broker.topic(name) for name in ("plain", "batched", "emptied", "compacted", "ended", "latest")
    )
    for topic in (plain, batched):
        hold(steps, topic)
    steps.send(plain, texts(6))
    goes_on(plain)
    goes_on(plain, 4, 9)
    steps.send(batched, texts(12), **BATCHED)
    goes_on(batched, 5, 12, **BATCHED)
    steps.send(compacted, texts(6), {"partition_key": "k"})
    assert steps.broker.rest("PUT", f"{topic_path(compacted)}/compaction")[0] == 204
    state = f"{topic_path(compacted)}/compaction"
    eventually(lambda: steps.broker.rest("GET", state)[1]["status"] == "SUCCESS", 60)
    goes_on(compacted)
    steps.send(ended, texts(6))
    start = read(steps, ended)
    assert steps.broker.rest("POST", f"{topic_path(ended)}/terminate")[0] == 200
    assert Run(steps, ended).planner.latest(start) is start
    hold(steps, emptied)
    steps.send(emptied, texts(30))
    start = read(steps, emptied)
    assert steps.broker.rest("DELETE", f"{topic_path(emptied)}/truncate")[0] == 204
    eventually(lambda: steps.wire().last_message_id(emptied) is None, 60)
    run = Run(steps, emptied)
    assert run.planner.latest(start) is start
    steps.send(emptied, texts(3))
    assert run.next(start)[1] == texts(3)
    assert Run(steps, emptied).next(start)[1] == texts(3)
    steps.wire().publisher(latest).close()
    run = Run(steps, latest, startingOffsets="latest")
    start, rows = run.next(run.planner.initial())
    assert (rows, start.seen) == ([], {})
    steps.send(latest, texts(3))
    assert Run(steps, latest).next(start)[1] == texts(3)


def test_offsets_of_before_go_on(steps: Flows) -> None:
    # covers OFFSET-20
    topic = steps.broker.topic("before")
    steps.send(topic, texts(6))
    offset = read(steps, topic, subscriptionName="s")
    assert offset.subscription == "s"
    old = replace(offset, seen={}, subscription=None)
    steps.wire().unsubscribe([topic], "s")
    steps.send(topic, texts(3, 6))
    end, rows = Run(steps, topic, subscriptionName="s").next(old)
    assert rows == texts(3, 6)
    assert (set(end.seen), end.subscription) == ({topic}, "s")


def test_trimmed_evidence_is_no_proof(steps: Flows) -> None:
    # covers OFFSET-20
    topic = steps.broker.topic("trimmed")
    hold(steps, topic)
    steps.send(topic, texts(10))
    start = read(steps, topic)
    steps.send(topic, texts(15, 10))
    trim_front(steps, topic, 10)
    end, rows = Run(steps, topic).next(start)
    assert rows == texts(15, 10)
    assert end.seen[topic] > start.seen[topic]
    # The id is missing and earlier ones are there: that is no trimming.
    [*_, last] = ledgers(steps, topic)
    far = replace(end, positions={topic: ReadPosition(last, 2)}, seen={topic: end.seen[topic]._replace(entry_id=900)})
    far = replace(far, seen={topic: far.seen[topic]._replace(ledger_id=ledgers(steps, topic)[0])})
    with pytest.raises(DataLossError, match="none with that id, though there are earlier ones"):
        Run(steps, topic).planner.latest(far)


def test_a_topic_made_again_lacks_the_subscription(steps: Flows) -> None:
    # covers OFFSET-21
    topic = steps.broker.topic("again")
    steps.send(topic, texts(5))
    start = read(steps, topic, subscriptionName="mine")
    steps.send(topic, texts(5, 5))  # which nobody has read
    steps.delete(topic)
    steps.send(topic, texts(4, prefix="new"))
    for _ in range(2):  # an error makes no subscription
        with pytest.raises(DataLossError, match=f"{topic}: subscription mine.* is gone: the topic was deleted"):
            Run(steps, topic, subscriptionName="mine").planner.latest(start)
    assert durable(steps, topic) == set()
    run = Run(steps, topic, subscriptionName="mine", failOnDataLoss="false")
    end, rows = run.next(start)
    assert rows == texts(4, prefix="new")
    run.planner.commit(start)
    assert run.planner.latest(end) is end
    steps.send(topic, texts(2, 4, prefix="new"))
    assert Run(steps, topic, subscriptionName="mine").next(end)[1] == texts(2, 4, prefix="new")


def test_a_subscription_that_was_deleted_is_no_loss_while_all_is_there(
    steps: Flows, caplog: pytest.LogCaptureFixture
) -> None:
    # covers OFFSET-22
    topic = steps.broker.topic("deleted")
    hold(steps, topic)
    steps.send(topic, texts(5))
    start = read(steps, topic, subscriptionName="mine")
    steps.send(topic, texts(5, 5))
    steps.wire().unsubscribe([topic], "mine")
    assert Run(steps, topic, subscriptionName="mine").next(start)[1] == texts(5, 5)
    assert f"{topic}: subscription mine of the query is gone and made anew; nothing is lost" in caplog.text
    assert durable(steps, topic) == {HOLDER, "mine"}
    caplog.clear()
    assert Run(steps, topic, subscriptionName="another").next(start)[1] == texts(5, 5)
    assert "is gone" not in caplog.text


def restored(broker: Broker, copy: Path) -> None:
    """Puts a copy of its data directory in the place of what a broker of ours has, while it is down."""
    directory = broker.process.data_dir  # type: ignore[union-attr]
    broker.process.kill()  # type: ignore[union-attr]
    shutil.rmtree(directory)
    shutil.copytree(copy, directory)
    broker.process.restart()  # type: ignore[union-attr]


@pytest.mark.ours_only("ML-6")
def test_a_directory_that_is_wiped_or_restored_under_a_query(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # covers ML-6, OFFSET-17, OFFSET-18, OFFSET-23
    with started("ours", tmp_path / "data") as broker, Flows(spark, broker, tmp_path) as flows:
        topic, checkpoint, other = broker.topic("directory"), flows.checkpoint(), flows.checkpoint()
        hold(flows, topic)
        flows.send(topic, texts(30))
        broker.process.kill()  # type: ignore[union-attr]
        copy, empty = tmp_path / "copy", tmp_path / "empty"
        shutil.copytree(broker.process.data_dir, copy)  # type: ignore[union-attr]
        empty.mkdir(mode=0o700)
        broker.process.restart()  # type: ignore[union-attr]
        flows.send(topic, texts(20, 30))
        [rows] = flows.drain(flows.stream(topic), checkpoint)
        assert values(rows) == texts(50)
        shutil.copytree(checkpoint, other)
        planning = Run(flows, topic)
        stands = planning.next(planning.planner.initial())[0]
        assert planning.planner.latest(stands) is stands

        restored(broker, copy)
        flows.send(topic, texts(25, 30, prefix="new"))
        with pytest.raises(StreamingQueryException, match=f"{topic} holds other messages than those that were read"):
            flows.drain(flows.stream(topic), checkpoint)
        with pytest.raises(DataLossError, match=f"{topic} holds other messages"):  # of a query that runs, too
            planning.planner.latest(stands)
        [rows] = flows.drain(flows.stream(topic, failOnDataLoss="false"), checkpoint)
        assert values(rows) == texts(30) + texts(25, 30, prefix="new")

        restored(broker, empty)
        flows.send(topic, texts(80, prefix="again"))
        [rows] = flows.drain(flows.stream(topic), other)
        assert values(rows) == texts(80, prefix="again")
