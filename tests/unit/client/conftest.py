"""A scripted peer, and clients that do not outlive their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from tests.unit.client.peer import Peer


@pytest.fixture
def peer() -> Iterator[Peer]:
    """One scripted broker."""
    one = Peer()
    yield one
    one.close()


@pytest.fixture
def other_peer() -> Iterator[Peer]:
    """A second scripted broker."""
    one = Peer()
    yield one
    one.close()


@pytest.fixture
def client_of() -> Iterator[Callable[..., PulsarClient]]:
    """Makes clients of a service URL with short time-outs."""
    clients: list[PulsarClient] = []

    def make(service_url: str, **settings: Any) -> PulsarClient:
        defaults = {"connect_timeout_ms": 2_000, "operation_timeout_ms": 5_000}
        client = PulsarClient(ClientConfig(service_url, **(defaults | settings)))
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(peer: Peer, client_of: Callable[..., PulsarClient]) -> PulsarClient:
    """A client of the scripted broker."""
    return client_of(peer.url)
