"""Rules for roles at the admin API: the operation that each path and method requires, and Apache Pulsar's words of
refusal (AU-7, AU-8, SEC-60).

`RULES` has a rule for every route, by path and method; a route without one makes the import of `app` fail. All rules
are asked before the resource is looked for, and before the body is read unless the body alone names it: a role without
rights learns nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.security import authorization
from spark_pulsar.broker.topics.auto_creation import TRANSACTION_COORDINATORS
from spark_pulsar.ledger.records.documents import TENANTS
from spark_pulsar.model.errors import AuthorizationError
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.policies.policies_without_effect import (
    ALLOWED_CLUSTERS,
    BOOKIE_AFFINITY,
    ENTRY_FILTERS,
    OFFLOAD_POLICIES,
    PAUSE_ON_ACK_STATE,
    REPLICATION_CLUSTERS,
    REPLICATOR_DISPATCH_RATE,
    SHADOW_TOPICS,
)
from spark_pulsar.model.policies.policy_table import (
    ALLOW_SCHEMA_UPDATES,
    AUTO_SUBSCRIPTION_CREATION,
    AUTO_TOPIC_CREATION,
    BACKLOG_QUOTAS,
    COMPACTION_THRESHOLD,
    DEDUPLICATION,
    DEDUPLICATION_SNAPSHOT_INTERVAL,
    DELAYED_DELIVERY,
    DISPATCH_RATE,
    ENCRYPTION_REQUIRED,
    ENFORCE_SCHEMAS,
    INACTIVE_TOPIC,
    MAX_CONSUMERS,
    MAX_CONSUMERS_PER_SUBSCRIPTION,
    MAX_MESSAGE_SIZE,
    MAX_PRODUCERS,
    MAX_SUBSCRIPTIONS,
    MAX_TOPICS,
    MAX_UNACKED_PER_CONSUMER,
    MAX_UNACKED_PER_SUBSCRIPTION,
    MESSAGE_TTL,
    PERSISTENCE,
    POLICIES,
    PUBLISH_RATE,
    RETENTION,
    SCHEMA_AUTO_UPDATE,
    SCHEMA_COMPATIBILITY,
    SUBSCRIBE_RATE,
    SUBSCRIPTION_DISPATCH_RATE,
    SUBSCRIPTION_EXPIRATION,
    SUBSCRIPTION_POLICIES,
    SUBSCRIPTION_TYPES,
)
from spark_pulsar.model.positions.ids import TransactionId

from .http.calls import NAMESPACE_PATH, TOPIC_PATH, TRANSACTIONS_PATH, whole_number_in_path
from .http.path_names import OLD_PATHS, topic_name
from .http.refusals import Refused
from .namespaces import topic_grants

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core

    from .http.calls import Call, Routes

Rule = Callable[["Core", "Call"], None]
"""Refuses a call that its role may not make."""
Rules = Mapping[tuple[str, str], Rule]
"""Rules by path and method."""

_POLICY_NAMES: Final[Mapping[str, str]] = {
    RETENTION: "RETENTION",
    MESSAGE_TTL: "TTL",
    BACKLOG_QUOTAS: "BACKLOG",
    PERSISTENCE: "PERSISTENCE",
    **dict.fromkeys(
        (PUBLISH_RATE, DISPATCH_RATE, SUBSCRIPTION_DISPATCH_RATE, SUBSCRIPTION_POLICIES, SUBSCRIBE_RATE), "RATE"
    ),
    DEDUPLICATION: "DEDUPLICATION",
    DEDUPLICATION_SNAPSHOT_INTERVAL: "DEDUPLICATION_SNAPSHOT",
    COMPACTION_THRESHOLD: "COMPACTION",
    SUBSCRIPTION_EXPIRATION: "SUBSCRIPTION_EXPIRATION_TIME",
    INACTIVE_TOPIC: "INACTIVE_TOPIC",
    DELAYED_DELIVERY: "DELAYED_DELIVERY",
    MAX_PRODUCERS: "MAX_PRODUCERS",
    **dict.fromkeys((MAX_CONSUMERS, MAX_CONSUMERS_PER_SUBSCRIPTION), "MAX_CONSUMERS"),
    MAX_SUBSCRIPTIONS: "MAX_SUBSCRIPTIONS",
    **dict.fromkeys((MAX_UNACKED_PER_CONSUMER, MAX_UNACKED_PER_SUBSCRIPTION), "MAX_UNACKED"),
    SUBSCRIPTION_TYPES: "SUBSCRIPTION_AUTH_MODE",
    MAX_TOPICS: "MAX_TOPICS",
    AUTO_TOPIC_CREATION: "AUTO_TOPIC_CREATION",
    AUTO_SUBSCRIPTION_CREATION: "AUTO_SUBSCRIPTION_CREATION",
    **dict.fromkeys(
        (SCHEMA_COMPATIBILITY, SCHEMA_AUTO_UPDATE, ALLOW_SCHEMA_UPDATES, ENFORCE_SCHEMAS),
        "SCHEMA_COMPATIBILITY_STRATEGY",
    ),
    ENCRYPTION_REQUIRED: "ENCRYPTION",
    MAX_MESSAGE_SIZE: "MAX_MESSAGE_SIZE",
    REPLICATION_CLUSTERS: "REPLICATION",
    ALLOWED_CLUSTERS: "ALLOW_CLUSTERS",
    REPLICATOR_DISPATCH_RATE: "REPLICATION_RATE",
    SHADOW_TOPICS: "SHADOW_TOPIC",
    OFFLOAD_POLICIES: "OFFLOAD",
    ENTRY_FILTERS: "ENTRY_FILTERS",
    PAUSE_ON_ACK_STATE: "DISPATCHER_PAUSE_ON_ACK_STATE_PERSISTENT",
    BOOKIE_AFFINITY: "PERSISTENCE",
}
"""Apache Pulsar's names of policies in refusals, by member."""


