"""Auto-creation of topics by producers and consumers, and of partitioned topics by clients' lookup (TN-6, TN-7, MT-3).
`lifecycle` keeps the number of topics of a namespace (TN-10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.transactions.coordinator import count_of
from spark_pulsar.model.errors import NotAllowed, TopicNotFound

from . import lifecycle

TRANSACTION_COORDINATORS: Final = "persistent://pulsar/system/transaction_coordinator_assign"
"""Topic whose partitions are the transaction coordinators (TX-2)."""

LETTER_SUFFIXES: Final = ("-DLQ", "-RETRY")
"""Ends of names of dead and retry letter topics, which auto-creation makes without partitions (TN-7)."""

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.model.names import TopicName


def obtain(core: Core, name: TopicName, *, may_create: bool) -> Topic:
    """Finds a topic, or creates it when it is missing and may be (TN-6, TN-7, TN-14).

    Raises TopicNotFound when it may not be created or no partition can have this name, NotAllowed for system topics,
    the base name of a partitioned topic, and a partition of a topic that is not partitioned; and as `lifecycle.create`,
    also where a policy wants more copies than one broker has (ADM-75).
    """
    registry.check_namespace(core, name)
    topic = registry.find(core, name)
    if topic is not None:
        return topic
    if name.is_system:
        raise NotAllowed(f"{name} is a system topic of the broker")
    if registry.partition_count(core, name) is not None:
        raise NotAllowed(f"{name} is a partitioned topic: use its partitions")
    siblings = registry.partition_count(core, name.base) if name.partition >= 0 else None
    if siblings is not None and name.partition >= siblings:
        raise TopicNotFound(f"{name} has only {siblings} partitions")
    if siblings is None and not (may_create and core.policies_of(name).auto_topic_creation.allowed):
        raise TopicNotFound(f"Topic {name} not found")
    if siblings is None and name.partition >= 0:
        raise NotAllowed(f"{name} has the name of a partition, and there is no partitioned topic {name.base.local}")
    return lifecycle.create(core, name)


def partitions_of(core: Core, name: TopicName, *, may_create: bool) -> int:
    """Returns the number of partitions of a topic, 0 for one without; creates a missing one when auto-creation makes
    partitioned topics (TN-7, X15). Raises TopicNotFound when it is missing and may not be created."""
    count = registry.partition_count(core, name)
    if count is not None:
        return count
    if name.partition >= 0:
        siblings = registry.partition_count(core, name.base)
        if siblings is not None and siblings > 0:
            if name.partition >= siblings:
                raise TopicNotFound(f"{name} has only {siblings} partitions")
            return 0
    if registry.exists(core, name):
        return 0
    if name.full == TRANSACTION_COORDINATORS and core.config.transactions_enabled:
        return count_of(core)
    if name.tenant == "pulsar" and may_create:
        return 0  # without transactions the request that follows is refused with a clear answer (TX-1)
    policies = core.policies_of(name)
    if not may_create or not policies.auto_topic_creation.allowed or name.is_system:
        raise TopicNotFound(f"Topic {name} not found")
    if policies.auto_topic_creation.partitions and name.partition < 0 and not name.local.endswith(LETTER_SUFFIXES):
        lifecycle.create_partitioned(core, name, policies.auto_topic_creation.partitions, {})
        return policies.auto_topic_creation.partitions
    return 0
