"""Steps of the Spark tests: produce and consume with the official client, read and write with Spark."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

import pulsar
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import DataStreamReader, DataStreamWriter, StreamingQuery

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.brokers import Broker, topic_path
from tests.spark.versions import SPARK

UNBATCHED: dict[str, Any] = {"batching_enabled": False}
BATCHED: dict[str, Any] = {
    "batching_enabled": True,
    "batching_max_messages": 10,
    "batching_max_publish_delay_ms": 60_000,
}
"""Batches of exactly ten, but for the last one."""


class Flows(AbstractContextManager["Flows"]):
    """Bound to one session, one broker and one directory for checkpoints."""

    def __init__(self, spark: SparkSession, broker: Broker, directory: Path) -> None:
        self.spark = spark
        self.broker = broker
        self._directory = directory
        self._official = broker.client()
        self._numbers = itertools.count()
        self._queries: list[StreamingQuery] = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for query in self._queries:
            query.stop()

    # ---- the official client

    def send(
        self, topic: str, values: Iterable[Any], message: dict[str, Any] | None = None, **producer: Any
    ) -> list[pulsar.MessageId]:
        """Publish values (None is a null value); ids once all are stored. `message`: keywords of `Producer.send`."""
        settings = producer or UNBATCHED
        sender = self._official.create_producer(topic, block_if_queue_full=True, **settings)
        ids: list[pulsar.MessageId] = []
        try:
            for value in values:
                data = value.encode() if isinstance(value, str) else value
                sender.send_async(data, lambda result, at: ids.append((result, at)), **(message or {}))
            sender.flush()
        finally:
            sender.close()
        failed = [result for result, _ in ids if result != pulsar.Result.Ok]
        assert not failed, failed
        return [at for _, at in ids]

    def send_at(self, topic: str, values: Mapping[str, int]) -> None:
        """Publish values to one partition, each with a publish time in ms."""
        with self.wire().publisher(topic) as publisher:
            for value, publish_time_ms in values.items():
                publisher.send(MessageMetadata(publish_time=publish_time_ms), value.encode())

    def receive(self, topic: str, timeout_ms: int = 30_000) -> list[pulsar.Message]:
        """All messages of a topic (of all its partitions, one after another), read by the official reader."""
        out: list[pulsar.Message] = []
        for partition in self._official.get_topic_partitions(topic):
            reader = self._official.create_reader(partition, pulsar.MessageId.earliest)
            while reader.has_message_available():
                out.append(reader.read_next(timeout_ms))
            reader.close()
        return out

    def official(self) -> pulsar.Client:
        """The official client itself."""
        return self._official

    # ---- the broker

    def wire(self) -> PulsarClient:
        """Our wire client on the broker under test, for what the official client cannot ask."""
        client = PulsarClient(ClientConfig(service_url=self.broker.service_url))
        self.broker._opened.append(client.close)
        return client

    def subscriptions(self, topic: str) -> set[str]:
        """Names of all subscriptions of a topic that is not partitioned, durable or not."""
        status, answer = self.broker.rest("GET", f"{topic_path(topic)}/subscriptions")
        assert status == 200, (status, answer)
        return set(answer)

    def delete(self, topic: str) -> None:
        """Delete a topic that is not partitioned."""
        status, answer = self.broker.rest("DELETE", f"{topic_path(topic)}?force=true")
        assert status == 204, (status, answer)

    def add_partitions(self, topic: str, count: int) -> None:
        """Raise the number of partitions."""
        status, answer = self.broker.rest("POST", f"{topic_path(topic)}/partitions", count)
        assert status == 204, (status, answer)

    # ---- Spark

    def reader(self, topic: str | None = None, **options: Any) -> Any:
        """A batch reader with `service.url` set."""
        return self._options(self.spark.read.format("pulsar"), topic, options)

    def batch(self, topic: str, **options: Any) -> DataFrame:
        """A batch read of a topic from its start."""
        return self.reader(topic, **options).load()

    def stream(self, topic: str | None = None, **options: Any) -> DataFrame:
        """A streaming read of a topic, from its start unless told otherwise."""
        reader: DataStreamReader = self.spark.readStream.format("pulsar")
        start = {} if "startingTime" in options else {"startingOffsets": "earliest"}
        return self._options(reader, topic, start | options).load()

    def _options(self, reader: Any, topic: str | None, options: dict[str, Any]) -> Any:
        reader = reader.option("service.url", self.broker.service_url)
        if topic is not None:
            reader = reader.option("topic", topic)
        for name, value in options.items():
            reader = reader.option(name, json.dumps(value) if isinstance(value, dict) else value)
        return reader

    def rows(self, ddl: str, rows: Sequence[Any]) -> DataFrame:
        """A DataFrame of given rows."""
        return self.spark.createDataFrame(rows, ddl)

    def write(self, frame: DataFrame, topic: str | None = None, **options: Any) -> None:
        """A batch write."""
        writer = frame.write.format("pulsar").mode("append").option("service.url", self.broker.service_url)
        if topic is not None:
            writer = writer.option("topic", topic)
        for name, value in options.items():
            writer = writer.option(name, value)
        writer.save()

    def checkpoint(self) -> str:
        """A new checkpoint directory."""
        return str(self._directory / f"checkpoint-{next(self._numbers)}")

    def start(self, writer: DataStreamWriter) -> StreamingQuery:
        """Start a query that is stopped when the test ends."""
        query = writer.start()
        self._queries.append(query)
        return query

    def drain(self, frame: DataFrame, checkpoint: str) -> list[list[Row]]:
        """Run with Trigger.AvailableNow to the end: the rows of each micro-batch."""
        batches: list[list[Row]] = []
        writer = frame.writeStream.foreachBatch(lambda batch, _: batches.append(batch.collect()))
        self.run(writer, checkpoint)
        return batches

    def run(self, writer: DataStreamWriter, checkpoint: str) -> None:
        """Run with Trigger.AvailableNow until nothing is left to read, see `run_to_end`."""
        run_to_end(writer, checkpoint, self.start)

    def follow(self, writer: DataStreamWriter, checkpoint: str) -> StreamingQuery:
        """Run one query, by a trigger without end, until nothing is left to read: several micro-batches of one run on
        any Spark. Returns the query, which is stopped."""
        query = self.start(writer.option("checkpointLocation", checkpoint).trigger(processingTime="0 seconds"))
        query.processAllAvailable()
        query.stop()
        return query


def run_to_end(
    writer: DataStreamWriter,
    checkpoint: str,
    start: Callable[[DataStreamWriter], StreamingQuery] = DataStreamWriter.start,
    timeout_s: int = 180,
) -> None:
    """Runs a query with Trigger.AvailableNow until nothing is left to read: on a Spark that runs one micro-batch each
    time (SPARK-2), as often as there is one more."""
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    planned = -1
    while planned < (planned := len(list(Path(checkpoint).glob("[co]*s/[0-9]*")))):  # of commits and offsets
        assert start(writer).awaitTermination(timeout_s)
        if SPARK >= (4, 2):
            break


def values(rows: Iterable[Row]) -> list[str]:
    """The column `value` as text."""
    return [bytes(row["value"]).decode() for row in rows]


def texts(count: int, first: int = 0, prefix: str = "m") -> list[str]:
    """`m0`, `m1`, …"""
    return [f"{prefix}{number}" for number in range(first, first + count)]


class Collected:
    """A foreachBatch function that keeps the values of all micro-batches, and may fail on request."""

    def __init__(self) -> None:
        self.batches: dict[int, list[str]] = {}
        self.fail = False

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        if self.fail:
            raise RuntimeError("this sink fails")
        self.batches[batch_id] = values(frame.collect())

    @property
    def all(self) -> list[str]:
        """Every value in order; a micro-batch that ran again counts once."""
        return [value for batch_id in sorted(self.batches) for value in self.batches[batch_id]]
