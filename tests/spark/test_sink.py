"""`df.write.format("pulsar")` and `df.writeStream.format("pulsar")`, read back by the official client."""

from __future__ import annotations

import base64
import datetime
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException, PythonException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_pulsar.wire.keys.murmur3 import murmur3_32
from tests.spark.flows import Flows, texts
from tests.unit.wire.key_hashes import boost_hash, java_string_hash


def _murmur(key: str) -> int:
    return murmur3_32(key.encode())


def received(flows: Flows, topic: str) -> list[str]:
    return [message.data().decode() for message in flows.receive(topic)]


def test_every_column_arrives(flows: Flows) -> None:
    # covers SINK-1
    topic = flows.broker.topic("columns")
    at = datetime.datetime(2013, 1, 1, 3, 24, 0, 123_000)
    frame = flows.rows(
        "value string, __key string, __eventTime timestamp, __messageProperties map<string,string>",
        [
            ("a", "clé", at, {"x": "1", "ü": ""}),
            ("b", None, None, None),
            ("", "", None, {}),
            (None, "k", None, {"y": "2"}),
        ],
    )
    flows.write(frame.coalesce(1), topic)
    messages = flows.receive(topic)
    assert [message.data() for message in messages] == [b"a", b"b", b"", b""]
    assert [message.partition_key() for message in messages] == ["clé", "", "", "k"]
    millis = round(at.replace(tzinfo=datetime.UTC).timestamp() * 1000)
    assert [message.event_timestamp() for message in messages] == [millis, 0, 0, 0]
    assert [message.properties() for message in messages] == [{"x": "1", "ü": ""}, {}, {}, {"y": "2"}]
    rows = flows.batch(topic).collect()
    assert [row["value"] for row in rows] == [b"a", b"b", b"", None]
    assert [row["__key"] for row in rows] == ["clé".encode(), None, b"", b"k"]


def test_bytes_and_numbers(flows: Flows) -> None:
    topic = flows.broker.topic("bytes")
    frame = flows.rows(
        "value binary, __key binary, __eventTime bigint", [(b"\x00\xff", b"\x01\x02\xfe", 1_357_010_640_123)]
    )
    flows.write(frame, topic)
    [message] = flows.receive(topic)
    assert message.data() == b"\x00\xff"
    assert message.event_timestamp() == 1_357_010_640_123
    assert message.partition_key() == base64.b64encode(b"\x01\x02\xfe").decode()
    [row] = flows.batch(topic).collect()
    assert row["__key"] == b"\x01\x02\xfe"


@pytest.mark.spark_alone
def test_a_struct_is_written_as_json_like_to_json(flows: Flows) -> None:
    ours, sparks = flows.broker.topic("json"), flows.broker.topic("json")
    frame = flows.spark.sql(
        "SELECT struct(id AS carrier, CAST(id AS decimal(20,5)) AS price, array('x', concat('ü', id)) AS tags, "
        "map('k', id) AS counts, timestamp'2013-01-01 03:24:00.123' AS at, date'2013-01-01' AS day, id > 1 AS late, "
        "CAST(NULL AS string) AS nothing, X'00ff' AS raw, struct(id AS inner) AS nested) AS value FROM range(3)"
    ).coalesce(1)
    flows.write(frame, ours)
    flows.write(frame.select(F.to_json("value").alias("value")), sparks)
    assert received(flows, ours) == received(flows, sparks)
    assert json.loads(received(flows, ours)[2])["nested"] == {"inner": 2}


@pytest.mark.spark_alone
def test_the_option_topic_wins_over_the_column(flows: Flows) -> None:
    a, b, c = (flows.broker.topic(name) for name in "abc")
    frame = flows.rows("value string, __topic string", [("1", a), ("2", b), ("3", a)]).coalesce(1)
    flows.write(frame)
    assert received(flows, a) == ["1", "3"]
    assert received(flows, b) == ["2"]
    flows.write(frame, c)
    assert received(flows, c) == ["1", "2", "3"]
    with pytest.raises(PythonException, match="__topic is null"):
        flows.write(flows.rows("value string, __topic string", [("1", None)]))


@pytest.mark.spark_alone
@pytest.mark.parametrize(("scheme", "hashed"), [("JavaStringHash", java_string_hash), ("Murmur3_32Hash", _murmur)])
def test_keys_go_where_the_official_clients_put_them(flows: Flows, scheme: str, hashed: Any) -> None:
    # covers SINK-2
    topic = flows.broker.topic("routing", partitions=4)
    keys = [f"key-{number}" for number in range(40)] + ["", "é", "日本", "polygenelubricants"]
    flows.write(flows.rows("value string, __key string", [(key, key) for key in keys]), topic, hashingScheme=scheme)
    flows.write(
        flows.rows("value string, __key binary", [(key, key.encode()) for key in keys]), topic, hashingScheme=scheme
    )
    found = defaultdict(set)
    for message in flows.receive(topic):
        found[message.partition_key()].add(int(message.topic_name().rsplit("-", 1)[1]))
    encoded = [base64.b64encode(key.encode()).decode() for key in keys]
    assert dict(found) == {key: {hashed(key) % 4} for key in {*keys, *encoded}}


