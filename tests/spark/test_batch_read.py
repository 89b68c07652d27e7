"""`spark.read.format("pulsar")`: every column, every kind of entry, exact ranges."""

from __future__ import annotations

import datetime
import json

import pulsar
import pytest
from chispa import assert_df_equality
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import functions as F

from tests.spark.flows import BATCHED, UNBATCHED, Flows, texts, values

COLUMNS = (
    "value binary, __key binary, __topic string, __messageId binary, __publishTime timestamp, __eventTime timestamp, "
    "__messageProperties map<string,string>"
)
EVENT_TIME_MS = 1_357_010_640_123


@pytest.mark.spark_alone
def test_the_columns_are_those_of_the_jvm_connector(flows: Flows) -> None:
    # covers SCHEMA-1 (without .schema)
    topic = flows.broker.topic("columns")
    flows.send(topic, ["x"])
    frame = flows.batch(topic)
    assert frame.schema == flows.spark.createDataFrame([], COLUMNS).schema
    assert frame.count() == 1


@pytest.mark.versions
@pytest.mark.parametrize("producer", [UNBATCHED, BATCHED], ids=["unbatched", "batched"])
def test_every_column_says_what_the_official_reader_says(flows: Flows, producer: dict[str, object]) -> None:
    # covers READ-3
    topic = flows.broker.topic("rows")
    flows.send(topic, texts(5), **producer)
    full = {"partition_key": "clé", "event_timestamp": EVENT_TIME_MS, "properties": {"a": "1", "b": "", "ü": "é"}}
    flows.send(topic, texts(25, 5), full, **producer)
    flows.send(topic, [b"\x00\xff", b"", None], {"partition_key": ""}, **producer)
    messages = flows.receive(topic)
    rows = flows.batch(topic).collect()
    assert len(rows) == len(messages) == 33
    for row, message in zip(rows, messages, strict=True):
        assert pulsar.MessageId.deserialize(bytes(row["__messageId"])) == message.message_id()
        assert row["__topic"] == topic
        publish_ms = row["__publishTime"].replace(tzinfo=datetime.UTC).timestamp() * 1000
        assert round(publish_ms) == message.publish_timestamp()
        assert row["__messageProperties"] == message.properties()
    assert values(rows[:30]) == texts(30)
    assert [row["value"] for row in rows[30:]] == [b"\x00\xff", b"", None]
    assert {row["__key"] for row in rows[:5]} == {None}
    assert {bytes(row["__key"]).decode() for row in rows[5:30]} == {"clé"}
    assert {row["__eventTime"] for row in rows[:5]} == {None}
    event_time = datetime.datetime.fromtimestamp(EVENT_TIME_MS / 1000, datetime.UTC).replace(tzinfo=None)
    assert {row["__eventTime"] for row in rows[5:30]} == {event_time}


@pytest.mark.parametrize("codec", ["LZ4", "ZLib", "ZSTD", "SNAPPY"])
def test_compressed_entries(flows: Flows, codec: str) -> None:
    # covers READ-6
    topic = flows.broker.topic("compressed")
    kind = getattr(pulsar.CompressionType, codec)
    flows.send(topic, ["x" * 1000] * 20, compression_type=kind, **BATCHED)
    flows.send(topic, ["y" * 1000] * 3, compression_type=kind, **UNBATCHED)
    flows.send(topic, ["plain"], **UNBATCHED)
    assert values(flows.batch(topic).collect()) == ["x" * 1000] * 20 + ["y" * 1000] * 3 + ["plain"]


def test_chunked_messages_take_the_place_of_their_last_chunk(flows: Flows) -> None:
    # covers OFFSET-4
    topic = flows.broker.topic("chunked")
    big = bytes(range(256)) * 50_000  # 12.8 MB: three chunks
    flows.send(topic, ["before"])
    flows.send(topic, [big], {"partition_key": "k"}, chunking_enabled=True, batching_enabled=False)
    flows.send(topic, [big], chunking_enabled=True, batching_enabled=False, compression_type=pulsar.CompressionType.LZ4)
    flows.send(topic, ["after"])
    rows = flows.batch(topic).collect()
    assert [len(row["value"]) for row in rows] == [6, len(big), len(big), 5]
    assert bytes(rows[1]["value"]) == big == bytes(rows[2]["value"])
    assert bytes(rows[1]["__key"]) == b"k"


