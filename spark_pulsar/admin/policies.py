"""Policies of namespaces and topics over REST: paths from `policy_table`, and the rules between two policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse, Response

from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.policies import documents as kept
from spark_pulsar.broker.topics import policy_changes
from spark_pulsar.model.dispatch_rates import DISPATCH_RATE, DispatchRate
from spark_pulsar.model.json_values import InvalidPolicy, at_least_zero
from spark_pulsar.model.policies import (
    DESTINATION_STORAGE,
    QUOTA_TYPES,
    BacklogQuota,
    RetentionPolicy,
    check_quota_fits,
)

from .answers import Refused
from .calls import value_or_empty, whole_number_in_path
from .namespaces import existing
from .policy_table import POLICIES, check_partitions, quotas_applied
from .topics import check_namespace

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.model.names import TopicName

    from .calls import Call, Handler, Routes
    from .policy_table import Level, Policy

MOST_NAMES: Final = 1_000
"""Subscriptions of a topic that have a rate of their own: all stand in one record."""

_RETENTION_TOO_SMALL: Final = "Retention Quota must exceed configured backlog quota for {}."
_QUOTA_TOO_LARGE: Final = (
    "Backlog Quota exceeds configured retention quota for {}. Please increase retention quota and retry"
)


# ---- who may be asked -------------------------------------------------------------------------------------------


def _topic(call: Call) -> TopicName:
    """The topic of a policy call: it exists, and is no partition."""
    name = call.topic
    if name.partition >= 0:
        raise Refused(412, "Not allowed to set/get topic policy for a partition")
    check_namespace(call.core, name)
    if not registry.exists(call.core, name) and registry.partition_count(call.core, name) is None:
        raise Refused(404, f"Topic {name} not found")
    return name


def _is_global(call: Call) -> bool:
    return call.flag("isGlobal")


def _missing_reason(member: str) -> str:
    return "Namespace policies does not exist" if member == kept.RETENTION else "Namespace does not exist"


# ---- two policies that must fit ---------------------------------------------------------------------------------


def _stored_quota(policies: dict[str, Any]) -> BacklogQuota | None:
    found = policies.get(kept.BACKLOG_QUOTAS, {}).get(DESTINATION_STORAGE)
    return None if found is None else BacklogQuota.from_json(found, "")


def _stored_retention(policies: dict[str, Any]) -> RetentionPolicy:
    found = policies.get(kept.RETENTION)
    return RetentionPolicy() if found is None else RetentionPolicy.from_json(found)


def _check_retention(member: str, value: Any, others: dict[str, Any], what: str) -> None:
    """412 unless a retention leaves room above the quota (RET-3)."""
    if member == kept.RETENTION and not check_quota_fits(RetentionPolicy.from_json(value), _stored_quota(others)):
        raise InvalidPolicy(_RETENTION_TOO_SMALL.format(what))


# ---- policies of the table --------------------------------------------------------------------------------------


def _answer(level: Level, value: object) -> Response:
    if value is None:
        value = level.unset
    if value is None and level.unset_status != 200:
        return Response(status_code=level.unset_status)
    return value_or_empty(value)


def _namespace_methods(policy: Policy, level: Level) -> dict[str, Handler]:
    member = policy.member

    async def get(call: Call) -> Response:
        value = existing(call.core, call.namespace).get(member)
        if value is None and level.unset_as is not None:
            value = level.unset_as(call.core.config)
        return _answer(level, value)

    async def set_(call: Call) -> Response:
        body = call.json()
        if body is None and level.null_removes:
            return await delete(call)

        def change(core: Core) -> None:
            others = existing(core, call.namespace, _missing_reason(member))
            value = level.read(body)
            check_partitions(core, member, value)
            _check_retention(member, value, others, "namespace")
            policy_changes.set_of_namespace(core, call.namespace, member, value)

        return await call.change(change)

    async def delete(call: Call) -> Response:
        def change(core: Core) -> None:
            existing(core, call.namespace, _missing_reason(member))
            policy_changes.set_of_namespace(core, call.namespace, member, None)

        return await call.change(change)

    methods: dict[str, Handler] = {"GET": get, level.verb: set_}
    return {**methods, "DELETE": delete} if level.can_delete else methods


def _topic_methods(policy: Policy, level: Level) -> dict[str, Handler]:
    member = policy.member

    async def get(call: Call) -> Response:
        return _topic_answer(call, level, member, policy.applied)

    async def set_(call: Call) -> Response:
        body = call.json()

        def change(core: Core) -> None:
            name, everywhere = _topic(call), _is_global(call)
            if body is None and level.null_keeps:
                return
            value = level.read(body)
            _check_retention(member, value, _of_topic_and_namespace(core, name), "topic")
            policy_changes.set_of_topic(core, name, member, value, for_all_clusters=everywhere)

        return await call.change(change)

    return {"GET": get, level.verb: set_, "DELETE": _topic_delete(member)}


def _topic_answer(call: Call, level: Level | None, member: str, applied: Callable[[Any], Any]) -> Response:
    name = _topic(call)
    stored = policy_changes.of_topic(call.core, name, for_all_clusters=_is_global(call)).get(member)
    if stored is None and call.flag("applied"):
        stored = applied(call.core.policies_of(name))
    return value_or_empty(stored) if level is None else _answer(level, stored)


def _topic_delete(member: str) -> Handler:
    async def delete(call: Call) -> Response:
        def change(core: Core) -> None:
            policy_changes.set_of_topic(core, _topic(call), member, None, for_all_clusters=_is_global(call))

        return await call.change(change)

    return delete


def _of_topic_and_namespace(core: Core, name: TopicName) -> dict[str, Any]:
    return kept.merged([policy_changes.of_namespace(core, name.namespace_name), policy_changes.of_topic(core, name)])


# ---- the time to live of a topic --------------------------------------------------------------------------------


async def _get_topic_ttl(call: Call) -> Response:
    return _topic_answer(call, None, kept.MESSAGE_TTL, lambda effective: effective.message_ttl_s)


async def _set_topic_ttl(call: Call) -> Response:
    """The value stands in the query, not in the body; without it the policy is removed."""
    text = call.query.get("messageTTL")
    value = None if text is None else whole_number_in_path(text)

    def change(core: Core) -> None:
        name = _topic(call)
        if value is not None:
            at_least_zero(value, "Invalid value for message TTL")
        policy_changes.set_of_topic(core, name, kept.MESSAGE_TTL, value, for_all_clusters=_is_global(call))

    return await call.change(change)


# ---- the dispatch rate of one subscription ----------------------------------------------------------------------


def _of_subscriptions(call: Call, name: TopicName) -> dict[str, Any]:
    stored = policy_changes.of_topic(call.core, name, for_all_clusters=_is_global(call))
    found: dict[str, Any] = stored.get(kept.SUBSCRIPTION_POLICIES, {})
    return found


async def _get_subscription_rate(call: Call) -> Response:
    name, subscription = _topic(call), call.parts["subscription"]
    stored = _of_subscriptions(call, name).get(subscription, {}).get(DISPATCH_RATE)
    if stored is None and call.flag("applied"):
        effective = call.core.policies_of(name)
        of_each = effective.subscription_dispatch_rate or DispatchRate()
        stored = effective.dispatch_rates_by_name.get(subscription, of_each).to_json()
    return value_or_empty(stored)


async def _set_subscription_rate(call: Call) -> Response:
    """Without a body nothing changes. A rate without limit is set like any other: this subscription has none then,
    whatever holds for all (Apache Pulsar forgets such a rate)."""
    body = call.json()

    def change(core: Core) -> None:
        name = _topic(call)
        if body is None:
            return
        rate = {call.parts["subscription"]: {DISPATCH_RATE: DispatchRate.from_json(body).to_json()}}
        policies = {**_of_subscriptions(call, name), **rate}
        if len(policies) > MOST_NAMES:
            raise Refused(412, f"A topic has rates of its own for {MOST_NAMES} subscriptions at most")
        policy_changes.set_of_topic(core, name, kept.SUBSCRIPTION_POLICIES, policies, for_all_clusters=_is_global(call))

    return await call.change(change)


async def _delete_subscription_rate(call: Call) -> Response:
    def change(core: Core) -> None:
        name, subscription = _topic(call), call.parts["subscription"]
        rest = {each: found for each, found in _of_subscriptions(call, name).items() if each != subscription}
        policy_changes.set_of_topic(
            core, name, kept.SUBSCRIPTION_POLICIES, rest or None, for_all_clusters=_is_global(call)
        )

    return await call.change(change)


# ---- backlog quotas ---------------------------------------------------------------------------------------------


def _quota_type(call: Call) -> str:
    kind = call.query.get("backlogQuotaType") or DESTINATION_STORAGE
    if kind not in QUOTA_TYPES:
        raise Refused(404, f"{kind!r} is no type of backlog quota: want one of {', '.join(QUOTA_TYPES)}")
    return kind


async def _get_namespace_quotas(call: Call) -> Response:
    return JSONResponse(existing(call.core, call.namespace).get(kept.BACKLOG_QUOTAS, {}))


async def _set_namespace_quota(call: Call) -> Response:
    kind, body = _quota_type(call), call.json()

    def change(core: Core) -> None:
        stored = existing(core, call.namespace)
        quota = BacklogQuota.from_json(body, call.namespace)
        if kind == DESTINATION_STORAGE and not check_quota_fits(_stored_retention(stored), quota):
            raise InvalidPolicy(_QUOTA_TOO_LARGE.format("namespace"))
        quotas = {**stored.get(kept.BACKLOG_QUOTAS, {}), kind: quota.to_json()}
        policy_changes.set_of_namespace(core, call.namespace, kept.BACKLOG_QUOTAS, quotas)

    return await call.change(change)


async def _delete_namespace_quota(call: Call) -> Response:
    kind = _quota_type(call)

    def change(core: Core) -> None:
        quotas = existing(core, call.namespace).get(kept.BACKLOG_QUOTAS, {})
        rest = {each: quota for each, quota in quotas.items() if each != kind}
        policy_changes.set_of_namespace(core, call.namespace, kept.BACKLOG_QUOTAS, rest or None)

    return await call.change(change)


async def _get_topic_quotas(call: Call) -> Response:
    name = _topic(call)
    if call.flag("applied"):
        return JSONResponse(quotas_applied(call.core.policies_of(name)))
    stored = policy_changes.of_topic(call.core, name, for_all_clusters=_is_global(call))
    return JSONResponse(stored.get(kept.BACKLOG_QUOTAS, {}))


async def _set_topic_quota(call: Call) -> Response:
    kind, body = _quota_type(call), call.json()

    def change(core: Core) -> None:
        name, everywhere = _topic(call), _is_global(call)
        quota = BacklogQuota.from_json(body, name.namespace_name)
        retention = _stored_retention(_of_topic_and_namespace(core, name))
        if kind == DESTINATION_STORAGE and not check_quota_fits(retention, quota):
            raise InvalidPolicy(_QUOTA_TOO_LARGE.format("topic"))
        stored = policy_changes.of_topic(core, name, for_all_clusters=everywhere)
        quotas = {**stored.get(kept.BACKLOG_QUOTAS, {}), kind: quota.to_json()}
        policy_changes.set_of_topic(core, name, kept.BACKLOG_QUOTAS, quotas, for_all_clusters=everywhere)

    return await call.change(change)


async def _delete_topic_quota(call: Call) -> Response:
    kind = _quota_type(call)

    def change(core: Core) -> None:
        name, everywhere = _topic(call), _is_global(call)
        quotas = policy_changes.of_topic(core, name, for_all_clusters=everywhere).get(kept.BACKLOG_QUOTAS, {})
        rest = {each: quota for each, quota in quotas.items() if each != kind}
        policy_changes.set_of_topic(core, name, kept.BACKLOG_QUOTAS, rest or None, for_all_clusters=everywhere)

    return await call.change(change)


_NAMESPACE: Final = "admin/v2/namespaces/{tenant}/{namespace}"
_TOPIC: Final = "admin/v2/{domain}/{tenant}/{namespace}/{topic}"


def _routes() -> Routes:
    found: list[tuple[str, dict[str, Handler]]] = []
    for policy in POLICIES:
        if policy.namespace is not None:
            found.append((f"{_NAMESPACE}/{policy.namespace.name}", _namespace_methods(policy, policy.namespace)))
        if policy.topic is not None:
            found.append((f"{_TOPIC}/{policy.topic.name}", _topic_methods(policy, policy.topic)))
    return tuple(found)


ROUTES: Final[Routes] = (
    *_routes(),
    (f"{_NAMESPACE}/backlogQuotaMap", {"GET": _get_namespace_quotas}),
    (f"{_NAMESPACE}/backlogQuota", {"POST": _set_namespace_quota, "DELETE": _delete_namespace_quota}),
    (f"{_TOPIC}/backlogQuotaMap", {"GET": _get_topic_quotas}),
    (f"{_TOPIC}/backlogQuota", {"POST": _set_topic_quota, "DELETE": _delete_topic_quota}),
    (
        f"{_TOPIC}/messageTTL",
        {"GET": _get_topic_ttl, "POST": _set_topic_ttl, "DELETE": _topic_delete(kept.MESSAGE_TTL)},
    ),
    (
        f"{_TOPIC}/{{subscription}}/dispatchRate",
        {"GET": _get_subscription_rate, "POST": _set_subscription_rate, "DELETE": _delete_subscription_rate},
    ),
)