# ---- forms of rules ---------------------------------------------------------------------------------------------


def _open(_core: Core, _call: Call) -> None:
    """Refuses nobody."""


def _who(call: Call) -> str:
    principal = call.principal
    return f"for originalPrincipal [{principal.original or 'null'}] and clientAppId [{principal.role}]"


def _super_user(core: Core, call: Call) -> None:
    if not authorization.is_super_user(core, call.principal):
        raise Refused(401, "This operation requires super-user access")


def _broker(operation: str) -> Rule:
    def check(core: Core, call: Call) -> None:
        if not authorization.is_super_user(core, call.principal):
            broker = call.admin_url.partition("://")[2]
            raise Refused(
                401,
                f"Unauthorized to validateBothSuperuserAndBrokerOperation {_who(call)} about operation [{operation}] "
                f"on broker [{broker}]",
            )

    return check


def _cluster(operation: str, form: str = "ClusterOperation") -> Rule:
    def check(core: Core, call: Call) -> None:
        if not authorization.is_super_user(core, call.principal):
            raise Refused(
                401,
                f"Unauthorized to validateBothSuperuserAnd{form} {_who(call)} about operation [{operation}] on cluster "
                f"[{call.parts['cluster']}]",
            )

    return check


def _all_tenants(core: Core, call: Call) -> None:
    if not authorization.is_super_user(core, call.principal):
        raise Refused(401, f"{_OF_TENANTS} {_who(call)} about operation [LIST_TENANTS] ")


_OF_TENANTS: Final = "Unauthorized to validateBothTenantOperationAndSuperUser"


def _tenant(operation: str) -> Rule:
    def check(core: Core, call: Call) -> None:
        if not authorization.is_administrator(core, call.principal, call.parts["tenant"]):
            raise Refused(401, f"{_OF_TENANTS} {_who(call)} about operation [{operation}] ")

    return check


def _is_administrator(core: Core, call: Call, tenant: str | None = None) -> bool:
    """Returns whether the role administrates a tenant, that of the path unless another is given. Raises Refused: 404,
    to all but super users, when there is no such tenant."""
    tenant = call.parts["tenant"] if tenant is None else tenant
    if authorization.is_administrator(core, call.principal, tenant):
        return True
    if tenant not in core.state.documents[TENANTS]:
        raise Refused(404, "Tenant does not exist")
    return False


def _administrator(core: Core, call: Call, tenant: str | None = None) -> None:
    if not _is_administrator(core, call, tenant):
        raise Refused(401, "Don't have permission to administrate resources on this tenant")


def _administrator_in_query(parameter: str) -> Rule:
    return lambda core, call: _administrator(core, call, call.query.get(parameter) or "")


def _administrator_of_topics(core: Core, call: Call) -> None:
    _administrator(core, call, topic_grants.topics_asked(call)[0][0].tenant)


