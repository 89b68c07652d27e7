#!/usr/bin/env python3
"""Rows a second beside Spark's Kafka connector, in one Spark session; `spark.py --against kafka` starts it.

Six works of the same rows, values of 100 bytes with a key; the default columns of either connector:

source batch    a topic into `noop`                               1 and 4 partitions
source stream   the same as one micro-batch of a streaming query  1 and 4 partitions
sink            `spark.range` → value and key → a topic           1 and 4 partitions

And works with a schema, records of ten fields, on topics of two partitions:

read AVRO       columns by our source; Kafka's values by `from_avro`
read JSON       the same by `from_json`; either side has the same texts
write AVRO      `schemaType`; values by `to_avro` to Kafka
write JSON      the same by `to_json`

Each round does each work once on either side, the other side first in every other round. Figures are medians of the
rounds after the warm-ups: rows a second of wall time, and processor seconds a million rows of the JVM, its Python
workers and the broker, which other work on the machine touches less.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import sys
import time
import urllib.request
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from load.machine import tree_processor_s
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.avro.functions import from_avro, to_avro
from rich.console import Console
from rich.table import Table
from spark_schemas import RECORD

import spark_pulsar

PARTITIONS = (1, 4)
SCHEMA_PARTITIONS = 2
VALUE_BYTES = 100
CHECKED_ROWS = 100
TARGET, SCHEMA_TARGET = 1.5, 1.0
"""Ratios to Kafka, at least."""
KINDS = ("AVRO", "JSON")
_numbers = itertools.count()


def schema_definition() -> str:
    """Avro's definition of the records, as both sides write and read them."""
    types: dict[str, Any] = {"id": "long", "delay": "int", "distance": "long", "speed": "double", "late": "boolean"}
    types |= {"at": {"type": "long", "logicalType": "timestamp-micros"}, "day": {"type": "int", "logicalType": "date"}}
    names = [column.rpartition(" ")[2] for column in RECORD]
    fields = [{"name": name, "type": ["null", types.get(name, "string")], "default": None} for name in names]
    return json.dumps({"type": "record", "name": "Flight", "fields": fields})


class Side(ABC):
    """A broker, and Spark's reader and writer for it."""

    def __init__(self, spark: SparkSession, peer: dict[str, Any], rows: int) -> None:
        self.spark, self.url, self.admin_url, self.rows = spark, peer["url"], peer["admin_url"], rows
        self.broker_pid: int = peer["pid"]
        self.filled: dict[str, str] = {}
        """Topics to read from, by what they hold."""

    def new_topic(self, partitions: int) -> str:
        """Creates a topic."""
        topic = f"throughput-{os.getpid()}-{next(_numbers)}"
        self.create(topic, partitions)
        return topic

    @abstractmethod
    def create(self, topic: str, partitions: int) -> None:
        """Creates a topic of that name."""

    @abstractmethod
    def reader(self, reader: Any, topic: str) -> Any:
        """Sets format and options of a read of all messages."""

    @abstractmethod
    def write(self, frame: DataFrame, topic: str, kind: str | None = None) -> None:
        """Writes columns `value` and `key`, or with a kind of schema the columns of a record."""

    @abstractmethod
    def records(self, kind: str) -> DataFrame:
        """Reads the topic of records as columns."""

    def fill(self, partitions: int) -> None:
        """Publishes the rows that sources read."""
        topic = self.filled[str(partitions)] = self.new_topic(partitions)
        self.write(self.plain(), topic)

    @abstractmethod
    def fill_records(self, kind: str) -> None:
        """Publishes the records that are read with a schema."""

    def plain(self) -> DataFrame:
        """Rows to write."""
        return self.spark.range(0, self.rows, 1, 2).selectExpr(
            f"lpad(string(id), {VALUE_BYTES}, 'x') AS value", "concat('key-', id % 1000) AS key"
        )

    def made_records(self) -> DataFrame:
        """Records to write."""
        return self.spark.range(0, self.rows, 1, 2).selectExpr(*RECORD)


class Ours(Side):
    """Our broker and connector."""

    def create(self, topic: str, partitions: int) -> None:
        """See `Side`."""
        url = f"{self.admin_url}/admin/v2/persistent/public/default/{topic}/partitions"
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, str(partitions).encode(), headers, method="PUT")
        with urllib.request.urlopen(request, timeout=30):
            pass
        for partition in range(partitions):  # a subscription keeps what is published
            name = f"persistent/public/default/{topic}-partition-{partition}"
            request = urllib.request.Request(f"{self.admin_url}/admin/v2/{name}/subscription/keep", b"", method="PUT")
            with urllib.request.urlopen(request, timeout=30):
                pass

    def reader(self, reader: Any, topic: str) -> Any:
        """See `Side`."""
        options = {"service.url": self.url, "topic": topic, "startingOffsets": "earliest"}
        return reader.format("pulsar-py").options(**options)

    def write(self, frame: DataFrame, topic: str, kind: str | None = None) -> None:
        """See `Side`."""
        frame = frame.withColumnRenamed("key", "__key") if kind is None else frame
        options = {"service.url": self.url, "topic": topic} | ({} if kind is None else {"schemaType": kind})
        frame.write.format("pulsar-py").mode("append").options(**options).save()

    def fill_records(self, kind: str) -> None:
        """See `Side`."""
        topic = self.filled[kind] = self.new_topic(SCHEMA_PARTITIONS)
        self.write(self.made_records(), topic, kind)

    def records(self, kind: str) -> DataFrame:
        """See `Side`."""
        ddl = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in self.made_records().schema)
        return self.reader(self.spark.read, self.filled[kind]).schema(ddl).load()