@pytest.mark.spark_alone
def test_keys_go_where_the_official_python_client_puts_them(flows: Flows) -> None:
    # covers SINK-10
    topic = flows.broker.topic("boost", partitions=13)
    keys = [
        *texts(40, prefix="key-"),
        "",
        "é",
        "日本語",
        "a😀b",
        "x" * 100,
        *("abcdefghi"[:size] for size in range(1, 9)),
    ]
    sender = flows.official().create_producer(topic)
    theirs = {key: sender.send(key.encode(), partition_key=key).partition() for key in keys if key}
    sender.close()
    binary = [bytes([255, 128, number]) for number in range(10)]
    theirs |= {
        text: boost_hash(text.encode()) % 13 for text in ["", *(base64.b64encode(key).decode() for key in binary)]
    }
    written = flows.broker.topic("boost", partitions=13)
    flows.write(
        flows.rows("value string, __key string", [(key, key) for key in keys]), written, hashingScheme="boosthash"
    )
    frame = flows.rows("value string, __key binary", [("bytes", key) for key in binary])
    flows.write(frame, written, hashingScheme="BoostHash")
    received = [(each.partition_key(), int(each.topic_name().rsplit("-", 1)[1])) for each in flows.receive(written)]
    assert len(received) == len(theirs)
    assert dict(received) == theirs


@pytest.mark.spark_alone
def test_hash_vectors_of_java(flows: Flows) -> None:
    # covers PT-4: the judge of the test above
    topic = flows.broker.topic("vectors", partitions=4)
    java = {"a": 1, "hello": 2, "test": 2, "key-1": 3, "key-2": 0, "order-42": 1, "é": 1, "日本": 3}
    murmur = {"a": 2, "hello": 3, "test": 3, "key-1": 0, "key-2": 0, "order-42": 2, "日本": 2}
    for scheme, expected in (("JavaStringHash", java), ("Murmur3_32Hash", murmur)):
        rows = [(scheme, key) for key in expected]
        flows.write(flows.rows("value string, __key string", rows), topic, hashingScheme=scheme)
        got = {
            message.partition_key(): int(message.topic_name().rsplit("-", 1)[1])
            for message in flows.receive(topic)
            if message.data().decode() == scheme
        }
        assert got == expected


@pytest.mark.spark_alone
def test_rows_without_key_go_round_by_batch(flows: Flows) -> None:
    topic = flows.broker.topic("round", partitions=4)
    flows.write(flows.rows("value string", [(text,) for text in texts(400)]).coalesce(1), topic, batchingMaxMessages=50)
    messages = flows.receive(topic)
    assert Counter(message.topic_name() for message in messages) == {f"{topic}-partition-{i}": 100 for i in range(4)}
    by_batch = defaultdict(list)
    for message in messages:
        at = message.message_id()
        by_batch[(message.topic_name(), at.ledger_id(), at.entry_id())].append(int(message.data()[1:]))
    assert sorted(map(sorted, by_batch.values())) == [list(range(first, first + 50)) for first in range(0, 400, 50)]


@pytest.mark.spark_alone
def test_single_partition(flows: Flows) -> None:
    topic = flows.broker.topic("single", partitions=4)
    frame = flows.rows("value string", [(text,) for text in texts(300)]).coalesce(1)
    flows.write(frame, topic, messageRoutingMode="SinglePartition", batchingMaxMessages=20)
    assert received(flows, topic) == texts(300)
    assert len({message.topic_name() for message in flows.receive(topic)}) == 1


@pytest.mark.parametrize("codec", ["LZ4", "ZLIB", "ZSTD", "SNAPPY"])
def test_compression(flows: Flows, codec: str) -> None:
    # covers READ-6
    topic = flows.broker.topic("compressed")
    flows.write(flows.rows("value string", [("x" * 5000,)] * 30), topic, compressionType=codec)
    assert received(flows, topic) == ["x" * 5000] * 30
    flows.write(
        flows.rows("value string, __key string", [("y" * 50, "k")]), topic, compressionType=codec, batchingMaxMessages=1
    )
    assert received(flows, topic)[-1] == "y" * 50


