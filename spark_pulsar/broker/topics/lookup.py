"""Lookup: LOOKUP and the addresses in its answer, partition metadata, topics of a namespace (A4, TN-8, MT-2, C12).
Lookup over HTTP is in `admin.brokers.lookups` (ADM-70)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.configuration.addresses import Addresses
from spark_pulsar.broker.entities import registry
from spark_pulsar.ledger.state.documents import TENANTS
from spark_pulsar.model.errors import MetadataError, ServiceNotReady
from spark_pulsar.model.names import NON_PERSISTENT, PERSISTENT, TopicName, split_namespace
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.pulsar_api_pb2 import (
    CommandGetTopicsOfNamespace,
    CommandLookupTopic,
    CommandPartitionedTopicMetadata,
)

from . import auto_creation, topic_lists
from .topic_patterns import InvalidPattern, TopicPattern, UnsupportedPattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_pulsar.broker.configuration.broker_config import BrokerConfig
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session


_DOMAINS_LEFT_OUT: Final = {
    CommandGetTopicsOfNamespace.PERSISTENT: NON_PERSISTENT,
    CommandGetTopicsOfNamespace.NON_PERSISTENT: PERSISTENT,
}


def on_lookup(core: Core, session: Session, command: CommandLookupTopic) -> None:
    """LOOKUP: every topic of an existing namespace is served here, whether it exists or not.

    `proxy_through_service_url` is true as from a standalone: a client that came by another address (a name, a mapped
    port) goes on using that one, and one that came by this very address keeps its connection (A4).
    """
    name = TopicName.parse(command.topic)
    registry.check_namespace(core, name)
    addresses = addresses_of(core, session, command.advertised_listener_name)
    core.send(
        session,
        commands.lookup_connect(
            command.request_id, addresses.binary, addresses.binary_tls, proxy_through_service_url=True
        ),
    )


def addresses_of(core: Core, session: Session, listener: str) -> Addresses:
    """Returns the addresses of this broker for the client of the session: by default the one that it came by."""
    config = core.config
    addresses = addresses_for(config, host_of(session.local), listener)
    if listener or config.advertised_listeners or config.advertised_address:
        return addresses
    if session.is_tls:
        return replace(addresses, binary_tls=f"pulsar+ssl://{session.local}")
    return replace(addresses, binary=f"pulsar://{session.local}")


def on_partition_metadata(core: Core, session: Session, command: CommandPartitionedTopicMetadata) -> None:
    """PARTITIONED_METADATA: answers the number of partitions, 0 for a topic without; auto-creation may make a
    partitioned topic (TN-7)."""
    name = TopicName.parse(command.topic)
    registry.check_namespace(core, name)
    before = core.group_of_now
    count = auto_creation.partitions_of(core, name, may_create=command.metadata_auto_creation_enabled)
    created = core.group_of_now if core.group_of_now != before else 0
    core.when_group_durable(created, lambda: core.send(session, commands.partition_metadata(command.request_id, count)))


def on_topics_of_namespace(core: Core, session: Session, command: CommandGetTopicsOfNamespace) -> None:
    """GET_TOPICS_OF_NAMESPACE: full names, each partition by itself, system topics hidden. The broker filters
    by a pattern that is not too long and that RE2 knows; else clients do (MT-2)."""
    tenant, namespace = split_namespace(command.namespace)
    if tenant not in core.state.documents[TENANTS]:  # a namespace alone that is missing has no topics
        raise MetadataError("Namespace not found")
    longest = core.config.topic_pattern_max_length if core.config.topic_patterns else -1
    pattern: TopicPattern | None = None
    if command.HasField("topics_pattern") and len(command.topics_pattern) <= longest:
        try:
            pattern = TopicPattern(command.topics_pattern)
        except UnsupportedPattern:
            pass  # the answer says that it is not filtered
        except InvalidPattern as error:
            raise MetadataError(f"Invalid topics pattern: {error}") from error
    unwanted = _DOMAINS_LEFT_OUT.get(command.mode)

    def begin() -> Iterator[int]:
        names: list[str] = []
        for domain in (NON_PERSISTENT, PERSISTENT):
            if domain != unwanted:
                names = names + registry.full_names_in(core, domain, tenant, namespace)
        return topic_lists.answer_listing(core, session, command, names, pattern)

    core.sliced_requests.add(session.session_id, begin)


def addresses_for(config: BrokerConfig, reached_host: str, listener: str = "") -> Addresses:
    """Returns the addresses for a client that names a listener, or none, and reached the broker by this host (SEC-46,
    SEC-47). Raises ServiceNotReady when there is no such listener."""
    if listener or config.advertised_listeners:
        name = listener or config.internal_listener or config.advertised_listeners[0].name
        for advertised in config.advertised_listeners:
            if advertised.name == name:
                return advertised.addresses
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
