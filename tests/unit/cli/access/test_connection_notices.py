"""Lost connections of the official client are told once, and so is their return."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import spark_pulsar
from spark_pulsar.cli.access.connection_notices import ConnectionNotices
from tests.eventually import eventually


@pytest.fixture
def process() -> Iterator[spark_pulsar.BrokerProcess]:
    with spark_pulsar.broker_process() as started:
        yield started


@pytest.mark.timeout(60)
def test_a_lost_connection_and_its_return_are_told(process: spark_pulsar.BrokerProcess, tmp_path: Path) -> None:
    """In a process of its own: the official client has one log for all clients of a process, that of the first."""
    where, told, admin = process.service_url.partition("://")[2], tmp_path / "told", process.admin()
    command = [sys.executable, "-m", "spark_pulsar", "consume", "notices", "-s", "s", "-n", "1", "--values-only"]
    with told.open("w") as errors:
        consumer = subprocess.Popen(
            [*command, "--service-url", process.service_url], stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        eventually(lambda: "notices" in str(admin.topics()), timeout_s=20)
        eventually(lambda: admin.stats("notices")["subscriptions"].get("s", {}).get("consumers"), timeout_s=20)
        assert told.read_text() == ""
        process.kill()
        eventually(
            lambda: f"spark-pulsar: connection to {where} lost; trying again\n" in told.read_text(), timeout_s=20
        )
        process.start()
        eventually(lambda: f"spark-pulsar: connected to {where} again\n" in told.read_text(), timeout_s=20)
        before = told.read_text()
        assert before.count("\n") <= 4
        process.client().create_producer("notices").send(b"one")
        assert consumer.communicate(timeout=20)[0] == "one\n"
        assert told.read_text() == before, "the end of the command is no lost connection"
    finally:
        consumer.kill()
        consumer.wait()


def test_a_broker_that_is_away_is_told_once_in_a_while() -> None:
    told: list[str] = []
    notices = ConnectionNotices(told.append)
    line = "[<none> -> pulsar://127.0.0.1:6650] Failed to establish connection to 0.0.0.0:0: Connection refused"
    for _ in range(3):
        notices.add_line(line)
    assert told == ["no connection to 127.0.0.1:6650: Connection refused; trying again"]
