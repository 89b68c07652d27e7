"""Addresses that lookups answer: those of a listener, or the one that the client used (A4, SEC-46, SEC-47)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.broker.turn.addresses import Addresses
from spark_pulsar.model.errors import ServiceNotReady

if TYPE_CHECKING:
    from spark_pulsar.broker.turn.config import BrokerConfig


def addresses_for(config: BrokerConfig, reached_host: str, listener: str = "") -> Addresses:
    """Returns the addresses for a client that names a listener, or none, and reached the broker by this host. Raises
    ServiceNotReady when there is no such listener."""
    if listener or config.advertised_listeners:
        name = listener or config.internal_listener or config.advertised_listeners[0].name
        for each in config.advertised_listeners:
            if each.name == name:
                return each.addresses
        raise ServiceNotReady(f"the broker do not have {listener} listener")
    return _at(config, reached_host)


def _at(config: BrokerConfig, reached_host: str) -> Addresses:
    """Returns the addresses at the advertised host, or else at the one that a client reached. The port that may be
    advertised with it is the one without TLS."""
    ports, advertised = config.ports, config.advertised_address
    host = host_of(advertised) if advertised else reached_host
    binary = None if ports.binary is None else f"pulsar://{host}:{ports.binary}"
    return Addresses(
        binary=f"pulsar://{advertised}" if advertised not in ("", host) and binary is not None else binary,
        http=None if ports.http is None else f"http://{host}:{ports.http}",
        binary_tls=None if ports.binary_tls is None else f"pulsar+ssl://{host}:{ports.binary_tls}",
        http_tls=None if ports.http_tls is None else f"https://{host}:{ports.http_tls}",
    )


def host_of(address: str) -> str:
    """Returns the host of HOST or HOST:PORT, an IPv6 address in brackets."""
    return address.rpartition(":")[0] if ":" in address.rpartition("]")[2] else address
