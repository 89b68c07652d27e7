"""A topic of many partitions is planned over one connection and by one thread."""

from __future__ import annotations

import json
import threading
import time

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.publishing.publisher import Publisher
from spark_pulsar.connector.micro_batches import polling
from spark_pulsar.connector.micro_batches.offset_planner import OffsetPlanner
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.brokers import Broker
from tests.spark.test_transactions_read import send

PARTITIONS, FILLED = 100, 60


def readers() -> set[threading.Thread]:
    """Threads that read from connections."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("pulsar-reader")}


@pytest.fixture
def long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle poll waits for a minute, unless there is news."""
    monkeypatch.setattr(polling, "_FIRST_WAIT_MS", 60_000)
    monkeypatch.setattr(polling, "_LONGEST_WAIT_MS", 60_000)
    monkeypatch.setattr(polling, "_IDLE_LOOP_MS", 60_000)


def test_one_connection_and_the_same_text(broker: Broker) -> None:
    # covers READ-22, READ-48
    topic = broker.topic("many", PARTITIONS)
    options = parse_options({"service.url": broker.service_url, "topic": topic, "startingOffsets": "earliest"})
    with PulsarClient(ClientConfig(broker.service_url)) as writer:
        for index in range(FILLED):
            with writer.publisher(f"{topic}-partition-{index}") as publisher:
                for _ in range(3):
                    publisher.send(MessageMetadata(), b"x")
                publisher.flush()
    before = readers()
    with PulsarClient(ClientConfig(broker.service_url)) as client:
        planner = OffsetPlanner(client, options)
        at, rows = planner.initial(), 0
        for expected in (FILLED, FILLED, FILLED):
            following = planner.latest(at, FILLED)  # one of each
            works = planner.ranges(at, following)
            assert len({work.topic for work in works}) == expected
            tasks = planner.tasks(at, SourceOffset.from_json(following.to_json()))
            assert len(tasks) == 32
            assert [work for task in tasks for work in task] == works
            rows += len(works)
            at = SourceOffset.from_json(json.loads(json.dumps(following.to_json())))
            assert list(at.positions) == sorted(at.positions)
        assert len(readers() - before) == 1
        assert planner.latest(at, FILLED) is at
        assert planner.latest(at) is at
        assert len(readers() - before) == 1
        again = OffsetPlanner(client, options)
        assert json.dumps(again.latest(at).to_json()) == json.dumps(at.to_json())
        again.close()
        planner.close()


@pytest.mark.usefixtures("long_waits")
def test_a_transaction_that_ends_wakes_an_idle_query(broker: Broker) -> None:
    # covers READ-38
    topic = broker.topic("committed", 40)
    options = parse_options({"service.url": broker.service_url, "topic": topic, "startingOffsets": "earliest"})
    client, writer = PulsarClient(ClientConfig(broker.service_url)), PulsarClient(ClientConfig(broker.service_url))
    with client, writer:
        planner = OffsetPlanner(client, options)
        send(writer, f"{topic}-partition-7", ["plain"])
        transaction = writer.open_transaction(0, 600_000)
        send(writer, f"{topic}-partition-7", ["mine"], transaction)
        at = planner.latest(planner.initial())
        assert planner.latest(at) is at
        ending = threading.Timer(0.3, writer.end_transaction, (transaction,), {"commit": True})
        ending.start()
        begun = time.monotonic()
        assert planner.latest(at) is at
        assert time.monotonic() - begun < 45
        ending.join()
        assert [work.topic for work in planner.ranges(at, planner.latest(at))] == [f"{topic}-partition-7"]
        planner.close()


@pytest.mark.usefixtures("long_waits")
def test_an_idle_query_of_many_partitions_waits_for_news(broker: Broker) -> None:
    # covers READ-11, READ-38
    topic = broker.topic("idle", 40)
    options = parse_options({"service.url": broker.service_url, "topic": topic, "startingOffsets": "earliest"})
    client, writer = PulsarClient(ClientConfig(broker.service_url)), PulsarClient(ClientConfig(broker.service_url))
    with client, writer:
        planner = OffsetPlanner(client, options)
        at = planner.latest(planner.initial())
        begun = time.monotonic()
        for partition in (7, 7, 31):  # a second one in the same partition, too
            assert planner.latest(at) is at  # the first poll does not wait
            with writer.publisher(f"{topic}-partition-{partition}") as publisher:

                def send(to: Publisher = publisher) -> None:
                    to.send(MessageMetadata(), b"x")
                    to.flush()

                sending = threading.Timer(0.3, send)
                sending.start()
                assert planner.latest(at) is at  # which is woken
                sending.join()
            end = planner.latest(at)
            assert [work.topic for work in planner.ranges(at, end)] == [f"{topic}-partition-{partition}"]
            planner.tasks(at, end)
            at = end
        assert time.monotonic() - begun < 45
        planner.close()
