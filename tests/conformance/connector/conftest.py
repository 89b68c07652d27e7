"""What tests of several modules need here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from tests.brokers import Broker


@pytest.fixture
def client(broker: Broker) -> Iterator[PulsarClient]:
    """The connector's client on the broker under test."""
    with PulsarClient(ClientConfig(broker.service_url, operation_timeout_ms=30_000)) as ours:
        yield ours