@pytest.mark.parametrize("most", [1, 100], ids=["unbatched", "batched"])
def test_ordering_keys_and_partitions_are_written_as_rows_name_them(flows: Flows, most: int) -> None:
    # covers SINK-4
    topic = flows.broker.topic("named", partitions=3)
    rows = [(f"{i}", "k", f"o{i}" if i % 2 else None, i % 4 if i % 4 < 3 else None) for i in range(20)]
    frame = flows.rows("value string, __key string, __orderingKey string, __partition int", rows)
    flows.write(frame.coalesce(1), topic, batchingMaxMessages=most)
    by_key = java_string_hash("k") % 3
    read = flows.batch(topic, metadataColumns="__orderingKey, __partition").collect()
    found = {bytes(row["value"]).decode(): (row["__orderingKey"], row["__partition"]) for row in read}
    assert found == {
        value: (None if ordering is None else ordering.encode(), by_key if partition is None else partition)
        for value, _, ordering, partition in rows
    }
    with pytest.raises(PySparkException, match=r"__partition is 3, and .* has 0 to 2"):
        flows.write(flows.rows("value string, __partition bigint", [("x", 3)]), topic)


def test_without_batching_each_message_is_an_entry(flows: Flows) -> None:
    # covers READ-3, SINK-3
    topic = flows.broker.topic("unbatched")
    rows = [("a", "k", {"p": "q"}), (None, None, None), ("", "", {})]
    frame = flows.rows("value string, __key string, __messageProperties map<string,string>", rows).coalesce(1)
    flows.write(frame, topic, batchingMaxMessages=1)
    messages = flows.receive(topic)
    assert {message.message_id().batch_index() for message in messages} == {-1}
    assert [(message.data(), message.partition_key(), message.properties()) for message in messages] == [
        (b"a", "k", {"p": "q"}),
        (b"", "", {}),
        (b"", "", {}),
    ]
    assert [row["value"] for row in flows.batch(topic).collect()] == [b"a", None, b""]


def test_a_row_too_large_is_an_error_that_says_so(flows: Flows) -> None:
    topic = flows.broker.topic("too-large")
    with pytest.raises(PythonException, match=r"(?i)too ?large"):
        flows.write(flows.spark.range(1).select(F.expr("repeat('x', 6000000)").alias("value")), topic)


@pytest.mark.spark_alone
def test_large_var_types_and_batch_sizes(flows: Flows) -> None:
    # covers SCHEMA-10
    topic = flows.broker.topic("large-types")
    frame = flows.rows(
        "value string, __key binary, __messageProperties map<string,string>",
        [(text, text.encode(), {text: text}) for text in texts(100)],
    ).coalesce(1)
    confs = {"spark.sql.execution.arrow.useLargeVarTypes": "true", "spark.sql.execution.arrow.maxRecordsPerBatch": "7"}
    for name, value in confs.items():
        flows.spark.conf.set(name, value)
    try:
        flows.write(frame, topic)
    finally:
        for name in confs:
            flows.spark.conf.unset(name)
    assert received(flows, topic) == texts(100)
    assert all(
        message.properties() == {message.data().decode(): message.data().decode()} for message in flows.receive(topic)
    )


@pytest.mark.spark_alone
def test_the_session_zone_moves_no_event_time(flows: Flows) -> None:
    # covers SCHEMA-10
    topic = flows.broker.topic("zones")
    flows.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = flows.spark.range(1).selectExpr("'x' AS value", "timestamp_millis(1357010640123) AS __eventTime")
        flows.write(frame, topic)
    finally:
        flows.spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert [message.event_timestamp() for message in flows.receive(topic)] == [1_357_010_640_123]


def test_empty_partitions_open_no_producer(flows: Flows) -> None:
    topic = flows.broker.topic("empty")
    flows.write(flows.spark.range(0).selectExpr("string(id) AS value").repartition(3), topic)
    assert topic not in flows.wire().topics_of("public/default")
    flows.write(flows.spark.range(2, numPartitions=1).selectExpr("string(id) AS value").repartition(6), topic)
    assert sorted(received(flows, topic)) == ["0", "1"]


@pytest.mark.spark_alone
def test_overwrite_and_wrong_columns_are_refused(flows: Flows) -> None:
    topic = flows.broker.topic("refused")
    frame = flows.rows("value string", [("x",)])
    writer = frame.write.format("pulsar").option("service.url", flows.broker.service_url).option("topic", topic)
    with pytest.raises(AnalysisException, match="cannot be overwritten"):
        writer.mode("overwrite").save()
    with pytest.raises(AnalysisException, match="struct"):
        flows.write(flows.rows("carrier string, delay int", [("UA", 1)]), topic)
    with pytest.raises(AnalysisException, match="rows need a topic"):
        flows.write(frame)
    with pytest.raises(AnalysisException, match="did you mean compressionType"):
        flows.write(frame, topic, compressionTyp="LZ4")
    with pytest.raises(AnalysisException, match="minPartitions is for batch read"):
        flows.write(frame, topic, minPartitions="4")


