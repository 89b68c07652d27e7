"""What is made of a partitioned topic at once, and what that must keep to: how many partitions there are, how long
their names get, and what is written for all of them. Nothing is made when it is too much."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_pulsar.broker.entities import registry
from spark_pulsar.ledger.records.codec import text_bytes, text_map_bytes
from spark_pulsar.model.errors import NotAllowed, ServiceNotReady
from spark_pulsar.model.limits import MAX_PARTITIONS

from . import name_limits

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.turn.config import BrokerConfig
    from spark_pulsar.model.names import TopicName

MOST_WRITTEN_BYTES: Final = 16 * 1024 * 1024
"""What is written at once for all partitions of a topic: of one turn, which does more than that."""

MOST_MADE_BYTES: Final = 4 * MOST_WRITTEN_BYTES
"""What one turn writes of partitioned topics. Requests to the admin API are that few; of clients that have topics made
by asking for them the rest has to ask again."""

_RECORD_BYTES: Final = 128
"""More than the records of a topic or subscription have beside names and properties."""


class TooMuchAtOnce(NotAllowed):
    """More would be written than one turn may write."""

    http_status = 413


class Lacking(NamedTuple):
    """The partitions that a topic lacks, and the subscriptions that its others have, with their properties."""

    names: list[TopicName]
    subscriptions: dict[str, dict[str, str]]


def most(config: BrokerConfig) -> int:
    """How many partitions a topic may have. All of them are made in one turn, and no client believes in more."""
    return config.max_partitions_per_topic or MAX_PARTITIONS


def lacking(core: Core, name: TopicName, partitions: int) -> Lacking:
    """What a topic lacks to have so many partitions. NotAllowed when it may not have them, InvalidTopicName when their
    names are too long, TooMuchAtOnce when they cannot be made in one turn, ServiceNotReady when others were made in
    this one."""
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
    """NotAllowed when so many more topics are too many for the namespace (TN-10)."""
    limit = core.policies_of(name).max_topics
    if limit and more and registry.count_in(core, name.tenant, name.namespace) + more > limit:
        raise NotAllowed("Exceed maximum number of topics in namespace.")


def check_subscription(partitions: int, subscription: str, properties: Mapping[str, str]) -> None:
    """TooMuchAtOnce when a subscription and its properties cannot be written for so many partitions in one turn."""
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