def _in_tenant(operation: str) -> Rule:
    def check(core: Core, call: Call) -> None:
        if not _is_administrator(core, call):
            raise Refused(
                401,
                f"Unauthorized to validateTenantOperation {_who(call)} about operation [{operation}] on tenant "
                f"[{call.parts['tenant']}]",
            )

    return check


def _namespace(operation: str) -> Rule:
    def check(core: Core, call: Call) -> None:
        if not _is_administrator(core, call) and not authorization.may_use_namespace(
            core, call.principal, operation, call.namespace
        ):
            raise Refused(
                403,
                f"Unauthorized to validateNamespaceOperation for operation [{operation}] on namespace "
                f"[{call.namespace}]",
            )

    return check


def _policy_operation(level: str, policy: str, operation: str) -> Rule:
    """`level`: "namespace" or "topic", whose policy it is."""

    def check(core: Core, call: Call) -> None:
        if not _is_administrator(core, call):
            resource = call.namespace if level == "namespace" else call.topic
            raise Refused(
                403,
                f"Unauthorized to validate{level.title()}PolicyOperation for operation [{operation}] on {level} "
                f"[{resource}] on policy [{policy}]",
            )

    return check


_namespace_policy: Final = partial(_policy_operation, "namespace")
_topic_policy: Final = partial(_policy_operation, "topic")


def _topic(operation: str) -> Rule:
    def check(core: Core, call: Call) -> None:
        parts = call.parts
        domain = parts.get("domain", "persistent")
        name = topic_name(domain, parts["tenant"], parts["namespace"], parts["topic"])
        if not _is_administrator(core, call):
            _check_topic(core, call, operation, name)

    return check


def _check_topic(core: Core, call: Call, operation: str, name: TopicName) -> None:
    try:
        is_allowed = authorization.may_use_topic(core, call.principal, operation, name, call.parts.get("subscription"))
    except AuthorizationError as error:  # the subscription's name
        raise Refused(401, error.message) from error
    if not is_allowed:
        raise Refused(401, f"Unauthorized to validateTopicOperation for operation [{operation}] on topic [{name}]")


def _coordinators(core: Core, call: Call) -> None:
    """Refuses all coordinators together to those who may not look their topic up."""
    if not authorization.is_administrator(core, call.principal, _COORDINATORS.tenant):
        _check_topic(core, call, "LOOKUP", _COORDINATORS)


_COORDINATORS: Final = TopicName.parse(TRANSACTION_COORDINATORS)


def _owner(core: Core, call: Call) -> None:
    """Refuses an open transaction of another role; what has ended is the same to all."""
    most, least = (whole_number_in_path(call.parts[name]) for name in ("most", "least"))
    found = core.state.transactions.get(TransactionId(most, least))
    if found is not None and found.owner != (call.principal.client_role or ""):
        _super_user(core, call)


def _both(*rules: Rule) -> Rule:
    def check(core: Core, call: Call) -> None:
        for rule in rules:
            rule(core, call)

    return check


# ---- the table --------------------------------------------------------------------------------------------------


def _policy_rules() -> Iterator[tuple[tuple[str, str], Rule]]:
    for policy in POLICIES:
        name = _POLICY_NAMES[policy.member]
        for level, base, make in (
            (policy.namespace, NAMESPACE_PATH, _namespace_policy),
            (policy.topic, TOPIC_PATH, _topic_policy),
        ):
            if level is not None and policy.kind.store is not None:
                yield ("GET", f"{base}/{level.path}"), make(name, "READ")
                yield (level.method, f"{base}/{level.path}"), make(name, "WRITE")
                yield ("DELETE", f"{base}/{level.removal or level.path}"), make(name, "WRITE")
    for base, make in ((NAMESPACE_PATH, _namespace_policy), (TOPIC_PATH, _topic_policy)):
        yield ("GET", f"{base}/appliedPolicies"), make("ALL", "READ")
        yield ("GET", f"{base}/backlogQuotaMap"), make("BACKLOG", "READ")
        for method in ("POST", "DELETE"):
            yield (method, f"{base}/backlogQuota"), make("BACKLOG", "WRITE")
    for method in ("GET", "POST", "DELETE"):
        operation = "READ" if method == "GET" else "WRITE"
        yield (method, f"{TOPIC_PATH}/{{subscription}}/dispatchRate"), _topic_policy("RATE", operation)