@pytest.mark.versions
def test_from_topic_to_topic_as_a_stream(flows: Flows) -> None:
    source, target, checkpoint = flows.broker.topic("from"), flows.broker.topic("to", partitions=2), flows.checkpoint()
    flows.send(source, texts(25), {"partition_key": "k", "properties": {"a": "b"}})
    frame = flows.stream(source, maxMessagesPerTrigger=10).drop("__messageId", "__publishTime", "__topic")

    def run() -> None:
        writer = frame.writeStream.format("pulsar").option("service.url", flows.broker.service_url)
        flows.run(writer.option("topic", target).queryName("copy"), checkpoint)

    run()
    flows.send(source, texts(5, 25), {"partition_key": "k"})
    run()
    messages = flows.receive(target)
    assert [message.data().decode() for message in messages] == texts(30)
    assert {message.properties().get("a") for message in messages[:25]} == {"b"}
    assert len({message.topic_name() for message in messages}) == 1


@pytest.mark.spark_alone
def test_complete_mode_is_refused_and_foreach_batch_works(flows: Flows) -> None:
    source, target = flows.broker.topic("counted"), flows.broker.topic("counts")
    flows.send(source, texts(6), {"partition_key": "k"})
    counts = flows.stream(source).groupBy(F.col("__key").cast("string").alias("k")).count()
    writer = counts.writeStream.format("pulsar").outputMode("complete").option("checkpointLocation", flows.checkpoint())
    with pytest.raises(StreamingQueryException, match="cannot be overwritten"):
        flows.start(writer.options(**{"service.url": flows.broker.service_url, "topic": target})).awaitTermination(120)

    def publish(batch: DataFrame, _: int) -> None:
        flows.write(batch.selectExpr("struct(*) AS value"), target)

    updates = (
        counts.writeStream.outputMode("update").foreachBatch(publish).option("checkpointLocation", flows.checkpoint())
    )
    assert flows.start(updates.trigger(availableNow=True)).awaitTermination(120)
    assert received(flows, target) == ['{"k":"k","count":6}']


def _kill_workers_once(flag: Path) -> Any:
    """A mapInArrow function that kills every Python worker of its daemon, the sink's among them, once."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            yield batch
            if number == 2 and not flag.exists():
                flag.touch()
                for worker in psutil.Process(os.getppid()).children():
                    if worker.pid != os.getpid():
                        worker.kill()
                os.kill(os.getpid(), 9)

    return pass_on


@pytest.mark.spark_alone
def test_killed_workers_lose_no_row(flows: Flows, tmp_path: Path) -> None:
    # covers SINK-3: kill -9 of a worker mid-write; rows may repeat
    source, target, checkpoint = flows.broker.topic("source"), flows.broker.topic("killed"), flows.checkpoint()
    flows.send(source, texts(5000), batching_enabled=True, batching_max_messages=100, max_pending_messages=10_000)
    rows = flows.stream(source, maxMessagesPerTrigger=2000).select("value")
    flows.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        killed = rows.mapInArrow(_kill_workers_once(tmp_path / "killed"), "value binary")
        writer = killed.writeStream.format("pulsar").option("topic", target)
        writer = writer.option("service.url", flows.broker.service_url)
        with pytest.raises(PySparkException):
            flows.run(writer, checkpoint)
        assert (tmp_path / "killed").exists()
        flows.run(writer, checkpoint)
    finally:
        flows.spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert set(received(flows, target)) == set(texts(5000))


@pytest.mark.spark_alone
def test_a_batch_that_failed_after_writing_is_written_again(flows: Flows) -> None:
    # covers SINK-3: failure after the write; at least once
    source, target, checkpoint = flows.broker.topic("source"), flows.broker.topic("again"), flows.checkpoint()
    flows.send(source, texts(20))
    failures = []

    def write_then_fail(batch: DataFrame, batch_id: int) -> None:
        flows.write(batch.select("value"), target)
        if batch_id == 1 and not failures:
            failures.append(batch_id)
            raise RuntimeError("after writing")

    frame = flows.stream(source, maxMessagesPerTrigger=8)
    writer = frame.writeStream.foreachBatch(write_then_fail)
    with pytest.raises(StreamingQueryException, match="after writing"):
        flows.run(writer, checkpoint)
    flows.run(writer, checkpoint)
    assert Counter(received(flows, target)) == Counter(texts(20) + texts(8, 8))
