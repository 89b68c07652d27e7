"""Topics and partitions, of either domain, over REST (TN-8, ADM-68, NP-9). Each function runs in the core and raises
its refusals."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.http.slices import at_once
from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.topics import auto_creation, lifecycle, name_limits, partition_creation
from spark_pulsar.ledger.state.topics import PartitionedTopicSet, TopicPropertiesSet
from spark_pulsar.model.errors import NotAllowed, TopicNotFound
from spark_pulsar.model.names import PARTITION_MARK, PENDING_ACKS_SUFFIX, TopicName, is_hidden

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_pulsar.admin.http.slices import Steps
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic

_NAMES_A_STEP: Final = 1_024
_NUMBER: Final = re.compile(r"[-+]?[0-9]{1,18}")
"""Ends of names that Apache Pulsar takes for the number of a partition, beside those that are one."""


def check_namespace(core: Core, name: TopicName) -> None:
    """Refuses a namespace that does not exist: 404."""
    try:
        registry.check_namespace(core, name)
    except TopicNotFound as error:
        raise Refused(404, "Namespace not found") from error


def subscription_not_found(subscription: str, full_name: str) -> Refused:
    """Returns the refusal of a subscription that does not exist."""
    return Refused(404, f"Subscription {subscription} not found for topic {full_name}")


def is_known(core: Core, name: TopicName) -> bool:
    """Returns whether there is a topic or a partitioned topic of this name."""
    return registry.exists(core, name) or registry.partition_count(core, name) is not None


def list_topics(core: Core, domain: str, tenant: str, namespace: str, *, with_system: bool) -> Steps[list[str]]:
    """Returns the topics and partitions of one domain of a namespace, those of the beginning."""
    _check_listed_namespace(core, tenant, namespace)
    names = registry.full_names_in(core, domain, tenant, namespace)
    if with_system:
        return names
    visible: list[str] = []
    for at in range(0, len(names), _NAMES_A_STEP):
        visible += [name for name in names[at : at + _NAMES_A_STEP] if not is_hidden(name)]
        yield
    return visible


def list_partitioned(core: Core, domain: str, tenant: str, namespace: str) -> list[str]:
    """Returns the partitioned topics of one domain of a namespace."""
    _check_listed_namespace(core, tenant, namespace)
    return registry.partitioned_full_names_in(core, domain, tenant, namespace)


def _check_listed_namespace(core: Core, tenant: str, namespace: str) -> None:
    if f"{tenant}/{namespace}" not in core.state.namespaces:
        raise Refused(404, "Namespace does not exist")


def _check_no_transactions_own(name: TopicName) -> None:
    """Refuses the names of Apache Pulsar's topics of pending acknowledgements (TN-14)."""
    if name.local.endswith(PENDING_ACKS_SUFFIX):
        raise Refused(400, "Cannot create topic in system topic format!")


def create(core: Core, name: TopicName, properties: Mapping[str, str]) -> None:
    """Creates a plain topic, or a missing partition of a partitioned one."""
    check_namespace(core, name)
    if is_known(core, name):
        raise Refused(409, "This topic already exists")
    _check_no_transactions_own(name)
    base, _, number = name.local.partition(PARTITION_MARK)
    if _NUMBER.fullmatch(number):
        count = registry.partition_count(core, replace(name, local=base)) if base else None
        if count is None:
            raise Refused(
                412,
                f"Can't create topic {name.local} with \"-partition-\" followed by numeric value if there isn't a "
                f"partitioned topic {base} created.",
            )
        if int(number) >= count:
            raise Refused(
                412,
                f'Can\'t create topic {name.local} with "-partition-" followed by a number smaller than number of '
                f"partition of partitioned topic {base}",
            )
    _check_room(core, name, 1, status=409)
    lifecycle.create(core, name, properties)


def create_partitioned_in_steps(
    core: Core, name: TopicName, partitions: int, properties: Mapping[str, str]
) -> Steps[None]:
    """Creates a partitioned topic with all its partitions (TN-8)."""
    yield from _check_new(core, name, partitions)
    yield from lifecycle.create_partitioned_in_steps(core, name, partitions, properties)


create_partitioned = at_once(create_partitioned_in_steps)


def _check_new(core: Core, name: TopicName, partitions: int) -> Steps[None]:
    check_namespace(core, name)
    _check_count(core, partitions)
    _check_no_transactions_own(name)
    if PARTITION_MARK in name.local:
        raise Refused(412, "Partitioned Topic Name should not contain '-partition-'")
    if registry.partition_count(core, name) is not None or registry.exists(core, name):
        raise Refused(409, "This topic already exists")
    for index in range(partitions):
        if registry.exists(core, name.at_partition(index)):
            raise Refused(409, "This topic already exists")
        yield
    if registry.partition_count(core, name) is not None:
        raise Refused(409, "This topic already exists")
    _check_room(core, name, partitions, status=412)


