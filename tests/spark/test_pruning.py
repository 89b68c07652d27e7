"""Reading less: keys, publish times, `limit`, and filters that Spark may push down."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.brokers import Broker, topic_path
from tests.eventually import eventually
from tests.spark.flows import BATCHED, Flows, texts, values
from tests.spark.versions import offset_of
from tests.unit.wire.key_hashes import java_string_hash

PARTITIONS = 8
KEYS = [*texts(20, prefix="key-"), "", "é", "a,b"]


@pytest.fixture(scope="module")
def keyed(broker: Broker) -> str:
    """A topic of eight partitions with ten messages of each key, batched, by the official client: BoostHash."""
    topic = broker.topic("keyed", partitions=PARTITIONS)
    producer = broker.client().create_producer(topic, block_if_queue_full=True, **BATCHED)
    for number in range(10):
        for key in KEYS:
            producer.send_async(f"{key}/{number}".encode(), lambda result, at: None, partition_key=key)
    producer.flush()
    producer.close()
    return topic


def out(flows: Flows, topic: str) -> int:
    """Messages that the broker has given out of a topic or a partition."""
    status, stats = flows.broker.rest("GET", f"{topic_path(topic)}/stats")
    assert status == 200, stats
    return int(stats["msgOutCounter"])


def outs(flows: Flows, topic: str) -> list[int]:
    return [out(flows, f"{topic}-partition-{index}") for index in range(PARTITIONS)]


def of_keys(frame: DataFrame) -> dict[str, int]:
    """Number of rows of each key, by values, which say the key they were sent with."""
    return dict(Counter(value.rsplit("/", 1)[0] for value in values(frame.collect())))


def test_the_partition_of_a_key_is_read_and_no_other(flows: Flows, keyed: str) -> None:
    # covers READ-23
    before = outs(flows, keyed)
    frame = flows.batch(keyed, keys="key-7", keysHashingScheme="BoostHash")
    assert of_keys(frame) == {"key-7": 10}
    asked = [index for index, (old, new) in enumerate(zip(before, outs(flows, keyed), strict=True)) if old != new]
    assert len(asked) <= 2  # it is in one; builds with an older Boost would have put it in another one
    assert frame.rdd.getNumPartitions() == len(asked)
    some = flows.batch(keyed, keys=json.dumps(["é", "a,b", "key-3", "nobody's"]), keysHashingScheme="BoostHash")
    assert of_keys(some) == {"é": 10, "a,b": 10, "key-3": 10}
    assert some.select("__key").distinct().count() == 3


@pytest.mark.spark_alone
def test_keys_alone_choose_rows_of_all_partitions(flows: Flows, keyed: str) -> None:
    # covers READ-23
    frame = flows.batch(keyed, keys=" key-7 , key-19 ")
    assert of_keys(frame) == {"key-7": 10, "key-19": 10}
    assert frame.rdd.getNumPartitions() == PARTITIONS
    assert of_keys(flows.reader(keyed, keys="key-1").schema("value binary").load()) == {"key-1": 10}
    assert flows.batch(keyed, keys="nobody's", keysHashingScheme="BoostHash").count() == 0
    with pytest.raises(AnalysisException, match=r"keysHashingScheme says where the keys .*: give keys, too"):
        flows.batch(keyed, keysHashingScheme="BoostHash").count()


def test_keys_written_by_spark_are_in_one_partition(flows: Flows) -> None:
    # covers READ-23
    scheme = "Murmur3_32Hash"
    topic = flows.broker.topic("keyed", partitions=PARTITIONS)
    flows.write(flows.rows("value string, __key string", [(key, key) for key in KEYS]), topic, hashingScheme=scheme)
    as_bytes = flows.rows("value string, __key binary", [(f"bytes {key}", key.encode()) for key in KEYS])
    flows.write(as_bytes, topic, hashingScheme=scheme)
    frame = flows.batch(topic, keys="key-7", keysHashingScheme=scheme)
    assert (values(frame.collect()), frame.rdd.getNumPartitions()) == (["key-7"], 1)
    assert values(flows.batch(topic, keys='[""]', keysHashingScheme=scheme).collect()) == [""]
    encoded = json.dumps([{"base64": base64.b64encode(b"key-7").decode()}])
    frame = flows.batch(topic, keys=encoded, keysHashingScheme=scheme)
    assert (values(frame.collect()), frame.rdd.getNumPartitions()) == (["bytes key-7"], 1)


def test_a_stream_passes_partitions_that_no_key_hashes_to(flows: Flows) -> None:
    # covers OFFSET-15
    topic, checkpoint = flows.broker.topic("keyed", partitions=4), flows.checkpoint()

    def send(prefix: str) -> None:
        rows = [(f"{prefix}{key}", key) for key in KEYS for _ in range(5)]
        flows.write(flows.rows("value string, __key string", rows), topic)

    def run(keys: str, **more: Any) -> list[str]:
        frame = flows.stream(topic, keys=keys, **more)
        return sorted(value for rows in flows.drain(frame, checkpoint) for value in values(rows))

    send("1-")
    java = {"keysHashingScheme": "JavaStringHash", "maxMessagesPerTrigger": "60"}
    tasks = {"smallBatchMaxMessages": "0"}
    assert run("key-7", **java, **tasks) == ["1-key-7"] * 5
    place = java_string_hash("key-7") % 4
    given = [out(flows, f"{topic}-partition-{index}") for index in range(4)]
    assert [index for index in range(4) if given[index]] == [place]
    send("2-")
    assert run("key-8,key-9", **java) == ["2-key-8"] * 5 + ["2-key-9"] * 5  # what the first run passed is passed
    flows.add_partitions(topic, 7)
    send("3-")
    assert run("key-8,key-9,key-10", **java) == sorted(f"3-key-{key}" for key in (8, 9, 10) for _ in range(5))
    send("4-")
    assert run("key-8", **tasks) == ["4-key-8"] * 5


def test_a_running_stream_is_told_of_its_keys(flows: Flows) -> None:
    # covers OFFSET-15
    topic = flows.broker.topic("keyed", partitions=4)
    frame = flows.stream(topic, keys="key-7", keysHashingScheme="Murmur3_32Hash", startingOffsets="latest")
    found: list[str] = []
    query = flows.start(
        frame.writeStream.foreachBatch(lambda batch, _: found.extend(values(batch.collect()))).option(
            "checkpointLocation", flows.checkpoint()
        )
    )
    eventually(lambda: query.lastProgress is not None, 60)
    for prefix in "ab":
        rows = flows.rows("value string, __key string", [(f"{prefix}-{key}", key) for key in KEYS])
        flows.write(rows, topic, hashingScheme="Murmur3_32Hash")
        eventually(lambda wanted=f"{prefix}-key-7": wanted in found, 60)
    assert found == ["a-key-7", "b-key-7"]
    assert len(offset_of(query.lastProgress.sources[0], "endOffset")["positions"]) == 4


def test_only_the_entries_of_a_window_of_publish_times_are_read(flows: Flows) -> None:
    # covers READ-24
    topic = flows.broker.topic("window")
    times = {f"m{number}": 1_700_000_000_000 + 1_000 * number for number in range(3_000)}
    flows.send_at(topic, times)
    before = out(flows, topic)
    first, last = times["m2000"], times["m2010"]
    frame = flows.batch(topic, startingTime=str(first), endingTime=str(last))
    assert values(frame.collect()) == texts(10, first=2_000)
    assert out(flows, topic) - before < 1_500
    stats = frame.select(F.min("__publishTime").cast("double"), F.max("__publishTime").cast("double")).collect()[0]
    assert (stats[0], stats[1]) == (first / 1000, (last - 1_000) / 1000)


@pytest.fixture
def pushing(flows: Flows) -> Iterator[Flows]:
    """Flows on a session with filter pushdown on."""
    conf = "spark.sql.python.filterPushdown.enabled"
    flows.spark.conf.set(conf, "true")
    yield flows
    flows.spark.conf.unset(conf)


@pytest.mark.spark_alone
@pytest.mark.parametrize("session", ["flows", "pushing"])
def test_filters_are_right_with_pushdown_on_and_off(session: str, request: pytest.FixtureRequest, keyed: str) -> None:
    # covers READ-25
    flows: Flows = request.getfixturevalue(session)
    frame = flows.batch(keyed, keys="key-1,key-2,key-3", keysHashingScheme="BoostHash")
    one, two = (frame.where(F.col("__key") == F.lit(key.encode())) for key in ("key-1", "key-2"))
    assert one.count() == 10
    assert frame.count() == 30
    assert of_keys(one.union(two)) == {"key-1": 10, "key-2": 10}


@pytest.mark.spark_alone
def test_pushdown_as_an_option_is_refused_with_the_reason(flows: Flows, keyed: str) -> None:
    # covers READ-25
    with pytest.raises(AnalysisException, match=r"pushDownFilters is not supported.*keys, startingTime"):
        flows.batch(keyed, pushDownFilters="true")


def test_limit_reads_little_and_leaves_no_reader(flows: Flows) -> None:
    # covers READ-26
    topic = flows.broker.topic("large")
    rows = flows.spark.range(100_000).selectExpr("id || repeat('x', 1000) AS value")
    flows.write(rows.coalesce(1), topic)
    (row,) = flows.batch(topic).limit(1).collect()
    assert row.value.startswith(b"0x")
    eventually(lambda: not flows.subscriptions(topic), 30)
    assert out(flows, topic) < 50_000
