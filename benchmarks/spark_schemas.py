"""Records of ten fields, flat or (`--nested`) in three levels, read from a topic through Spark: as columns by our
source, and as bytes with Spark's own `from_avro` and `from_json` behind it. All in turns on two topics of each schema,
in one session of `local[2]`, into `noop`; medians of rows a second, and of the processor time that the JVM, its Python
workers and the broker take for a million, which other work on the machine touches less. `bytes` is the same topics'
payloads alone, which is what both ways begin with. The way back beside it: the same records into a topic with
`schemaType`, and by `to_avro` and `to_json` as bytes."""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from load import peers
from load.machine import tree_processor_s
from load.results import Results
from load.spark_avro import spark_avro_jar
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.avro.functions import from_avro, to_avro

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig

RECORD = (
    "id",
    "concat('carrier-', id % 17) AS carrier",
    "IF(id % 5 = 0, NULL, concat('N', id % 9999)) AS tail",
    "int(id % 500) AS delay",
    "id * 1000 AS distance",
    "double(id) / 7 AS speed",
    "timestamp_millis(1357010640000 + id) AS at",
    "date_add(date'2026-01-01', int(id % 365)) AS day",
    "id % 3 = 0 AS late",
    "concat('gate ', id % 60) AS gate",
)
NESTED_RECORD = (
    "id",
    "concat('carrier-', id % 17) AS carrier",
    "IF(id % 5 = 0, NULL, concat('N', id % 9999)) AS tail",
    "int(id % 500) AS delay",
    "double(id) / 7 AS speed",
    "id % 3 = 0 AS late",
    "named_struct('airport', concat('A', id % 300), "
    "'gate', named_struct('name', concat('g', id % 60), 'floor', id % 5)) AS origin",
    "array(named_struct('airport', concat('X', id % 99), 'minutes', int(id % 40)), "
    "named_struct('airport', concat('Y', id % 99), 'minutes', int(id % 50))) AS legs",
    "map('class', string(id % 3), 'seat', concat(id % 30, 'A')) AS tags",
    "array(double(id) / 9, double(id) / 11) AS speeds",
)
"""Ten fields in three levels: records, arrays of numbers and of records, a map."""
PAIRS = (
    ("AVRO as columns", "from_avro"),
    ("JSON as columns", "from_json"),
    ("schemaType AVRO", "to_avro"),
    ("schemaType JSON", "to_json"),
)
"""Ours and Spark's own."""
_TOPICS = 2
"""Topics that a read has, one task each."""
_TOPIC = "persistent://public/default/bench-schemas"


