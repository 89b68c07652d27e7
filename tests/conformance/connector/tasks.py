"""Tasks of the connector without Spark: a write, and a batch read from the start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.table import BATCH_READ, BATCH_WRITE
from spark_pulsar.connector.planning.batch_read import plan_batch
from spark_pulsar.connector.reading.projection import Projection
from spark_pulsar.connector.reading.range_reading import read_range
from spark_pulsar.connector.writing.task_writing import publish
from tests.brokers import Broker


def write(broker: Broker, topic: str, batches: Iterable[pa.RecordBatch], **options: str) -> int:
    """Publishes record batches as a task does; the number of rows."""
    parsed = parse_options({"service.url": broker.service_url, "topic": topic, **options}).for_write(BATCH_WRITE)
    with PulsarClient(ClientConfig(broker.service_url)) as client:
        return publish(client, parsed, iter(batches))


def read(broker: Broker, topic: str, *names: str, **options: str) -> list[dict[str, Any]]:
    """Reads a topic as the tasks of a batch read do: its rows, with these columns."""
    parsed = parse_options({"service.url": broker.service_url, "topic": topic, **options}).for_read(BATCH_READ)
    with PulsarClient(ClientConfig(broker.service_url)) as client:
        works = plan_batch(client, parsed)
        batches = [batch for work in works for batch in read_range(client, parsed, work, Projection(names))]
    return [row for batch in batches for row in batch.to_pylist()]
