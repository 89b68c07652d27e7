"""Resource groups: rates that all namespaces of a group share (ADM-5), and resource quotas of bundles (ADM-6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from spark_pulsar.model.errors import InvalidTopicName
from spark_pulsar.model.limits import INT, LONG
from spark_pulsar.model.names import check_entity

from .effective_policies import PublishRate
from .json_values import MalformedPolicy, members, number

RESOURCE_GROUP: Final = "resource_group_name"
"""Member of a namespace's policies: its group."""
_MEMBERS: Final = {
    "publishRateInMsgs": ("publish_messages", INT),
    "publishRateInBytes": ("publish_bytes", LONG),
    "dispatchRateInMsgs": ("dispatch_messages", INT),
    "dispatchRateInBytes": ("dispatch_bytes", LONG),
}
"""Fields by members, with their largest numbers."""


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """The rates of a group, per second; 0 and below is no limit."""

    publish_messages: int = -1
    publish_bytes: int = -1
    dispatch_messages: int = -1
    """Stored and answered; as in Apache Pulsar 4.0.8 nothing is limited by it."""
    dispatch_bytes: int = -1

    @property
    def publish_rate(self) -> PublishRate:
        """The rate at which all topics of the group together take messages."""
        return PublishRate(self.publish_messages, self.publish_bytes)

    @property
    def limits_dispatch(self) -> bool:
        """True when a rate of dispatch is set, which has no effect."""
        return self.dispatch_messages > 0 or self.dispatch_bytes > 0

    def updated(self, value: object) -> Self:
        """Replaces the rates that are given. Raises MalformedPolicy."""
        body = members(value, "resource group")
        given = {
            field: number(body[member], member, most)
            for member, (field, most) in _MEMBERS.items()
            if body.get(member) is not None
        }
        return replace(self, **given)

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Reads the members; an absent one is -1."""
        return cls().updated(value)

    def to_json(self) -> dict[str, int]:
        """Writes all members."""
        return {member: getattr(self, field) for member, (field, _) in _MEMBERS.items()}

    @staticmethod
    def check_name(value: object) -> str:
        """Reads the name of a group."""
        try:
            check_entity(str(value))
        except InvalidTopicName as error:
            raise MalformedPolicy(f"{RESOURCE_GROUP}: {value!r} is no name of a resource group") from error
        return str(value)


DEFAULT_QUOTA: Final = {
    "msgRateIn": 40.0,
    "msgRateOut": 120.0,
    "bandwidthIn": 100000.0,
    "bandwidthOut": 300000.0,
    "memory": 80.0,
    "dynamic": True,
}
"""Resource quota of a bundle for which none was set, as Apache Pulsar answers it."""


def resource_quota(value: object) -> dict[str, Any]:
    """Reads a resource quota; an absent number is 0. Raises MalformedPolicy."""
    body: Mapping[str, Any] = members(value, "resource quota")
    quota: dict[str, Any] = {}
    for member in DEFAULT_QUOTA:
        given = body.get(member)
        if member == "dynamic":
            if not isinstance(given, bool | None):
                raise MalformedPolicy(f"{member}: want true or false, got {given!r}")
            quota[member] = True if given is None else given
        elif given is None:
            quota[member] = 0.0
        elif isinstance(given, bool) or not isinstance(given, int | float):
            raise MalformedPolicy(f"{member}: want a number, got {given!r}")
        else:
            quota[member] = float(given)
    return quota
