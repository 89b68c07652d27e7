"""Rules for roles at the admin API: the operation that a route requires, and Apache Pulsar's words of refusal (AU-6,
AU-7, AU-8, SEC-60).

A rule is a column of the tables of routes. It is checked before the resource is looked up, and before the body is read
unless the body alone names the resource: a role without rights learns nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.security import authorization
from spark_pulsar.broker.topics.auto_creation import TRANSACTION_COORDINATORS
from spark_pulsar.ledger.state.documents import TENANTS
from spark_pulsar.model.errors import AuthorizationError
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import TransactionId

from .calls import whole_number_in_path
from .path_names import topic_name
from .refusals import Refused

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core

    from .calls import Call, Rule


def anyone(_core: Core, _call: Call) -> None:
    """Lets every role in."""


def _rule(allows: Callable[[Core, Call], bool], status: int, words: Callable[[Call], str]) -> Rule:
    """Makes the rule that refuses, in these words, a call that is not allowed."""

    def check(core: Core, call: Call) -> None:
        if not allows(core, call):
            raise Refused(status, words(call))

    return check


def _who(call: Call) -> str:
    principal = call.principal
    return f"for originalPrincipal [{principal.original or 'null'}] and clientAppId [{principal.role}]"


# ---- super users and administrators -----------------------------------------------------------------------------


def _is_super_user(core: Core, call: Call) -> bool:
    return authorization.is_super_user(core, call.principal)


def _is_administrator(core: Core, call: Call, tenant: str | None = None) -> bool:
    """Returns whether the role administrates a tenant, that of the path unless another is given. Raises Refused: 404,
    to all but super users, when there is no such tenant."""
    tenant = call.parts["tenant"] if tenant is None else tenant
    if authorization.is_administrator(core, call.principal, tenant):
        return True
    if tenant not in core.state.documents[TENANTS]:
        raise Refused(404, "Tenant does not exist")
    return False


super_user: Final = _rule(_is_super_user, 401, lambda _: "This operation requires super-user access")


def broker(operation: str) -> Rule:
    """Makes the rule of an operation on the broker."""
    start = "Unauthorized to validateBothSuperuserAndBrokerOperation"
    end = f"about operation [{operation}] on broker"
    return _rule(_is_super_user, 401, lambda call: f"{start} {_who(call)} {end} [{call.broker_id}]")


def cluster(operation: str, form: str = "ClusterOperation") -> Rule:
    """Makes the rule of an operation on a cluster, in Apache Pulsar's name for this form of rules."""
    start, end = f"Unauthorized to validateBothSuperuserAnd{form}", f"about operation [{operation}] on cluster"
    return _rule(_is_super_user, 401, lambda call: f"{start} {_who(call)} {end} [{call.parts['cluster']}]")


cluster_policy: Final = partial(cluster, form="ClusterPolicyOperation")
_OF_TENANTS: Final = "Unauthorized to validateBothTenantOperationAndSuperUser"
all_tenants: Final = _rule(
    _is_super_user, 401, lambda call: f"{_OF_TENANTS} {_who(call)} about operation [LIST_TENANTS] "
)


def tenant(operation: str) -> Rule:
    """Makes the rule of an operation on a tenant, which need not exist."""
    return _rule(
        lambda core, call: authorization.is_administrator(core, call.principal, call.parts["tenant"]),
        401,
        lambda call: f"{_OF_TENANTS} {_who(call)} about operation [{operation}] ",
    )


def administrator(core: Core, call: Call, tenant: str | None = None) -> None:
    """Refuses those who do not administrate a tenant, that of the path unless another is given."""
    if not _is_administrator(core, call, tenant):
        raise Refused(401, "Don't have permission to administrate resources on this tenant")


def administrator_in_query(parameter: str) -> Rule:
    """Makes the rule of administrators of the tenant that a query parameter names."""
    return lambda core, call: administrator(core, call, call.query.get(parameter) or "")


def in_tenant(operation: str) -> Rule:
    """Makes the rule of an operation on the namespaces of a tenant."""
    start, end = "Unauthorized to validateTenantOperation", f"about operation [{operation}] on tenant"
    return _rule(_is_administrator, 401, lambda call: f"{start} {_who(call)} {end} [{call.parts['tenant']}]")


# ---- namespaces and topics --------------------------------------------------------------------------------------


def namespace(operation: str) -> Rule:
    """Makes the rule of an operation on a namespace."""
    words = f"Unauthorized to validateNamespaceOperation for operation [{operation}] on namespace"

    def allows(core: Core, call: Call) -> bool:
        return _is_administrator(core, call) or authorization.may_use_namespace(
            core, call.principal, operation, call.namespace
        )

    return _rule(allows, 403, lambda call: f"{words} [{call.namespace}]")


def namespace_policy(policy: str, operation: str) -> Rule:
    """Makes the rule of reading or writing (READ, WRITE) a policy of a namespace."""
    words = f"Unauthorized to validateNamespacePolicyOperation for operation [{operation}] on namespace"
    return _rule(_is_administrator, 403, lambda call: f"{words} [{call.namespace}] on policy [{policy}]")


def topic_policy(policy: str, operation: str) -> Rule:
    """Makes the rule of reading or writing (READ, WRITE) a policy of a topic."""
    words = f"Unauthorized to validateTopicPolicyOperation for operation [{operation}] on topic"
    return _rule(_is_administrator, 403, lambda call: f"{words} [{call.topic}] on policy [{policy}]")


def topic(operation: str) -> Rule:
    """Makes the rule of an operation on a topic, or on the subscription of it that the path names."""

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


# ---- transactions, and several rules ----------------------------------------------------------------------------

_COORDINATORS: Final = TopicName.parse(TRANSACTION_COORDINATORS)


def coordinators(core: Core, call: Call) -> None:
    """Refuses all coordinators together to roles that may not look up their topic."""
    if not authorization.is_administrator(core, call.principal, _COORDINATORS.tenant):
        _check_topic(core, call, "LOOKUP", _COORDINATORS)


def owner(core: Core, call: Call) -> None:
    """Refuses an open transaction of another role; every role sees ended ones."""
    most, least = (whole_number_in_path(call.parts[name]) for name in ("most", "least"))
    transaction = core.state.transactions.get(TransactionId(most, least))
    if transaction is not None and transaction.owner != (call.principal.client_role or ""):
        super_user(core, call)


def both(*rules: Rule) -> Rule:
    """Makes the rule that refuses what one of several refuses."""

    def check(core: Core, call: Call) -> None:
        for rule in rules:
            rule(core, call)

    return check
