"""The replay of a dead letter topic through spark-submit: dry, for real, and once more."""

from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

import spark_pulsar
from spark_pulsar.testing.process import BrokerProcess
from tests.jobs.submitting import run

DEAD = "persistent://public/default/orders-billing-DLQ"
ORDERS = "persistent://public/default/orders"


@pytest.fixture
def server() -> Iterator[BrokerProcess]:
    with spark_pulsar.broker_process() as running:
        yield running


def submit(server: BrokerProcess, *arguments: object) -> tuple[int, str]:
    """Runs the job on the dead letter topic; its status and what it printed."""
    done = run("replay_dead_letters.py", "--service-url", server.service_url, "--topic", DEAD, *arguments)
    assert "Traceback" not in done.stdout, done.stdout + done.stderr
    return done.returncode, done.stdout or done.stderr


def received(reader: pulsar.Reader) -> list[pulsar.Message]:
    found = []
    while reader.has_message_available():
        found.append(reader.read_next(10_000))
    return found


def test_each_letter_goes_back_once(server: BrokerProcess, tmp_path: Path) -> None:
    # covers LETTER-4
    client = pulsar.Client(server.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    letters = client.create_producer(DEAD)
    properties = {"REAL_TOPIC": ORDERS, "REAL_SUBSCRIPTION": "billing", "ORIGIN_MESSAGE_ID": "1:2:-1"}
    properties |= {"ORIGIN_MESSAGE_IDY_TIME": "1:2:-1", "RECONSUMETIMES": "4", "DELAY_TIME": "5", "mine": "kept"}
    for number in range(5):
        letters.send(b"%d" % number, properties, partition_key="k", ordering_key="o", event_timestamp=7)
    letters.send(b"other", {**properties, "REAL_TOPIC": f"{ORDERS}-other", "DECODE_ERROR": "why"})
    letters.send(b"astray", {"mine": "kept"})
    arguments = ("--checkpoint", tmp_path / "replayed")

    status, printed = submit(server, *arguments, "--dry-run")
    assert status == 1
    assert "no topic is named in 1 letters" in printed

    status, printed = submit(server, *arguments, "--default-topic", ORDERS)
    assert status == 0, printed
    assert f"5  {ORDERS}, dead-lettered by subscription billing" in printed
    assert "7  messages sent back" in printed
    orders = client.create_reader(ORDERS, pulsar.MessageId.earliest)
    found = received(orders)
    assert sorted(message.data() for message in found) == [b"0", b"1", b"2", b"3", b"4", b"astray"]
    assert {
        (message.partition_key(), message.ordering_key(), message.event_timestamp())
        for message in found
        if message.data() != b"astray"
    } == {("k", "o", 7)}
    [other] = received(client.create_reader(f"{ORDERS}-other", pulsar.MessageId.earliest))
    assert {str(message.properties()) for message in [other, *found]} == {"{'mine': 'kept'}"}

    letters.send(b"later", properties)
    status, printed = submit(server, *arguments, "--dry-run")
    assert status == 0, printed
    assert "1  messages would be sent back" in printed
    assert received(orders) == []
    client.close()
