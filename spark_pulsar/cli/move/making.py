"""Places of a move made in the target: tenants, namespaces, topics, their properties and schemas (MOVE-6)."""

from __future__ import annotations

import threading
from struct import Struct
from typing import Any, Final

from spark_pulsar.cli.move.places import OWN_SUBSCRIPTION, Namespace, Topic
from spark_pulsar.cli.move.plan import path_of
from spark_pulsar.cli.move.policies import IN_THE_WAY
from spark_pulsar.cli.move.sides import Side
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.policies.policy_table import DEDUPLICATION

_VERSION: Final = Struct(">q")
_PATIENCE: Final = 100
_PAUSE: Final = threading.Event()


class NotMade(PulsarError):
    """The target does not have what was made there."""


def make_namespace(source: Side, target: Side, namespace: Namespace) -> None:
    """Makes a namespace, and its tenant. Its policies let everything in until those of the source take their place; it
    de-duplicates as in the source. Raises RestError."""
    tenant = source.get(f"/admin/v2/tenants/{namespace.tenant}")
    clusters = [name for name in target.get("/admin/v2/clusters") if name != "global"]
    roles = tenant.get("adminRoles") or []
    target.make(f"/admin/v2/tenants/{namespace.tenant}", {"adminRoles": roles, "allowedClusters": clusters})
    bundles = namespace.document.get("bundles")
    target.make(namespace.path, {"bundles": bundles} if bundles else {})
    for path, method, value in IN_THE_WAY:
        target.call(method, f"{namespace.path}/{path}", value)
    if namespace.document.get(DEDUPLICATION) is not None:
        target.call("POST", f"{namespace.path}/deduplication", namespace.document[DEDUPLICATION])


def make_topic(target: Side, namespace: Namespace, topic: Topic) -> None:
    """Makes a topic with its partitions, properties and subscriptions; the subscriptions begin at the first message, so
    that all are kept. Raises RestError, PulsarError."""
    if topic.partition_count:
        target.make(f"{topic.path}/partitions", topic.partition_count)
    else:
        target.make(topic.path)
    if topic.properties:
        target.call("PUT", f"{topic.path}/properties", topic.properties)
    if not topic.is_stored:
        return
    if topic.deduplicates and not namespace.document.get(DEDUPLICATION):
        target.call("POST", f"{topic.path}/deduplicationEnabled", True)
    for partition in topic.partitions:
        if not partition.exists:
            continue
        stats = target.get_if_there(f"{path_of(partition.name)}/stats") or {}
        present = stats.get("subscriptions", {})  # consumers of an earlier move may be connected to them
        for name in (OWN_SUBSCRIPTION, *partition.cursors):
            if name not in present:
                target.client.ensure_subscription([partition.name], name, "earliest")
        if topic.deduplicates:
            _wait_until_deduplicating(target, partition.name)


def _wait_until_deduplicating(target: Side, partition: str) -> None:
    for _ in range(_PATIENCE):
        if target.get(f"{path_of(partition)}/stats").get("deduplicationStatus") == "Enabled":
            return
        _PAUSE.wait(0.1)
    raise NotMade(f"{partition} does not de-duplicate in the target, as it does in the source")


def make_schemas(source: Side, target: Side, topic: Topic) -> dict[bytes, bytes]:
    """Registers all versions of the schemas of a topic, in order; returns the versions of the target by those of the
    source. Raises RestError, IncompatibleSchema."""
    answer: dict[str, Any] = source.get_if_there(f"{topic.schema_path}/schemas") or {}
    versions: dict[bytes, bytes] = {}
    for number in sorted(one["version"] for one in answer.get("getSchemaResponses", [])):
        version = _VERSION.pack(number)
        registered = source.client.schema_of(str(topic.name), version)
        if registered is not None:
            first = topic.names_of_partitions()[0]
            versions[version] = target.client.register_schema(first, registered.schema, registered.name)
    return versions
