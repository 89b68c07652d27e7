"""Policies and permissions of namespaces and topics, set in the target where they differ from the source (MOVE-6)."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from spark_pulsar.cli.move.sides import ABSENT, Side, described
from spark_pulsar.cli.values import segment
from spark_pulsar.client.rest import RestError
from spark_pulsar.model.policies.policies_without_effect import (
    ALLOWED_CLUSTERS,
    BOOKIE_AFFINITY,
    REPLICATION_CLUSTERS,
    SHADOW_TOPICS,
)
from spark_pulsar.model.policies.policy_columns import Level, Policy
from spark_pulsar.model.policies.policy_table import BACKLOG_QUOTAS, POLICIES, SUBSCRIPTION_POLICIES

_OF_THE_CLUSTER: Final = frozenset({REPLICATION_CLUSTERS, ALLOWED_CLUSTERS, BOOKIE_AFFINITY, SHADOW_TOPICS})
"""Policies that name clusters, or machines of one."""
_NOTHING: Final[tuple[object, ...]] = (None, {}, [], "")
_REFUSED: Final = object()
_PATIENCE: Final = 50
_PAUSE: Final = threading.Event()
IN_THE_WAY: Final = (
    ("messageTTL", "POST", 0),
    (
        "inactiveTopicPolicies",
        "POST",
        {
            "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
            "maxInactiveDurationSeconds": 86_400,
            "deleteWhileInactive": False,
        },
    ),
    ("schemaCompatibilityStrategy", "PUT", "ALWAYS_COMPATIBLE"),
)
"""Policies of a namespace while its messages are copied: nothing expires, and all versions of schemas are accepted.
Those of the source take their place at the end."""


class Difference(NamedTuple):
    """Something that the target does not have as the source has it."""

    place: str
    what: str
    source: Any
    target: Any


def copy_policies(
    source: Side, target: Side, path: str, *, of_topic: bool, kept: Collection[str] = ()
) -> list[Difference]:
    """Sets the policies of a namespace or a topic that differ, but for `kept`; returns those that differ afterwards,
    with the reason."""
    differences = []
    for policy in POLICIES:
        level = policy.topic if of_topic else policy.namespace
        if level is None or policy.member in {*_OF_THE_CLUSTER, SUBSCRIPTION_POLICIES, *kept}:
            continue
        name = "backlogQuotaMap" if policy.member == BACKLOG_QUOTAS else level.path
        wanted, present = _value(source, path, name, level), _value(target, path, name, level)
        if wanted is _REFUSED or wanted == present:
            continue
        try:
            _set(target, path, policy, level, wanted, present)
        except RestError as error:
            differences.append(Difference(path, name, wanted, described(error)))
            continue
        differences += _remaining(target, path, name, level, wanted)
    return differences


def _remaining(target: Side, path: str, name: str, level: Level, wanted: Any) -> Iterator[Difference]:
    """Yields the difference that is left; the policies of topics take a moment in an Apache Pulsar."""
    present: Any = None
    for _ in range(_PATIENCE):
        present = _value(target, path, name, level)
        if present == wanted:
            return
        _PAUSE.wait(0.1)
    yield Difference(path, name, wanted, present)


def _value(side: Side, path: str, name: str, level: Level) -> Any:
    """Returns the value that a namespace or topic has of its own, None for none."""
    try:
        value = side.get(f"{path}/{name}")
    except RestError as error:
        if error.status in ABSENT:
            return _REFUSED if side.word == "source" else None
        raise
    if isinstance(value, list):
        value = sorted(value, key=str)  # lists of policies are sets
    return None if value in _NOTHING or value == level.unset else value


def _set(target: Side, path: str, policy: Policy, level: Level, wanted: Any, present: Any) -> None:
    place = f"{path}/{level.path}"
    if policy.member == BACKLOG_QUOTAS:
        for kind in {**(wanted or {}), **(present or {})}:
            quota = (wanted or {}).get(kind)
            if quota is None:
                target.call("DELETE", place, backlogQuotaType=kind)
            else:
                kept = {name: value for name, value in quota.items() if name != "limit"}
                target.call("POST", place, kept, backlogQuotaType=kind)
    elif wanted is not None and level.parameter:
        target.call(level.method, place, **{level.parameter: wanted})
    elif wanted is not None:
        target.call(level.method, place, wanted)
    elif level.removal:
        target.call("DELETE", f"{path}/{level.removal}")
    elif level.unset is not None or not level.can_delete or not _deleted(target, place):
        target.call(level.method, place, level.unset)


def _deleted(target: Side, place: str) -> bool:
    """Removes a policy; returns false where an Apache Pulsar has no such path for one that our broker can remove."""
    try:
        target.call("DELETE", place)
    except RestError as error:
        if error.status in {*ABSENT, HTTPStatus.PRECONDITION_FAILED}:  # it takes the name for that of a bundle
            return False
        raise
    return True


def copy_permissions(source: Side, target: Side, path: str, above: str = "") -> list[Difference]:
    """Grants the roles of a namespace or a topic what they may do in the source, but for what they may `above`, in
    a topic's namespace; returns the roles that may do something else afterwards."""
    place = f"{path}/permissions"
    wanted, present = (_granted(side, place, above) for side in (source, target))
    differences = []
    for role, actions in wanted.items():
        if actions == present.pop(role, None):
            continue
        try:
            target.call("POST", f"{place}/{segment(role)}", sorted(actions))
        except RestError as error:
            differences.append(Difference(path, f"permissions of {role}", sorted(actions), described(error)))
    differences += (
        Difference(path, f"permissions of {role}", [], sorted(actions)) for role, actions in present.items()
    )
    return differences


def _granted(side: Side, place: str, above: str) -> dict[str, set[str]]:
    """Returns the actions of each role beside those that it is granted above."""
    granted = side.get_if_there(place) or {}
    inherited = (side.get_if_there(f"{above}/permissions") or {}) if above else {}
    return {role: set(actions) for role, actions in granted.items() if set(actions) != set(inherited.get(role, ()))}