def test_a_range_that_starts_between_chunks_holds_the_message(flows: Flows) -> None:
    topic = flows.broker.topic("between-chunks")
    big = bytes(range(256)) * 50_000
    flows.send(topic, ["before"])
    [at] = flows.send(topic, [big], chunking_enabled=True, batching_enabled=False)
    flows.send(topic, ["after"])
    middle = {topic: f"{at.ledger_id()}:{at.entry_id() - 1}"}
    before_last = {topic: f"{at.ledger_id()}:{at.entry_id()}"}
    assert [len(row["value"]) for row in flows.batch(topic, startingOffsets=middle).collect()] == [len(big), 5]
    assert [len(row["value"]) for row in flows.batch(topic, endingOffsets=before_last).collect()] == [6]


def test_exact_positions_inside_a_batch(flows: Flows) -> None:
    # covers OFFSET-1
    topic = flows.broker.topic("positions")
    ids = flows.send(topic, texts(30), **BATCHED)
    at = {number: f"{one.ledger_id()}:{one.entry_id()}:{one.batch_index()}" for number, one in enumerate(ids)}
    for first, end in [(0, 10), (3, 7), (13, 25), (9, 21), (29, 30), (4, 4)]:
        options = {"startingOffsets": {topic: at[first]}, "endingOffsets": {topic: at.get(end, "latest")}}
        assert values(flows.batch(topic, **options).collect()) == texts(end - first, first)


def test_offsets_name_every_partition_in_order(flows: Flows) -> None:
    topic = flows.broker.topic("parted", partitions=2)
    for index in (0, 1):
        flows.send(f"{topic}-partition-{index}", texts(3, prefix=f"p{index}-"))
    one = {f"{topic}-partition-0": "latest"}
    with pytest.raises(
        AnalysisException, match=f"startingOffsets must name every partition; missing: {topic}-partition-1"
    ):
        flows.batch(topic, startingOffsets=one).collect()
    with pytest.raises(AnalysisException, match="startingOffsets names what is not read"):
        flows.batch(topic, startingOffsets=one | {f"{topic}-partition-1": "earliest", "other": "latest"}).collect()
    rows = flows.batch(topic, startingOffsets=one | {f"{topic}-partition-1": "earliest"}).collect()
    assert values(rows) == texts(3, prefix="p1-")
    late = {f"{topic}-partition-{index}": "latest" for index in (0, 1)}
    early = {f"{topic}-partition-{index}": "0:0:0" for index in (0, 1)}
    with pytest.raises(AnalysisException, match="lies before its startingOffsets"):
        flows.batch(topic, startingOffsets=late, endingOffsets=early).collect()


def test_partitions_lists_and_patterns(flows: Flows) -> None:
    first, second = flows.broker.topic("many", partitions=3), flows.broker.topic("many")
    flows.send(first, texts(9, prefix="a"))
    flows.send(second, texts(4, prefix="b"))
    both = flows.reader(topics=f"{first}, {second}").load()
    assert sorted(values(both.collect())) == sorted(texts(9, prefix="a") + texts(4, prefix="b"))
    assert both.select("__topic").distinct().count() == 4
    local = first.rsplit("/", 1)[1]
    assert flows.reader(topicsPattern=f"{local[:-6]}.*").load().count() == 9
    assert flows.reader(topicsPattern=f"public/default/{local}").load().count() == 9
    assert flows.reader(topicsPattern=f"persistent://public/default/{local[:-1]}").load().count() == 0
    part = f"{first}-partition-1"
    whole = [bytes(row["value"]) for row in flows.batch(first).collect() if row["__topic"] == part]
    assert [bytes(row["value"]) for row in flows.batch(part).collect()] == whole


@pytest.mark.versions
def test_an_empty_topic_has_no_rows(flows: Flows) -> None:
    topic = flows.broker.topic("empty")
    flows.send(topic, [])
    assert flows.batch(topic).count() == 0
    assert flows.batch(flows.broker.topic("empty", partitions=2)).collect() == []


def test_a_missing_topic_is_an_error_and_is_not_created(flows: Flows) -> None:
    topic = flows.broker.topic("missing")
    with pytest.raises(AnalysisException, match=r"(?i)not.?found"):
        flows.batch(topic).count()
    assert topic not in flows.wire().topics_of("public/default")


