#!/usr/bin/env python3
"""The connector under load, on our broker, alone or beside a real Apache Pulsar in the same run.

    python benchmarks/spark.py [--against apache-pulsar[=VERSION]] [--only NAME ...] [--rows N] [--rounds N]
                               [--data DIR] [--spark-avro spark-avro_2.13-VERSION.jar] [--json FILE]
    python benchmarks/spark.py --latency [--idle] [--against kafka] [--rounds N] [--data DIR]
    python benchmarks/spark.py --against kafka [--schemas] [--only NAME ...] [--rows N] [--rounds N]
                               [--conf KEY=VALUE ...] [--data DIR]

Spark runs as `local[2]`; broker, JVM and Python workers share the machine. Rows have a value of 100 bytes, a key, an
event time and one property. Wall times include planning and all receipts: of each run about 0.45 s are what Spark
needs for a job of any size, with `prebuilt` rows, too. Every round runs every workload once on every broker, so that
ratios are between neighbours; the figure is the median of the rounds after the warm-ups.

    source batch      all seven columns into `noop`                                rows/s, and the ratio to `prebuilt`
    source stream     the same as one micro-batch of a streaming query             rows/s
    source value      only the column `value`                                      rows/s
    prebuilt          the same rows as Arrow batches made beforehand, into `noop`  rows/s (what Spark itself can take)
    sink batch        `spark.range` → value and key → a topic                      rows/s
    sink stream       the same rows from `rate-micro-batch`, as one micro-batch    rows/s
    sink avro         the same with a record of six columns, `schemaType` AVRO     rows/s
    sink json         the same with `schemaType` JSON                              rows/s
    sink to_avro      the same record by Spark's `to_avro`, written as bytes       rows/s (with --spark-avro)
    sink to_json      the same record by Spark's `to_json`, written as text        rows/s
    official reader   the official Python client reading the same topic            rows/s (fewer rows)
    official producer the official Python client, batches of 1,000                 rows/s (fewer rows)

`--latency` and `--idle` measure what `spark_latency.py` says, and `--against kafka` alone what `spark_throughput.py`
says; against Kafka in turns in one session, on the Spark that Kafka's connector is for, in an environment of its own.
Kafka and the connector come from Maven Central.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulsar
import pyarrow as pa
from load import kafka, machine, peers
from load.kafka import KAFKA
from load.peers import Peer
from load.results import Results, add_option
from load.spark_avro import spark_avro_jar
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.streaming import DataStreamWriter
from rich.console import Console
from rich.table import Table

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.planning.ranges import TopicRange
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.connector.reading.projection import READ_COLUMNS, READ_DDL, Projection
from spark_pulsar.connector.reading.range_reading import read_range

Rates = dict[str, dict[str, float]]
"""Broker → workload → rows a second."""

VALUE_BYTES = 100
ROWS, KAFKA_ROWS = 5_000_000, 2_000_000
RATIOS = (
    ("source batch", "prebuilt"),
    ("source stream", "prebuilt"),
    ("source batch", "official reader"),
    ("sink batch", "official producer"),
    ("sink avro", "sink to_avro"),
    ("sink json", "sink to_json"),
)
RECORD = (
    "concat('carrier-', id % 17) AS carrier",
    "int(id % 500) AS delay",
    "id * 1000 AS distance",
    "double(id) / 7 AS speed",
    "timestamp_millis(1357010640000 + id) AS at",
    "IF(id % 5 = 0, NULL, concat('N', id % 9999)) AS tail",
)
"""Columns of the workloads with a schema."""
_numbers = itertools.count()


class Prebuilt(DataSource):
    """A source that yields the same Arrow batches again and again: the ceiling that Spark sets."""

    @classmethod
    def name(cls) -> str:
        return "prebuilt"

    def schema(self) -> str:
        return READ_DDL

    def reader(self, schema: Any) -> DataSourceReader:
        return PrebuiltReader(self.options["file"], int(self.options["rows"]), int(self.options["partitions"]))


class PrebuiltReader(DataSourceReader):
    def __init__(self, file: str, rows: int, partitions: int) -> None:
        self.file, self.rows, self.count = file, rows, partitions

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(index) for index in range(self.count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.ipc.open_file(self.file) as batches:
            made = [batches.get_batch(index) for index in range(batches.num_record_batches)]
        left = self.rows // self.count
        for batch in itertools.cycle(made):
            if left <= 0:
                return
            yield batch.slice(0, min(left, batch.num_rows))
            left -= batch.num_rows


def session(spark_avro: Path | None) -> SparkSession:
    """`local[2]`, no UI; with Spark's module for Avro if its jar is given."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]")
    if spark_avro is not None:
        builder = builder.config("spark.jars", str(spark_avro))
    spark = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(Prebuilt)
    return spark


