"""Policies and roles of a topic as facts: those of the topic, else of its namespace, else of the broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from spark_pulsar.admin.diagnosis.facts import Policies, Rate, Roles


class Answer(Protocol):
    """A reply of the admin API."""

    @property
    def is_ok(self) -> bool:
        """Returns whether it answers the request."""

    @property
    def value(self) -> Any:
        """The answer."""

    @property
    def members(self) -> Mapping[str, Any]:
        """Returns the members of an object, none of a refusal or another value."""


def policies_of(answers: Mapping[str, Answer]) -> Policies:
    """Returns the policies that apply."""
    namespace, configuration = answers["namespace"].members, answers["configuration"].members

    def number(policy: str, member: str, key: str) -> int:
        values = (_value(answers, policy), namespace.get(member), configuration.get(key))
        return next((int(value) for value in values if value is not None and str(value).lstrip("-").isdecimal()), 0)

    retention = _members(answers, "retention") or namespace.get("retention_policies") or {}
    types = _value(answers, "subscriptionTypesEnabled") or namespace.get("subscription_types_enabled") or ()
    creation = (namespace.get("autoTopicCreationOverride") or {}).get("allowAutoTopicCreation")
    if creation is None and "allowAutoTopicCreation" in configuration:
        creation = configuration["allowAutoTopicCreation"] == "true"
    auto_update = namespace.get("is_allow_auto_update_schema")
    if auto_update is None:
        auto_update = configuration.get("isAllowAutoUpdateSchemaEnabled", "true") == "true"
    return Policies(
        ttl_s=number("messageTTL", "message_ttl_in_seconds", "ttlDurationDefaultInSeconds"),
        retention=_retention(retention),
        quotas=_quotas(_members(answers, "backlogQuotaMap") or namespace.get("backlog_quota_map") or {}),
        unacked_on_consumer=number(
            "maxUnackedMessagesOnConsumer", "max_unacked_messages_per_consumer", "maxUnackedMessagesPerConsumer"
        ),
        unacked_on_subscription=number(
            "maxUnackedMessagesOnSubscription",
            "max_unacked_messages_per_subscription",
            "maxUnackedMessagesPerSubscription",
        ),
        unacked_on_broker=int(configuration.get("maxUnackedMessagesPerBroker") or 0),
        rates=_rates(answers, namespace, configuration),
        types_enabled=tuple(sorted(map(str, types))),
        max_consumers=number("maxConsumers", "max_consumers_per_topic", "maxConsumersPerTopic"),
        max_consumers_of_subscription=number(
            "maxConsumersPerSubscription", "max_consumers_per_subscription", "maxConsumersPerSubscription"
        ),
        max_producers=number("maxProducers", "max_producers_per_topic", "maxProducersPerTopic"),
        auto_update_schema=bool(auto_update),
        schema_validation=bool(namespace.get("schema_validation_enforced")),
        schema_strategy=str(_value(answers, "schemaCompatibilityStrategy") or ""),
        encryption_required=bool(namespace.get("encryption_required")),
        clusters=tuple(namespace.get("replication_clusters") or ()),
        auto_creation=creation,
    )


def _value(answers: Mapping[str, Answer], policy: str) -> Any:
    answer = answers.get(policy)
    return answer.value if answer is not None and answer.is_ok else None


def _members(answers: Mapping[str, Answer], policy: str) -> Mapping[str, Any]:
    answer = answers.get(policy)
    return answer.members if answer is not None else {}


def _retention(policy: Mapping[str, Any]) -> tuple[int, int]:
    return int(policy.get("retentionTimeInMinutes", 0)), int(policy.get("retentionSizeInMB", 0))


def _quotas(by_kind: Mapping[str, Any]) -> dict[str, tuple[int, str]]:
    """Returns the limits of backlogs that are set: bytes of `destination_storage`, seconds of `message_age`."""
    quotas = {}
    for kind, quota in by_kind.items():
        size = quota.get("limitSize", quota.get("limit", -1)) if kind == "destination_storage" else -1
        limit = quota.get("limitTime", -1) if kind == "message_age" else size
        if limit is not None and int(limit) >= 0:
            quotas[kind] = (int(limit), str(quota.get("policy", "")))
    return quotas


def _rates(
    answers: Mapping[str, Answer], namespace: Mapping[str, Any], configuration: Mapping[str, Any]
) -> dict[str, Rate]:
    publishing = _members(answers, "publishRate") or _first_value(namespace.get("publishMaxMessageRate"))
    rates = {
        "topic": _rate(_members(answers, "dispatchRate") or _first_value(namespace.get("topicDispatchRate"))),
        "subscription": _rate(
            _members(answers, "subscriptionDispatchRate") or _first_value(namespace.get("subscriptionDispatchRate"))
        ),
        "broker": Rate(
            int(configuration.get("dispatchThrottlingRateInMsg") or 0),
            int(configuration.get("dispatchThrottlingRateInByte") or 0),
        ),
        "publish": Rate(
            int(publishing.get("publishThrottlingRateInMsg", 0)), int(publishing.get("publishThrottlingRateInByte", 0))
        ),
    }
    return {name: rate for name, rate in rates.items() if str(rate)}


def _rate(policy: Mapping[str, Any]) -> Rate:
    return Rate(
        int(policy.get("dispatchThrottlingRateInMsg", 0)),
        int(policy.get("dispatchThrottlingRateInByte", 0)),
        int(policy.get("ratePeriodInSecond", 1)),
    )


def _first_value(by_cluster: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return next(iter((by_cluster or {}).values()), {})


def roles_of(answers: Mapping[str, Answer], topic: str, subscription: str) -> Roles:
    """Returns the roles that may produce and consume, by grants of the topic and of its namespace."""
    configuration = answers["configuration"].members
    is_on = configuration.get("authorizationEnabled")
    grants = answers["namespace"].members.get("auth_policies") or {}
    consuming: set[str] = set()
    producing: set[str] = set()
    by_role: Iterable[Mapping[str, Any]] = (
        grants.get("namespace_auth") or {},
        (grants.get("destination_auth") or {}).get(topic) or {},
        answers["permissions"].members,
    )
    for actions_by_role in by_role:
        for role, actions in actions_by_role.items():
            if "consume" in actions:
                consuming.add(role)
            if "produce" in actions:
                producing.add(role)
    return Roles(
        None if is_on is None else is_on == "true",
        frozenset(consuming),
        frozenset(producing),
        frozenset((grants.get("subscription_auth_roles") or {}).get(subscription) or ()),
        frozenset(role.strip() for role in str(configuration.get("superUserRoles") or "").split(",") if role.strip()),
    )
