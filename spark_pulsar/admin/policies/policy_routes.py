"""Policies of namespaces and topics over REST: paths from the table of policies, and the rules between two policies
(T-5, ADM-66). `namespace_lifecycle` shows those of a namespace as one document (ADM-65)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from starlette.responses import Response

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import (
    NAMESPACE_PATH,
    TOPIC_PATH,
    changes,
    noted,
    reads,
    routes,
    value_or_empty,
    whole_number_in_path,
)
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.namespaces import cluster_lists
from spark_pulsar.admin.namespaces.namespace_lifecycle import check_partitions, existing
from spark_pulsar.admin.topics.topic_lifecycle import check_namespace, is_known
from spark_pulsar.broker.policies.documents import MERGED, merged
from spark_pulsar.broker.topics import policy_changes
from spark_pulsar.model.errors import InvalidTopicName
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.policies.effective_policies import (
    DESTINATION_STORAGE,
    MESSAGE_AGE,
    QUOTA_TYPES,
    RATE_OF_ONE,
    BacklogQuota,
    DispatchRate,
    RetentionPolicy,
    check_quota_fits,
)
from spark_pulsar.model.policies.json_values import InvalidPolicy
from spark_pulsar.model.policies.policies_without_effect import (
    ALLOWED_CLUSTERS,
    BOOKIE_AFFINITY,
    REPLICATION_CLUSTERS,
    SHADOW_TOPICS,
)
from spark_pulsar.model.policies.policy_columns import Null
from spark_pulsar.model.policies.policy_table import (
    AUTO_TOPIC_CREATION,
    BACKLOG_QUOTAS,
    BY_MEMBER,
    DELAYED_DELIVERY,
    MAX_MESSAGE_SIZE,
    MAX_TOPICS,
    POLICIES,
    RETENTION,
    SUBSCRIPTION_POLICIES,
)

if TYPE_CHECKING:
    from spark_pulsar.admin.http.calls import Call, Handler, Route, Routes, Rule
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.model.policies.policy_columns import Level, Policy

MOST_NAMES: Final = 1_000
"""Subscriptions of a topic that have a rate of their own: all stand in one record."""

_OF_POLICIES: Final = frozenset({RETENTION, MAX_TOPICS})
"""Policies for whose change Apache Pulsar checks a namespace's policies, not the namespace."""

_RETENTION_TOO_SMALL: Final = "Retention Quota must exceed configured backlog quota for {}."
_QUOTA_TOO_LARGE: Final = (
    "Backlog Quota exceeds configured retention quota for {}. Please increase retention quota and retry"
)


# ---- whose policies they are ------------------------------------------------------------------------------------


class Place(NamedTuple):
    """The namespace or topic whose policies a call reads or sets; it exists."""

    core: Core
    namespace: str
    topic: TopicName | None = None
    for_all_clusters: bool = False

    def stored(self) -> dict[str, Any]:
        """Returns the policies that are set here."""
        if self.topic is None:
            return policy_changes.of_namespace(self.core, self.namespace)
        return policy_changes.of_topic(self.core, self.topic, for_all_clusters=self.for_all_clusters)

    def beside(self) -> dict[str, Any]:
        """Returns the policies that a new one must fit: those set here, for a topic over its namespace's."""
        levels = [policy_changes.of_namespace(self.core, self.namespace)]
        return merged(levels if self.topic is None else [*levels, policy_changes.of_topic(self.core, self.topic)])

    def set(self, member: str, value: Any) -> None:
        """Sets a policy; None removes it."""
        if self.topic is None:
            policy_changes.set_of_namespace(self.core, self.namespace, member, value)
        else:
            policy_changes.set_of_topic(self.core, self.topic, member, value, for_all_clusters=self.for_all_clusters)

    @property
    def word(self) -> str:
        """The place in a refusal."""
        return "namespace" if self.topic is None else "topic"


