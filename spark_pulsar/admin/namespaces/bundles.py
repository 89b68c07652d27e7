"""Bundles over REST, and operations on all topics of a namespace or one of its bundles (ADM-60 … ADM-62, ADM-64)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import NAMESPACE_PATH, changes, reads, routes
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.broker.entities import registry as topic_names
from spark_pulsar.broker.subscriptions import cursor_moves, subscribing
from spark_pulsar.broker.topics import lifecycle, policy_changes
from spark_pulsar.model.names import NON_PERSISTENT, PERSISTENT, TopicName

from .bundle_edges import RANGE, Bundle, check_number, find_bundle, hash_of, largest, split_positions, stored_of
from .namespace_lifecycle import bundle_edges, existing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.admin.http.slices import Steps
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.entities.topic import Topic

_LARGEST: Final = "LARGEST"
_HOT: Final = "HOT"


def _bundle(core: Core, call: Call) -> Bundle | None:
    """Returns the bundle that a call names, if it names one."""
    name = call.parts.get("bundle")
    return None if name is None else find_bundle(bundle_edges(core, call.namespace), call.namespace, name)


def _names_in(core: Core, call: Call, bundle: Bundle | None, domains: tuple[str, ...]) -> Steps[list[str]]:
    names: list[str] = []
    for domain in domains:
        for full in topic_names.full_names_in(core, domain, call.parts["tenant"], call.parts["namespace"]):
            if bundle is None or bundle.has(full):
                names.append(full)
            yield
    return names


def _topics_of(core: Core, call: Call) -> Iterator[Topic | None]:
    """Yields the topics of a namespace or bundle that there were at the beginning and are when their turn comes; None
    for any other."""
    bundle = _bundle(core, call)
    for domain in (NON_PERSISTENT, PERSISTENT):
        for full in topic_names.full_names_in(core, domain, call.parts["tenant"], call.parts["namespace"]):
            yield topic_names.find(core, TopicName.parse(full)) if bundle is None or bundle.has(full) else None


def _named(core: Core, call: Call, subscription: str | None) -> Iterator[Subscription | None]:
    """Yields durable subscriptions, those of one name or all; None after each topic."""
    for topic in _topics_of(core, call):
        for name, candidate in list(topic.subscriptions.items()) if topic is not None else ():
            if candidate.is_durable and subscription in (None, name):
                yield candidate
        yield None


# ---- operations on all topics -----------------------------------------------------------------------------------


def _unload(core: Core, call: Call) -> Steps[None]:
    existing(core, call.namespace, "Namespace not found")
    for topic in _topics_of(core, call):
        if topic is not None:
            lifecycle.unload(core, topic)
        yield


def _clear_backlog(core: Core, call: Call) -> Steps[None]:
    if "bundle" not in call.parts:
        existing(core, call.namespace, "Namespace not found")
    subscription = call.parts.get("subscription")
    is_found = False
    for target in _named(core, call, subscription):
        if target is not None:
            is_found = True
            cursor_moves.clear_backlog(core, target)
        yield
    if subscription is not None and not is_found and "bundle" not in call.parts:
        raise Refused(404, f"Subscription {subscription} not found in namespace {call.namespace}")


def _unsubscribe(core: Core, call: Call) -> Steps[None]:
    existing(core, call.namespace)
    name = call.parts["subscription"]
    for is_check in (True, False):  # nothing is deleted when any is in use at the beginning
        for subscription in _named(core, call, name):
            if subscription is not None and subscription.consumers:
                raise Refused(412, "Subscription has active connected consumers")
            if subscription is not None and not is_check:
                subscribing.delete(core, subscription)
            yield


# ---- bundles ----------------------------------------------------------------------------------------------------


def _get(core: Core, call: Call) -> object:
    edges = bundle_edges(core, call.namespace)
    return {"boundaries": edges, "numBundles": len(edges) - 1}


def _split(core: Core, call: Call) -> Steps[None]:
    """Splits a bundle; its topics stay open unless `unload` is requested."""
    existing(core, call.namespace, "Namespace not found")
    name = call.parts["bundle"]
    if name == _HOT:
        raise Refused(404, f"Bundle range {name} not found")
    topics = yield from _names_in(core, call, None, (PERSISTENT,))
    edges = bundle_edges(core, call.namespace)
    bundle = largest(edges, topics) if name == _LARGEST else find_bundle(edges, call.namespace, name)
    inside = [full for full in topics if bundle.has(full)]
    algorithm = call.query.get("splitAlgorithmName") or RANGE
    places = split_positions(bundle, algorithm, inside, call.json())
    if places:
        total = sorted({*(int(edge, 16) for edge in edges), *places})
        check_number(len(total) - 1)
        policy_changes.set_of_namespace(core, call.namespace, "bundles", stored_of(total))
    if call.flag("unload"):
        yield from _unload_those(core, inside)


def _unload_those(core: Core, names: list[str]) -> Steps[None]:
    for full in names:
        topic = topic_names.find(core, TopicName.parse(full))
        if topic is not None:
            lifecycle.unload(core, topic)
        yield


def _delete(core: Core, call: Call) -> Steps[None]:
    """Releases a bundle without topics; with `force` its topics are unloaded. The next use takes it again."""
    existing(core, call.namespace)
    names = yield from _names_in(core, call, _bundle(core, call), (PERSISTENT, NON_PERSISTENT))
    if names and not call.flag("force"):
        raise Refused(409, "Cannot delete non empty bundle")
    yield from _unload_those(core, names)


def _hash_positions(core: Core, call: Call) -> Steps[object]:
    existing(core, call.namespace)
    bundle = _bundle(core, call)
    names = yield from _names_in(core, call, bundle, (PERSISTENT,))
    wanted = _all_of(call.query, "topics")
    shown = {full: hash_of(full) for full in names if not wanted or full in wanted}
    return {"namespace": call.namespace, "bundle": call.parts["bundle"], "topicHashPositions": shown}


def _all_of(query: Any, name: str) -> set[str]:
    """Returns all values of a query parameter, which may be repeated."""
    values = query.getlist(name) if hasattr(query, "getlist") else [query[name]] if name in query else []
    return set(values)


def _non_persistent_in(core: Core, call: Call) -> Steps[object]:
    existing(core, call.namespace)
    bundle = _bundle(core, call)
    names = yield from _names_in(core, call, bundle, (NON_PERSISTENT,))
    return sorted(names)


ROUTES: Final[Routes] = (
    *routes(
        NAMESPACE_PATH,
        ("GET /bundles", access.namespace("GET_BUNDLE"), reads(_get)),
        ("PUT /unload", access.super_user, changes(_unload)),
        ("PUT /{bundle}/unload", access.super_user, changes(_unload)),
        ("PUT /{bundle}/split", access.super_user, changes(_split)),
        ("GET /{bundle}/topicHashPositions", access.namespace_policy("PERSISTENCE", "READ"), reads(_hash_positions)),
        ("DELETE /{bundle}", access.namespace("DELETE_BUNDLE"), changes(_delete)),
        ("POST /clearBacklog", access.namespace("CLEAR_BACKLOG"), changes(_clear_backlog)),
        ("POST /clearBacklog/{subscription}", access.namespace("CLEAR_BACKLOG"), changes(_clear_backlog)),
        ("POST /{bundle}/clearBacklog", access.namespace("CLEAR_BACKLOG"), changes(_clear_backlog)),
        ("POST /{bundle}/clearBacklog/{subscription}", access.namespace("CLEAR_BACKLOG"), changes(_clear_backlog)),
        ("POST /unsubscribe/{subscription}", access.namespace("UNSUBSCRIBE"), changes(_unsubscribe)),
        ("POST /{bundle}/unsubscribe/{subscription}", access.namespace("UNSUBSCRIBE"), changes(_unsubscribe)),
    ),
    *routes(
        "admin/v2/non-persistent/{tenant}/{namespace}",
        ("GET /{bundle}", access.namespace("GET_BUNDLE"), reads(_non_persistent_in)),
    ),
)
