"""Lost connections of the official client are told once, and so is their return."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pulsar
import pytest

import spark_pulsar
from spark_pulsar.cli.access.connection_notices import ConnectionNotices
from tests.eventually import eventually


@pytest.fixture
def process() -> Iterator[spark_pulsar.BrokerProcess]:
    with spark_pulsar.broker_process() as started:
        yield started


@pytest.mark.timeout(60)
def test_a_lost_connection_and_its_return_are_told(process: spark_pulsar.BrokerProcess) -> None:
    told: list[str] = []
    notices = ConnectionNotices(told.append)
    with contextlib.closing(pulsar.Client(process.service_url, logger=notices.logger)) as client:
        where = process.service_url.partition("://")[2]
        consumer = client.subscribe("notices", "s")
        producer = client.create_producer("notices")
        producer.send(b"one")
        assert told == []
        process.kill()
        eventually(lambda: told, timeout_s=10)  # at once, on a machine that has nothing else to do
        assert told[0] == f"connection to {where} lost; trying again"
        process.start()
        eventually(lambda: f"connected to {where} again" in told, timeout_s=20)
        assert consumer.receive(20_000).data() == b"one"
        before = len(told)
        assert before <= 4
        notices.close()
    assert len(told) == before


def test_a_broker_that_is_away_is_told_once_in_a_while() -> None:
    told: list[str] = []
    notices = ConnectionNotices(told.append)
    line = "[<none> -> pulsar://127.0.0.1:6650] Failed to establish connection to 0.0.0.0:0: Connection refused"
    for _ in range(3):
        notices.take(line)
    assert told == ["no connection to 127.0.0.1:6650: Connection refused; trying again"]
