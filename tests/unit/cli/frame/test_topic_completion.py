"""Names of topics, completed with what the broker has."""

from __future__ import annotations

import time

import pytest
from typer.testing import CliRunner

from spark_pulsar.cli.main import app
from tests.brokers import Broker


def completed(words: str) -> list[str]:
    env = {"_SPARK_PULSAR_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    return CliRunner().invoke(app, [], prog_name="spark-pulsar", env=env).stdout.split()


@pytest.mark.parametrize(
    "command", ["consume --url {broker.service_url} -s s", "admin --admin-url {broker.admin_url} topics stats"]
)
def test_topics_of_the_broker(broker: Broker, command: str) -> None:
    full = broker.topic()
    short = full.rpartition("/")[2]
    where = ("admin", "--admin-url", broker.admin_url, "topics")
    assert CliRunner().invoke(app, [*where, "create-partitioned-topic", f"{full}-parted", "-p", "2"]).exit_code == 0
    asked = command.format(broker=broker)
    assert completed(f"spark-pulsar {asked} {short}") == [f"{short}-parted"]
    assert completed(f"spark-pulsar {asked} public/default/{short}") == [f"public/default/{short}-parted"]
    assert completed(f"spark-pulsar {asked} {full}") == [f"{full}-parted"]
    assert completed(f"spark-pulsar {asked} nowhere/at/all") == []


@pytest.mark.parametrize("command", ["consume -s s -u pulsar://127.0.0.1:1", "admin --admin-url nonsense topics stats"])
def test_no_broker_completes_nothing_soon(command: str) -> None:
    begun = time.monotonic()
    assert completed(f"spark-pulsar {command} or") == []
    assert time.monotonic() - begun < 10
