"""Resource quotas of bundles over REST: stored and answered (ADM-6).

The load balancer of Apache Pulsar plans with them; there is one broker here.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import ADMIN_PATH, changes, noted, reads, routes
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.namespaces.namespace_lifecycle import bundle_edges
from spark_pulsar.ledger.state.documents import RESOURCE_QUOTAS, DocumentDeleted, DocumentSet
from spark_pulsar.model.policies.resource_groups import DEFAULT_QUOTA, resource_quota

if TYPE_CHECKING:
    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.broker.entities.core import Core

_OF_ALL: Final = "default"
_NOTE: Final = "a resource quota is stored and has no effect: load is not balanced between brokers, there is one"


def _name(core: Core, call: Call) -> str:
    """Returns the name under which the quota of a call is stored."""
    bundle = call.parts.get("bundle")
    if bundle is None:
        return _OF_ALL
    edges = bundle_edges(core, call.namespace)
    if re.fullmatch("0x[0-9a-f]{8}_0x[0-9a-f]{8}", bundle) is None:
        raise Refused(412, f"Invalid bundle range: {bundle}")
    low, _, high = bundle.partition("_")
    if low not in edges[:-1]:
        raise Refused(412, f"Cannot find bundle {call.namespace}/{bundle} in the bundles list")
    wanted = edges[edges.index(low) + 1]
    if high != wanted:
        raise Refused(
            412,
            f"Invalid upper boundary for bundle {call.namespace}/{bundle}. Expected upper boundary of "
            f"{call.namespace}/{low}_{wanted}",
        )
    return f"{call.namespace}/{bundle}"


def _get(core: Core, call: Call) -> object:
    quotas = core.state.documents[RESOURCE_QUOTAS]
    text = quotas.get(_name(core, call)) or quotas.get(_OF_ALL)
    return DEFAULT_QUOTA if text is None else json.loads(text)


def _set(core: Core, call: Call) -> None:
    name, body = _name(core, call), call.json()
    if body is None and call.body.strip() != b"{}":
        raise Refused(400, f"resource quota: want an object with {', '.join(DEFAULT_QUOTA)}")
    quota = resource_quota({} if body is None else body)
    core.append(DocumentSet(RESOURCE_QUOTAS, name, json.dumps(quota)))


def _delete(core: Core, call: Call) -> None:
    name = _name(core, call)
    if name in core.state.documents[RESOURCE_QUOTAS]:
        core.append(DocumentDeleted(RESOURCE_QUOTAS, name))


_set_noted: Final = noted(changes(_set), _NOTE)
ROUTES: Final[Routes] = routes(
    ADMIN_PATH,
    ("GET /resource-quotas", access.super_user, reads(_get)),
    ("POST /resource-quotas", access.super_user, _set_noted),
    ("GET /resource-quotas/{tenant}/{namespace}/{bundle}", access.super_user, reads(_get)),
    ("POST /resource-quotas/{tenant}/{namespace}/{bundle}", access.super_user, _set_noted),
    ("DELETE /resource-quotas/{tenant}/{namespace}/{bundle}", access.super_user, changes(_delete)),
)