def grow_in_steps(core: Core, name: TopicName, partitions: int) -> Steps[None]:
    """Adds partitions to a partitioned topic; the present number is no change (TN-8, PT-7)."""
    check_namespace(core, name)
    current = core.state.partitioned.get(name.full)
    if current is None:
        raise Refused(409, f"Topic {name} is not the partitioned topic.")
    limit = partition_creation.most(core.config)
    if partitions > limit:
        raise Refused(
            422, f"Desired partitions {partitions} can't be greater than the maximum partitions per topic {limit}."
        )
    if partitions < current.partitions:
        raise Refused(
            422, f"Desired partitions {partitions} can't be less than the current partitions {current.partitions}."
        )
    if partitions > current.partitions:
        _check_room(core, name, partitions - current.partitions, status=412)
        yield from lifecycle.create_partitioned_in_steps(core, name, partitions, current.properties)


grow = at_once(grow_in_steps)


def partition_metadata(core: Core, name: TopicName, *, may_be_created: bool) -> dict[str, object]:
    """Returns the number of partitions, as the binary protocol does (TN-7), and the properties; 404 for a topic that
    does not exist and may not be created."""
    check_namespace(core, name)
    count = auto_creation.partitions_of(core, name, may_create=may_be_created)
    answer: dict[str, object] = {"partitions": count, "deleted": False}
    known = core.state.partitioned.get(name.full)
    if known is not None and known.properties:
        answer["properties"] = dict(known.properties)
    return answer


def delete_partitioned_in_steps(core: Core, name: TopicName, *, force: bool) -> Steps[None]:
    """Deletes a partitioned topic with all its partitions."""
    yield from _check_unused(core, name, force=force)
    yield from lifecycle.delete_partitioned_in_steps(core, name)


delete_partitioned = at_once(delete_partitioned_in_steps)


def _check_unused(core: Core, name: TopicName, *, force: bool) -> Steps[None]:
    check_namespace(core, name)
    count = registry.partition_count(core, name)
    if count is None:
        if registry.exists(core, name):
            raise Refused(
                409,
                f"{name} is a non-partitioned topic. Instead of calling delete-partitioned-topic please call delete.",
            )
        raise Refused(404, f"Topic {name} not found.")
    for index in range(0 if force else count):
        topic = registry.find(core, name.at_partition(index))
        if topic is not None and _connected(topic):
            raise Refused(412, "Topic has active producers/subscriptions")
        yield
    if registry.partition_count(core, name) is None:
        raise Refused(404, f"Topic {name} not found.")


def delete(core: Core, name: TopicName, *, force: bool) -> None:
    """Deletes a plain topic or one partition. Idle subscriptions do not protect it, connected clients do."""
    check_namespace(core, name)
    if registry.partition_count(core, name) is not None:
        raise Refused(
            409,
            f"{name} is a partitioned topic, instead of calling delete topic, please call delete-partitioned-topic.",
        )
    if not name.is_persistent and registry.find(core, name) is None:
        return  # removed already, or never used
    topic = existing(core, name)
    connected = _connected(topic)
    if connected and not force:
        raise Refused(412, f"Topic has {connected} connected producers/consumers")
    lifecycle.delete(core, topic)


def existing(core: Core, name: TopicName) -> Topic:
    """Returns the topic; 404 when there is none of this name."""
    check_namespace(core, name)
    topic = registry.find(core, name)
    if topic is None:
        raise Refused(404, f"Topic {name} not found")
    return topic


def partitions_in_steps(core: Core, name: TopicName) -> Steps[list[Topic]]:
    """Returns the topic, or the partitions of a partitioned topic that exist both at the beginning and when their turn
    comes; 404 when there is none of this name."""
    count = registry.partition_count(core, name)
    if count is None:
        return [existing(core, name)]
    topics: list[Topic] = []
    for index in range(count):
        topic = registry.find(core, name.at_partition(index))
        if topic is not None:
            topics.append(topic)
        yield
    return topics


def properties(core: Core, name: TopicName) -> dict[str, str]:
    """Returns the properties of a topic or a partitioned topic."""
    known = core.state.partitioned.get(name.full)
    return dict(existing(core, name).state.properties if known is None else known.properties)


def change_properties(core: Core, name: TopicName, added: Mapping[str, str], removed: str | None = None) -> None:
    """Adds properties, or removes one."""
    left = {**properties(core, name), **added}
    if removed is not None:
        left.pop(removed, None)
    name_limits.check_properties("Topic properties", left)
    known = core.state.partitioned.get(name.full)
    if known is not None:
        core.append(PartitionedTopicSet(name.full, known.partitions, left))
        return
    topic = existing(core, name)
    if topic.non_persistent is None:
        core.append(TopicPropertiesSet(topic.state.topic_id, left))
    else:
        topic.state.properties = left  # which live as long as the topic does


def _connected(topic: Topic) -> int:
    return len(topic.producers) + topic.consumer_count


def _check_count(core: Core, partitions: int) -> None:
    if partitions <= 0:
        raise Refused(406, "Number of partitions should be more than 0")
    limit = partition_creation.most(core.config)
    if partitions > limit:
        raise Refused(406, f"Number of partitions should be less than or equal to {limit}")


def _check_room(core: Core, name: TopicName, topics: int, *, status: int) -> None:
    try:
        partition_creation.check_room(core, name, topics)
    except NotAllowed as error:
        raise Refused(status, error.message) from error
