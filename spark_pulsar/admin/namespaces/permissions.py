"""Permissions over REST: of roles in a namespace, with a topic, and of subscriptions (AU-9, SEC-66)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import NAMESPACE_PATH, TOPIC_PATH, changes, reads, routes
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.topics.topic_lifecycle import is_known
from spark_pulsar.broker.security import authorization
from spark_pulsar.broker.topics import policy_changes
from spark_pulsar.model.policies.permissions import (
    AUTH_POLICIES,
    SUBSCRIPTION_AUTH_MODE,
    actions,
    auth_mode,
    grants_json,
)
from spark_pulsar.model.policies.permissions import role as read_role
from spark_pulsar.model.policies.permissions import roles as read_roles

from .namespace_lifecycle import existing

if TYPE_CHECKING:
    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.model.names import TopicName
    from spark_pulsar.model.policies.permissions import Grants, Permissions

_MISSING: Final = "Topic's namespace does not exist"
_Value = TypeVar("_Value")


def _existing(core: Core, call: Call, missing: str = "Namespace does not exist") -> Permissions:
    existing(core, call.namespace, missing)
    return authorization.permissions_of(core, call.namespace)


def store(core: Core, namespace: str, permissions: Permissions) -> None:
    """Stores the permissions of a namespace. Producers and consumers that lost theirs are closed (AU-9)."""
    permissions.check_size()
    policy_changes.set_of_namespace(core, namespace, AUTH_POLICIES, permissions.to_json())


def store_of_topics(core: Core, namespace: str, changed: Mapping[str, Grants]) -> None:
    """Stores the actions of roles with single topics of a namespace, by full name; nothing is kept of a topic that has
    no more roles."""
    permissions = authorization.permissions_of(core, namespace)
    topics = {name: grants for name, grants in {**permissions.topics, **changed}.items() if grants}
    store(core, namespace, replace(permissions, topics=topics))


def check_topic(core: Core, name: TopicName) -> None:
    """Refuses a topic that does not exist: 404."""
    if not is_known(core, name):
        raise Refused(404, f"Topic {name} not found")


def _wanted_actions(call: Call) -> frozenset[str]:
    body = call.json()
    if body is None:
        raise Refused(400, "Actions should not be null")
    return actions(body)


def without(values: Mapping[str, _Value], name: str) -> dict[str, _Value]:
    """Returns the values without that of one name."""
    return {key: value for key, value in values.items() if key != name}


# ---- namespaces -------------------------------------------------------------------------------------------------


def _namespace_permissions(core: Core, call: Call) -> object:
    return grants_json(_existing(core, call).namespace)


def _grant(core: Core, call: Call) -> None:
    wanted, name = _wanted_actions(call), read_role(call.parts["role"])
    permissions = _existing(core, call, _MISSING)
    store(core, call.namespace, replace(permissions, namespace={**permissions.namespace, name: wanted}))


def _revoke(core: Core, call: Call) -> None:
    permissions = _existing(core, call, _MISSING)
    store(core, call.namespace, replace(permissions, namespace=without(permissions.namespace, call.parts["role"])))


# ---- topics -----------------------------------------------------------------------------------------------------


def _topic_permissions(core: Core, call: Call) -> object:
    """Shows the actions of all roles with a topic: those of the namespace and its own."""
    name = call.topic
    check_topic(core, call.topic)
    permissions = authorization.permissions_of(core, call.namespace)
    total: dict[str, frozenset[str]] = dict(permissions.namespace)
    for grants in [permissions.topics.get(topic, {}) for topic in dict.fromkeys((name.full, name.base.full))]:
        for role, allowed in grants.items():
            total[role] = total.get(role, frozenset()) | allowed
    return grants_json(total)


def _grant_topic(core: Core, call: Call) -> None:
    wanted, name = _wanted_actions(call), read_role(call.parts["role"])
    store_of_topics(core, call.namespace, {call.topic.full: {**_own(core, call), name: wanted}})


def _revoke_topic(core: Core, call: Call) -> None:
    known, role = _own(core, call), call.parts["role"]
    store_of_topics(core, call.namespace, {call.topic.full: without(known, role)})


def _own(core: Core, call: Call) -> Grants:
    """Returns the actions of roles with this topic alone, which exists."""
    check_topic(core, call.topic)
    return authorization.permissions_of(core, call.namespace).topics.get(call.topic.full, {})


# ---- subscriptions ----------------------------------------------------------------------------------------------


def _subscription_permissions(core: Core, call: Call) -> object:
    return {name: list(allowed) for name, allowed in _existing(core, call).subscriptions.items()}


def _grant_subscription(core: Core, call: Call) -> None:
    allowed = read_roles(call.json())
    permissions = _existing(core, call, _MISSING)
    name = read_role(call.parts["subscription"])
    store(core, call.namespace, replace(permissions, subscriptions={**permissions.subscriptions, name: allowed}))


def _revoke_subscription(core: Core, call: Call) -> None:
    """Takes a role away from a subscription, which is open to all roles again when it has none left."""
    permissions, name = _existing(core, call, _MISSING), call.parts["subscription"]
    if name not in permissions.subscriptions:
        raise Refused(404, f"Subscription {name} has no permissions of its own")
    left = tuple(role for role in permissions.subscriptions[name] if role != call.parts["role"])
    rest = without(permissions.subscriptions, name)
    store(core, call.namespace, replace(permissions, subscriptions={**rest, name: left} if left else rest))


def _auth_mode(core: Core, call: Call) -> Any:
    _existing(core, call)
    return authorization.auth_mode_of(core, call.namespace)


def _set_auth_mode(core: Core, call: Call) -> None:
    body = call.json()
    wanted = "None" if body is None else auth_mode(body)
    _existing(core, call)
    policy_changes.set_of_namespace(core, call.namespace, SUBSCRIPTION_AUTH_MODE, None if wanted == "None" else wanted)


ROUTES: Final[Routes] = (
    *routes(
        f"{NAMESPACE_PATH}/permissions",
        ("GET", access.namespace("GET_PERMISSION"), reads(_namespace_permissions)),
        ("GET /subscription", access.namespace("GET_PERMISSION"), reads(_subscription_permissions)),
        ("POST /{role}", access.namespace("GRANT_PERMISSION"), changes(_grant)),
        ("DELETE /{role}", access.namespace("REVOKE_PERMISSION"), changes(_revoke)),
        ("POST /subscription/{subscription}", access.namespace("GRANT_PERMISSION"), changes(_grant_subscription)),
        ("DELETE /{subscription}/{role}", access.namespace("REVOKE_PERMISSION"), changes(_revoke_subscription)),
    ),
    *routes(
        f"{NAMESPACE_PATH}/subscriptionAuthMode",
        ("GET", access.namespace_policy("SUBSCRIPTION_AUTH_MODE", "READ"), reads(_auth_mode)),
        ("POST", access.namespace_policy("SUBSCRIPTION_AUTH_MODE", "WRITE"), changes(_set_auth_mode)),
    ),
    *routes(
        f"{TOPIC_PATH}/permissions",
        ("GET", access.administrator, reads(_topic_permissions)),
        ("POST /{role}", access.administrator, changes(_grant_topic)),
        ("DELETE /{role}", access.administrator, changes(_revoke_topic)),
    ),
)