@pytest.mark.spark_alone
def test_projection_and_strings(flows: Flows) -> None:
    # covers SCHEMA-1 (with .schema)
    topic = flows.broker.topic("projection")
    flows.send(topic, ["a", "b"], {"partition_key": "k", "properties": {"p": "q"}})
    for ddl in [
        "value binary",
        "__topic string",
        "__key string, value string",
        COLUMNS,
        "__messageProperties map<string,string>",
    ]:
        frame = flows.reader(topic).schema(ddl).load()
        assert frame.schema == flows.spark.createDataFrame([], ddl).schema
        assert len(frame.collect()) == 2
    frame = flows.reader(topic).schema("__key string, value string NOT NULL").load()
    expected = flows.rows("__key string, value string", [("k", "a"), ("k", "b")])
    assert_df_equality(frame, expected, ignore_nullable=True)
    for ddl, reason in [("valeu binary", "did you mean value"), ("value int", "cannot be read as int")]:
        with pytest.raises(AnalysisException, match=reason):
            flows.reader(topic).schema(ddl).load().collect()


def test_a_read_between_two_times(flows: Flows) -> None:
    # covers OFFSET-3
    topic = flows.broker.topic("times", partitions=3)
    first, second, empty = flows.wire().partitions_of(topic)
    begin_ms = 1_790_000_000_000
    flows.send_at(first, {f"a{step}": begin_ms + step for step in (0, 10, 20, 30)})
    flows.send_at(second, {f"b{step}": begin_ms + step for step in (5, 25, 45)})

    def read(**options: object) -> list[str]:
        return sorted(values(flows.batch(topic, **options).collect()))

    assert read(startingTime=begin_ms + 10) == ["a10", "a20", "a30", "b25", "b45"]
    assert read(startingTime=begin_ms + 10, endingTime=begin_ms + 25) == ["a10", "a20"]
    assert read(endingTime=begin_ms + 1) == ["a0"]
    assert read(startingTime=begin_ms + 46) == []
    times = {first: begin_ms + 30, second: begin_ms + 6, empty: 0}
    assert read(startingTime=json.dumps(times)) == ["a30", "b25", "b45"]
    with pytest.raises(AnalysisException, match=f"startingTime must name every partition; missing: {empty}"):
        read(startingTime=json.dumps({first: 1, second: 1}))


@pytest.mark.spark_alone
def test_text_that_is_none_is_an_error_that_names_the_column(flows: Flows) -> None:
    topic = flows.broker.topic("not-text")
    flows.send(topic, [b"\xff\xfe"])
    with pytest.raises(PythonException, match="column value was requested as string but holds bytes that are no UTF-8"):
        flows.reader(topic).schema("value string").load().collect()


@pytest.mark.spark_alone
def test_errors_come_at_the_call_site(flows: Flows) -> None:
    # covers READ-7
    with pytest.raises(AnalysisException, match="did you mean startingOffsets"):
        flows.batch("t", startingOffset="earliest")
    with pytest.raises(AnalysisException, match=r"service.url is required"):
        flows.spark.read.format("pulsar").option("topic", "t").load()
    with pytest.raises(AnalysisException, match="one of the options topic, topics, topicsPattern"):
        flows.reader().load()
    with pytest.raises(AnalysisException, match="maxMessagesPerTrigger is for stream read only"):
        flows.batch("t", maxMessagesPerTrigger=5).count()


@pytest.mark.spark_alone
def test_the_session_zone_moves_no_timestamp(flows: Flows) -> None:
    # covers SCHEMA-10
    topic = flows.broker.topic("zones")
    flows.send(topic, ["x"], {"event_timestamp": EVENT_TIME_MS})
    flows.spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        [row] = (
            flows.batch(topic)
            .select(F.unix_millis("__eventTime").alias("e"), F.col("__eventTime").cast("string").alias("s"))
            .collect()
        )
    finally:
        flows.spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert row["e"] == EVENT_TIME_MS
    assert row["s"] == "2013-01-01 08:54:00.123"


@pytest.mark.spark_alone
def test_large_var_types_change_nothing(flows: Flows) -> None:
    # covers SCHEMA-10
    topic = flows.broker.topic("large-types")
    flows.send(topic, texts(3), {"partition_key": "k", "properties": {"a": "b"}})
    flows.spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        assert values(flows.batch(topic).collect()) == texts(3)
    finally:
        flows.spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")


def test_many_rows_come_in_order_and_a_limit_ends_the_reader(flows: Flows) -> None:
    topic = flows.broker.topic("many-rows")
    batched = {"batching_enabled": True, "batching_max_messages": 1000, "max_pending_messages": 20_000}
    flows.send(topic, texts(50_000), {"partition_key": "k"}, **batched)
    frame = flows.batch(topic)
    assert len(frame.limit(1).collect()) == 1
    assert values(frame.collect()) == texts(50_000)
    assert flows.subscriptions(topic) == set()
