#!/usr/bin/env python3
"""Small micro-batches and idle queries, measured in one Spark session; `spark.py --latency` and `--idle` start it.

rows     1,000 fresh rows every 400 ms into `noop`: the parts of `durationMs` of each micro-batch
few      10 rows every 400 ms: the whole of a micro-batch
floor    the same parts of Spark's source `rate-micro-batch`, which makes 1,000 rows of nothing: no source takes less
delay    20 messages a second: from a client's send to the row in `foreachBatch`
idle     a query of 4 partitions without new messages: processor time of all its processes and of the broker
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import spark_pulsar

ROWS, FEW_ROWS, EVERY_S, BATCHES = 1_000, 10, 0.4, 40
DELAYS, DELAY_EVERY_S = 240, 0.05
IDLE_SETTLE_S, IDLE_S, IDLE_PARTITIONS = 15.0, 60.0, 4
VALUE = b"x" * 100
PARTS = ("triggerExecution", "addBatch", "walCommit", "commitOffsets", "latestOffset", "queryPlanning")
FLOOR = "floor"
_numbers = itertools.count()

Figures = dict[str, dict[str, list[float]]]
"""Source → figure → one value a round."""


class Source(ABC):
    """A broker with a producer, and Spark's reader for it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def new_topic(self) -> str:
        """Returns a fresh name."""
        return f"latency-{os.getpid()}-{next(_numbers)}"

    @abstractmethod
    def send(self, topic: str, values: list[bytes]) -> None:
        """Publishes with keys, and waits for the receipts."""

    @abstractmethod
    def read(self, spark: SparkSession, topics: list[str]) -> DataFrame:
        """A streaming read from the start."""


class Ours(Source):
    """Our broker and connector, with the official client as the producer."""

    def __init__(self, url: str) -> None:
        import pulsar

        super().__init__(url)
        self._client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        self._producers: dict[str, Any] = {}

    def send(self, topic: str, values: list[bytes]) -> None:
        if topic not in self._producers:
            settings = {"batching_max_messages": ROWS, "batching_max_publish_delay_ms": 1, "block_if_queue_full": True}
            self._producers[topic] = self._client.create_producer(topic, batching_enabled=True, **settings)
        producer = self._producers[topic]
        for number, value in enumerate(values):
            producer.send_async(value, lambda *_: None, partition_key=f"key-{number}")
        producer.flush()

    def read(self, spark: SparkSession, topics: list[str]) -> DataFrame:
        reader = spark.readStream.format("pulsar-py").option("service.url", self.url)
        return reader.option("topics", ",".join(topics)).option("startingOffsets", "earliest").load()


class Kafka(Source):
    """Apache Kafka and Spark's connector, with librdkafka as the producer."""

    def __init__(self, url: str) -> None:
        from confluent_kafka import Producer

        super().__init__(url)
        self._producer = Producer({"bootstrap.servers": url, "linger.ms": 1})

    def send(self, topic: str, values: list[bytes]) -> None:
        for number, value in enumerate(values):
            self._producer.produce(topic, value, f"key-{number}")
        self._producer.flush()

    def read(self, spark: SparkSession, topics: list[str]) -> DataFrame:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.url)
        return reader.option("subscribe", ",".join(topics)).option("startingOffsets", "earliest").load()


