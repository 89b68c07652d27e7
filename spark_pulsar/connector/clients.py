"""One wire client for each broker and process, kept between tasks.

Spark runs many short tasks in a few long-lived worker processes; a client that stays connected saves every one of
them a handshake and a look-up. Workers that idle for a minute are ended by Spark, and the connections end with them.
"""

from __future__ import annotations

from typing import Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.config import ClientConfig
from spark_pulsar.connector.options import Options

_CLIENTS: Final[dict[ClientConfig, PulsarClient]] = {}


def own_client(options: Options) -> PulsarClient:
    """A client for the caller alone, who closes it: nothing of it stays on the broker after that."""
    return PulsarClient(_config(options))


def _config(options: Options) -> ClientConfig:
    return ClientConfig(
        service_url=options.service_url,
        connect_timeout_ms=options.connection_timeout_ms,
        operation_timeout_ms=options.operation_timeout_ms,
    )


def client_for(options: Options) -> PulsarClient:
    """The process's client for these options; opened on first use, never closed by its users."""
    config = _config(options)
    client = _CLIENTS.get(config)
    if client is None:
        client = _CLIENTS[config] = PulsarClient(config)
    return client
