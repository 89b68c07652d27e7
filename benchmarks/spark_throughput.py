#!/usr/bin/env python3
"""Rows a second beside Spark's Kafka connector, in one Spark session; `spark.py --against kafka` starts it.

Six works of the same rows, values of 100 bytes with a key; the default columns of either connector:

source batch    a topic into `noop`                               1 and 4 partitions; 1 with `minPartitions` 2
source stream   the same as one micro-batch of a streaming query  1 and 4 partitions; 1 with `minPartitions` 2
sink            `spark.range` → value and key → a topic           1 and 4 partitions

And works with a schema, records of ten fields, on topics of two partitions:

read AVRO       columns by our source; Kafka's values by `from_avro`
read JSON       the same by `from_json`; either side has the same texts
write AVRO      `schemaType`; values by `to_avro` to Kafka
write JSON      the same by `to_json`

Each round does each work once on either side, the other side first in every other round. Figures are medians of the
rounds after the warm-ups: rows a second of wall time, and processor seconds a million rows of the JVM, its Python
workers and the broker, which other work on the machine touches less. Settings of Spark (`--conf`) are those of a third
side, ours again, which has them while its works are done.
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
from functools import partial
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
MIN_PARTITIONS = 2
"""Tasks that read a topic of one partition, with the option that both sides have."""
SCHEMA_PARTITIONS = 2
VALUE_BYTES = 100
CHECKED_ROWS = 100
KINDS = ("AVRO", "JSON")
OURS, KAFKA, TUNED = "ours", "kafka", "ours tuned"
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
        self.settings: dict[str, str] = {}
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


def source_batch(side: Side, partitions: int, directory: Path, options: dict[str, str]) -> float:
    """Reads a topic."""
    reader = side.reader(side.spark.read, side.filled[str(partitions)])
    return into_noop(reader.options(**options).load())


def source_stream(side: Side, partitions: int, directory: Path, options: dict[str, str]) -> float:
    """Reads a topic as one micro-batch; seconds of its trigger."""
    reader = side.reader(side.spark.readStream, side.filled[str(partitions)])
    writer = reader.options(**options).load().writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(directory / f"checkpoint-{next(_numbers)}")).start()
    query.awaitTermination()
    done = [progress for progress in query.recentProgress if progress["numInputRows"]]
    if sum(progress["numInputRows"] for progress in done) != side.rows:
        raise AssertionError(f"rows read of {side.rows}: {[progress['numInputRows'] for progress in done]}")
    return sum(progress["durationMs"]["triggerExecution"] for progress in done) / 1000


def sink(side: Side, partitions: int, directory: Path, options: dict[str, str]) -> float:
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
    rates: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    costs: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


def works(directory: Path) -> tuple[dict[str, Work], dict[str, Work]]:
    """All works by name: of plain rows, and of records with a schema."""
    plain = {}
    for name, run in (("source batch", source_batch), ("source stream", source_stream), ("sink", sink)):
        for partitions in PARTITIONS:
            work = partial(run, partitions=partitions, directory=directory, options={})
            plain[f"{name}, {partitions} partition{'s' * (partitions > 1)}"] = Work(work)
        if run is not sink:
            options = {"minPartitions": str(MIN_PARTITIONS)}
            work = partial(run, partitions=1, directory=directory, options=options)
            plain[f"{name}, 1 partition, {MIN_PARTITIONS} tasks"] = Work(work)
    schemas = {f"read {kind}": Work(lambda side, kind=kind: into_noop(side.records(kind))) for kind in KINDS}
    schemas |= {f"write {kind}": Work(lambda side, kind=kind: write_records(side, kind)) for kind in KINDS}
    return plain, schemas


def check(sides: list[Side]) -> None:
    """Asserts that both sides hold the same records."""
    names = [each.name for each in sides[0].made_records().schema]
    for kind in KINDS:
        found = []
        for side in sides:
            frame = side.records(kind)
            if dict(frame.dtypes)["at"] == "bigint":
                frame = frame.withColumn("at", functions.expr("timestamp_micros(at)"))
                frame = frame.withColumn("day", functions.expr("date_from_unix_date(day)"))
            found.append(frame.where(f"id < {CHECKED_ROWS}").orderBy("id").select(*names).collect())
        if any(len(each) != CHECKED_ROWS or each != found[0] for each in found):
            raise AssertionError(f"the two sides do not hold the same {kind}")


def session(jars: list[str]) -> SparkSession:
    """`local[2]`, no UI, Spark's own defaults."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "1g").config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.jars", ",".join(jars)).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark_pulsar.register(spark)
    return spark


