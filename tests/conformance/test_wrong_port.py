"""Service URLs with the port of the admin API are told at once, by the connector's client and by the commands."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.errors import WrongPort
from tests.brokers import Broker


@pytest.mark.timeout(60)
def test_the_admin_port_answers_http(broker: Broker) -> None:
    # covers READ-34
    where = broker.admin_url.partition("://")[2]
    config = ClientConfig(f"pulsar://{where}", operation_timeout_ms=60_000)
    with closing(PulsarClient(config)) as client, pytest.raises(WrongPort) as caught:
        client.topics_of("public/default")
    assert str(caught.value).startswith(f"{where} answers HTTP: this is the port of the admin API; ")
    command = [sys.executable, "-m", "spark_pulsar", "produce", "wrong-port", "-m", "x", "-u", f"pulsar://{where}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert f"{where} answers HTTP" in line
