"""Questions of tools about a cluster's brokers: this broker is the only one, and the leader.

A question about a feature that this broker has not is answered as by a broker without use of it; its use is 501.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import JSONResponse, Response

from spark_pulsar.broker.entities import registry
from spark_pulsar.ledger.records.documents import CLUSTERS

from .answers import Refused
from .namespaces import existing

if TYPE_CHECKING:
    from .calls import Call, Handler, Routes


def _broker_id(call: Call) -> str:
    return call.admin_url.removeprefix("http://")


async def _brokers(call: Call) -> Response:
    return JSONResponse([_broker_id(call)])


async def _leader(call: Call) -> Response:
    return JSONResponse({"serviceUrl": call.admin_url, "brokerId": _broker_id(call)})


async def _internal_configuration(_call: Call) -> Response:
    raise Refused(501, "This broker has no metadata store whose addresses it could tell")


def _always(value: object) -> Handler:
    async def answer(_call: Call) -> Response:
        return JSONResponse(value)

    return answer


async def _isolation(call: Call) -> Response:
    cluster = call.parts["cluster"]
    if cluster not in call.core.state.documents[CLUSTERS]:
        raise Refused(404, f"Cluster {cluster} does not exist.")
    raise Refused(404, f"NamespaceIsolationPolicies for cluster {cluster} does not exist")


async def _permissions(call: Call) -> Response:
    existing(call.core, call.namespace)
    return JSONResponse({})


async def _topic_permissions(call: Call) -> Response:
    core, name = call.core, call.topic
    if not registry.exists(core, name) and registry.partition_count(core, name) is None:
        raise Refused(404, f"Topic {name.full} not found")
    return JSONResponse({})


_CLUSTER: Final = "admin/v2/clusters/{cluster}"
_NAMESPACE: Final = "admin/v2/namespaces/{tenant}/{namespace}"

ROUTES: Final[Routes] = (
    ("admin/v2/brokers", {"GET": _brokers}),
    ("admin/v2/brokers/leaderBroker", {"GET": _leader}),
    ("admin/v2/brokers/configuration", {"GET": _always([])}),
    ("admin/v2/brokers/internal-configuration", {"GET": _internal_configuration}),
    ("admin/v2/brokers/configuration/values", {"GET": _always({})}),
    ("admin/v2/brokers/{cluster}", {"GET": _brokers}),
    ("admin/v2/resourcegroups", {"GET": _always([])}),
    (f"{_CLUSTER}/failureDomains", {"GET": _always({})}),
    (f"{_CLUSTER}/namespaceIsolationPolicies", {"GET": _isolation}),
    (f"{_NAMESPACE}/permissions", {"GET": _permissions}),
    (f"{_NAMESPACE}/permissions/subscription", {"GET": _permissions}),
    ("admin/v2/{domain}/{tenant}/{namespace}/{topic}/permissions", {"GET": _topic_permissions}),
)
"""Paths that stand behind those of other modules: their names under `brokers/` are no clusters."""
