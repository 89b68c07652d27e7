"""Authorization: a principal, an operation and a resource; allowed or not, as in Apache Pulsar's default provider, the
only one that there is (AU-7 … AU-10, SEC-62).

Super users may do everything, administrators of a tenant everything in it. Other roles have actions with a namespace or
a topic, and each operation says which action permits it. Behind a proxy both the proxy's role and the client's must be
allowed. Called when a command opens something or changes it (`commands`) and for each admin request
(`admin.http.access`), never for a message (SEC-60); a role that loses a permission is found by `revocation` (SEC-65).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.ledger.state.documents import TENANTS
from spark_pulsar.model.errors import AuthorizationError, PulsarError
from spark_pulsar.model.policies.permissions import (
    AUTH_POLICIES,
    CONSUME,
    PACKAGES,
    PREFIX,
    PRODUCE,
    SUBSCRIPTION_AUTH_MODE,
    Permissions,
    is_permitted,
)

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.model.names import TopicName
    from spark_pulsar.model.principals import Principal

_EITHER: Final = (PRODUCE, CONSUME)
_CONSUMERS: Final = (CONSUME,)
_ADMINISTRATORS: Final[tuple[str, ...]] = ()
TOPIC_OPERATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("LOOKUP", "GET_STATS", "GET_METADATA"), _EITHER),
    "PRODUCE": (PRODUCE,),
    **dict.fromkeys(
        (
            "CONSUME",
            "SUBSCRIBE",
            "UNSUBSCRIBE",
            "GET_SUBSCRIPTIONS",
            "SKIP",
            "EXPIRE_MESSAGES",
            "PEEK_MESSAGES",
            "RESET_CURSOR",
            "GET_BACKLOG_SIZE",
            "GET_REPLICATED_SUBSCRIPTION_STATUS",
            "SET_REPLICATED_SUBSCRIPTION_STATUS",
        ),
        _CONSUMERS,
    ),
    **dict.fromkeys(
        ("TERMINATE", "COMPACT", "OFFLOAD", "UNLOAD", "TRIM_TOPIC", "UPDATE_METADATA", "DELETE_METADATA"),
        _ADMINISTRATORS,
    ),
}
"""Actions of which one permits an operation with a topic; without any it is for administrators."""
NAMESPACE_OPERATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("GET_TOPICS", "GET_BUNDLE"), _EITHER),
    **dict.fromkeys(("UNSUBSCRIBE", "CLEAR_BACKLOG"), _CONSUMERS),
    "PACKAGES": (PACKAGES,),
    **dict.fromkeys(
        (
            "CREATE_TOPIC",
            "DELETE_TOPIC",
            "DELETE_BUNDLE",
            "GRANT_PERMISSION",
            "GET_PERMISSION",
            "REVOKE_PERMISSION",
        ),
        _ADMINISTRATORS,
    ),
}
"""Actions of which one permits an operation with a namespace."""

_NONE: Final = Permissions()


def is_super_user(core: Core, principal: Principal) -> bool:
    """Returns whether a principal may do everything."""
    return _all_roles(principal, lambda role: role in core.config.super_user_roles)


def is_administrator(core: Core, principal: Principal, tenant: str) -> bool:
    """Returns whether a principal may do everything in a tenant, which need not exist."""
    return _all_roles(principal, lambda role: _is_administrator(core, role, tenant))


def may_use_topic(
    core: Core, principal: Principal, operation: str, name: TopicName, subscription: str | None = None
) -> bool:
    """Returns whether a principal may do an operation with a topic, and with this subscription of it. Raises
    AuthorizationError where its roles need another name for their subscription."""
    actions = TOPIC_OPERATIONS[operation]
    return _all_roles(principal, lambda role: _may_use_topic(core, role, actions, name, subscription))


def may_use_namespace(core: Core, principal: Principal, operation: str, namespace: str) -> bool:
    """Returns whether a principal may do an operation with a namespace."""
    actions, tenant = NAMESPACE_OPERATIONS[operation], namespace.partition("/")[0]

    def is_allowed(role: str) -> bool:
        if _is_administrator(core, role, tenant):
            return True
        grants, wildcards = permissions_of(core, namespace).namespace, core.config.authorization_wildcards
        return any(is_permitted(grants, role, action, with_wildcards=wildcards) for action in actions)

    return _all_roles(principal, is_allowed)


def permissions_of(core: Core, namespace: str) -> Permissions:
    """Returns the permissions of a namespace; of one that does not exist, none."""
    text = core.state.namespaces.get(namespace)
    return _NONE if text is None else _parsed(text)[0]


def auth_mode_of(core: Core, namespace: str) -> str:
    """Returns the rule for names of subscriptions in a namespace."""
    text = core.state.namespaces.get(namespace)
    return "None" if text is None else _parsed(text)[1]


def _all_roles(principal: Principal, is_allowed: Callable[[str], bool]) -> bool:
    role, original = principal.role, principal.original
    return role is not None and is_allowed(role) and (original is None or is_allowed(original))


def _is_administrator(core: Core, role: str, tenant: str) -> bool:
    if role in core.config.super_user_roles:
        return True
    text = core.state.documents[TENANTS].get(tenant)
    return text is not None and role in json.loads(text).get("adminRoles", ())


def _may_use_topic(core: Core, role: str, actions: tuple[str, ...], name: TopicName, subscription: str | None) -> bool:
    if _is_administrator(core, role, name.tenant):
        return True
    permissions = permissions_of(core, name.namespace_name)
    if subscription and CONSUME in actions:
        allowed = permissions.subscriptions.get(subscription)
        if allowed and role not in allowed:
            return False
        if auth_mode_of(core, name.namespace_name) == PREFIX and not subscription.startswith(role):
            raise AuthorizationError(
                "Failed to create consumer - The subscription name needs to be prefixed by the authentication role, "
                f"like {role}-xxxx for topic: {name}"
            )
    wildcards = core.config.authorization_wildcards
    levels = [permissions.namespace, permissions.topics.get(name.full, {})]
    if name.partition >= 0:
        levels.append(permissions.topics.get(name.base.full, {}))
    return any(is_permitted(grants, role, action, with_wildcards=wildcards) for grants in levels for action in actions)


@lru_cache(maxsize=256)
def _parsed(text: str) -> tuple[Permissions, str]:
    """Returns the permissions and the rule for subscriptions of stored policies; permissions that cannot be read give
    no rights."""
    policies: dict[str, Any] = json.loads(text)
    try:
        permissions = Permissions.from_json(policies.get(AUTH_POLICIES) or {})
    except PulsarError:
        permissions = _NONE
    return permissions, policies.get(SUBSCRIPTION_AUTH_MODE) or "None"


def flaw_of_roles(principal: Principal, proxy_roles: Collection[str], *, may_name_itself: bool = False) -> str:
    """Returns the flaw of a principal, empty when there is none: a proxy must name the role of its client, which is no
    proxy's, and no other role may name one (AU-10). `may_name_itself`: or only its own, as over HTTP."""
    original = principal.original
    if principal.role in proxy_roles:
        if not original:
            return "a proxy that names no role of its client"
        return "a proxy that names the role of a proxy" if original in proxy_roles else ""
    if original and not (may_name_itself and original == principal.role):
        return "a role for another client, named by no proxy"
    return ""
