"""Life of topics: creates, unloads and deletes topics, partitioned topics (PT-1) and their subscriptions (TN-5 ...
TN-8)."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING

from spark_pulsar.broker.entities import exclusive_access
from spark_pulsar.broker.entities import producer as producers
from spark_pulsar.broker.entities.registry import find, load, partition_count
from spark_pulsar.broker.entities.subscription import Subscription, check_subscription_name, disconnect
from spark_pulsar.broker.entities.topic import Topic
from spark_pulsar.broker.schemas import registry
from spark_pulsar.broker.topic_log.rollover import open_ledger
from spark_pulsar.ledger.state.cursors.records import CursorCreated
from spark_pulsar.ledger.state.topics import PartitionedTopicDeleted, PartitionedTopicSet, TopicCreated
from spark_pulsar.model.errors import NotAllowed, PersistenceError, ServiceNotReady, TopicNotFound
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import EARLIEST, Position

from . import name_limits, non_persistent_topic, partition_creation, policy_changes

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core


# ---- topics -------------------------------------------------------------------------------------------


def create(core: Core, name: TopicName, properties: Mapping[str, str] | None = None) -> Topic:
    """Creates a topic that does not exist, with its first ledger. NotAllowed above the namespace's limit (TN-10),
    PersistenceError when its policy wants more copies than there can be, InvalidTopicName when the name is too long."""
    non_persistent_topic.check_enabled(core, name)
    check_copies(core, name)
    name_limits.check_topic(name)
    if core.being_deleted and name.base.full in core.being_deleted:
        raise ServiceNotReady(f"{name.base} is being deleted")
    partition_creation.check_room(core, name, 1)
    return _create(core, name, properties)


def _create(core: Core, name: TopicName, properties: Mapping[str, str] | None = None) -> Topic:
    if not name.is_persistent:
        topic = Topic(core, name, non_persistent_topic.volatile_state(core, name, properties or {}), EARLIEST)
        core.non_persistent.add(topic)
        core.monitors.adopt_non_persistent(topic)
        return topic
    core.append(TopicCreated(core.state.next_topic_id, name.full, core.wall_ms, dict(properties or {})))
    topic = load(core, name, core.state.topics_by_name[name.full])
    core.watchers.changed(core, name, exists=True)
    open_ledger(core, topic)
    return topic


def create_partitioned(core: Core, name: TopicName, count: int, properties: Mapping[str, str]) -> None:
    """Creates a partitioned topic with all its partitions, or those that it lacks; subscriptions of the old ones are
    created on the new ones, at their beginning (PT-7). Refused as by `partition_creation.lacking` and `create`."""
    for _ in create_partitioned_in_steps(core, name, count, properties):
        pass


def create_partitioned_in_steps(
    core: Core, name: TopicName, count: int, properties: Mapping[str, str]
) -> Generator[None, None, None]:
    """Does what `create_partitioned` does, partition by partition. A new topic is announced with all its partitions
    from the beginning, as clients create those that they miss; one that grows has the new ones when they are there.
    TopicNotFound when it is deleted meanwhile."""
    check_copies(core, name)
    is_new = name.full not in core.state.partitioned
    lacking = yield from partition_creation.lacking_in_steps(core, name, count)
    if is_new:
        if name.full in core.state.partitioned:
            raise partition_creation.AlreadyThere("This topic already exists")
        core.append(PartitionedTopicSet(name.full, count, dict(properties)))
    for partition in lacking.names:
        if name.full not in core.state.partitioned or name.full in core.being_deleted:
            raise TopicNotFound(f"{name} was deleted meanwhile")
        if partition.full not in core.state.topics_by_name:  # else another request was quicker
            topic = _create(core, partition)
            for subscription, its_properties in lacking.subscriptions.items():
                _create_durable(core, topic, subscription, before_first(topic), its_properties)
        yield
    known = core.state.partitioned.get(name.full)
    if known is None:
        raise TopicNotFound(f"{name} was deleted meanwhile")
    if known.partitions < count:
        core.append(PartitionedTopicSet(name.full, count, dict(known.properties)))


def unload(core: Core, topic: Topic) -> None:
    """Closes all producers and consumers of a topic, which come back, and opens a new ledger unless the present one is
    empty (ML-1)."""
    disconnect_all(core, topic)
    core.monitors.unloaded(topic)
    info = topic.ledger.open_ledger
    if info is not None and info.entries and topic.state.damage is None and not topic.state.is_terminated:
        open_ledger(core, topic)


def disconnect_all(core: Core, topic: Topic) -> None:
    """Closes all producers and consumers of a topic; their clients come back if the topic stays."""
    exclusive_access.refuse_waiters(topic, ServiceNotReady("Topic is temporarily unavailable"))  # PR-17
    for producer in list(topic.producers.values()):
        producers.disconnect(core, producer)
    for subscription in list(topic.subscriptions.values()):
        disconnect(core, subscription)


def delete(core: Core, topic: Topic) -> None:
    """Deletes a topic with its subscriptions; connected clients are closed first."""
    disconnect_all(core, topic)
    if topic.non_persistent is not None:
        core.non_persistent.remove(topic)
        if topic.partition < 0:
            policy_changes.remove_topic(core, topic.name)
            registry.topic_gone(core, topic.name)
        core.policies.remove_topic(topic.full_name)
        return
    ledger_ids = list(topic.ledger.ledger_ids())
    for ledger_id in ledger_ids:
        core.cache.drop_ledger(ledger_id)
    core.monitors.rolls.remove(ledger_ids)
    core.topic_counters.detach(topic.ledger.row)
    for record in core.state.records_to_delete_topic(topic.state.topic_id):
        core.append(record)
    core.watchers.changed(core, topic.name, exists=False)
    core.topics.pop(topic.full_name, None)
    for subscription in topic.subscriptions.values():
        core.idle.remove(subscription.cursor.cursor_id)
    topic.remove_all_subscriptions()  # consumers that wait to join find that it is gone
    for observer in core.deleted:
        observer(core, topic)
    if topic.partition < 0:
        policy_changes.remove_topic(core, topic.name)
        registry.topic_gone(core, topic.name)
    core.policies.remove_topic(topic.full_name)


def delete_partitioned(core: Core, name: TopicName) -> None:
    """Deletes a partitioned topic with all its partitions."""
    for _ in delete_partitioned_in_steps(core, name):
        pass


def delete_partitioned_in_steps(core: Core, name: TopicName) -> Generator[None, None, None]:
    """Does what `delete_partitioned` does, partition by partition; none can be created meanwhile. ServiceNotReady when
    another request does it already."""
    if name.full in core.being_deleted:
        raise ServiceNotReady(f"{name} is being deleted")
    core.being_deleted.add(name.full)
    try:
        for index in range(partition_count(core, name) or 0):
            topic = find(core, name.at_partition(index))
            if topic is not None:
                delete(core, topic)
            yield
    finally:
        core.being_deleted.discard(name.full)
    core.append(PartitionedTopicDeleted(name.full))
    policy_changes.remove_topic(core, name)
    registry.topic_gone(core, name)


# ---- subscriptions of a topic -----------------------------------------------------------------------------------


def before_first(topic: Topic) -> Position:
    """Returns the mark-delete position before the oldest stored entry (CUR-9 Earliest)."""
    return topic.ledger.previous_position(topic.ledger.first_position)


def at_end(topic: Topic) -> Position:
    """Returns the mark-delete position behind the last entry (CUR-9 Latest)."""
    return topic.ledger.previous_position(topic.ledger.end_position)


def create_subscription(
    core: Core, topic: Topic, name: str, mark_delete: Position, properties: Mapping[str, str]
) -> Subscription:
    """Creates a durable subscription that does not exist. NotAllowed above the limit (CUR-18)."""
    limit = core.policies_of(topic.name).max_subscriptions
    if limit and len(topic.subscriptions) >= limit:
        raise NotAllowed(f"Exceed the maximum number of subscriptions of the topic: {topic.name}")
    if topic.non_persistent is not None:
        return non_persistent_topic.create_subscription(core, topic, name, properties)
    return _create_durable(core, topic, name, mark_delete, properties)


def _create_durable(
    core: Core, topic: Topic, name: str, mark_delete: Position, properties: Mapping[str, str]
) -> Subscription:
    place = (core.state.next_cursor_id, topic.state.topic_id, name, *mark_delete)
    core.append(CursorCreated(*place, core.wall_ms, dict(properties)))
    subscription = Subscription(core, topic, topic.state.cursors[name])
    topic.add_subscription(subscription)
    topic.was_used = True
    core.idle.made(subscription)
    core.monitors.joined(topic)
    return subscription


def create_initial_subscription(core: Core, topic: Topic, name: str) -> None:
    """Creates the initial subscription of a producer, at the beginning, if it is missing (PR-18)."""
    if name in topic.subscriptions:
        return
    if topic.non_persistent is None and not core.policies_of(topic.name).allow_auto_subscription_creation:
        raise NotAllowed(
            "Could not create the initial subscription due to the auto subscription creation is not allowed."
        )
    check_subscription_name(name)
    create_subscription(core, topic, name, before_first(topic), {})


def check_copies(core: Core, name: TopicName) -> None:
    """Refuses with PersistenceError a topic whose policy wants more than one copy (ADM-75).

    Apache Pulsar accepts any policy and then cannot create a topic that wants more bookies than there are; this broker
    refuses at once. A topic that exists keeps its one copy, a non-persistent one needs none.
    """
    if not name.is_persistent:
        return
    wanted = core.policies_of(name).persistence.ensemble
    if wanted > 1:
        raise PersistenceError(
            f"Not enough bookies to create {name}: its persistence policy wants {wanted} (bookkeeperEnsemble), this "
            "broker is one and keeps one copy. Set bookkeeperEnsemble, bookkeeperWriteQuorum and bookkeeperAckQuorum "
            "to 1, or remove the policy"
        )
