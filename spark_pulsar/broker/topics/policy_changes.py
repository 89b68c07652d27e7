"""Sets and removes policies of namespaces and topics."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from spark_pulsar.broker.policies.documents import stored
from spark_pulsar.ledger.state.documents import (
    GLOBAL_TOPIC_POLICIES,
    TOPIC_POLICIES,
    DocumentDeleted,
    DocumentSet,
    NamespaceSet,
)

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.model.names import TopicName


def of_namespace(core: Core, namespace: str) -> dict[str, Any]:
    """Returns the policies that are set for a namespace that exists, by member."""
    return stored(core.state.namespaces[namespace]).document


def of_topic(core: Core, name: TopicName, *, for_all_clusters: bool = False) -> dict[str, Any]:
    """Returns the policies that are set for a topic, or for the topic of a partition, by member."""
    text = core.state.documents[_kind(for_all_clusters)].get(name.base.full)
    return {} if text is None else stored(text).document


def set_of_namespace(core: Core, namespace: str, member: str, value: object) -> None:
    """Sets one policy of a namespace that exists; None removes it."""
    policies = _with(json.loads(core.state.namespaces[namespace]), member, value)
    core.append(NamespaceSet(namespace, json.dumps(policies)))
    core.policies.changed(namespace)


def set_of_topic(core: Core, name: TopicName, member: str, value: object, *, for_all_clusters: bool = False) -> None:
    """Sets one policy of a topic with all its partitions; None removes it."""
    kind, full = _kind(for_all_clusters), name.base.full
    policies = _with(json.loads(core.state.documents[kind].get(full, "{}")), member, value)
    core.append(DocumentSet(kind, full, json.dumps(policies)) if policies else DocumentDeleted(kind, full))
    core.policies.changed(name.namespace_name, full)


def remove_topic(core: Core, name: TopicName) -> None:
    """Deletes the policies of a deleted topic, which is not one of several partitions."""
    documents, full = core.state.documents, name.full
    gone = [kind for kind in (TOPIC_POLICIES, GLOBAL_TOPIC_POLICIES) if full in documents[kind]]
    for kind in gone:
        core.append(DocumentDeleted(kind, full))
    if gone:
        core.policies.changed(name.namespace_name, full)


def _kind(for_all_clusters: bool) -> str:
    return GLOBAL_TOPIC_POLICIES if for_all_clusters else TOPIC_POLICIES


def _with(policies: dict[str, Any], member: str, value: object) -> dict[str, Any]:
    rest = {key: known for key, known in policies.items() if key != member}
    return rest if value is None else {**rest, member: value}