def _namespace(call: Call, core: Core, changed: str = "") -> Place:
    """Returns the namespace of a call; 404 in Apache Pulsar's words for the policy that would be changed."""
    missing = "Namespace policies does not exist" if changed in _OF_POLICIES else "Namespace does not exist"
    existing(core, call.namespace, missing)
    return Place(core, call.namespace)


def _topic(call: Call, core: Core, _changed: str = "") -> Place:
    """Returns the topic of a call; 412 for a partition (ADM-67)."""
    name = call.topic
    if name.partition >= 0:
        raise Refused(412, "Not allowed to set/get topic policy for a partition")
    check_namespace(core, name)
    if not is_known(core, name):
        raise Refused(404, f"Topic {name} not found")
    return Place(core, name.namespace_name, name, call.flag("isGlobal"))


if TYPE_CHECKING:
    Find = Callable[[Call, Core, str], Place]


# ---- retention and quota must fit (RET-3) -----------------------------------------------------------------------


def _check_retention(place: Place, retention: RetentionPolicy) -> None:
    quota = place.beside().get(BACKLOG_QUOTAS, {}).get(DESTINATION_STORAGE)
    if not check_quota_fits(retention, None if quota is None else BacklogQuota.from_json(quota, "")):
        raise InvalidPolicy(_RETENTION_TOO_SMALL.format(place.word))


def _check_quota(place: Place, quota: BacklogQuota) -> None:
    retention = place.beside().get(RETENTION)
    if not check_quota_fits(RetentionPolicy() if retention is None else RetentionPolicy.from_json(retention), quota):
        raise InvalidPolicy(_QUOTA_TOO_LARGE.format(place.word))


# ---- other rules ------------------------------------------------------------------------------------------------


def _check_message_size(place: Place, size_bytes: int) -> None:
    if size_bytes > place.core.config.max_message_size_bytes:
        level = BY_MEMBER[MAX_MESSAGE_SIZE].topic
        raise InvalidPolicy("" if level is None else level.refusal)


def _check_replication(place: Place, wanted: list[str]) -> None:
    """Checks clusters of a policy as `cluster_lists` does (ADM-51)."""
    allowed = policy_changes.of_namespace(place.core, place.namespace).get(ALLOWED_CLUSTERS, ())
    cluster_lists.check_replication(place.core, place.namespace, wanted, allowed, place.word)


def _check_allowed(place: Place, wanted: list[str]) -> None:
    replication = place.stored().get(REPLICATION_CLUSTERS, [place.core.config.cluster_name])
    cluster_lists.check_allowed(place.core, place.namespace, wanted, replication)


def _check_shadow_topics(place: Place, wanted: list[str]) -> None:
    for text in wanted:
        try:
            is_there = is_known(place.core, TopicName.parse(text))
        except InvalidTopicName:
            is_there = False
        if not is_there:
            raise InvalidPolicy(f"Shadow topic [{text}] not exists.")


_CHECKS: Final[Mapping[str, Callable[[Place, Any], None]]] = {
    RETENTION: lambda place, value: _check_retention(place, RetentionPolicy.from_json(value)),
    AUTO_TOPIC_CREATION: lambda place, value: check_partitions(place.core, AUTO_TOPIC_CREATION, value),
    MAX_MESSAGE_SIZE: _check_message_size,
    REPLICATION_CLUSTERS: _check_replication,
    ALLOWED_CLUSTERS: _check_allowed,
    SHADOW_TOPICS: _check_shadow_topics,
}
"""Checks of values, by member, against other members of the same object."""


# ---- policies with one value ------------------------------------------------------------------------------------