class SchemaBench:
    """The ways to read and to write on one broker."""

    def __init__(self, spark: SparkSession, service_url: str, rows: int, record: tuple[str, ...]) -> None:
        self.spark = spark
        self.record = record
        self.service_url = service_url
        self.rows = rows
        self._numbers = itertools.count()
        self.topics = {kind: [f"{_TOPIC}-{kind.lower()}-{i}" for i in range(_TOPICS)] for kind in ("AVRO", "JSON")}
        with PulsarClient(ClientConfig(service_url=service_url)) as client:
            for kind, topics in self.topics.items():
                for topic in topics:
                    self.write(self.records(rows // _TOPICS), topic, schemaType=kind)
                client.ensure_subscription(topics, "keep", initial="earliest")
            found = client.schema_of(self.topics["AVRO"][0])
        assert found is not None
        self.definition = found.schema.data.decode()
        self.ddl = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in self.records(1).schema)

    def records(self, rows: int) -> DataFrame:
        return self.spark.range(0, rows, 1, 2).selectExpr(*self.record)

    def write(self, frame: DataFrame, topic: str, **options: str) -> None:
        writer = frame.write.format("pulsar").mode("append").option("service.url", self.service_url)
        writer.option("topic", topic).options(**options).save()

    def ways(self) -> dict[str, Callable[[], None]]:
        """What is timed, by name."""
        avro, text = from_avro(functions.col("value"), self.definition), functions.col("value").cast("string")
        # Pulsar's JSON has numbers there, as its definition says; from_json has no way from them to times.
        parsed = functions.from_json(text, self.ddl.replace("timestamp", "bigint").replace("day date", "day int"))
        record = functions.struct("*")
        return {
            "bytes (AVRO)": lambda: noop(self._payloads("AVRO")),
            "AVRO as columns": lambda: noop(self._columns("AVRO")),
            "from_avro": lambda: noop(self._payloads("AVRO").select(avro.alias("x")).select("x.*")),
            "bytes (JSON)": lambda: noop(self._payloads("JSON")),
            "JSON as columns": lambda: noop(self._columns("JSON")),
            "from_json": lambda: noop(self._payloads("JSON").select(parsed.alias("x")).select("x.*")),
            "schemaType AVRO": lambda: self.write(self.records(self.rows), self._fresh(), schemaType="AVRO"),
            "to_avro": lambda: self.write(
                self.records(self.rows).select(to_avro(record).alias("value")), self._fresh()
            ),
            "schemaType JSON": lambda: self.write(self.records(self.rows), self._fresh(), schemaType="JSON"),
            "to_json": lambda: self.write(
                self.records(self.rows).selectExpr("to_json(struct(*)) AS value"), self._fresh()
            ),
        }

    def _fresh(self) -> str:
        return f"{_TOPIC}-{next(self._numbers)}"

    def _reader(self, kind: str) -> Any:
        reader = self.spark.read.format("pulsar").option("service.url", self.service_url)
        return reader.option("topics", ",".join(self.topics[kind]))

    def _payloads(self, kind: str) -> DataFrame:
        return self._reader(kind).option("useTopicSchema", "false").schema("value binary").load()

    def _columns(self, kind: str) -> DataFrame:
        return self._reader(kind).schema(self.ddl).load()


def noop(frame: DataFrame) -> None:
    """Reads all of a frame."""
    frame.write.format("noop").mode("overwrite").save()


def session() -> SparkSession:
    """`local[2]`, no UI, with Spark's module for AVRO."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.jars", spark_avro_jar())
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def check(bench: SchemaBench) -> None:
    """Asserts that both ways read the same, in a few rows."""
    avro = from_avro(functions.col("value"), bench.definition)
    names = [each.name for each in bench.records(1).schema]
    ours = bench._columns("AVRO").orderBy("id").select(*names).limit(100).collect()
    theirs = bench._payloads("AVRO").select(avro.alias("x")).select("x.*").orderBy("id").select(*names).limit(100)
    assert ours == theirs.collect()
    assert ours == bench._columns("JSON").orderBy("id").select(*names).limit(100).collect()


def measure(rows: int, rounds: int, data: Path, results: Results, *, nested: bool) -> None:
    """Prints and notes figures of each way, and prints the ratios of ours to Spark's own."""
    spark = session()
    jvm = spark.sparkContext._gateway.proc.pid
    rates: dict[str, list[float]] = defaultdict(list)
    costs: dict[str, list[float]] = defaultdict(list)
    try:
        with peers.ours(data) as broker:
            bench = SchemaBench(spark, broker.service_url, rows, NESTED_RECORD if nested else RECORD)
            check(bench)
            for turn in range(-2, rounds):  # the JVM compiles while it runs
                for name, way in bench.ways().items():
                    used, begun = tree_processor_s(jvm) + broker.processor_s(), time.perf_counter()
                    way()
                    if turn >= 0:
                        rates[name].append(rows / (time.perf_counter() - begun))
                        costs[name].append((tree_processor_s(jvm) + broker.processor_s() - used) * 1_000_000 / rows)
    finally:
        spark.stop()
    print(f"Spark {spark.version}, local[2], {rows:,} records of 10 {'nested ' * nested}fields, medians of {rounds}:")
    rate, cost = ({name: statistics.median(each) for name, each in of.items()} for of in (rates, costs))
    for name, values in rates.items():
        figure = f"nested {name}" if nested else name
        results.note_all({f"{figure}, rows/s": rate[name], f"{figure}, CPU s a million": cost[name]})
        each = ", ".join(f"{value:,.0f}" for value in values)
        print(f"{name:>16}: {rate[name]:>10,.0f} rows/s ({each}), {cost[name]:.2f} s of processor time a million")
    for ours, theirs in PAIRS:
        ratios = f"{rate[ours] / rate[theirs]:.2f} × the rows/s, {cost[ours] / cost[theirs]:.2f} × the processor time"
        print(f"{ours:>16} ÷ {theirs}: {ratios}")