def _of(path: str, **methods: Rule) -> Iterator[tuple[tuple[str, str], Rule]]:
    for method, rule in methods.items():
        yield (method, path), rule


_ADMIN: Final = "admin/v2"
_LOOKUP: Final = "lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}"
_SUBSCRIPTION: Final = f"{TOPIC_PATH}/subscription/{{subscription}}"
_SCHEMA: Final = f"{_ADMIN}/schemas/{{tenant}}/{{namespace}}/{{topic}}"


def _rules() -> Iterator[tuple[tuple[str, str], Rule]]:
    yield from _of("metrics", GET=_open)
    yield from _of("", GET=_open)  # the page, which holds no data
    yield from _of("page/{file}", GET=_open)
    for path, rule in (
        ("brokers/health", _broker("HEALTH_CHECK")),
        ("brokers/ready", _open),
        ("brokers/version", _open),
        ("brokers/backlog-quota-check", _broker("CHECK_BACKLOG_QUOTA")),
        ("brokers", _broker("LIST_BROKERS")),
        ("brokers/leaderBroker", _broker("GET_LEADER_BROKER")),
        ("brokers/configuration", _broker("LIST_DYNAMIC_CONFIGURATIONS")),
        ("brokers/configuration/values", _broker("LIST_DYNAMIC_CONFIGURATIONS")),
        ("brokers/configuration/runtime", _broker("LIST_RUNTIME_CONFIGURATIONS")),
        ("brokers/{cluster}", _broker("LIST_BROKERS")),
        ("broker-stats/topics", _super_user),
        ("broker-stats/disk", _super_user),
        ("broker-stats/load-report", _super_user),
        ("broker-stats/metrics", _super_user),
        ("brokers/internal-configuration", _broker("GET_INTERNAL_CONFIGURATION_DATA")),
        ("brokers/{cluster}/{broker}/ownedNamespaces", _broker("LIST_OWNED_NAMESPACES")),
        ("resourcegroups", _super_user),
        ("clusters", _open),
        ("tenants", _all_tenants),
    ):
        yield from _of(f"{_ADMIN}/{path}", GET=rule)
    yield from _of(f"{_ADMIN}/resourcegroups/{{group}}", GET=_super_user, PUT=_super_user, DELETE=_super_user)
    yield from _of(f"{_ADMIN}/resource-quotas", GET=_super_user, POST=_super_user)
    quota = f"{_ADMIN}/resource-quotas/{{tenant}}/{{namespace}}/{{bundle}}"
    yield from _of(quota, GET=_super_user, POST=_super_user, DELETE=_super_user)
    path = f"{_ADMIN}/brokers/configuration/{{name}}"
    yield from _of(path, DELETE=_broker("DELETE_DYNAMIC_CONFIGURATION"))
    yield from _of(f"{path}/{{value}}", POST=_broker("UPDATE_DYNAMIC_CONFIGURATION"))
    yield from _of(
        f"{_ADMIN}/clusters/{{cluster}}",
        GET=_cluster("GET_CLUSTER"),
        PUT=_cluster("CREATE_CLUSTER"),
        POST=_cluster("UPDATE_CLUSTER"),
        DELETE=_cluster("DELETE_CLUSTER"),
    )
    yield from _cluster_rules()
    yield from _of(
        f"{_ADMIN}/tenants/{{tenant}}",
        GET=_tenant("GET_TENANT"),
        PUT=_tenant("CREATE_TENANT"),
        POST=_tenant("UPDATE_TENANT"),
        DELETE=_tenant("DELETE_TENANT"),
    )


def _cluster_rules() -> Iterator[tuple[tuple[str, str], Rule]]:
    path, policies = f"{_ADMIN}/clusters/{{cluster}}", "ClusterPolicyOperation"
    yield from _of(f"{path}/peers", GET=_cluster("GET_PEER_CLUSTER"), POST=_cluster("UPDATE_PEER_CLUSTER"))
    yield from _of(f"{path}/migrate", GET=_cluster("READ", policies), POST=_cluster("WRITE", policies))
    yield from _of(f"{path}/failureDomains", GET=_cluster("GET_FAILURE_DOMAIN"))
    yield from _of(
        f"{path}/failureDomains/{{name}}",
        GET=_cluster("GET_FAILURE_DOMAIN"),
        POST=_cluster("UPDATE_FAILURE_DOMAIN"),
        DELETE=_cluster("DELETE_FAILURE_DOMAIN"),
    )
    for end in ("", "/brokers", "/brokers/{broker}", "/{name}"):
        write = _cluster("WRITE", policies)
        yield from _of(
            f"{path}/namespaceIsolationPolicies{end}", GET=_cluster("READ", policies), POST=write, DELETE=write
        )


