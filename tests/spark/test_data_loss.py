"""No silent loss: messages that were known to exist and are gone from the broker are told; a rollover is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pyspark.errors import StreamingQueryException

from spark_pulsar.connector.errors import DataLossError
from spark_pulsar.connector.micro_batches.offset_planner import OffsetPlanner
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.table import BATCH_READ
from spark_pulsar.connector.planning.batch_read import plan_batch
from spark_pulsar.connector.planning.ranges import TopicRange
from spark_pulsar.connector.positions import EARLIEST
from spark_pulsar.connector.reading.projection import Projection
from spark_pulsar.connector.reading.range_reading import read_range
from tests.brokers import topic_path
from tests.eventually import eventually
from tests.spark.flows import Flows, texts, values

HOLDER = "holder"
"""A subscription that keeps entries from being trimmed until it is moved."""


def ledgers(flows: Flows, topic: str) -> list[int]:
    """Ids of the ledgers that a topic has."""
    status, answer = flows.broker.rest("GET", f"{topic_path(topic)}/internalStats")
    assert status == 200, (status, answer)
    return [ledger["ledgerId"] for ledger in answer["ledgers"]]


def hold(flows: Flows, topic: str) -> None:
    """Keep all of a topic for now."""
    flows.official().subscribe(topic, HOLDER, initial_position=pulsar.InitialPosition.Earliest).close()


def trim_front(flows: Flows, topic: str, entries: int) -> None:
    """Let go of the first entries of what is held, and see that their ledgers go."""
    first = ledgers(flows, topic)[0]
    status, answer = flows.broker.rest("POST", f"{topic_path(topic)}/subscription/{HOLDER}/skip/{entries}")
    assert status == 204, (status, answer)

    def trimmed() -> bool:
        flows.broker.rest("POST", f"{topic_path(topic)}/trim")
        return first not in ledgers(flows, topic)

    eventually(trimmed, 60)


def offsets(checkpoint: str, batch_id: int) -> dict[str, Any]:
    lines = (Path(checkpoint) / "offsets" / str(batch_id)).read_text().splitlines()
    loaded: dict[str, Any] = json.loads(lines[2])
    return loaded


def read_one_batch(flows: Flows, topic: str, checkpoint: str, **options: Any) -> list[str]:
    """Run a query for one micro-batch, the next one not planned; what it read."""
    seen: list[str] = []
    writer = flows.stream(topic, **options).writeStream.foreachBatch(
        lambda frame, _: seen.extend(values(frame.collect()))
    )
    query = flows.start(writer.option("checkpointLocation", checkpoint).trigger(processingTime="1 hour"))
    eventually(lambda: (Path(checkpoint) / "commits" / "0").exists() or not query.isActive, 120)
    failure = query.exception()
    query.stop()
    assert failure is None, failure
    return seen


def test_a_front_trimmed_while_the_last_ledger_is_there_is_told(rolling: Flows) -> None:
    # covers OFFSET-5
    read = 13
    topic, checkpoint = rolling.broker.topic("trimmed"), rolling.checkpoint()
    hold(rolling, topic)
    rolling.send(topic, texts(100))
    assert read_one_batch(rolling, topic, checkpoint, maxMessagesPerTrigger=read) == texts(read)
    trim_front(rolling, topic, 50)
    with pytest.raises(StreamingQueryException, match="DataLossError"):
        rolling.drain(rolling.stream(topic, maxMessagesPerTrigger=read), checkpoint)
    rows = rolling.drain(rolling.stream(topic, maxMessagesPerTrigger=read, failOnDataLoss="false"), checkpoint)
    assert [value for batch in rows for value in values(batch)] == texts(50, 50)


def test_a_topic_made_again_with_unread_rows_is_told(rolling: Flows) -> None:
    # covers OFFSET-6
    topic, end = begun(rolling, "again", rows=100, limit=10)  # all of a ledger
    rolling.delete(topic)
    hold(rolling, topic)
    rolling.send(topic, texts(30, prefix="new"))
    with pytest.raises(DataLossError, match=topic):
        Run(rolling, topic).next(end, 10)
    tolerant, rows = Run(rolling, topic, failOnDataLoss="false"), []
    for _ in range(3):
        end, more = tolerant.next(end, 10)
        rows += more
    assert rows == texts(30, prefix="new")


class Run:
    """One run of a query without Spark: what its offsets and its tasks say."""

    def __init__(self, flows: Flows, topic: str, **options: str) -> None:
        self._client = flows.wire()
        self.options = options_of(flows, topic, **options)
        self.planner = OffsetPlanner(self._client, self.options)

    def next(self, start: SourceOffset, limit: int | None = None) -> tuple[SourceOffset, list[str]]:
        """The end of the next micro-batch, as the checkpoint gives it back, and the rows up to it."""
        end = SourceOffset.from_json(json.loads(json.dumps(self.planner.latest(start, limit).to_json())))
        return end, self.rows(self.planner.ranges(start, end))

    def rows(self, ranges: list[TopicRange]) -> list[str]:
        """What tasks read."""
        batches = [batch for work in ranges for batch in read_range(self._client, self.options, work, VALUE)]
        return [value.decode() for batch in batches for value in batch.column(0).to_pylist()]


VALUE = Projection(("value",))


def options_of(flows: Flows, topic: str, **options: str) -> Options:
    base = {"service.url": flows.broker.service_url, "topic": topic}
    return parse_options(base | ({} if "startingTime" in options else {"startingOffsets": "earliest"}) | options)


def begun(flows: Flows, name: str, rows: int = 40, limit: int | None = 10, **options: str) -> tuple[str, SourceOffset]:
    """A topic that is held, and the offset of a query that has read up to `limit` rows of it."""
    topic = flows.broker.topic(name)
    hold(flows, topic)
    flows.send(topic, texts(rows))
    run = Run(flows, topic, **options)
    end, read = run.next(run.planner.initial(), limit)
    assert read == texts(rows if limit is None else limit)
    return topic, end


def test_ledgers_that_were_read_and_trimmed_are_no_loss(rolling: Flows) -> None:
    # covers OFFSET-7
    topic, end = begun(rolling, "rollover", rows=30, limit=None)
    assert end.newest == {}
    rolling.send(topic, texts(10, 30))  # so that the last ledger ends, too
    end, read = Run(rolling, topic).next(end)
    assert read == texts(10, 30)
    trim_front(rolling, topic, 40)
    run = Run(rolling, topic)
    assert run.planner.latest(end, None) is end
    rolling.send(topic, texts(15, 40))
    again, read = run.next(end)
    assert read == texts(15, 40)
    assert run.rows(run.planner.ranges(end, again)) == texts(15, 40)  # and a replay


def test_a_ledger_trimmed_behind_a_limited_query_is_no_loss(rolling: Flows) -> None:
    # covers OFFSET-7
    topic, end = begun(rolling, "behind")
    assert end.positions[topic].entry_id == 0  # the first of the next ledger, which is known to be there
    assert end.newest[topic] > end.positions[topic]
    trim_front(rolling, topic, 10)
    assert Run(rolling, topic).next(end, 20)[1] == texts(20, 10)


def test_a_replay_tells_what_was_trimmed_after_it_was_planned(rolling: Flows) -> None:
    # covers OFFSET-5
    topic, end = begun(rolling, "replay", rows=40, limit=None)
    start = SourceOffset({topic: EARLIEST}, fresh=True)
    assert end.first[topic].entry_id == 0
    trim_front(rolling, topic, 20)
    strict, tolerant = Run(rolling, topic), Run(rolling, topic, failOnDataLoss="false")
    with pytest.raises(
        DataLossError, match=f"{topic}: at least . entries from .* were removed.*the first that is left"
    ):
        strict.rows(strict.planner.ranges(start, end))
    assert tolerant.rows(tolerant.planner.ranges(start, end)) == texts(20, 20)


def test_a_batch_read_tells_what_was_trimmed_after_it_was_planned(rolling: Flows) -> None:
    # covers OFFSET-5
    topic, end = begun(rolling, "batch")
    named = json.dumps({topic: str(end.positions[topic])})
    client = rolling.wire()
    whole, part = (options_of(rolling, topic, startingOffsets=start) for start in ("earliest", named))
    ranges = plan_batch(client, whole.for_read(BATCH_READ))
    assert Run(rolling, topic).rows(ranges) == texts(40)
    trim_front(rolling, topic, 30)
    with pytest.raises(DataLossError, match=f"{topic}: at least 1 entries from .* were removed"):
        Run(rolling, topic).rows(ranges)
    assert Run(rolling, topic).rows(plan_batch(client, whole.for_read(BATCH_READ))) == texts(10, 30)
    with pytest.raises(DataLossError, match=f"startingOffsets of {topic} .* is in a ledger that is gone"):
        plan_batch(client, part.for_read(BATCH_READ))
    tolerant = options_of(rolling, topic, startingOffsets=named, failOnDataLoss="false")
    assert Run(rolling, topic).rows(plan_batch(client, tolerant.for_read(BATCH_READ))) == texts(10, 30)
    stream = Run(rolling, topic, startingOffsets=named)
    with pytest.raises(DataLossError, match=f"startingOffsets of {topic} .* is in a ledger that is gone"):
        stream.planner.latest(stream.planner.initial(), None)


def test_a_start_named_at_the_end_of_a_ledger_is_no_loss(rolling: Flows) -> None:
    # covers OFFSET-7
    topic, _ = begun(rolling, "named")
    first = ledgers(rolling, topic)[0]
    options = options_of(rolling, topic, startingOffsets=json.dumps({topic: f"{first}:10"}))
    assert Run(rolling, topic).rows(plan_batch(rolling.wire(), options.for_read(BATCH_READ))) == texts(30, 10)


def test_a_checkpoint_of_before_is_read(rolling: Flows, caplog: pytest.LogCaptureFixture) -> None:
    topic, end = begun(rolling, "before")
    old = SourceOffset(end.positions)
    assert Run(rolling, topic).next(old)[1] == texts(30, 10)
    trim_front(rolling, topic, 30)
    assert Run(rolling, topic).next(old)[1] == texts(10, 30)  # nothing is known for certain
    assert f"{topic}: the query had read all that was known" in caplog.text


def test_each_partition_warns_when_it_first_has_news(rolling: Flows, caplog: pytest.LogCaptureFixture) -> None:
    topic = rolling.broker.topic("each", partitions=2)
    parts = [f"{topic}-partition-{index}" for index in range(2)]
    for part in parts:
        hold(rolling, part)
        rolling.send(part, texts(10))
    run = Run(rolling, topic)
    end, _ = run.next(run.planner.initial())
    for part in parts:
        rolling.send(part, texts(20, 10))  # so that every ledger ends
        trim_front(rolling, part, 20)
        status, answer = rolling.broker.rest("DELETE", f"{topic_path(part)}/truncate")
        assert status == 204, (status, answer)
        eventually(lambda at=part: rolling.wire().last_message_id(at) is None, 60)
    run = Run(rolling, topic)
    assert run.planner.latest(end, None) is end  # nothing was known to be unread
    for part in parts:
        rolling.send(part, ["after"])
        assert f"{part}: the query had read all that was known" not in caplog.text
        end, read = run.next(end)
        assert read == ["after"]
        assert f"{part}: the query had read all that was known" in caplog.text


def test_a_topic_emptied_of_what_was_unread_is_told_once(rolling: Flows) -> None:
    topic, end = begun(rolling, "emptied")
    status, answer = rolling.broker.rest("DELETE", f"{topic_path(topic)}/truncate")
    assert status == 204, (status, answer)
    eventually(lambda: rolling.wire().last_message_id(topic) is None, 60)
    with pytest.raises(DataLossError, match=f"{topic} was known to reach .* and is empty now"):
        Run(rolling, topic).planner.latest(end, 10)
    tolerant = Run(rolling, topic, failOnDataLoss="false")
    accepted, read = tolerant.next(end, 10)
    assert (read, accepted.newest) == ([], {})
    assert Run(rolling, topic).planner.latest(accepted, 10) is accepted
    rolling.send(topic, ["after"])
    assert Run(rolling, topic).next(accepted, 10)[1] == ["after"]


def test_what_was_skipped_past_the_querys_own_cursor_is_told(rolling: Flows) -> None:
    # covers OFFSET-9
    topic = rolling.broker.topic("cursor")
    rolling.wire().publisher(topic).close()
    run = Run(rolling, topic, subscriptionName="mine")
    start = run.planner.initial()
    rolling.send(topic, texts(40))
    end, _ = run.next(start, 10)
    run.planner.commit(end)
    skip = f"{topic_path(topic)}/subscription/mine/skip/5"
    assert rolling.broker.rest("POST", skip)[0] == 204
    assert Run(rolling, topic, subscriptionName="mine").next(end, 5)[1] == texts(5, 10)  # they are there still
    gone = ledgers(rolling, topic)[0]
    assert rolling.broker.rest("POST", f"{topic_path(topic)}/subscription/mine/skip_all")[0] == 204

    def trimmed() -> bool:
        rolling.broker.rest("POST", f"{topic_path(topic)}/trim")
        return not set(ledgers(rolling, topic)) & {gone, end.positions[topic].ledger_id}

    eventually(trimmed, 60)
    with pytest.raises(DataLossError, match=topic):
        Run(rolling, topic, subscriptionName="mine").next(end, 10)


def test_the_partition_that_lost_messages_is_named(rolling: Flows) -> None:
    topic = rolling.broker.topic("parts", partitions=2)
    parts = [f"{topic}-partition-{index}" for index in range(2)]
    for part in parts:
        hold(rolling, part)
        rolling.send(part, texts(30))
    run = Run(rolling, topic)
    end, read = run.next(run.planner.initial(), 20)
    assert len(read) == 20
    trim_front(rolling, parts[1], 30)
    with pytest.raises(DataLossError, match=parts[1]) as told:
        Run(rolling, topic).next(end, 30)
    assert parts[0] not in str(told.value)


def test_a_ledger_removed_while_it_is_read_is_told(rolling: Flows) -> None:
    topic, _ = begun(rolling, "while")
    client = rolling.wire()
    options = options_of(rolling, topic)
    [work] = plan_batch(client, options.for_read(BATCH_READ))
    reading = read_range(client, options, work, VALUE)
    next(reading)
    trim_front(rolling, topic, 30)
    with pytest.raises(DataLossError, match="removed from the broker"):
        list(reading)