def measure(work: Work, name: str, side: Side, jvm: int, counts: bool) -> None:
    """Does a work once."""
    for setting, value in side.settings.items():
        side.spark.conf.set(setting, value)
    before = tree_processor_s(jvm) + tree_processor_s(side.broker_pid)
    seconds = work.run(side)
    spent = tree_processor_s(jvm) + tree_processor_s(side.broker_pid) - before
    for setting in side.settings:
        side.spark.conf.unset(setting)
    if counts:
        work.rates[name].append(side.rows / seconds)
        work.costs[name].append(spent * 1_000_000 / side.rows)


def report(console: Console, title: str, done: dict[str, Work], ours: list[str]) -> None:
    """Prints medians and ratios to Kafka."""
    table = Table("work", title=title)
    for name in (*ours, KAFKA):
        table.add_column(f"{name}, rows/s")
    for name in ours:
        table.add_column(f"{name} ÷ {KAFKA}")
    for name in (*ours, KAFKA):
        table.add_column(f"{name}, CPU s")
    for label, work in done.items():
        rate = {name: statistics.median(values) for name, values in work.rates.items()}
        cost = {name: statistics.median(values) for name, values in work.costs.items()}
        ratios = [f"{rate[name] / rate[KAFKA]:.2f}" for name in ours]
        costs = [f"{cost[name]:.2f}" for name in (*ours, KAFKA)]
        table.add_row(label, *(f"{rate[name]:,.0f}" for name in (*ours, KAFKA)), *ratios, *costs)
    console.print(table)
    for label, work in done.items():
        for name in (*ours, KAFKA):
            each = ", ".join(f"{rate:,.0f}" for rate in work.rates[name])
            console.print(f"[dim]{name:>10}  {label:<31} {each}[/dim]")
    rates = {label: statistics.median(work.rates[ours[0]]) for label, work in done.items()}
    for label in ("source batch", "source stream", "sink"):
        four = rates.get(f"{label}, 4 partitions")
        for one in ("1 partition", f"1 partition, {MIN_PARTITIONS} tasks"):
            if four and f"{label}, {one}" in rates:
                speed = rates[f"{label}, {one}"] / four
                console.print(f"{label}: {one} {speed:.2f} × as fast as four partitions", highlight=False)


def medians(done: dict[str, Work]) -> dict[str, dict[str, float]]:
    """Returns, for each side, rows a second and processor seconds a million rows of each work."""
    figures: dict[str, dict[str, float]] = defaultdict(dict)
    for label, work in done.items():
        for name in work.rates:
            figures[name][label] = statistics.median(work.rates[name])
            figures[name][f"{label}, CPU s a million"] = statistics.median(work.costs[name])
    return figures


def chosen_works(wanted: dict[str, Any], directory: Path) -> dict[str, Work]:
    """The works to be done, in order."""
    plain, schemas = works(directory)
    chosen = schemas if wanted["schemas"] else plain | schemas
    return {name: work for name, work in chosen.items() if not wanted["only"] or name.startswith(tuple(wanted["only"]))}


def fill(sides: list[Side], chosen: dict[str, Work]) -> None:
    """Publishes what the works read."""
    for side in sides:
        for partitions in PARTITIONS if any(name.startswith("source") for name in chosen) else ():
            side.fill(partitions)
        for kind in KINDS if any(name.startswith("read") for name in chosen) else ():
            side.fill_records(kind)
    if any(name.startswith("read") for name in chosen):
        check(sides)


def main() -> None:
    """Measures what the JSON text in the first argument says, and writes the medians to the file that it names."""
    wanted = json.loads(sys.argv[1])
    spark = session(wanted["jars"])
    jvm = spark.sparkContext._gateway.proc.pid
    sides: dict[str, Side] = {
        OURS: Ours(spark, wanted["peers"][OURS], wanted["rows"]),
        KAFKA: Kafka(spark, wanted["peers"][KAFKA], wanted["rows"]),
    }
    chosen = chosen_works(wanted, Path(wanted["directory"]))
    fill(list(sides.values()), chosen)
    if wanted["settings"]:
        tuned = sides[TUNED] = Ours(spark, wanted["peers"][OURS], wanted["rows"])
        tuned.filled, tuned.settings = sides[OURS].filled, wanted["settings"]
    for turn in range(-wanted["warm_ups"], wanted["rounds"]):
        for work in chosen.values():
            for name, side in list(sides.items())[:: 1 if turn % 2 else -1]:
                measure(work, name, side, jvm, turn >= 0)
        print(f"turn {turn} done (load {os.getloadavg()[0]:.1f})", file=sys.stderr, flush=True)
    title = f"Spark {spark.version}, local[2], {wanted['rows']:,} rows, medians of {wanted['rounds']}"
    title += "; CPU seconds a million rows"
    if wanted["settings"]:
        title += f"; {TUNED}: {wanted['settings']}"
    report(Console(width=170), title, chosen, [name for name in sides if name != KAFKA])
    Path(wanted["figures"]).write_text(json.dumps(medians(chosen)))
    spark.stop()


if __name__ == "__main__":
    main()
