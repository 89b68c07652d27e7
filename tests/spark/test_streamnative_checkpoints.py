"""Checkpoints of StreamNative's connector, which a query of this one continues: those that it wrote, and random ones in
its form."""

from __future__ import annotations

import json
import os
import random
import tarfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row, SparkSession

import spark_pulsar
from spark_pulsar.wire.pulsar_api_pb2 import MessageIdData
from tests.brokers import Broker
from tests.spark.flows import BATCHED, Flows, texts, values

RECORDED = Path(__file__).parent / "streamnative"
BATCHES: dict[str, dict[str, list[str]]] = json.loads((RECORDED / "recorded.json").read_text())
BATCHED_ROWS, SPREAD_ROWS = texts(60), texts(60, 2000)
PLAIN_ROWS = [*texts(3, 900), *texts(60, 1000), "m1990"]
ALL_ROWS = [*BATCHED_ROWS, *PLAIN_ROWS, *SPREAD_ROWS]


class Stopped:
    """The recorded topics on a broker of their own, and the recorded checkpoints."""

    def __init__(self, flows: Flows, checkpoints: Path) -> None:
        self._flows = flows
        self._checkpoints = checkpoints

    def checkpoint(self, name: str) -> str:
        """The directory of a recorded checkpoint, or of a new one."""
        return str(self._checkpoints / name)

    def goes_on(self, checkpoint: str, **options: str) -> dict[int, list[str]]:
        """Runs a query of this connector on a checkpoint until it has read all there is: its micro-batches."""
        read: dict[int, list[str]] = {}

        def keep(batch: Any, number: int) -> None:
            read[number] = sorted(values(batch.collect()))

        self._flows.run(self._flows.stream(**options).writeStream.foreachBatch(keep), checkpoint)
        return read


@pytest.fixture(scope="module")
def stopped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    directory = tmp_path_factory.mktemp("streamnative")
    with tarfile.open(RECORDED / "recorded.tar.xz") as archive:
        archive.extractall(directory)
    with spark_pulsar.broker_process(directory / "data") as process:
        broker = Broker("ours", process.service_url, process.admin_url)
        with Flows(spark, broker, directory) as flows:
            yield Stopped(flows, directory)
        broker.close_since(0)


@pytest.mark.ours_only("OFFSET-24")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("committed", marks=pytest.mark.long),
        "uncommitted",
        pytest.param("first-uncommitted", marks=pytest.mark.long),
        "limited",
    ],
)
def test_a_query_of_streamnative_goes_on(stopped: Stopped, name: str) -> None:
    # covers OFFSET-24
    topics = "plain" if name == "limited" else "batched,plain,spread"
    recorded = {int(number): rows for number, rows in BATCHES[name].items()}
    is_committed = name == "committed"
    committed = [row for number, rows in recorded.items() if is_committed or number < max(recorded) for row in rows]
    offsets = spark_pulsar.starting_offsets(checkpoint=stopped.checkpoint(name))

    read = stopped.goes_on(stopped.checkpoint(name), topics=topics)
    if not is_committed:
        assert min(read) == max(recorded)
        assert read[min(read)] == sorted(recorded[max(recorded)])
    rest = [row for rows in read.values() for row in rows]
    everything = PLAIN_ROWS if name == "limited" else ALL_ROWS
    assert sorted(committed + rest) == sorted(everything)
    assert stopped.goes_on(stopped.checkpoint(name), topics=topics) == {}

    # covers OFFSET-25
    named = json.loads(offsets)
    new = {f"persistent://public/default/spread-partition-{number}": "earliest" for number in (2, 3)}
    again = json.dumps(named if name == "limited" else named | new)
    begun = stopped.goes_on(stopped.checkpoint(f"new-{name}"), topics=topics, startingOffsets=again)
    assert sorted(row for rows in begun.values() for row in rows) == sorted(rest)


@pytest.mark.ours_only("OFFSET-24")
def test_a_checkpoint_is_read_by_spark_and_after_a_run_of_ours(stopped: Stopped, spark: SparkSession) -> None:
    # covers OFFSET-25
    topics = {"topic": "plain", "maxMessagesPerTrigger": "40"}
    place = stopped.checkpoint("ours")
    assert sorted(row for rows in stopped.goes_on(place, **topics).values() for row in rows) == sorted(PLAIN_ROWS)
    for name in ("committed", "limited", "ours"):
        place = stopped.checkpoint(name)
        by_spark = spark_pulsar.starting_offsets(checkpoint=f"file://{place}", spark=spark)
        assert by_spark == spark_pulsar.starting_offsets(checkpoint=place)
    assert stopped.goes_on(stopped.checkpoint("after"), topic="plain", startingOffsets=by_spark).get(0, []) == []


