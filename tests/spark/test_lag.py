"""Lag of a query, planned against a broker without a JVM: messages, entries, bytes and seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.clock import wall_ms
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.connector.micro_batches.offset_planner import OffsetPlanner
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.brokers import Broker

DAY_MS = 24 * 60 * 60 * 1000


@pytest.fixture
def client(broker: Broker) -> Iterator[PulsarClient]:
    with PulsarClient(ClientConfig(service_url=broker.service_url)) as ready:
        yield ready


def publish(client: PulsarClient, topic: str, payloads: list[bytes], publish_time_ms: int) -> None:
    with client.publisher(topic) as publisher:
        for payload in payloads:
            publisher.send(MessageMetadata(publish_time=publish_time_ms), payload)


def test_lag_is_told_for_each_partition(broker: Broker, client: PulsarClient) -> None:
    # covers READ-31
    topic = broker.topic("lag", partitions=3)
    publish(client, f"{topic}-partition-0", [b"x" * 100] * 6, wall_ms() - 2 * DAY_MS)
    publish(client, f"{topic}-partition-1", [b"y" * 50] * 3, wall_ms() - DAY_MS)
    base = {"service.url": broker.service_url, "topic": topic, "startingOffsets": "earliest"}
    planned = OffsetPlanner(client, parse_options(base | {"subscriptionName": "s"}))
    end = planned.latest(planned.initial(), 4)
    found = planned.report()
    assert found is not None
    assert found["subscription"] == "s"
    lag = found["lag"]
    assert (lag["messages"], lag["entries"], lag["partitions"]) == (5, 5, 2)
    first, second = (lag["ofPartitions"][f"{topic}-partition-{number}"] for number in (0, 1))
    assert [first["messages"], second["messages"]] == [3, 2]
    assert 300 < first["bytes"] < 600
    assert 100 < second["bytes"] < 300
    assert lag["bytes"] == first["bytes"] + second["bytes"]
    days = DAY_MS / 1000
    assert 2 * days <= lag["seconds"] == first["seconds"] < 2 * days + 600
    assert days <= second["seconds"] < days + 600
    while planned.latest(end, 4) is not end:
        end = planned.latest(end, 4)
    assert (planned.report() or {})["lag"] == {
        "messages": 0, "entries": 0, "bytes": 0, "seconds": 0.0, "estimated": False, "partitions": 0,
    }  # fmt: skip


def test_letters_that_are_not_due_are_no_lag(broker: Broker, client: PulsarClient) -> None:
    # covers READ-31
    topic = broker.topic("lag")
    publish(client, topic, [b"m"], 1)
    with client.publisher(f"{topic}-s-RETRY") as publisher:
        for _ in range(2):
            metadata = MessageMetadata(publish_time=1, deliver_at_time=wall_ms() + DAY_MS)
            publisher.send(metadata, b"letter")
    base = {"service.url": broker.service_url, "topic": topic, "startingOffsets": "earliest"}
    planned = OffsetPlanner(client, parse_options(base | {"subscriptionName": "s", "enableRetry": "true"}))
    planned.latest(planned.initial())
    lag = (planned.report() or {})["lag"]
    assert (lag["messages"], lag["partitions"]) == (0, 0)
    assert lag["delayed"]["entries"] == 2
    assert 0 < lag["delayed"]["secondsToNext"] <= DAY_MS / 1000
