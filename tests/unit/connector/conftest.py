"""The scripted peer of the client's tests, and a client of it."""

from collections.abc import Iterator

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from tests.unit.client.conftest import peer
from tests.unit.client.peer import Peer

__all__ = ["peer"]


@pytest.fixture
def client(peer: Peer) -> Iterator[PulsarClient]:
    """A client with its own time-outs."""
    with PulsarClient(ClientConfig(peer.url)) as one:
        yield one