def _methods(policy: Policy, level: Level, store: Callable[[Any, Level], Any], find: Find) -> tuple[Handler, Handler]:
    """Makes the methods that answer and set a policy; one that is not set is 200 with an empty body (T-4)."""
    member = policy.member

    async def get(call: Call) -> Response:
        place = find(call, call.core, "")
        value = place.stored().get(member)
        if value is None and level.unset_is_default:
            value = policy.default(call.core.config)
        if (value is None or member in MERGED) and place.topic and level.applied and call.flag("applied"):
            value = policy.kind.show(getattr(call.core.policies_of(place.topic), policy.field))
        if value is None:
            value = level.unset
        if value is None and level.unset_status != 200:
            return Response(status_code=level.unset_status)
        return value_or_empty(value)

    def set_(core: Core, call: Call) -> None:
        text = call.query.get(level.parameter) if level.parameter else None
        body = call.json() if not level.parameter else None if text is None else whole_number_in_path(text)
        place = find(call, core, member)
        if body is None and level.null is not Null.IS_A_VALUE:
            if level.null is Null.REMOVES:
                place.set(member, None)
            return
        value = store(body, level)
        check = _CHECKS.get(member)
        if check is not None:
            check(place, value)
        place.set(member, value)

    return get, noting(policy, changes(set_, level.set_status))


def _removing(policy: Policy, find: Find) -> Handler:
    member = policy.member
    return changes(lambda core, call: find(call, core, member).set(member, None))


def noting(policy: Policy, change: Handler) -> Handler:
    """Adds the note that a policy has no effect (ADM-50) to the answer of a change of it: the header `Warning` (RFC
    7234)."""
    reason = policy.without_effect
    return noted(change, reason and f"{policy.member} is stored, and has no effect in this broker: {reason}")


# ---- policies with a value for each of several names ------------------------------------------------------------


def _quota_type(call: Call) -> str:
    kind = call.query.get("backlogQuotaType") or DESTINATION_STORAGE
    if kind not in QUOTA_TYPES:
        raise Refused(404, f"{kind!r} is no type of backlog quota: want one of {', '.join(QUOTA_TYPES)}")
    return kind


def _subscription(call: Call) -> str:
    return call.parts["subscription"]


def _store_quota(place: Place, kind: str, body: Any) -> Any:
    quota = BacklogQuota.from_json(body, place.namespace)
    if kind == DESTINATION_STORAGE:
        _check_quota(place, quota)
    return quota.to_json()


def _store_rate(_place: Place, _name: str, body: Any) -> Any:
    """Reads a rate. One without limit is stored like any other: the subscription has none then, whatever holds for all.
    (Apache Pulsar drops such a rate.)"""
    return {RATE_OF_ONE: DispatchRate.from_json(body).to_json()}


def _changes_by_name(
    policy: Policy, find: Find, name_of: Callable[[Call], str], store: Callable[[Place, str, Any], Any]
) -> tuple[Handler, Handler]:
    """Returns the handlers that set and remove the value of one name, and leave the others."""
    member, keeps = policy.member, policy.topic is not None and policy.topic.null is Null.KEEPS

    def set_(core: Core, call: Call) -> None:
        name, body = name_of(call), call.json()
        place = find(call, core, member)
        if body is None and keeps:
            return
        values = {**place.stored().get(member, {}), name: store(place, name, body)}
        if len(values) > MOST_NAMES:
            raise Refused(412, f"A topic has rates of its own for {MOST_NAMES} subscriptions at most")
        place.set(member, values)

    def delete(core: Core, call: Call) -> None:
        name, place = name_of(call), find(call, core, member)
        rest = {key: value for key, value in place.stored().get(member, {}).items() if key != name}
        place.set(member, rest or None)

    return changes(set_), changes(delete)


def _namespace_quotas(core: Core, call: Call) -> object:
    return _namespace(call, core).stored().get(BACKLOG_QUOTAS, {})


def _topic_quotas(core: Core, call: Call) -> object:
    place = _topic(call, core)
    if not call.flag("applied"):
        return place.stored().get(BACKLOG_QUOTAS, {})
    effective = core.policies_of(call.topic)
    return {DESTINATION_STORAGE: effective.size_quota.to_json(), MESSAGE_AGE: effective.age_quota.to_json()}