class Kafka(Side):
    """Apache Kafka and Spark's connector."""

    def create(self, topic: str, partitions: int) -> None:
        """See `Side`."""
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.url})
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)

    def reader(self, reader: Any, topic: str) -> Any:
        """See `Side`."""
        options = {"kafka.bootstrap.servers": self.url, "subscribe": topic, "startingOffsets": "earliest"}
        return reader.format("kafka").options(**options)

    def write(self, frame: DataFrame, topic: str, kind: str | None = None) -> None:
        """See `Side`."""
        if kind == "AVRO":
            frame = frame.select(to_avro(functions.struct("*")).alias("value"))
        elif kind == "JSON":
            frame = frame.selectExpr("to_json(struct(*)) AS value")
        options = {"kafka.bootstrap.servers": self.url, "topic": topic}
        frame.write.format("kafka").options(**options).save()

    def fill_records(self, kind: str) -> None:
        """See `Side`. The texts have numbers for times, as Pulsar's JSON has: `from_json` reads them at less cost."""
        topic = self.filled[kind] = self.new_topic(SCHEMA_PARTITIONS)
        frame = self.made_records()
        if kind == "AVRO":
            self.write(frame.select(to_avro(functions.struct("*"), schema_definition()).alias("value")), topic)
        else:
            self.write(
                frame.withColumn("at", functions.expr("unix_micros(at)")).withColumn(
                    "day", functions.expr("unix_date(day)")
                ),
                topic,
                kind,
            )

    def records(self, kind: str) -> DataFrame:
        """See `Side`."""
        frame = self.reader(self.spark.read, self.filled[kind]).load()
        if kind == "AVRO":
            read = from_avro(functions.col("value"), schema_definition())
        else:
            ddl = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in self.made_records().schema)
            ddl = ddl.replace("at timestamp", "at bigint").replace("day date", "day int")
            read = functions.from_json(functions.col("value").cast("string"), ddl)
        return frame.select(read.alias("x")).select("x.*")


def into_noop(frame: DataFrame) -> float:
    """Reads all of a frame; seconds."""
    begun = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begun


def source_batch(side: Side, partitions: int, directory: Path) -> float:
    """Reads a topic."""
    return into_noop(side.reader(side.spark.read, side.filled[str(partitions)]).load())


def source_stream(side: Side, partitions: int, directory: Path) -> float:
    """Reads a topic as one micro-batch; seconds of its trigger."""
    frame = side.reader(side.spark.readStream, side.filled[str(partitions)]).load()
    writer = frame.writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(directory / f"checkpoint-{next(_numbers)}")).start()
    query.awaitTermination()
    done = [progress for progress in query.recentProgress if progress["numInputRows"]]
    if sum(progress["numInputRows"] for progress in done) != side.rows:
        raise AssertionError(f"rows read of {side.rows}: {[progress['numInputRows'] for progress in done]}")
    return sum(progress["durationMs"]["triggerExecution"] for progress in done) / 1000


def sink(side: Side, partitions: int, directory: Path) -> float:
    """Writes to a fresh topic."""
    topic = side.new_topic(partitions)
    begun = time.perf_counter()
    side.write(side.plain(), topic)
    return time.perf_counter() - begun


def write_records(side: Side, kind: str) -> float:
    """Writes records to a fresh topic."""
    topic = side.new_topic(SCHEMA_PARTITIONS)
    begun = time.perf_counter()
    side.write(side.made_records(), topic, kind)
    return time.perf_counter() - begun


@dataclass
class Work:
    """One line of the report."""

    run: Callable[[Side], float]
    target: float
    rates: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    costs: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


def works(directory: Path) -> tuple[dict[str, Work], dict[str, Work]]:
    """All works by name: of plain rows, and of records with a schema."""
    plain = {
        f"{name}, {partitions} partition{'s' * (partitions > 1)}": Work(
            lambda side, run=run, partitions=partitions: run(side, partitions, directory), TARGET
        )
        for name, run in (("source batch", source_batch), ("source stream", source_stream), ("sink", sink))
        for partitions in PARTITIONS
    }
    schemas = {
        f"read {kind}": Work(lambda side, kind=kind: into_noop(side.records(kind)), SCHEMA_TARGET) for kind in KINDS
    }
    schemas |= {
        f"write {kind}": Work(lambda side, kind=kind: write_records(side, kind), SCHEMA_TARGET) for kind in KINDS
    }
    return plain, schemas


