"""A broker in an environment with nothing but what it needs."""

from __future__ import annotations

from pathlib import Path

import pulsar

from spark_pulsar.testing.process import BrokerProcess

TOPICS = 24
ROUNDS = 40


class LightBroker(BrokerProcess):
    """A broker without the libraries that make it faster."""

    _module = "tests.broker_without_extras"


def publish_in_turn(url: str, text: str) -> None:
    """Sends to many topics in turn: a broker with NumPy stores that by column."""
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    producers = [client.create_producer(f"turn-{at}", batching_enabled=False) for at in range(TOPICS)]
    for number in range(ROUNDS):
        for producer in producers:
            producer.send_async(f"{text}{number}".encode(), None)
    for producer in producers:
        producer.flush()
    client.close()


def contents(url: str) -> list[list[str]]:
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    found: list[list[str]] = []
    for at in range(TOPICS):
        reader = client.create_reader(f"turn-{at}", pulsar.MessageId.earliest)
        found.append([])
        while reader.has_message_available():
            found[-1].append(reader.read_next(10_000).data().decode())
    client.close()
    return found


KINDS: list[tuple[type[BrokerProcess], str]] = [(BrokerProcess, "a"), (LightBroker, "b"), (BrokerProcess, "c")]


def test_data_goes_from_one_to_the_other_and_back(tmp_path: Path) -> None:
    conf = {"defaultRetentionTimeInMinutes": -1, "defaultRetentionSizeInMB": -1}
    expected: list[str] = []
    for kind, text in KINDS:
        broker = kind(tmp_path / "data", conf)
        try:
            broker.start()
            if expected:
                assert contents(broker.service_url) == [expected] * TOPICS
            publish_in_turn(broker.service_url, text)
            expected += [f"{text}{number}" for number in range(ROUNDS)]
            assert contents(broker.service_url) == [expected] * TOPICS
            assert ("serves without uvloop and numpy; faster with: pip install" in broker.log) == (kind is LightBroker)
            broker.kill()
        finally:
            broker.close()