def _namespace_rules() -> Iterator[tuple[tuple[str, str], Rule]]:
    path = NAMESPACE_PATH
    yield from _of(f"{_ADMIN}/namespaces/{{tenant}}", GET=_in_tenant("LIST_NAMESPACES"))
    yield from _of(
        path,
        GET=_namespace_policy("ALL", "READ"),
        PUT=_in_tenant("CREATE_NAMESPACE"),
        DELETE=_in_tenant("DELETE_NAMESPACE"),
    )
    yield from _of(f"{path}/topics", GET=_namespace("GET_TOPICS"))
    yield from _of(f"{path}/bundles", GET=_namespace("GET_BUNDLE"))
    for bundle in ("", "/{bundle}"):
        yield from _of(f"{path}{bundle}/unload", PUT=_super_user)
        yield from _of(f"{path}{bundle}/clearBacklog", POST=_namespace("CLEAR_BACKLOG"))
        yield from _of(f"{path}{bundle}/clearBacklog/{{subscription}}", POST=_namespace("CLEAR_BACKLOG"))
        yield from _of(f"{path}{bundle}/unsubscribe/{{subscription}}", POST=_namespace("UNSUBSCRIBE"))
    yield from _of(f"{path}/{{bundle}}/split", PUT=_super_user)
    yield from _of(f"{path}/{{bundle}}/topicHashPositions", GET=_namespace_policy("PERSISTENCE", "READ"))
    yield from _of(f"{path}/{{bundle}}", DELETE=_namespace("DELETE_BUNDLE"))
    yield from _of(f"{_ADMIN}/non-persistent/{{tenant}}/{{namespace}}/{{bundle}}", GET=_namespace("GET_BUNDLE"))
    yield from _of(f"{path}/properties", GET=_administrator, PUT=_administrator, DELETE=_administrator)
    yield from _of(f"{path}/property/{{key}}", GET=_administrator, DELETE=_administrator)
    yield from _of(f"{path}/property/{{key}}/{{value}}", PUT=_administrator)
    yield from _of(f"{path}/migration", POST=_super_user)
    yield from _of(f"{path}/persistence/bookieAffinity", GET=_super_user, POST=_super_user, DELETE=_super_user)
    read, write = _namespace_policy("ANTI_AFFINITY", "READ"), _namespace_policy("ANTI_AFFINITY", "WRITE")
    yield from _of(f"{path}/antiAffinity", GET=read, POST=write, DELETE=write)
    for version, parameter in (("admin", "property"), (_ADMIN, "tenant")):
        asked = _administrator_in_query(parameter)
        yield from _of(f"{version}/namespaces/{{cluster}}/antiAffinity/{{group}}", GET=asked)
    for end in ("offloadThreshold", "offloadThresholdInSeconds", "offloadDeletionLagMs"):
        read, write = _namespace_policy("OFFLOAD", "READ"), _namespace_policy("OFFLOAD", "WRITE")
        yield from _of(f"{path}/{end}", GET=read, PUT=write, DELETE=write)
    group = f"{path}/resourcegroup"
    yield from _of(
        group, GET=_namespace_policy("RESOURCEGROUP", "READ"), DELETE=_namespace_policy("RESOURCEGROUP", "WRITE")
    )
    yield from _of(f"{group}/{{group}}", POST=_namespace_policy("RESOURCEGROUP", "WRITE"))
    yield from _of(f"{path}/delayedDelivery", POST=_super_user, DELETE=_super_user)
    yield from _of(f"{path}/permissions", GET=_namespace("GET_PERMISSION"))
    yield from _of(f"{path}/permissions/subscription", GET=_namespace("GET_PERMISSION"))
    yield from _of(
        f"{path}/permissions/{{role}}", POST=_namespace("GRANT_PERMISSION"), DELETE=_namespace("REVOKE_PERMISSION")
    )
    yield from _of(f"{path}/permissions/subscription/{{subscription}}", POST=_namespace("GRANT_PERMISSION"))
    yield from _of(f"{path}/permissions/{{subscription}}/{{role}}", DELETE=_namespace("REVOKE_PERMISSION"))
    for grants in (topic_grants.GRANT_PATH, topic_grants.REVOKE_PATH):
        yield from _of(grants, POST=_open)  # RULES_OF_BODIES has their rule
    yield from _of(
        f"{path}/subscriptionAuthMode",
        GET=_namespace_policy("SUBSCRIPTION_AUTH_MODE", "READ"),
        POST=_namespace_policy("SUBSCRIPTION_AUTH_MODE", "WRITE"),
    )


