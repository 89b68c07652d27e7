"""Columns, decoding and writing depend on no setting of the session."""

from __future__ import annotations

import datetime
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_pulsar.model.schemas import Schema, SchemaType
from tests.spark.flows import Flows

pytestmark = pytest.mark.spark_alone

MICROS = 1_700_000_000_123_456
EVENT_TIME_MS = 1_600_000_000_000

SETTINGS: dict[str, dict[str, Any]] = {
    "timestamps without zone": {
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.preserveCharVarcharTypeInfo": True,
        "spark.sql.ansi.enforceReservedKeywords": True,
        "spark.sql.execution.pandas.structHandlingMode": "dict",
        "spark.sql.execution.pandas.convertToArrowArraySafely": True,
        "spark.sql.execution.pyspark.binaryAsBytes": False,
    },
    "offset as zone, wide types, ansi off": {
        "spark.sql.ansi.enabled": False,
        "spark.sql.session.timeZone": "GMT+8",
        "spark.sql.caseSensitive": True,
        "spark.sql.datetime.java8API.enabled": True,
        "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
        "spark.sql.execution.arrow.useLargeVarTypes": True,
        "spark.sql.execution.arrow.maxRecordsPerBatch": 1,
    },
    "Java's short zone, legacy": {
        "spark.sql.session.timeZone": "PST",
        "spark.sql.legacy.charVarcharAsString": True,
        "spark.sql.legacy.interval.enabled": True,
        "spark.sql.legacy.timeParserPolicy": "LEGACY",
        "spark.sql.legacy.allowNegativeScaleOfDecimal": True,
        "spark.sql.legacy.createEmptyCollectionUsingStringType": True,
    },
}
"""Settings that change types or parsing, a few in one case."""