class Bench:
    """The workloads on one broker."""

    def __init__(self, spark: SparkSession, peer: Peer, rows: int, partitions: int, directory: Path) -> None:
        self.spark = spark
        self.peer = peer
        self.rows = rows
        self.partitions = partitions
        self.directory = directory
        self.few = min(rows, 100_000)
        self.topics = [self._new_topic() for _ in range(partitions)]
        # A subscription keeps the data, and the topic, on a broker that deletes inactive topics.
        for topic in self.topics:
            self.write(self.source_rows(), topic)
            with PulsarClient(ClientConfig(service_url=peer.service_url)) as client:
                client.ensure_subscription([topic], "keep", initial="earliest")

    def _new_topic(self) -> str:
        return f"persistent://public/default/bench-spark-{os.getpid()}-{next(_numbers)}"

    def source_rows(self) -> DataFrame:
        """Form of the messages of one topic."""
        return self.spark.range(0, self.rows // self.partitions, 1, 2).selectExpr(
            f"lpad(string(id), {VALUE_BYTES}, 'x') AS value",
            "concat('key-', id % 1000) AS __key",
            "timestamp_millis(1357010640000 + id) AS __eventTime",
            "map('origin', 'EWR') AS __messageProperties",
        )

    def write(self, frame: DataFrame, topic: str, **options: str) -> None:
        writer = frame.write.format("pulsar").mode("append").option("service.url", self.peer.service_url)
        writer.option("topic", topic).options(**options).save()

    def read(self, **options: str) -> Any:
        reader = self.spark.read.format("pulsar").option("service.url", self.peer.service_url)
        return reader.option("topics", ",".join(self.topics)).options(**options)

    def source_batch(self) -> float:
        return timed(self.rows, lambda: self.read().load().write.format("noop").mode("overwrite").save())

    def source_value(self) -> float:
        frame = lambda: self.read().schema("value binary").load()  # noqa: E731
        return timed(self.rows, lambda: frame().write.format("noop").mode("overwrite").save())

    def source_stream(self) -> float:
        reader = self.spark.readStream.format("pulsar").option("service.url", self.peer.service_url)
        frame = reader.option("topics", ",".join(self.topics)).option("startingOffsets", "earliest").load()
        return self._run_once(frame.writeStream.format("noop"))

    def _run_once(self, writer: DataStreamWriter) -> float:
        """Runs a query that ends after `rows` rows; returns rows a second of its micro-batches, without its start."""
        checkpoint = str(self.directory / f"checkpoint-{next(_numbers)}")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        done = [progress for progress in query.recentProgress if progress["numInputRows"]]
        rows = sum(progress["numInputRows"] for progress in done)
        if rows != self.rows:
            raise AssertionError(f"{rows} rows of {self.rows}")
        return rows * 1000 / sum(progress["durationMs"]["triggerExecution"] for progress in done)

    def prebuilt(self) -> float:
        file = self.directory / f"prebuilt-{self.peer.name.replace('/', '_')}.arrow"
        if not file.exists():
            self._store_batches(file)
        reader = self.spark.read.format("prebuilt").option("file", str(file)).option("rows", self.rows)
        frame = reader.option("partitions", self.partitions).load()
        return timed(self.rows, lambda: frame.write.format("noop").mode("overwrite").save())

    def _store_batches(self, file: Path) -> None:
        options = parse_options({"service.url": self.peer.service_url, "topic": self.topics[0]})
        projection = Projection(tuple(column.name for column in READ_COLUMNS))
        with PulsarClient(ClientConfig(service_url=self.peer.service_url)) as client:
            part = self.topics[0]
            end = ReadPosition.of(client.end_positions([part])[part])
            work = TopicRange(part, EARLIEST, end)
            batches = list(itertools.islice(read_range(client, options, work, projection), 10))
        with pa.ipc.new_file(str(file), batches[0].schema) as out:
            for batch in batches:
                out.write_batch(batch)

    def sink_batch(self) -> float:
        frame = self.spark.range(0, self.rows, 1, 2).selectExpr(
            f"lpad(string(id), {VALUE_BYTES}, 'x') AS value", "concat('key-', id % 1000) AS __key"
        )
        return timed(self.rows, lambda: self.write(frame, self._new_topic()))

    def sink_stream(self) -> float:
        source = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", self.rows)
        frame = source.option("numPartitions", 2).load()
        frame = frame.selectExpr(
            f"lpad(string(value), {VALUE_BYTES}, 'x') AS value", "concat('key-', value % 1000) AS __key"
        )
        writer = frame.writeStream.format("pulsar").option("service.url", self.peer.service_url)
        return self._run_once(writer.option("topic", self._new_topic()))

    def _records(self) -> DataFrame:
        return self.spark.range(0, self.rows, 1, 2).selectExpr(*RECORD)

    def sink_avro(self) -> float:
        return timed(self.rows, lambda: self.write(self._records(), self._new_topic(), schemaType="AVRO"))

    def sink_json(self) -> float:
        return timed(self.rows, lambda: self.write(self._records(), self._new_topic(), schemaType="JSON"))

    def sink_to_avro(self) -> float:
        frame = self._records().select(to_avro(functions.struct("*")).alias("value"))
        return timed(self.rows, lambda: self.write(frame, self._new_topic()))

    def sink_to_json(self) -> float:
        frame = self._records().selectExpr("to_json(struct(*)) AS value")
        return timed(self.rows, lambda: self.write(frame, self._new_topic()))

    def official_reader(self) -> float:
        client = pulsar.Client(self.peer.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        reader = client.create_reader(self.topics[0], pulsar.MessageId.earliest, receiver_queue_size=10_000)

        def read() -> None:
            for _ in range(self.few):
                reader.read_next(10_000).data()

        try:
            return timed(self.few, read)
        finally:
            client.close()

    def official_producer(self) -> float:
        client = pulsar.Client(self.peer.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        producer = client.create_producer(
            self._new_topic(),
            batching_enabled=True,
            batching_max_messages=1000,
            max_pending_messages=20_000,
            block_if_queue_full=True,
        )
        value = b"x" * VALUE_BYTES

        def produce() -> None:
            for number in range(self.few):
                producer.send_async(value, _ignore, partition_key=f"key-{number % 1000}")
            producer.flush()

        try:
            return timed(self.few, produce)
        finally:
            client.close()


def _ignore(result: object, message_id: object) -> None:
    """A callback is required."""


def timed(rows: int, work: Callable[[], object]) -> float:
    """Rows a second."""
    began = time.perf_counter()
    work()
    return rows / (time.perf_counter() - began)


WORKLOADS: dict[str, Callable[[Bench], float]] = {
    "source batch": Bench.source_batch,
    "source stream": Bench.source_stream,
    "source value": Bench.source_value,
    "prebuilt": Bench.prebuilt,
    "sink batch": Bench.sink_batch,
    "sink stream": Bench.sink_stream,
    "sink avro": Bench.sink_avro,
    "sink json": Bench.sink_json,
    "sink to_avro": Bench.sink_to_avro,
    "sink to_json": Bench.sink_to_json,
    "official reader": Bench.official_reader,
    "official producer": Bench.official_producer,
}


def measure(console: Console, benches: list[Bench], wanted: list[str], args: argparse.Namespace) -> Rates:
    """Warm-ups and rounds of the wanted workloads; the medians."""
    figures: dict[str, dict[str, list[float]]] = {bench.peer.name: defaultdict(list) for bench in benches}
    for turn in range(-args.warm_ups, args.rounds):
        for workload in wanted:
            for bench in benches:
                figure = WORKLOADS[workload](bench)
                if turn >= 0:
                    figures[bench.peer.name][workload].append(figure)
    for name, of_workloads in figures.items():
        for workload, values in of_workloads.items():
            console.print(f"[dim]{name:>14}  {workload:<18} {', '.join(f'{value:,.0f}' for value in values)}[/dim]")
    return {
        name: {workload: statistics.median(values) for workload, values in of_workloads.items()}
        for name, of_workloads in figures.items()
    }


def report(console: Console, measured: Rates, partitions: int, titles: dict[str, str]) -> None:
    """Prints figures and ratios; ours is the first."""
    names = list(measured)
    heads = [titles[name] for name in names]
    table = Table("workload", *heads, *(["ratio"] if len(names) == 2 else []), title=f"rows/s, {partitions} topics")
    ours = measured[names[0]]
    for workload in ours:
        figures = [measured[name][workload] for name in names]
        ratio = [f"{figures[0] / figures[1]:.2f}"] if len(names) == 2 else []
        table.add_row(workload, *(f"{figure:,.0f}" for figure in figures), *ratio)
    for one, other in RATIOS:
        if one in ours and other in ours:
            table.add_row(f"{one} ÷ {other}", *(f"{measured[name][one] / measured[name][other]:.2f}" for name in names))
    console.print(table)


def latency(console: Console, directory: Path, found: list[Peer], args: argparse.Namespace) -> Rates:
    """Runs `spark_latency.py` and reports; returns the medians."""
    against_kafka = len(found) > 1
    python = str(kafka.spark_environment()) if against_kafka else sys.executable
    wanted = {
        "directory": str(directory.resolve()),
        "jars": kafka.connector_jars() if against_kafka else [],
        "peers": {peer.name: {"url": peer.service_url, "pid": peer.pid} for peer in found},
        "latency": args.latency,
        "idle": args.idle,
        "rounds": args.rounds,
    }
    command = [python, str(Path(__file__).with_name("spark_latency.py")), json.dumps(wanted)]
    done = subprocess.run(command, env=_environment(), stdout=subprocess.PIPE, text=True, check=True)
    answer = json.loads(done.stdout.splitlines()[-1])
    medians = {
        name: {figure: statistics.median(values) for figure, values in figures.items()}
        for name, figures in answer["figures"].items()
    }
    table = Table("figure", *medians, *(["ratio"] if against_kafka else []), title=f"Spark {answer['spark']}, medians")
    for figure, value in medians[found[0].name].items():
        texts = [f"{of[figure]:,.1f}" if figure in of else "–" for of in medians.values()]
        ratio = [f"{value / medians[found[1].name][figure]:.2f}"] if against_kafka else []
        table.add_row(figure, *texts, *ratio)
    console.print(table)
    return medians


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(peers.ROOT)}


def throughput(directory: Path, found: list[Peer], args: argparse.Namespace) -> Rates:
    """Runs `spark_throughput.py`, which reports; returns the medians."""
    described = {peer.name: {"url": peer.service_url, "admin_url": peer.admin_url, "pid": peer.pid} for peer in found}
    wanted: dict[str, Any] = {
        "directory": str(directory.resolve()),
        "jars": [*kafka.connector_jars(), spark_avro_jar()],
        "peers": described,
        "schemas": args.schemas,
        "only": args.only or [],
        "rows": args.rows or KAFKA_ROWS,
        "rounds": args.rounds,
        "warm_ups": args.warm_ups,
        "settings": dict(each.split("=", 1) for each in args.conf),
    }
    wanted["figures"] = str(directory.resolve() / "figures.json")
    program = Path(__file__).with_name("spark_throughput.py")
    command = [str(kafka.spark_environment()), str(program), json.dumps(wanted)]
    subprocess.run(command, env=_environment(), check=True)
    medians: Rates = json.loads(Path(wanted["figures"]).read_text())
    return medians


def main() -> None:
    """Runs and reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = functools.partial(peers.against, others={KAFKA: kafka.VERSION})
    parser.add_argument("--against", type=beside, metavar=f"{peers.AGAINST}|{KAFKA}")
    parser.add_argument("--latency", action="store_true", help="small micro-batches, and from a client to foreachBatch")
    parser.add_argument("--idle", action="store_true", help="processor time of a query without new messages")
    parser.add_argument("--schemas", action="store_true", help="against kafka: only the works with a schema")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these workloads; kafka: that begin so")
    parser.add_argument("--conf", nargs="+", default=[], metavar="KEY=VALUE", help="against kafka: once more so")
    parser.add_argument("--spark-avro", type=Path, help="jar of Spark's own module for Avro: for sink to_avro")
    parser.add_argument("--rows", type=int, help=f"default {ROWS:,}; against kafka {KAFKA_ROWS:,}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-ups", type=int, default=3, help="the JVM compiles while it runs")
    parser.add_argument("--partitions", type=int, default=2, help="topics that the source reads, one task each")
    parser.add_argument("--data", type=Path, default=Path("data"), help="directory on the disk to use")
    add_option(parser)
    args = parser.parse_args()
    small = args.latency or args.idle
    beside_kafka = args.against is not None and args.against.name == KAFKA
    if small and args.against and not beside_kafka:
        parser.error("--latency and --idle are measured against kafka")
    if (args.schemas or args.conf) and (small or not beside_kafka):
        parser.error("--schemas and --conf are for --against kafka")
    if not beside_kafka and not set(args.only or ()) <= set(WORKLOADS):
        parser.error(f"--only takes {', '.join(WORKLOADS)}")
    console = Console()
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(peers.fresh_directory(args.data))
        console.print(machine.description(directory), highlight=False)
        found = [stack.enter_context(peers.ours(args.data))]
        if args.against:
            other = kafka.kafka(args.data) if beside_kafka else peers.apache_pulsar(args.data, args.against.version)
            found.append(stack.enter_context(other))
        if small:
            measured = latency(console, directory, found, args)
        elif beside_kafka:
            measured = throughput(directory, found, args)
        else:
            measured = workloads(console, stack, directory, found, args)
    results = Results()
    results.peers = {peer.name: peer.title for peer in found}
    for name, figures in measured.items():
        results.note_all(figures, name)
    results.store(args.json)


def workloads(
    console: Console, stack: contextlib.ExitStack, directory: Path, found: list[Peer], args: argparse.Namespace
) -> Rates:
    """Measures the workloads of this file in one session, and reports; returns the medians."""
    spark = session(args.spark_avro)
    stack.callback(spark.stop)
    benches = [Bench(spark, peer, args.rows or ROWS, args.partitions, directory) for peer in found]
    wanted = [name for name in WORKLOADS if name in (args.only or WORKLOADS)]
    if args.spark_avro is None:
        wanted = [name for name in wanted if name != "sink to_avro"]
    measured = measure(console, benches, wanted, args)
    report(console, measured, args.partitions, {peer.name: peer.title for peer in found})
    return measured


if __name__ == "__main__":
    main()
