"""Clients of a damaged topic: producers are refused with a text that says why, consumers get the readable entries and
stop before the lost ones, other topics work as ever; after a repair everything goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pulsar
import pytest

from spark_pulsar.storage.offline.repair import repair
from spark_pulsar.testing.process import BrokerProcess
from tests.brokers import Broker
from tests.fault.crash_load import QUIET_CLIENT
from tests.raw import Frame

MESSAGES = 10
LOST = 6


def value(number: int) -> bytes:
    return b"<%d>" % number * 500


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as started:
        yield started


def asked(broker: Broker, request: str, topic: str, **fields: Any) -> Frame:
    """The answer to a raw request."""
    with closing(broker.raw()) as raw:
        raw.request("LOOKUP", topic=topic)
        return raw.request(request, topic=topic, **fields)


def connected(broker: Broker) -> pulsar.Client:
    return pulsar.Client(broker.service_url, operation_timeout_seconds=30, logger=QUIET_CLIENT)


def publish(client: pulsar.Client, topic: str, numbers: range) -> None:
    producer = client.create_producer(topic, batching_enabled=False)
    for number in numbers:
        producer.send(value(number))
    producer.close()


def receive(client: pulsar.Client, topic: str, subscription: str, count: int) -> list[bytes]:
    consumer = client.subscribe(topic, subscription, initial_position=pulsar.InitialPosition.Earliest)
    values = []
    for _ in range(count):
        message = consumer.receive(timeout_millis=30_000)
        values.append(message.data())
        consumer.acknowledge(message)
    consumer.close()
    return values


def test_a_damaged_topic_is_read_only_until_it_is_repaired(process: BrokerProcess, tmp_path: Path) -> None:
    broker = Broker("ours", process.service_url, process.admin_url, process)
    damaged, sound = "persistent://public/default/damaged", "persistent://public/default/sound"
    data_dir = tmp_path / "data"
    client = connected(broker)
    for topic in (damaged, sound):
        client.subscribe(topic, "sub", initial_position=pulsar.InitialPosition.Earliest).close()
        publish(client, topic, range(MESSAGES))
    client.close()
    broker.kill()
    for path in (data_dir / "journal").iterdir():
        content = bytearray(path.read_bytes())
        at = content.find(value(LOST))
        if at >= 0:
            content[at + 1000] ^= 1
            path.write_bytes(content)
    broker.restart()

    client = connected(broker)
    with pytest.raises(pulsar.NotAllowedError):
        client.create_producer(damaged)
    assert "is read-only, it is damaged" in process.log
    assert re.search(
        r"ERROR +spark_pulsar.server: the journal is damaged: journal/\d+.journal, offset \d+: ", process.log
    )
    refusal = asked(broker, "PRODUCER", topic=damaged, producer_id=1)
    assert refusal.fields["error"] == "NotAllowedError"
    assert f":{LOST} are lost (journal/" in refusal.fields["message"]
    assert "spark-pulsar check" in refusal.fields["message"]
    # What is readable is read; the next one is refused with the reason.
    assert receive(client, damaged, "sub", LOST) == [value(number) for number in range(LOST)]
    refusal = asked(broker, "SUBSCRIBE", topic=damaged, subscription="sub", subType="Exclusive", consumer_id=1)
    assert refusal.fields["error"] == "PersistenceError"
    assert "cannot be read" in refusal.fields["message"]
    # A consumer that is connected is closed there.
    with closing(broker.raw()) as raw:
        raw.request("LOOKUP", topic=damaged)
        fields = {"subscription": "other", "subType": "Shared", "initialPosition": "Earliest"}
        assert raw.request("SUBSCRIBE", topic=damaged, consumer_id=1, **fields).type == "SUCCESS"
        raw.send("FLOW", consumer_id=1, messagePermits=100)
        assert [frame.position[1] for frame in raw.expect_messages(LOST)] == list(range(LOST))
        raw.expect("CLOSE_CONSUMER")
    assert receive(client, sound, "sub", MESSAGES) == [value(number) for number in range(MESSAGES)]
    publish(client, sound, range(3))
    client.close()

    process.stop()
    _, done = repair(data_dir)
    assert sum("are lost" in line for line in done) == 1
    broker.restart()
    client = connected(broker)
    publish(client, damaged, range(MESSAGES, MESSAGES + 3))
    expected = [value(number) for number in range(LOST + 1, MESSAGES + 3)]
    assert receive(client, damaged, "sub", len(expected)) == expected
    everything = [value(number) for number in range(MESSAGES + 3) if number != LOST]
    assert receive(client, damaged, "later", len(everything)) == everything
    client.close()
