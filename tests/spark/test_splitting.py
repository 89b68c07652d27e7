"""One partition read by several tasks: each message once, whatever lies at a cut, and no false or silent loss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_pulsar.connector.errors import DataLossError
from spark_pulsar.connector.micro_batches.offset_planner import OffsetPlanner
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.table import BATCH_READ
from spark_pulsar.connector.planning.batch_read import plan_batch
from spark_pulsar.connector.planning.ranges import TopicRange
from spark_pulsar.connector.planning.splitting import parts_of
from spark_pulsar.connector.positions import ReadPosition
from spark_pulsar.connector.reading.projection import Projection
from spark_pulsar.connector.reading.range_reading import read_range
from spark_pulsar.wire.entries.chunks import split
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.spark.flows import BATCHED, Flows, texts, values
from tests.spark.test_beside_streamnative import send_with_markers
from tests.spark.test_data_loss import hold, ledgers, trim_front

VALUE = Projection(("value",))


def options_of(flows: Flows, topic: str, **options: Any) -> Options:
    base = {"service.url": flows.broker.service_url, "topic": topic, "startingOffsets": "earliest"}
    return parse_options(base | {name: str(value) for name, value in options.items()})


def rows(flows: Flows, options: Options, work: TopicRange) -> list[str]:
    batches = read_range(flows.wire(), options, work, VALUE)
    return [value.decode() for batch in batches for value in batch.column(0).to_pylist()]


def parts(flows: Flows, topic: str, **options: Any) -> list[list[str]]:
    """Rows of each task of a batch read."""
    parsed = options_of(flows, topic, **options)
    return [rows(flows, parsed, work) for work in plan_batch(flows.wire(), parsed.for_read(BATCH_READ))]


def test_a_batch_read_over_many_ledgers(rolling: Flows) -> None:
    # covers READ-18
    topic = rolling.broker.topic("ledgers")
    hold(rolling, topic)
    rolling.send(topic, texts(57))
    assert len(ledgers(rolling, topic)) >= 6
    found = parts(rolling, topic, minPartitions=4)
    assert [row for part in found for row in part] == texts(57)
    assert [len(part) for part in found] == [14, 14, 14, 15]
    found = parts(rolling, topic, maxRecordsPerPartition=5)
    assert [row for part in found for row in part] == texts(57)
    assert max(map(len, found)) <= 5
    assert len(found) <= 18
    trim_front(rolling, topic, 30)
    found = parts(rolling, topic, minPartitions=3, failOnDataLoss="false")
    assert [row for part in found for row in part] == texts(27, 30)
    assert [len(part) for part in found] == [9, 9, 9]


def test_samples_tell_how_many_messages_entries_have(flows: Flows) -> None:
    # covers READ-18
    topic = flows.broker.topic("sampled")
    flows.send(topic, texts(100), **BATCHED)
    found = parts(flows, topic, maxRecordsPerPartition=20)
    assert [len(part) for part in found] == [20] * 5
    assert [len(part) for part in parts(flows, topic, minPartitions=2)] == [50, 50]
    assert [len(part) for part in parts(flows, topic, maxRecordsPerPartition=3)] == [10] * 10  # not inside an entry


def test_a_stream_that_counts_cuts_inside_entries_too(flows: Flows) -> None:
    # covers READ-18
    topic = flows.broker.topic("counted")
    flows.send(topic, texts(40), **BATCHED)
    options = options_of(flows, topic, maxRecordsPerPartition=4, maxMessagesPerTrigger=25)
    planner = OffsetPlanner(flows.wire(), options)
    start, seen = planner.initial(), []
    for sizes in ([4, 4, 2, 4, 4, 2, 4, 1], [4, 1, 4, 4, 2]):
        end = SourceOffset.from_json(json.loads(json.dumps(planner.latest(start, 25).to_json())))
        tasks = planner.tasks(start, end)
        found = [rows(flows, options, work) for works in tasks for work in works]
        assert [len(part) for part in found] == sizes
        seen += [row for part in found for row in part]
        # A replay, whatever the options are by then.
        later = OffsetPlanner(flows.wire(), options_of(flows, topic, minPartitions=9))
        assert later.tasks(start, end) == tasks
        start = end
    assert seen == texts(40)


def test_cuts_through_chunked_messages(flows: Flows) -> None:
    # covers READ-19
    topic = flows.broker.topic("chunked")
    names = ("a", "b", "c", "d")
    chunks = []
    for name in names:
        metadata = MessageMetadata(producer_name=name, sequence_id=1, publish_time=1_000)
        chunks.append(list(split(metadata, name.encode() * 30, 10 + metadata.ByteSize())))
    ids = []
    with flows.wire().publisher(topic) as publisher:
        for turn in zip(*chunks, strict=True):  # the chunks of all four interleaved
            for metadata, part in turn:
                publisher.send(metadata, bytes(part))
                publisher.flush()
                assert publisher.last_message_id is not None
                ids.append(ReadPosition(*publisher.last_message_id.position))
    expected = [name * 30 for name in names]
    found = parts(flows, topic, maxRecordsPerPartition=1)
    assert len(found) == 12
    assert [row for part in found for row in part] == expected
    options = options_of(flows, topic)
    [whole] = plan_batch(flows.wire(), options)
    for first in range(1, 12):
        pieces = parts_of(whole, (ids[first], ids[(first + 11) // 2]))
        assert [row for work in pieces for row in rows(flows, options, work)] == expected


def test_cuts_between_markers_are_no_loss(flows: Flows) -> None:
    # covers READ-19
    topic = flows.broker.topic("markers")
    send_with_markers(flows, topic, [None, "a", None, None, None, "b", None, "c", None])
    found = parts(flows, topic, maxRecordsPerPartition=1)
    assert [row for part in found for row in part] == ["a", "b", "c"]
    assert len(found) > 5


def test_what_is_trimmed_at_a_cut_is_told(rolling: Flows) -> None:
    # covers READ-19
    topic = rolling.broker.topic("trimmed")
    hold(rolling, topic)
    rolling.send(topic, texts(55))
    options = options_of(rolling, topic, minPartitions=5)
    planned = plan_batch(rolling.wire(), options)
    assert [len(rows(rolling, options, work)) for work in planned] == [11] * 5
    trim_front(rolling, topic, 33)  # up to the fourth ledger: the third and a part of the fourth task's range are gone
    for work in planned[:3]:
        with pytest.raises(DataLossError, match="removed"):
            rows(rolling, options, work)
    for work in planned[3:]:
        assert len(rows(rolling, options, work)) == 11


@pytest.mark.spark_alone
def test_a_query_with_more_tasks_than_partitions(flows: Flows) -> None:
    # covers READ-18
    topic, checkpoint = flows.broker.topic("query", 2), flows.checkpoint()
    for partition in range(2):
        flows.send(f"{topic}-partition-{partition}", texts(60, prefix=f"{partition}-"))
    tasks: list[int] = []
    seen: list[str] = []

    def keep(frame: Any, _: int) -> None:
        tasks.append(frame.rdd.getNumPartitions())
        seen.extend(values(frame.collect()))

    def run(**options: Any) -> None:
        writer = flows.stream(topic, **options).writeStream.foreachBatch(keep)
        query = flows.start(writer.option("checkpointLocation", checkpoint).trigger(availableNow=True))
        assert query.awaitTermination(180)

    run(minPartitions=6)
    assert tasks == [6]
    assert sorted(seen) == sorted(texts(60, prefix="0-") + texts(60, prefix="1-"))
    # The micro-batch runs again after its commit was lost, with other options.
    (Path(checkpoint) / "commits" / "0").unlink()
    for crc in (Path(checkpoint) / "commits").glob(".0.crc"):
        crc.unlink()
    run(minPartitions=3)
    assert tasks == [6, 6]
    assert len(seen) == 240
    frame = flows.batch(topic, maxRecordsPerPartition=25)
    assert frame.rdd.getNumPartitions() == 6
    assert sorted(values(frame.collect())) == sorted(seen[:120])