def session(jars: list[str]) -> SparkSession:
    """`local[2]`, no UI, Spark's own defaults for everything that costs time."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "1g").config("spark.driver.host", "127.0.0.1")
    if jars:
        builder = builder.config("spark.jars", ",".join(jars))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark_pulsar.register(spark)
    return spark


def awaiting(query: StreamingQuery, rows: int) -> None:
    """Returns when the query has read so many rows. It has run less than 100 micro-batches, the most that are kept."""
    deadline = time.monotonic() + 180
    while sum(progress["numInputRows"] for progress in query.recentProgress) < rows:
        if not query.isActive or time.monotonic() > deadline:
            raise RuntimeError(f"rows are missing: {query.exception()}")
        time.sleep(0.05)


def rows(spark: SparkSession, source: Source, directory: Path, count: int) -> dict[str, float]:
    """Medians of the parts of a micro-batch of `count` rows."""
    topic = source.new_topic()
    source.send(topic, [VALUE])
    writer = source.read(spark, [topic]).writeStream.format("noop")
    query = writer.option("checkpointLocation", str(directory / topic)).start()
    awaiting(query, 1)
    for number in range(1, BATCHES + 1):
        begun = time.monotonic()
        source.send(topic, [VALUE] * count)
        time.sleep(max(0.0, EVERY_S - (time.monotonic() - begun)))
        awaiting(query, 1 + number * count)
    query.stop()
    return _parts(query, count)


def floor(spark: SparkSession, directory: Path) -> dict[str, float]:
    """Medians of the parts of a micro-batch whose source has nothing to do."""
    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 1)
    writer = reader.load().writeStream.format("noop").trigger(processingTime=f"{EVERY_S} seconds")
    query = writer.option("checkpointLocation", str(directory / f"floor-{next(_numbers)}")).start()
    awaiting(query, BATCHES * ROWS)
    query.stop()
    return {f"rows: {part}": value for part, value in _parts(query, ROWS).items()}


def _parts(query: StreamingQuery, count: int) -> dict[str, float]:
    done = [progress for progress in query.recentProgress if progress["numInputRows"] == count]
    if len(done) < BATCHES // 2:
        raise RuntimeError(f"only {len(done)} of {BATCHES} micro-batches had {count} rows: the machine is too busy")
    done = done[len(done) // 4 :]
    return {part: statistics.median(each["durationMs"].get(part, 0) for each in done) for part in PARTS}


def small(spark: SparkSession, source: Source, directory: Path) -> dict[str, float]:
    """Parts of small micro-batches, and the whole of smaller ones."""
    parts = {f"rows: {part}": value for part, value in rows(spark, source, directory, ROWS).items()}
    return parts | {"few: triggerExecution": rows(spark, source, directory, FEW_ROWS)["triggerExecution"]}


def delay(spark: SparkSession, source: Source, directory: Path) -> dict[str, float]:
    """p50 and p99 of the time from a client's send to `foreachBatch`."""
    topic = source.new_topic()
    delays: list[float] = []
    first = threading.Event()

    def arrive(frame: DataFrame, _: int) -> None:
        found = frame.select("value").collect()
        now = time.time_ns()
        delays.extend((now - int(row["value"])) / 1e6 for row in found)
        first.set()

    source.send(topic, [str(time.time_ns()).encode()])
    writer = source.read(spark, [topic]).writeStream.foreachBatch(arrive)
    query = writer.option("checkpointLocation", str(directory / topic)).start()
    if not first.wait(180):
        raise RuntimeError(f"nothing arrived: {query.exception()}")
    for _ in range(DELAYS):
        source.send(topic, [str(time.time_ns()).encode()])
        time.sleep(DELAY_EVERY_S)
    while len(delays) <= DELAYS and query.isActive:
        time.sleep(DELAY_EVERY_S)
    query.stop()
    steady = sorted(delays[DELAYS // 4 :])
    return {"delay: p50": statistics.median(steady), "delay: p99": steady[len(steady) * 99 // 100]}


def idle(spark: SparkSession, source: Source, directory: Path, broker_pid: int) -> dict[str, float]:
    """CPU seconds a minute of an idle query."""
    topics = [source.new_topic() for _ in range(IDLE_PARTITIONS)]
    for topic in topics:
        source.send(topic, [VALUE])
    writer = source.read(spark, topics).writeStream.format("noop")
    query = writer.option("checkpointLocation", str(directory / topics[0])).start()
    awaiting(query, len(topics))
    time.sleep(IDLE_SETTLE_S)
    before, broker_before, begun = _spark_processor_s(), _processor_s(psutil.Process(broker_pid)), time.monotonic()
    time.sleep(IDLE_S)
    minutes = (time.monotonic() - begun) / 60
    spent = sum(max(0.0, now - before.get(pid, 0.0)) for pid, now in _spark_processor_s().items())
    broker = _processor_s(psutil.Process(broker_pid)) - broker_before
    query.stop()
    return {"idle: Spark, CPU s a minute": spent / minutes, "idle: broker, CPU s a minute": broker / minutes}


def _processor_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _spark_processor_s() -> dict[int, float]:
    """The JVM and all Python processes below it; not this one, which is the user's program."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        try:
            found[process.pid] = _processor_s(process)
        except psutil.NoSuchProcess:
            continue
    return found


def _note(kept: dict[str, list[float]], found: dict[str, float]) -> None:
    for figure, value in found.items():
        kept[figure].append(value)


def main() -> None:
    """Measures what the JSON text in the first argument says, and prints the figures as JSON."""
    wanted = json.loads(sys.argv[1])
    directory = Path(wanted["directory"])
    spark = session(wanted["jars"])
    kinds = {"ours": Ours, "kafka": Kafka}
    sources = {name: kinds[name](peer["url"]) for name, peer in wanted["peers"].items()}
    figures: Figures = {name: defaultdict(list) for name in (*sources, FLOOR)}
    for turn in range(wanted["rounds"]):
        for name, source in sources.items():
            found: dict[str, float] = {}
            if wanted["latency"]:
                found |= small(spark, source, directory) | delay(spark, source, directory)
            if wanted["idle"]:
                found |= idle(spark, source, directory, wanted["peers"][name]["pid"])
            _note(figures[name], found)
            shown = ", ".join(f"{figure} {value:.1f}" for figure, value in found.items())
            load = os.getloadavg()[0]
            print(f"round {turn + 1} {name}: {shown} (load {load:.1f})", file=sys.stderr, flush=True)
        if wanted["latency"]:
            _note(figures[FLOOR], floor(spark, directory))
    print(json.dumps({"spark": spark.version, "figures": figures}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
