"""Registry of topics: names, existence, partitions, taking into use (TN-5, TN-7, PT-1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.model.errors import TopicNotFound
from spark_pulsar.model.names import NON_PERSISTENT, PERSISTENT, TopicName

from .subscription import Subscription
from .topic import Topic

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.topics import TopicState

    from .core import Core


def names_in(core: Core, tenant: str, namespace: str) -> list[TopicName]:
    """Lists all topics and partitions of a namespace, sorted by name."""
    return [
        TopicName.parse(full)
        for domain in (NON_PERSISTENT, PERSISTENT)
        for full in full_names_in(core, domain, tenant, namespace)
    ]


def full_names_in(core: Core, domain: str, tenant: str, namespace: str) -> list[str]:
    """Lists the full names of the topics and partitions of one domain of a namespace, sorted (C12). The list is a
    snapshot, to be read only."""
    index = core.state.topic_names if domain == PERSISTENT else core.non_persistent.names
    return index.names(f"{domain}://{tenant}/{namespace}/")


def count_in(core: Core, tenant: str, namespace: str) -> int:
    """Counts the topics and partitions of a namespace."""
    place = f"{PERSISTENT}://{tenant}/{namespace}/"
    return core.state.topic_names.count(place) + core.non_persistent.names.count(f"non-{place}")


def partitioned_names_in(core: Core, tenant: str, namespace: str) -> list[TopicName]:
    """Lists all partitioned topics of a namespace, sorted by name."""
    return [
        TopicName.parse(full)
        for domain in (NON_PERSISTENT, PERSISTENT)
        for full in partitioned_full_names_in(core, domain, tenant, namespace)
    ]


def partitioned_full_names_in(core: Core, domain: str, tenant: str, namespace: str) -> list[str]:
    """Lists the full names of the partitioned topics of one domain of a namespace, sorted. The list is a snapshot, to
    be read only."""
    return core.state.partitioned_names.names(f"{domain}://{tenant}/{namespace}/")


SYSTEM_NAMESPACE = "pulsar/system"
"""System namespace, which every Pulsar has: clients with transactions reach the refusal that explains itself."""


def check_namespace(core: Core, name: TopicName) -> None:
    """Raises TopicNotFound unless the topic's namespace exists (TN-7)."""
    if name.namespace_name not in core.state.namespaces and name.namespace_name != SYSTEM_NAMESPACE:
        raise TopicNotFound("Namespace not found")


def exists(core: Core, name: TopicName) -> bool:
    """Returns whether a topic (not: partitioned topic) exists."""
    return name.full in core.state.topics_by_name or name.full in core.non_persistent.by_name


def partition_count(core: Core, name: TopicName) -> int | None:
    """Counts the partitions of a partitioned topic, None for any other name."""
    known = core.state.partitioned.get(name.full)
    return None if known is None else known.partitions


def find(core: Core, name: TopicName) -> Topic | None:
    """Finds a topic and takes it into use; None when it does not exist."""
    full = name.full
    topic = core.topics.get(full)
    if topic is None:
        state = core.state.topics_by_name.get(full)
        if state is not None:
            topic = load(core, name, state)
    return topic


def load(core: Core, name: TopicName, state: TopicState) -> Topic:
    """Makes the topic of a durable state, with its subscriptions, and notifies its observers."""
    topic = Topic(core, name, state, confirmed=state.ledger.last_position)
    for cursor in state.cursors.values():
        subscription = Subscription(core, topic, cursor)
        subscription.born_group = 0  # it was there when the broker started
        topic.add_subscription(subscription)
    core.topics[topic.full_name] = topic
    for observer in core.loaded:
        observer(core, topic)
    return topic
