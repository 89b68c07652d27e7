"""A program that has a connection to Spark and nothing else, as on serverless platforms: no JVM, no `SparkContext`.

`SPARK_REMOTE=sc://… python -m tests.cluster.without_context URL SOURCE SINK DIRECTORY` goes through all that the
package offers to a session, and prints as one line of JSON what it saw. SINK is a topic that de-duplicates.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import spark_pulsar
from spark_pulsar.connector.errors import SchemaError

Options = dict[str, str]


class Connected:
    """The session, the topics of a run, and where its checkpoints are."""

    def __init__(self, service_url: str, source: str, sink: str, directory: str) -> None:
        self.spark = SparkSession.builder.getOrCreate()
        self.url = {"service.url": service_url}
        self.source, self.sink, self.directory = source, sink, directory

    def write(self, frame: DataFrame, topic: str | None, **options: str) -> None:
        named = {} if topic is None else {"topic": topic}
        frame.write.format("pulsar").mode("append").options(**self.url, **named, **options).save()

    def read(self, topic: str, **options: str) -> DataFrame:
        return self.spark.read.format("pulsar").options(**self.url, topic=topic, **options).load()

    def stream(self, topic: str, name: str = "", **options: str) -> DataFrame:
        reader = self.spark.readStream.format("pulsar")
        reader = reader.name(name) if name else reader
        return reader.options(**self.url, topic=topic, startingOffsets="earliest", **options).load()

    def finished(self, writer: Any, checkpoint: str) -> Any:
        """Runs a query to the end of what there is."""
        query = writer.option("checkpointLocation", f"{self.directory}/{checkpoint}").trigger(availableNow=True).start()
        assert query.awaitTermination(300)
        return query

    def rows(self, values: list[tuple[str, str]]) -> DataFrame:
        return self.spark.createDataFrame(values, "value string, __key string")


def values(frame: DataFrame) -> list[str]:
    """The column `value` as text, sorted."""
    return sorted(row.v for row in frame.selectExpr("CAST(value AS STRING) v").collect())


def session_alone(run: Connected) -> dict[str, Any]:
    """There is no context and no JVM here; the format is registered, too."""
    from pyspark import SparkContext

    try:
        context = str(run.spark.sparkContext)
    except PySparkException as error:
        context = type(error).__name__
    spark_pulsar.register(run.spark)
    return {"session": type(run.spark).__module__, "context": context, "gateway": SparkContext._gateway is not None}


GUARANTEES = ("at-least-once", "effectively-once", "transactional")


def guarantees(run: Connected) -> dict[str, Any]:
    """Streaming writes with each delivery guarantee, and a job that runs twice under one name."""
    for guarantee in GUARANTEES:
        options = {**run.url, "topic": f"{run.sink}-{guarantee}", "deliveryGuarantee": guarantee}
        writer = run.stream(run.source).select("value").writeStream.format("pulsar").options(**options)
        run.finished(writer, guarantee)
    numbered = run.spark.range(0, 20, 1, 1).selectExpr("STRING(id) AS value", "id AS __sequenceId")
    for _ in range(2):
        run.write(numbered, f"{run.sink}-named", deliveryGuarantee="effectively-once", producerName="job")
    run.write(run.rows([("t", "k")]), f"{run.sink}-job", deliveryGuarantee="transactional")
    return {
        "guarantees": [values(run.read(f"{run.sink}-{name}")) for name in (*GUARANTEES, "job")],
        "named": run.read(f"{run.sink}-named").count(),
    }


SEQUENCE_ID = "shiftleft(__ledgerId, 28) + shiftleft(__entryId, 12) + coalesce(__batchIndex, 0) AS __sequenceId"


def micro_batches(run: Connected) -> dict[str, Any]:
    """`foreachBatch` reads and writes with the session that it gets its rows in. Spark does not name the micro-batch to
    such a write: rows that name their ids are written once all the same, when a micro-batch runs again."""
    directory, options = run.directory, {**run.url, "topic": f"{run.sink}-batches"}

    def each(batch: DataFrame, number: int) -> None:
        session = batch.sparkSession
        batch.createOrReplaceTempView("of_this_batch")
        rows = session.sql("SELECT value, __sequenceId FROM of_this_batch").coalesce(1)
        once = {"deliveryGuarantee": "effectively-once", "producerName": "each"}
        rows.write.format("pulsar").mode("append").options(**options, **once).save()
        seen = session.read.format("pulsar").options(**options).load().count()
        Path(f"{directory}/seen-{number}").write_text(str(seen))
        try:
            rows.select("value").write.format("pulsar").mode("append").options(**options, **once).save()
        except PySparkException as error:
            Path(f"{directory}/refused").write_text(str(error))

    ids = {"metadataColumns": "__ledgerId, __entryId, __batchIndex", "maxMessagesPerTrigger": "2"}
    stream = run.stream(run.source, **ids).selectExpr("value", SEQUENCE_ID)
    query = run.finished(stream.writeStream.queryName("batches").foreachBatch(each), "batches")
    explained = spark_pulsar.explain(query)
    last = query.lastProgress
    for file in (Path(directory) / "batches" / "commits").glob("*1*"):  # with its checksum
        file.unlink()  # as if the driver had been lost before
    run.finished(stream.writeStream.queryName("batches").foreachBatch(each), "batches")
    return {
        "foreachBatch": values(run.read(options["topic"])),
        "seen": [int(Path(f"{directory}/seen-{number}").read_text()) for number in range(2)],
        "refused": "over Spark Connect, where Spark names no micro-batch" in Path(f"{directory}/refused").read_text(),
        "explained": explained,
        "lag": json.loads(last["sources"][0]["latestOffset"])["lag"]["messages"],
    }


def letters(run: Connected) -> dict[str, Any]:
    """Retry and dead letters, and their replay, are expressions of the rows."""
    failed = run.read(run.source).where("STRING(value) = 'a'")
    run.write(spark_pulsar.retry_letters(failed, subscription="s", delay_ms=0), None)
    run.write(spark_pulsar.dead_letters(failed, subscription="s"), None)
    dead = run.read(f"{run.source}-s-DLQ")
    try:
        spark_pulsar.dead_letters(dead.drop("__messageId"), subscription="s")
        refused = ""
    except SchemaError as error:
        refused = str(error)
    again = spark_pulsar.replayed_letters(dead).select(F.element_at(F.split("__topic", "/"), -1).alias("t")).collect()
    return {
        "letters": [values(run.read(f"{run.source}-s-RETRY")), values(dead), [row.t for row in again]],
        "incomplete": "letters need the columns" in refused,
    }


def schemas(run: Connected) -> dict[str, Any]:
    """A topic with a schema, new fields of it, offsets of a message, SQL and tables of views."""
    topic = f"{run.sink}-records"
    run.write(run.spark.createDataFrame([(1,)], "id int"), topic, schemaType="AVRO")
    planned = run.stream(topic, schemaEvolutionMode="rescue").select("id", "_rescued_data")
    planned.createOrReplaceTempView("records")
    run.write(run.spark.createDataFrame([(2, "x")], "id int, note string"), topic, schemaType="AVRO")
    query = run.spark.readStream.table("records").writeStream.format("memory").queryName("memory_of_records")
    run.finished(query, "records")
    found = run.spark.table("memory_of_records").orderBy("id").collect()
    places = ("__ledgerId", "__entryId", "__batchIndex")
    first = run.read(run.source, metadataColumns=",".join(places)).orderBy(*places).first()
    assert first is not None
    offsets = spark_pulsar.starting_offsets({first["__topic"]: bytes(first["__messageId"])}, after=True)
    options = f"service.url '{run.url['service.url']}', topic '{run.source}'"
    run.spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING pulsar OPTIONS ({options})")
    try:
        run.read(run.source, topc="x").collect()
        refused = ""
    except PySparkException as error:
        refused = str(error)
    return {
        "rescued": [row["_rescued_data"] and json.loads(row["_rescued_data"])["note"] for row in found],
        "after": sorted([bytes(first["value"]).decode(), *values(run.read(run.source, startingOffsets=offsets))]),
        "sql": run.spark.sql("SELECT count(*) AS n FROM v").collect()[0].n,
        "misspelt": "unknown option topc; did you mean topic" in refused,
    }


def named_sources(run: Connected) -> dict[str, Any]:
    """A query whose sources have names gets one more, in front."""
    run.spark.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
    other, copy = f"{run.source}-other", {**run.url, "topic": f"{run.sink}-united"}

    def copied(frame: DataFrame) -> list[str]:
        run.finished(frame.select("value").writeStream.format("pulsar").options(**copy), "united")
        return values(run.read(copy["topic"]))

    run.write(run.rows([("o", "k")]), other)
    before = copied(run.stream(run.source, "source"))
    after = copied(run.stream(other, "other").union(run.stream(run.source, "source")))
    run.spark.conf.unset("spark.sql.streaming.queryEvolution.enableSourceEvolution")
    return {"named_sources": [before, after]}


PARTS: tuple[Callable[[Connected], dict[str, Any]], ...] = (
    session_alone, guarantees, micro_batches, letters, schemas, named_sources,
)  # fmt: skip


def main() -> None:
    """Goes through all parts."""
    run = Connected(*sys.argv[1:])
    run.write(run.rows([("a", "k1"), ("b", "k2"), ("c", "k1")]), run.source)
    seen: dict[str, Any] = {}
    for part in PARTS:
        seen |= part(run)
    run.spark.stop()
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main()