def _topic_rules() -> Iterator[tuple[tuple[str, str], Rule]]:
    path = TOPIC_PATH
    yield from _of(_LOOKUP, GET=_topic("LOOKUP"))
    yield from _of(f"{_LOOKUP}/bundle", GET=_namespace("GET_BUNDLE"))
    for end in ("", "/partitioned"):
        yield from _of(f"{_ADMIN}/{{domain}}/{{tenant}}/{{namespace}}{end}", GET=_namespace("GET_TOPICS"))
    yield from _of(path, PUT=_namespace("CREATE_TOPIC"), DELETE=_namespace("DELETE_TOPIC"))
    yield from _of(
        f"{path}/partitions",
        GET=_topic("LOOKUP"),
        PUT=_topic_policy("PARTITION", "WRITE"),
        POST=_topic_policy("PARTITION", "WRITE"),
        DELETE=_namespace("DELETE_TOPIC"),
    )
    for end in ("stats", "partitioned-stats", "internalStats", "partitioned-internalStats", "internal-info"):
        yield from _of(f"{path}/{end}", GET=_topic("GET_STATS"))
    yield from _of(
        f"{path}/properties",
        GET=_topic("GET_METADATA"),
        PUT=_topic("UPDATE_METADATA"),
        DELETE=_topic("DELETE_METADATA"),
    )
    yield from _of(f"{path}/unload", PUT=_topic("UNLOAD"))
    yield from _of(f"{path}/terminate", POST=_topic("TERMINATE"))
    yield from _of(f"{path}/terminate/partitions", POST=_topic("TERMINATE"))
    yield from _of(f"{path}/truncate", DELETE=_both(_topic("LOOKUP"), _administrator))
    yield from _of(f"{path}/trim", POST=_topic("TRIM_TOPIC"))
    yield from _of(f"{path}/createMissedPartitions", POST=_both(_topic("LOOKUP"), _namespace("CREATE_TOPIC")))
    yield from _of(f"{path}/compaction", GET=_topic("COMPACT"), PUT=_topic("COMPACT"))
    yield from _of(f"{path}/offload", GET=_topic("OFFLOAD"), PUT=_topic("OFFLOAD"))
    yield from _of(f"{path}/policies", DELETE=_topic_policy("MAX_PRODUCERS", "WRITE"))
    yield from _of(f"{path}/maxMessageSize", GET=_administrator, POST=_administrator, DELETE=_administrator)
    yield from _of(f"{path}/permissions", GET=_administrator)
    yield from _of(f"{path}/permissions/{{role}}", POST=_administrator, DELETE=_administrator)
    for end in ("ledger/{ledger}/entry/{entry}", "examinemessage", "messageid/{time}", "lastMessageId"):
        yield from _of(f"{path}/{end}", GET=_topic("PEEK_MESSAGES"))
    yield from _of(f"{path}/backlogSize", PUT=_topic("GET_BACKLOG_SIZE"))
    yield from _of(f"{path}/backlog", GET=_topic("GET_BACKLOG_SIZE"))
    yield from _of(
        f"{_SCHEMA}/schema",
        GET=_topic("GET_METADATA"),
        POST=_topic("PRODUCE"),
        DELETE=_administrator,
    )
    yield from _of(f"{_SCHEMA}/schema/{{version}}", GET=_topic("GET_METADATA"))
    yield from _of(f"{_SCHEMA}/schemas", GET=_topic("GET_METADATA"))
    yield from _of(f"{_SCHEMA}/metadata", GET=_topic("GET_METADATA"))
    yield from _of(f"{_SCHEMA}/compatibility", POST=_administrator)
    yield from _of(f"{_SCHEMA}/version", POST=_topic("GET_METADATA"))