def check(sides: dict[str, Side]) -> None:
    """Asserts that both sides hold the same records."""
    names = [each.name for each in next(iter(sides.values())).made_records().schema]
    for kind in KINDS:
        found = []
        for side in sides.values():
            frame = side.records(kind)
            if dict(frame.dtypes)["at"] == "bigint":
                frame = frame.withColumn("at", functions.expr("timestamp_micros(at)"))
                frame = frame.withColumn("day", functions.expr("date_from_unix_date(day)"))
            found.append(frame.where(f"id < {CHECKED_ROWS}").orderBy("id").select(*names).collect())
        if any(len(each) != CHECKED_ROWS or each != found[0] for each in found):
            raise AssertionError(f"the two sides do not hold the same {kind}")


def session(jars: list[str], settings: dict[str, str]) -> SparkSession:
    """`local[2]`, no UI, Spark's own defaults but for what the user set."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "1g").config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.ui.showConsoleProgress", "false")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.config("spark.jars", ",".join(jars)).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark_pulsar.register(spark)
    return spark


def measure(work: Work, name: str, side: Side, jvm: int, counts: bool) -> None:
    """Does a work once."""
    before = tree_processor_s(jvm) + tree_processor_s(side.broker_pid)
    seconds = work.run(side)
    spent = tree_processor_s(jvm) + tree_processor_s(side.broker_pid) - before
    if counts:
        work.rates[name].append(side.rows / seconds)
        work.costs[name].append(spent * 1_000_000 / side.rows)


def report(console: Console, title: str, done: dict[str, Work], names: list[str]) -> bool:
    """Prints medians and ratios; tells whether all targets are met."""
    table = Table("work", *(f"{name}, rows/s" for name in names), "ratio", "target", title=title)
    for name in names:
        table.add_column(f"{name}, CPU s a million")
    table.add_column("ratio")
    ours, theirs = names
    met = True
    for label, work in done.items():
        rate = {name: statistics.median(work.rates[name]) for name in names}
        cost = {name: statistics.median(work.costs[name]) for name in names}
        ratio = rate[ours] / rate[theirs]
        met = met and ratio >= work.target
        verdict = f"≥ {work.target} {'met' if ratio >= work.target else 'MISSED'}"
        shown = [f"{rate[name]:,.0f}" for name in names]
        costs = [f"{cost[name]:.2f}" for name in names]
        table.add_row(label, *shown, f"{ratio:.2f}", verdict, *costs, f"{cost[ours] / cost[theirs]:.2f}")
    console.print(table)
    for label, work in done.items():
        for name in names:
            console.print(f"[dim]{name:>7}  {label:<26} {', '.join(f'{rate:,.0f}' for rate in work.rates[name])}[/dim]")
    rates = {label: statistics.median(work.rates[ours]) for label, work in done.items()}
    for label in ("source batch", "source stream", "sink"):
        one, four = rates.get(f"{label}, 1 partition"), rates.get(f"{label}, 4 partitions")
        if one and four:
            console.print(f"{label}: one partition {one / four:.2f} × as fast as four", highlight=False)
    return met


def main() -> int:
    """Measures what the JSON text in the first argument says; 1 if a target is missed."""
    wanted = json.loads(sys.argv[1])
    directory = Path(wanted["directory"])
    spark = session(wanted["jars"], wanted["settings"])
    jvm = spark.sparkContext._gateway.proc.pid
    kinds: dict[str, type[Side]] = {"ours": Ours, "kafka": Kafka}
    sides = {name: kinds[name](spark, peer, wanted["rows"]) for name, peer in wanted["peers"].items()}
    plain, schemas = works(directory)
    chosen = schemas if wanted["schemas"] else plain | schemas
    chosen = {
        name: work for name, work in chosen.items() if not wanted["only"] or name.startswith(tuple(wanted["only"]))
    }
    for side in sides.values():
        for partitions in PARTITIONS:
            if any(name in chosen and name.startswith("source") for name in plain):
                side.fill(partitions)
        for kind in KINDS:
            if any(name in chosen for name in schemas):
                side.fill_records(kind)
    if any(name in chosen for name in schemas):
        check(sides)
    for turn in range(-wanted["warm_ups"], wanted["rounds"]):
        for work in chosen.values():
            for name, side in list(sides.items())[:: 1 if turn % 2 else -1]:
                measure(work, name, side, jvm, turn >= 0)
        print(f"turn {turn} done (load {os.getloadavg()[0]:.1f})", file=sys.stderr, flush=True)
    title = f"Spark {spark.version}, local[2], {wanted['rows']:,} rows, medians of {wanted['rounds']}"
    if wanted["settings"]:
        title += f", {wanted['settings']}"
    met = report(Console(width=150), title, chosen, list(sides))
    spark.stop()
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
