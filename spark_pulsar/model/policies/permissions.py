"""Permissions of a namespace: actions that roles may do in it and with its topics, and roles of its subscriptions
(AU-9, SEC-66)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .json_values import MalformedPolicy, members

PRODUCE: Final = "produce"
CONSUME: Final = "consume"
PACKAGES: Final = "packages"
ACTIONS: Final = (PRODUCE, CONSUME, "functions", "sources", "sinks", PACKAGES)
"""Actions that a role may be granted, in Apache Pulsar's order."""
AUTH_POLICIES: Final = "auth_policies"
"""Member of a namespace's policies that holds its permissions."""
SUBSCRIPTION_AUTH_MODE: Final = "subscription_auth_mode"
PREFIX: Final = "Prefix"
AUTH_MODES: Final = ("None", PREFIX)
MAX_ROLE_LENGTH: Final = 1_000
MAX_GRANTS: Final = 10_000
"""Roles of a namespace, its topics and its subscriptions together: all stand in one record."""
MAX_CHARACTERS: Final = 512 * 1024
"""Characters of these names together."""

_NAMESPACE, _TOPICS, _SUBSCRIPTIONS = "namespace_auth", "destination_auth", "subscription_auth_roles"

Grants = Mapping[str, frozenset[str]]
"""Actions by role."""


@dataclass(frozen=True, slots=True)
class Permissions:
    """Permissions of one namespace."""

    namespace: Grants = field(default_factory=dict)
    """Actions of roles with all topics."""
    topics: Mapping[str, Grants] = field(default_factory=dict)
    """Actions of roles with single topics, by full name."""
    subscriptions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Roles that alone may use a subscription, by its name."""

    @classmethod
    def from_json(cls, value: object) -> Permissions:
        """Reads what `to_json` writes, which is Apache Pulsar's form."""
        body = members(value, AUTH_POLICIES)
        result = cls(
            _grants(body.get(_NAMESPACE) or {}, _NAMESPACE),
            {topic: _grants(grants, _TOPICS) for topic, grants in members(body.get(_TOPICS) or {}, _TOPICS).items()},
            {name: roles(listed) for name, listed in members(body.get(_SUBSCRIPTIONS) or {}, _SUBSCRIPTIONS).items()},
        )
        result.check_size()
        return result

    def to_json(self) -> dict[str, Any]:
        """Writes the permissions as Apache Pulsar shows them."""
        return {
            _NAMESPACE: grants_json(self.namespace),
            _TOPICS: {topic: grants_json(grants) for topic, grants in self.topics.items()},
            _SUBSCRIPTIONS: {name: list(allowed) for name, allowed in self.subscriptions.items()},
        }

    def check_size(self) -> None:
        """Refuses more roles than one record may hold."""
        names = [*self.namespace]
        for grants in (self.topics, self.subscriptions):
            for holder, allowed in grants.items():
                names += (holder, *allowed)
        if len(names) > MAX_GRANTS or sum(map(len, names)) > MAX_CHARACTERS:
            raise MalformedPolicy(
                f"{AUTH_POLICIES}: a namespace has at most {MAX_GRANTS} roles, topics and subscriptions in permissions "
                f"and {MAX_CHARACTERS} characters in their names"
            )


def actions(value: object) -> frozenset[str]:
    """Reads a list of actions."""
    if not isinstance(value, list):
        raise MalformedPolicy(f"permissions: want a list of actions, got {value!r}")
    for action in value:
        if action not in ACTIONS:
            raise MalformedPolicy(f"permissions: {action!r} is no action: want some of {', '.join(ACTIONS)}")
    return frozenset(value)


def roles(value: object) -> tuple[str, ...]:
    """Reads a list of roles, each once."""
    if not isinstance(value, list):
        raise MalformedPolicy(f"roles: want a list of texts, got {value!r}")
    return tuple(dict.fromkeys(role(name) for name in value))


def role(value: object) -> str:
    """Reads a role."""
    if not isinstance(value, str) or not value or len(value) > MAX_ROLE_LENGTH:
        raise MalformedPolicy(f"role: want a text of 1 to {MAX_ROLE_LENGTH} characters, got {value!r:.200}")
    return value


def grants_json(grants: Grants) -> dict[str, list[str]]:
    """Writes actions by role, in their order."""
    return {holder: [action for action in ACTIONS if action in allowed] for holder, allowed in grants.items()}


def auth_mode(value: object) -> str:
    """Reads the rule for names of subscriptions."""
    if value not in AUTH_MODES:
        raise MalformedPolicy(f"subscriptionAuthMode: want one of {', '.join(AUTH_MODES)}, got {value!r:.200}")
    return str(value)


def _grants(value: object, what: str) -> Grants:
    return {role(holder): actions(allowed) for holder, allowed in members(value, what).items()}


def is_permitted(grants: Grants, holder: str, action: str, *, with_wildcards: bool) -> bool:
    """Returns whether a role has an action; with wildcards a grant of `PREFIX*` or `*SUFFIX` is for all such roles."""
    if action in grants.get(holder, ()):
        return True
    return with_wildcards and any(
        action in allowed and matches_wildcard(granted, holder) for granted, allowed in grants.items()
    )


def matches_wildcard(granted: str, holder: str) -> bool:
    """Returns whether a role begins as a grant to `PREFIX*` says, or ends as one to `*SUFFIX` does; other roles match
    nothing here."""
    return (granted.endswith("*") and holder.startswith(granted[:-1])) or (
        granted.startswith("*") and holder.endswith(granted[1:])
    )
