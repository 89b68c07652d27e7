"""Which topics there are: the names in a namespace, and those that a policy is about (section 1 of the rules)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.model.names import NON_PERSISTENT, PERSISTENT, TopicName

if TYPE_CHECKING:
    from .core import Core


def names_in(core: Core, tenant: str, namespace: str) -> list[TopicName]:
    """All topics and partitions of a namespace, sorted by name."""
    return [TopicName.parse(full) for full in sorted(_full_names_in(core, tenant, namespace))]


def count_in(core: Core, tenant: str, namespace: str) -> int:
    """How many topics and partitions a namespace has."""
    return len(_full_names_in(core, tenant, namespace))


def _full_names_in(core: Core, tenant: str, namespace: str) -> list[str]:
    prefix = f"persistent://{tenant}/{namespace}/"
    found = [full for full in core.state.topics_by_name if full.startswith(prefix)]
    if core.live.by_name:
        found += [full for full in core.live.by_name if full.startswith(f"non-{prefix}")]
    return found


def partitioned_names_in(core: Core, tenant: str, namespace: str) -> list[TopicName]:
    """All partitioned topics of a namespace, sorted by name."""
    prefixes = tuple(f"{domain}://{tenant}/{namespace}/" for domain in (PERSISTENT, NON_PERSISTENT))
    return [TopicName.parse(full) for full in sorted(core.state.partitioned) if full.startswith(prefixes)]


def names_under(core: Core, namespace: str, topic: str | None) -> list[str]:
    """Full names of the topics and partitions that a policy of the namespace is about; when it is one of a single topic
    (full name without partition), of that one and its partitions."""
    if topic is None:
        prefix = f"persistent://{namespace}/"
        return [full for full in core.state.topics_by_name if full.startswith(prefix)]
    known = core.state.partitioned.get(topic)
    names = [topic] if known is None else [f"{topic}-partition-{index}" for index in range(known.partitions)]
    return [full for full in names if full in core.state.topics_by_name]
