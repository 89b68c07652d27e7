"""Clusters and tenants over REST (admin-rest.md 1.1, 1.2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse, Response

from spark_pulsar.ledger.records.documents import CLUSTERS, TENANTS, DocumentDeleted, DocumentSet
from spark_pulsar.model.errors import InvalidTopicName
from spark_pulsar.model.names import check_entity

from .answers import Refused

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core

    from .calls import Call, Routes

_ADDRESSES: Final = ("serviceUrl", "serviceUrlTls", "brokerServiceUrl", "brokerServiceUrlTls", "proxyServiceUrl")
_ALWAYS: Final = ("brokerClientTlsEnabled", "tlsAllowInsecureConnection", "brokerClientTlsEnabledWithKeyStore")
_OWN_ADDRESSES_UNKNOWN: Final = "{}"


def _checked_name(name: str, what: str) -> str:
    try:
        check_entity(name)
    except InvalidTopicName as error:
        raise Refused(412, f"{what} name is not valid") from error
    return name


# ---- clusters ---------------------------------------------------------------------------------------------------


def _cluster_data(body: object) -> dict[str, Any]:
    if not isinstance(body, Mapping):
        raise Refused(400, "cluster data is required")
    data = {key: value for key, value in body.items() if value not in (None, [], "")}
    for key in _ADDRESSES:
        url = data.get(key, "")
        scheme, separator, rest = str(url).partition("://")
        wanted = ("http", "https") if key.startswith("serviceUrl") else ("pulsar", "pulsar+ssl")
        if url and (not separator or not rest or scheme not in wanted):
            raise Refused(400, "Illegal service url, example: http://pulsar.example.com:8080")
    return data


async def _list_clusters(call: Call) -> Response:
    return JSONResponse(sorted(call.core.state.documents[CLUSTERS]))


async def _get_cluster(call: Call) -> Response:
    text = call.core.state.documents[CLUSTERS].get(call.parts["cluster"])
    if text is None:
        raise Refused(404, "Cluster does not exist")
    data = json.loads(text)
    if text == _OWN_ADDRESSES_UNKNOWN:
        data = {"serviceUrl": call.admin_url, "brokerServiceUrl": call.service_url}
    return JSONResponse({**dict.fromkeys(_ALWAYS, False), **data})


async def _create_cluster(call: Call) -> Response:
    name, body = call.parts["cluster"], call.json()

    def create(core: Core) -> None:
        _checked_name(name, "Cluster")
        data = _cluster_data(body)
        if name in core.state.documents[CLUSTERS]:
            raise Refused(409, "Cluster already exists")
        core.append(DocumentSet(CLUSTERS, name, json.dumps(data)))

    await call.gate.ask(create)
    return Response(status_code=200)


async def _update_cluster(call: Call) -> Response:
    name, body = call.parts["cluster"], call.json()

    def update(core: Core) -> None:
        data = _cluster_data(body)
        if name not in core.state.documents[CLUSTERS]:
            raise Refused(404, "Cluster does not exist")
        core.append(DocumentSet(CLUSTERS, name, json.dumps(data)))

    await call.gate.ask(update)
    return Response(status_code=200)


async def _delete_cluster(call: Call) -> Response:
    name = call.parts["cluster"]

    def delete(core: Core) -> None:
        if name not in core.state.documents[CLUSTERS]:
            raise Refused(404, "Cluster does not exist")
        if name == core.config.cluster_name:
            raise Refused(412, f"Cluster {name} is the one that this broker serves")
        core.append(DocumentDeleted(CLUSTERS, name))

    return await call.change(delete)


# ---- tenants ----------------------------------------------------------------------------------------------------


def _tenant_info(core: Core, body: object) -> dict[str, list[str]]:
    if not isinstance(body, Mapping):
        raise Refused(412, "TenantInfo is null")
    clusters = body.get("allowedClusters")
    if clusters is None:
        raise Refused(412, "Clusters cannot be null")
    names = [str(name) for name in clusters] if isinstance(clusters, list) else [str(clusters)]
    if not names or not all(name.strip() for name in names):
        raise Refused(412, "Clusters cannot be empty or blank")
    if not set(names) <= set(core.state.documents[CLUSTERS]):
        raise Refused(412, "Clusters do not exist")
    roles = body.get("adminRoles")
    info = {} if roles is None else {"adminRoles": [str(role) for role in roles]}
    return {**info, "allowedClusters": names}


def namespaces_of(core: Core, tenant: str) -> list[str]:
    """Returns the namespaces of a tenant, sorted."""
    return sorted(name for name in core.state.namespaces if name.startswith(f"{tenant}/"))


async def _list_tenants(call: Call) -> Response:
    return JSONResponse(sorted(call.core.state.documents[TENANTS]))


async def _get_tenant(call: Call) -> Response:
    text = call.core.state.documents[TENANTS].get(call.parts["tenant"])
    if text is None:
        raise Refused(404, "Tenant does not exist")
    return JSONResponse(json.loads(text))


async def _create_tenant(call: Call) -> Response:
    name, body = call.parts["tenant"], call.json()

    def create(core: Core) -> None:
        _checked_name(name, "Tenant")
        info = _tenant_info(core, body)
        if name in core.state.documents[TENANTS]:
            raise Refused(409, "Tenant already exist")
        core.append(DocumentSet(TENANTS, name, json.dumps(info)))

    return await call.change(create)


async def _update_tenant(call: Call) -> Response:
    name, body = call.parts["tenant"], call.json()

    def update(core: Core) -> None:
        info = _tenant_info(core, body)
        if name not in core.state.documents[TENANTS]:
            raise Refused(404, f"Tenant {name} not found")
        own = core.config.cluster_name
        if own not in info["allowedClusters"] and namespaces_of(core, name):
            raise Refused(409, f"Cluster {own} cannot be taken away: the tenant has namespaces on it")
        core.append(DocumentSet(TENANTS, name, json.dumps(info)))

    return await call.change(update)


async def _delete_tenant(call: Call) -> Response:
    name, force = call.parts["tenant"], call.flag("force")

    def delete(core: Core) -> None:
        if force:
            raise Refused(405, "Broker doesn't allow forced deletion of tenants")
        if name not in core.state.documents[TENANTS]:
            raise Refused(404, "Tenant doesn't exist")
        if namespaces_of(core, name):
            raise Refused(409, "The tenant still has active namespaces")
        core.append(DocumentDeleted(TENANTS, name))

    return await call.change(delete)


ROUTES: Final[Routes] = (
    ("admin/v2/clusters", {"GET": _list_clusters}),
    (
        "admin/v2/clusters/{cluster}",
        {"GET": _get_cluster, "PUT": _create_cluster, "POST": _update_cluster, "DELETE": _delete_cluster},
    ),
    ("admin/v2/tenants", {"GET": _list_tenants}),
    (
        "admin/v2/tenants/{tenant}",
        {"GET": _get_tenant, "PUT": _create_tenant, "POST": _update_tenant, "DELETE": _delete_tenant},
    ),
)