@contextmanager
def set_to(spark: SparkSession, settings: dict[str, Any]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, str(value).lower() if isinstance(value, bool) else value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


TYPES = (
    "bool boolean, small smallint, whole int, big bigint, real float, wide double, text string, bin binary, day date, "
    "at timestamp_ltz, local timestamp_ntz, dec decimal(20,3), xs array<timestamp_ltz>, m map<string,timestamp_ntz>, "
    "n struct<x: timestamp_ltz, y: array<struct<z: string>>>"
)
EXPRESSIONS = (
    "true AS bool", "CAST(1 AS smallint) AS small", "2 AS whole", "3L AS big", "CAST(0.5 AS float) AS real",
    "CAST(-0.25 AS double) AS wide", "'t' AS text", "CAST('b' AS binary) AS bin", "date'2023-11-14' AS day",
    f"timestamp_micros({MICROS}) AS at", "timestamp_ntz'2023-11-14 22:13:20.123456' AS local",
    "CAST('12.345' AS decimal(20,3)) AS dec", f"array(timestamp_micros({MICROS}), NULL) AS xs",
    "map('k', timestamp_ntz'2023-11-14 22:13:20.123456') AS m",
    f"named_struct('x', timestamp_micros({MICROS}), 'y', array(named_struct('z', 'q'))) AS n",
)  # fmt: skip


def as_texts(frame: Any) -> Any:
    """Instants as numbers, so that no setting shows in them."""
    return frame.select(
        F.expr("hash(bool, small, whole, big, real, wide, text, bin, day, dec)").alias("plain"),
        F.expr("unix_micros(at)").alias("at"),
        F.expr("CAST(local AS string)").alias("local"),
        F.expr("transform(xs, x -> unix_micros(x))").alias("xs"),
        F.expr("CAST(m['k'] AS string)").alias("m"),
        F.expr("unix_micros(n.x)").alias("n"),
        F.expr("n.y[0].z").alias("z"),
    )


def check(flows: Flows, topic: str) -> None:
    """The columns of a topic have their types and values."""
    back = flows.batch(topic)
    expected = flows.spark.createDataFrame([], TYPES).schema.simpleString().replace("small:smallint", "small:int")
    assert StructType(back.schema.fields[: len(EXPRESSIONS)]).simpleString() == expected
    (row,) = as_texts(back).collect()
    local = "2023-11-14 22:13:20.123456"
    assert row[1:] == (MICROS, local, [MICROS, None], local, MICROS, "q")
    assert back.select(F.expr("unix_millis(__eventTime)")).collect() == [(EVENT_TIME_MS,)]


@pytest.mark.parametrize("case", SETTINGS)
def test_no_setting_changes_what_is_written_and_read(flows: Flows, case: str) -> None:
    # covers SCHEMA-10
    spark = flows.spark
    plain = flows.broker.topic("plain")
    flows.send(plain, ["a"], {"event_timestamp": EVENT_TIME_MS})
    topics = {kind: flows.broker.topic(f"of-{kind.lower()}") for kind in ("AVRO", "JSON")}
    with set_to(spark, SETTINGS[case]):
        read = flows.batch(plain, metadataColumns="all")
        assert read.select(F.expr("unix_millis(__eventTime)")).collect() == [(EVENT_TIME_MS,)]
        columns = dict(read.dtypes)
        assert {columns[name] for name in ("__publishTime", "__eventTime", "__brokerPublishTime")} == {"timestamp"}
        frame = spark.range(1).selectExpr(*EXPRESSIONS)
        frame = frame.withColumn("__eventTime", F.expr(f"timestamp_millis({EVENT_TIME_MS})"))
        for kind, topic in topics.items():
            flows.write(frame, topic, schemaType=kind)
            if kind == "JSON":
                check(flows, topic)
                continue
            copy = flows.broker.topic("copy")
            stream = flows.stream(topic).select(*(name for name in frame.columns))
            writer = stream.writeStream.format("pulsar").option("service.url", flows.broker.service_url)
            writer = writer.option("topic", copy).option("schemaType", kind)
            writer = writer.option("checkpointLocation", flows.checkpoint())
            assert flows.start(writer.trigger(availableNow=True)).awaitTermination(120)
            check(flows, topic)
            check(flows, copy)
        flows.write(frame.selectExpr("struct(at, local) AS value"), plain)
        value = json.loads(flows.receive(plain)[-1].data())
        assert datetime.datetime.fromisoformat(value["at"]).timestamp() == MICROS / 1e6
        assert value["local"] == "2023-11-14T22:13:20.123456"


LOCAL = "timestamp_ntz'2023-07-01 12:00:00'"
NOON_IN_NEW_YORK_MS = 1_688_227_200_000


def test_local_times_are_those_of_the_session(flows: Flows) -> None:
    # covers SCHEMA-11
    spark, topic = flows.spark, flows.broker.topic("local")
    with set_to(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        frame = spark.range(1).selectExpr("'x' AS value", f"{LOCAL} AS __eventTime", f"{LOCAL} AS __deliverAt")
        flows.write(frame, topic)
        (message,) = flows.receive(topic)
        assert message.event_timestamp() == NOON_IN_NEW_YORK_MS
        both = spark.range(1).selectExpr(f"{LOCAL} AS a", f"CAST({LOCAL} AS timestamp_ltz) AS b")
        for kind, (a, b) in itertools.product(
            ("AVRO", "JSON"), (("timestamp-millis", "local-timestamp-micros"), ("timestamp-micros",) * 2)
        ):
            topic = flows.broker.topic("kept")
            fields = [
                {"name": name, "type": {"type": "long", "logicalType": logical}}
                for name, logical in (("a", a), ("b", b))
            ]
            definition = json.dumps({"type": "record", "name": "R", "fields": fields}).encode()
            flows.official().create_producer(topic).close()
            flows.wire().register_schema(topic, Schema(SchemaType[kind], definition))
            flows.write(both, topic, schemaType=kind)
            (row,) = flows.batch(topic, metadataColumns="__schemaVersion").collect()
            assert row["__schemaVersion"] == 0, "the topic's own schema takes them"
            (row,) = (
                flows.batch(topic).selectExpr("unix_millis(CAST(a AS timestamp_ltz))", "CAST(b AS string)").collect()
            )
            assert row == (NOON_IN_NEW_YORK_MS, "2023-07-01 12:00:00")
        for kind, column in (("TIMESTAMP", "a"), ("INSTANT", "a"), ("LOCAL_DATE_TIME", "b")):
            topic = flows.broker.topic(kind.lower())
            flows.write(both.select(column), topic, schemaType=kind)
            assert flows.batch(topic).selectExpr("CAST(value AS string)").collect() == [("2023-07-01 12:00:00",)]