async def _get_subscription_rate(call: Call) -> Response:
    place, subscription = _topic(call, call.core), _subscription(call)
    stored = place.stored().get(SUBSCRIPTION_POLICIES, {}).get(subscription, {}).get(RATE_OF_ONE)
    if stored is None and call.flag("applied"):
        effective = call.core.policies_of(call.topic)
        rate = effective.dispatch_rates_by_name.get(subscription, effective.subscription_dispatch_rate)
        stored = rate.to_json()
    return value_or_empty(stored)


def _delete_policies(core: Core, call: Call) -> None:
    """Removes all policies of a topic, which need not exist."""
    check_namespace(core, call.topic)
    policy_changes.remove_topic(core, call.topic.base)


# ---- paths ------------------------------------------------------------------------------------------------------


def _namespace_rule(policy: Policy, operation: str) -> Rule:
    if policy.member == BOOKIE_AFFINITY or (policy.member == DELAYED_DELIVERY and operation == "WRITE"):
        return access.super_user
    return access.namespace_policy(policy.policy_name, operation)


def _topic_rule(policy: Policy, operation: str) -> Rule:
    return (
        access.administrator
        if policy.member == MAX_MESSAGE_SIZE
        else access.topic_policy(policy.policy_name, operation)
    )


def _policy_routes(policy: Policy, level: Level, base: str, find: Find, rule: Callable[[Policy, str], Rule]) -> Routes:
    if policy.kind.store is None:
        return ()
    get, set_ = _methods(policy, level, policy.kind.store, find)
    path, read, write = f" /{level.path}", rule(policy, "READ"), rule(policy, "WRITE")
    removal = (f"DELETE /{level.removal or level.path}", write, _removing(policy, find))
    rows = ((f"GET{path}", read, get), (f"{level.method}{path}", write, set_))
    if level.removal:
        return routes(base, removal, *rows)
    return routes(base, *rows, removal) if level.can_delete else routes(base, *rows)


def _quota_routes(base: str, find: Find, rule: Callable[[Policy, str], Rule], read: Handler) -> Routes:
    quotas = BY_MEMBER[BACKLOG_QUOTAS]
    set_, delete = _changes_by_name(quotas, find, _quota_type, _store_quota)
    write = rule(quotas, "WRITE")
    return routes(
        base,
        ("GET /backlogQuotaMap", rule(quotas, "READ"), read),
        ("POST /backlogQuota", write, set_),
        ("DELETE /backlogQuota", write, delete),
    )


def _routes() -> Routes:
    policy_rows: list[Route] = []
    for policy in POLICIES:
        if policy.namespace is not None:
            policy_rows += _policy_routes(policy, policy.namespace, NAMESPACE_PATH, _namespace, _namespace_rule)
        if policy.topic is not None:
            policy_rows += _policy_routes(policy, policy.topic, TOPIC_PATH, _topic, _topic_rule)
    rates = BY_MEMBER[SUBSCRIPTION_POLICIES]
    set_rate, delete_rate = _changes_by_name(rates, _topic, _subscription, _store_rate)
    return (
        *policy_rows,
        *routes(
            TOPIC_PATH, ("DELETE /policies", access.topic_policy("MAX_PRODUCERS", "WRITE"), changes(_delete_policies))
        ),
        *_quota_routes(NAMESPACE_PATH, _namespace, _namespace_rule, reads(_namespace_quotas)),
        *_quota_routes(TOPIC_PATH, _topic, _topic_rule, reads(_topic_quotas)),
        *routes(
            f"{TOPIC_PATH}/{{subscription}}/dispatchRate",
            ("GET", _topic_rule(rates, "READ"), _get_subscription_rate),
            ("POST", _topic_rule(rates, "WRITE"), set_rate),
            ("DELETE", _topic_rule(rates, "WRITE"), delete_rate),
        ),
    )


ROUTES: Final[Routes] = _routes()