@pytest.mark.ours_only("OFFSET-24")
def test_a_first_micro_batch_from_latest_needs_its_start(stopped: Stopped) -> None:
    # covers OFFSET-24
    checkpoint, topics = stopped.checkpoint("latest-uncommitted"), "batched,plain,spread"
    offsets = spark_pulsar.starting_offsets(checkpoint=checkpoint)
    with pytest.raises(StreamingQueryException, match="began at what was the latest message then"):
        stopped.goes_on(checkpoint, topics=topics, startingOffsets="latest")
    new = {f"persistent://public/default/spread-partition-{number}": "earliest" for number in (2, 3)}
    at = json.dumps(json.loads(offsets) | new)
    read = stopped.goes_on(checkpoint, topics=topics, startingOffsets=at)
    assert read[0] == []
    rest = [row for rows in read.values() for row in rows]
    assert sorted(rest) == sorted(row for row in ALL_ROWS if row not in texts(3, 900))


class Stop:
    """One moment at which a query in StreamNative's form was stopped: its checkpoint, written as that connector does.

    An offset names the last message that was read, as the Java client serializes it: the index in a batch, without
    the batch's size.
    """

    def __init__(self, directory: Path, ids: Mapping[str, Sequence[pulsar.MessageId]]) -> None:
        self.directory = directory
        self._ids = ids
        for folder in ("offsets", "commits", "sources/0"):
            (directory / folder).mkdir(parents=True)
        (directory / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
        (directory / "sources" / "0" / "0").write_text(f"v1\n{self._offset(dict.fromkeys(ids, 0))}")

    def plan(self, number: int, ends: Mapping[str, int], *, is_committed: bool) -> None:
        """Writes a micro-batch that ends after so many messages of each partition."""
        settings = {"batchWatermarkMs": 0, "batchTimestampMs": 1_790_000_000_000 + number, "conf": {}}
        text = f"v1\n{json.dumps(settings)}\n{self._offset(ends)}"
        (self.directory / "offsets" / str(number)).write_text(text)
        if is_committed:
            (self.directory / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')

    def _offset(self, counts: Mapping[str, int]) -> str:
        return json.dumps({topic: _signed(self._last(topic, count)) for topic, count in counts.items()})

    def _last(self, topic: str, count: int) -> MessageIdData:
        if not count:
            return MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1, batch_size=0)
        at = self._ids[topic][count - 1]
        data = MessageIdData(ledgerId=at.ledger_id(), entryId=at.entry_id(), batch_size=0)
        if at.batch_index() >= 0:
            data.batch_index = at.batch_index()
        return data


def _signed(data: MessageIdData) -> list[int]:
    return [byte - 256 if byte > 127 else byte for byte in data.SerializeToString()]


def _random_stop(flows: Flows, chosen: random.Random, ids: dict[str, list[pulsar.MessageId]]) -> Stop:
    """Writes a checkpoint of up to three micro-batches on the partitions, and its query goes on here: each micro-batch
    has the rows between its two offsets, and no row is missing or comes twice."""
    known = [topic for topic in ids if chosen.random() < 0.8] or list(ids)[:1]
    stop = Stop(Path(flows.checkpoint()), ids)
    ends = dict.fromkeys(known, 0)
    before = ends
    last, last_is_committed = chosen.randrange(3), chosen.random() < 0.5
    for number in range(last + 1):
        before, ends = ends, {topic: chosen.randint(at, len(ids[topic])) for topic, at in ends.items()}
        stop.plan(number, ends, is_committed=number < last or last_is_committed)

    read: dict[int, list[Row]] = {}
    topics = ",".join(ids)
    frame = flows.stream(topics=topics, maxMessagesPerTrigger=chosen.choice([7, 1_000]))
    writer = frame.writeStream.foreachBatch(lambda batch, at: read.update({at: batch.collect()}))
    flows.run(writer, str(stop.directory))

    def rows(starts: Mapping[str, int], ends: Mapping[str, int]) -> list[str]:
        return sorted(f"{topic}#{n}" for topic in ids for n in range(starts.get(topic, 0), ends.get(topic, 0)))

    if not last_is_committed:
        assert sorted(values(read.pop(last))) == rows(before, ends)
    everything = {topic: len(of_topic) for topic, of_topic in ids.items()}
    assert sorted(row for batch in read.values() for row in values(batch)) == rows(ends, everything)
    return stop


def _stops(flows: Flows, count: int, seed: int) -> int:
    """Publishes to batched and unbatched topics, and continues `count` stopped queries."""
    topics = [flows.broker.topic("stops-batched"), flows.broker.topic("stops-plain")]
    spread = flows.broker.topic("stops-spread", partitions=2)
    topics += [f"{spread}-partition-{number}" for number in range(2)]
    ids = {}
    for number, topic in enumerate(topics):
        settings = {} if number == 1 else BATCHED
        ids[topic] = flows.send(topic, [f"{topic}#{n}" for n in range(37)], **settings)
    chosen = random.Random(seed)
    return len([_random_stop(flows, chosen, ids) for _ in range(count)])


def test_random_stops_go_on_exactly(flows: Flows) -> None:
    # covers OFFSET-24
    assert _stops(flows, 3, seed=33) == 3


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_many_random_stops_go_on_exactly(flows: Flows) -> None:
    # covers OFFSET-24; 50 of them: STOPS=50
    stops, seed = int(os.environ.get("STOPS", "6")), int(os.environ.get("STOP_SEED", "3300"))
    assert _stops(flows, stops, seed) == stops
    print(f"{stops} of {stops} stopped queries in StreamNative's form continued exactly (seed {seed})")