def _subscription_rules() -> Iterator[tuple[tuple[str, str], Rule]]:
    path = _SUBSCRIPTION
    yield from _of(f"{TOPIC_PATH}/subscriptions", GET=_topic("GET_SUBSCRIPTIONS"))
    yield from _of(path, PUT=_topic("SUBSCRIBE"), DELETE=_topic("UNSUBSCRIBE"))
    yield from _of(f"{path}/properties", GET=_topic("CONSUME"), PUT=_topic("SUBSCRIBE"))
    for end, operation in (
        ("skip_all", "SKIP"),
        ("skip/{count}", "SKIP"),
        ("resetcursor", "RESET_CURSOR"),
        ("resetcursor/{time}", "RESET_CURSOR"),
        ("expireMessages", "EXPIRE_MESSAGES"),
        ("expireMessages/{seconds}", "EXPIRE_MESSAGES"),
        ("analyzeBacklog", "CONSUME"),
    ):
        yield from _of(f"{path}/{end}", POST=_topic(operation))
    yield from _of(
        f"{path}/replicatedSubscriptionStatus",
        GET=_topic("GET_REPLICATED_SUBSCRIPTION_STATUS"),
        POST=_topic("SET_REPLICATED_SUBSCRIPTION_STATUS"),
    )
    yield from _of(f"{TOPIC_PATH}/all_subscription/expireMessages/{{seconds}}", POST=_topic("EXPIRE_MESSAGES"))
    yield from _of(f"{path}/position/{{number}}", GET=_topic("PEEK_MESSAGES"))


def _transaction_rules() -> Iterator[tuple[tuple[str, str], Rule]]:
    path, of_topic = TRANSACTIONS_PATH, _topic("GET_STATS")
    yield from _of(f"{path}/coordinators", GET=_open)
    for end in ("coordinatorStats", "slowTransactions/{timeout}"):
        yield from _of(f"{path}/{end}", GET=_coordinators)
    yield from _of(f"{path}/transactionMetadata/{{most}}/{{least}}", GET=_owner)
    yield from _of(f"{path}/abortTransaction/{{most}}/{{least}}", POST=_super_user)
    yield from _of(f"{path}/transactionCoordinator/replicas", POST=_super_user)
    topic = "{tenant}/{namespace}/{topic}"
    yield from _of(f"{path}/transactionBufferStats/{topic}", GET=of_topic)
    yield from _of(f"{path}/transactionInBufferStats/{topic}/{{most}}/{{least}}", GET=of_topic)
    yield from _of(f"{path}/pendingAckStats/{topic}/{{subscription}}", GET=of_topic)
    yield from _of(f"{path}/transactionInPendingAckStats/{topic}/{{subscription}}/{{most}}/{{least}}", GET=of_topic)
    yield from _of(f"{path}/positionStatsInPendingAck/{topic}/{{subscription}}/{{ledger}}/{{entry}}", GET=of_topic)


_OF_TODAY: Final[Rules] = dict(
    (
        *_policy_rules(),
        *_rules(),
        *_namespace_rules(),
        *_topic_rules(),
        *_subscription_rules(),
        *_transaction_rules(),
    )
)
"""The rule of each method and path. Of two rules the later one counts."""
RULES: Final[Rules] = {**_OF_TODAY, **{("GET", old): _OF_TODAY["GET", new] for old, new in OLD_PATHS.items()}}


RULES_OF_BODIES: Final[Rules] = {
    ("POST", path): _administrator_of_topics for path in (topic_grants.GRANT_PATH, topic_grants.REVOKE_PATH)
}
"""Rules that need the body, which alone names the resource."""


def check_complete(routes: Routes) -> None:
    """Raises LookupError for a route that has no rule."""
    missing = sorted(
        f"{method} /{path}" for path, methods in routes for method in methods if (method, path) not in RULES
    )
    if missing:
        raise LookupError(f"routes without a rule in admin/access.py: {', '.join(missing)}")


def check(call: Call, method: str, path: str) -> None:
    """Refuses a call of a route that the principal may not make: 401 or 403; 404 when the tenant does not exist."""
    if call.core.config.authorization_enabled:
        RULES[method, path](call.core, call)


def check_with_body(call: Call, method: str, path: str) -> None:
    """Refuses a call by the rule that needs the body, if there is one, as `check` does."""
    rule = RULES_OF_BODIES.get((method, path))
    if rule is not None and call.core.config.authorization_enabled:
        rule(call.core, call)
