"""`spark-pulsar topics tree`: tenants, namespaces, topics and subscriptions with their backlog."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from spark_pulsar.cli.admin.rest import Admin, refusal_text
from spark_pulsar.cli.output.formats import Format, show
from spark_pulsar.cli.output.progress import Progress
from spark_pulsar.cli.values import namespace_path, topic_path
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.printable import one_line

_SYSTEM: Final = ("pulsar/system",)


class Topic(NamedTuple):
    """A topic with its partitions together; 0 partitions: it has none."""

    name: str
    partitions: int


def topics_within(admin: Admin, scope: str, *, with_system: bool) -> dict[str, dict[str, list[Topic]]]:
    """Requests the topics of all namespaces of all tenants, of a tenant, or of a namespace."""
    tenant, _, namespace = scope.partition("/")
    tenants = [tenant] if tenant else sorted(admin.get("/admin/v2/tenants"))
    by_tenant: dict[str, dict[str, list[Topic]]] = {}
    for tenant_name in tenants:
        names = (
            [f"{tenant_name}/{namespace}"] if namespace else sorted(admin.get(f"/admin/v2/namespaces/{tenant_name}"))
        )
        # Apache Pulsar keeps namespaces with a cluster in their names for itself.
        names = [name for name in names if name.count("/") == 1]
        shown = [name for name in names if with_system or namespace or name not in _SYSTEM]
        by_tenant[tenant_name] = {name: list(_topics_of(admin, name, with_system=with_system)) for name in shown}
    if not scope and not with_system and by_tenant.get("pulsar") == {}:
        del by_tenant["pulsar"]
    return by_tenant


def _topics_of(admin: Admin, namespace: str, *, with_system: bool) -> Iterator[Topic]:
    tail = namespace_path(namespace).removeprefix("/admin/v2/namespaces/")
    for domain in ("persistent", "non-persistent"):
        path = f"/admin/v2/{domain}/{tail}"
        partitioned = sorted(admin.get(f"{path}/partitioned"))
        names = set(admin.get(path)) | set(partitioned)
        for name in sorted(names):
            base, _, number = name.rpartition("-partition-")
            if number.isdecimal() and base in partitioned:
                continue
            if TopicName.parse(name).local.startswith("__") and not with_system:
                continue
            count = int(admin.get(f"{topic_path(name)}/partitions")["partitions"]) if name in partitioned else 0
            yield Topic(name, count)


def tree_of(admin: Admin, scope: str, *, with_system: bool) -> list[dict[str, Any]]:
    """Returns the tree as values: tenants with namespaces, those with topics, those with subscriptions."""
    by_tenant = topics_within(admin, scope, with_system=with_system)
    total = sum(len(topics) for namespaces in by_tenant.values() for topics in namespaces.values())
    with Progress("statistics of topics", total) as progress:
        return [
            {
                "tenant": tenant,
                "namespaces": [
                    {"namespace": name, "topics": list(_topics(admin, topics, progress))}
                    for name, topics in namespaces.items()
                ],
            }
            for tenant, namespaces in by_tenant.items()
        ]


def _topics(admin: Admin, topics: list[Topic], progress: Progress) -> Iterator[dict[str, Any]]:
    """Yields the values of each topic, and leaves out those that are deleted meanwhile."""
    for topic in topics:
        path = topic_path(topic.name)
        kind = {"perPartition": False} if topic.partitions else {}
        path += "/partitioned-stats" if topic.partitions else "/stats"
        statistics, refusal = admin.get_or_refusal(path, **kind, getPreciseBacklog=True)
        progress.advance()
        values = {"topic": topic.name, "partitions": topic.partitions}
        if refusal is None:
            yield values | {"subscriptions": _subscriptions(statistics)}
        elif refusal.status != HTTPStatus.NOT_FOUND:
            yield values | {"subscriptions": [], "error": refusal_text(refusal)}


def _subscriptions(statistics: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "subscription": name,
            "type": subscription.get("type") or "",
            "backlog": int(subscription.get("msgBacklog", 0)),
            "consumers": len(subscription.get("consumers") or ()),
        }
        for name, subscription in sorted((statistics.get("subscriptions") or {}).items())
    ]


def print_tree(admin: Admin, scope: str, output: Format | None, *, with_system: bool) -> None:
    """Prints the tree, or its values."""
    tree = tree_of(admin, scope, with_system=with_system)
    if output in (Format.JSON, Format.YAML):
        show(tree, output)
        return
    for line in _lines(tree):
        sys.stdout.write(f"{line}\n")


def _lines(tree: list[dict[str, Any]]) -> Iterator[str]:
    for tenant in tree:
        yield tenant["tenant"]
        namespaces = [
            (namespace["namespace"].partition("/")[2], [_topic_branch(topic) for topic in namespace["topics"]])
            for namespace in tenant["namespaces"]
        ]
        yield from _branches(namespaces, "")


def _topic_branch(topic: dict[str, Any]) -> tuple[str, list[Any]]:
    domain, _, rest = topic["topic"].partition("://")
    name = rest.split("/", 2)[2]
    parts = [f"{topic['partitions']} partitions"] if topic["partitions"] else []
    parts += [domain] if domain != "persistent" else []
    reason = f": {one_line(topic['error'])}" if "error" in topic else ""
    return name + (f" ({', '.join(parts)})" if parts else "") + reason, [
        (_subscription_line(subscription), []) for subscription in topic["subscriptions"]
    ]


def _subscription_line(subscription: dict[str, Any]) -> str:
    consumers = subscription["consumers"]
    kind = f", {subscription['type']}" if consumers else ""  # without, it is that of the last consumer, or none
    return (
        f"{subscription['subscription']}: backlog {subscription['backlog']:,}{kind}, "
        f"{consumers} {'consumer' if consumers == 1 else 'consumers'}"
    )


def _branches(branches: list[tuple[str, list[Any]]], prefix: str) -> Iterator[str]:
    for number, (text, below) in enumerate(branches, start=1):
        is_last = number == len(branches)
        yield f"{prefix}{'└── ' if is_last else '├── '}{text}"
        yield from _branches(below, prefix + ("    " if is_last else "│   "))
