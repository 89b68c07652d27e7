"""Partitions that are created at once (TN-8, PT-7): their number, the length of their names, and the bytes of their
records are limited. Nothing is created beyond. `lifecycle` creates them, each an ordinary topic (PT-1); `auto_creation`
refuses partitions that their topic does not have (TN-6)."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_pulsar.broker.entities import registry
from spark_pulsar.ledger.records import text_bytes, text_map_bytes
from spark_pulsar.model.errors import NotAllowed, ServiceNotReady
from spark_pulsar.model.limits import MAX_PARTITIONS

from . import name_limits

if TYPE_CHECKING:
    from spark_pulsar.broker.configuration.broker_config import BrokerConfig
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.model.names import TopicName

MOST_WRITTEN_BYTES: Final = 16 * 1024 * 1024
"""Bytes of records that may be written for all partitions of a topic at once; one turn does more than that."""

MOST_MADE_BYTES: Final = 4 * MOST_WRITTEN_BYTES
"""Bytes of records of partitioned topics in one turn. Clients beyond that have to repeat the request."""

_RECORD_BYTES: Final = 128
"""Upper bound of the bytes of a topic's or subscription's records beside names and properties."""


class TooMuchAtOnce(NotAllowed):
    """Error of a request that would write more than one turn may."""

    http_status = 413


class AlreadyThere(NotAllowed):
    """Error of a topic that another request has created meanwhile."""

    http_status = 409


class Lacking(NamedTuple):
    """Partitions that a topic lacks, and the subscriptions of its others, with their properties."""

    names: list[TopicName]
    subscriptions: dict[str, dict[str, str]]


def most(config: BrokerConfig) -> int:
    """Returns how many partitions a topic may have (TN-8). All of them are created in one turn, and no client believes
    in more."""
    return config.max_partitions_per_topic or MAX_PARTITIONS


def lacking_in_steps(core: Core, name: TopicName, partitions: int) -> Generator[None, None, Lacking]:
    """Finds, step by step, the partitions that a topic lacks (TN-5). NotAllowed when that is too many, InvalidTopicName
    when their names are too long, TooMuchAtOnce when they cannot be created at once, ServiceNotReady when others were
    created in this turn."""
    known = core.state.partitioned.get(name.full)
    if partitions > (0 if known is None else known.partitions) and partitions > most(core.config):
        raise NotAllowed(f"Number of partitions should be less than or equal to {most(core.config)}")
    name_limits.check_topic(name.at_partition(partitions - 1))
    if not name.is_persistent:
        return Lacking([], {})  # its partitions come into being when they are used (NP-7)
    names: list[TopicName] = []
    subscriptions: dict[str, dict[str, str]] = {}
    for index in range(partitions):
        partition = name.at_partition(index)
        state = core.state.topics_by_name.get(partition.full)
        if state is None:
            names.append(partition)
        else:
            for cursor in state.cursors.values():
                subscriptions.setdefault(cursor.name, {}).update(cursor.properties)
        yield
    check_room(core, name, len(names))
    made_bytes = _check_volume(
        len(names),
        _RECORD_BYTES
        + len(text_bytes(names[-1].full) if names else b"")
        + sum(_size_bytes(subscription, properties) for subscription, properties in subscriptions.items()),
    )
    core.made_bytes += made_bytes
    if core.made_bytes > MOST_MADE_BYTES:
        raise ServiceNotReady("many partitioned topics are being made at this moment, try again")
    return Lacking(names, subscriptions)


def check_room(core: Core, name: TopicName, more: int) -> None:
    """Raises NotAllowed when `more` topics are too many for the namespace (TN-10)."""
    limit = core.policies_of(name).max_topics
    if limit and more and registry.count_in(core, name.tenant, name.namespace) + more > limit:
        raise NotAllowed("Exceed maximum number of topics in namespace.")


def check_subscription(partitions: int, subscription: str, properties: Mapping[str, str]) -> None:
    """Raises TooMuchAtOnce when a subscription and its properties cannot be written for all partitions in one turn."""
    _check_volume(partitions, _size_bytes(subscription, properties))


def _size_bytes(subscription: str, properties: Mapping[str, str]) -> int:
    return _RECORD_BYTES + len(text_bytes(subscription)) + len(text_map_bytes(properties))


def _check_volume(partitions: int, each_bytes: int) -> int:
    size_bytes = partitions * each_bytes
    if size_bytes > MOST_WRITTEN_BYTES:
        raise TooMuchAtOnce(
            f"{partitions} partitions with {each_bytes} bytes each of names, subscriptions and properties are too "
            f"much at once, more than {MOST_WRITTEN_BYTES} bytes: choose fewer, or shorter ones"
        )
    return size_bytes
