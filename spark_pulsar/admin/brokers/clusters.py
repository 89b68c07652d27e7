"""Clusters and tenants over REST (ADM-63, ADM-56)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import ADMIN_PATH, changes, reads, routes, value_or_empty
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.namespaces import namespace_lifecycle
from spark_pulsar.admin.namespaces.namespace_lifecycle import namespaces_of
from spark_pulsar.broker.security import revocation
from spark_pulsar.ledger.state.documents import (
    CLUSTERS,
    FAILURE_DOMAINS,
    ISOLATION_POLICIES,
    TENANTS,
    DocumentDeleted,
    DocumentSet,
)
from spark_pulsar.model.errors import InvalidTopicName
from spark_pulsar.model.names import check_entity
from spark_pulsar.model.policies.policies_without_effect import names

if TYPE_CHECKING:
    from starlette.responses import Response

    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.admin.http.slices import Steps
    from spark_pulsar.broker.entities.core import Core

_ADDRESSES: Final = ("serviceUrl", "serviceUrlTls", "brokerServiceUrl", "brokerServiceUrlTls", "proxyServiceUrl")
_MAX_URL_LENGTH: Final = 4_096
_ALWAYS: Final = ("brokerClientTlsEnabled", "tlsAllowInsecureConnection", "brokerClientTlsEnabledWithKeyStore")
_OF_OWN_CLUSTER: Final = {
    "brokerClientTlsTrustStoreType": "JKS",
    "brokerClientTlsKeyStoreType": "JKS",
    "brokerClientSslFactoryPlugin": "org.apache.pulsar.common.util.DefaultPulsarSslFactory",
}
"""Members that a cluster has which its brokers have registered."""
_PEERS: Final = "peerClusterNames"
_MIGRATION: Final = ("migrated", "migratedClusterUrl")
"""Members of the document of a cluster that Apache Pulsar keeps beside those that it shows."""


def _check_name(name: str, what: str) -> None:
    try:
        check_entity(name)
    except InvalidTopicName as error:
        raise Refused(412, f"{what} name is not valid") from error


def _known(core: Core, kind: str, name: str, missing: str) -> str:
    """Returns the document of a cluster or tenant; 404 with this reason when there is none."""
    text = core.state.documents[kind].get(name)
    if text is None:
        raise Refused(404, missing)
    return text


# ---- clusters ---------------------------------------------------------------------------------------------------


def _cluster_data(body: object) -> dict[str, Any]:
    if not isinstance(body, Mapping):
        raise Refused(400, "cluster data is required")
    data = {key: value for key, value in body.items() if value not in (None, [], "") and key not in _MIGRATION}
    if _PEERS in data:
        data[_PEERS] = names(data[_PEERS], _PEERS)
    for key in _ADDRESSES:
        url = data.get(key, "")
        scheme, separator, rest = str(url).partition("://")
        wanted = ("http", "https") if key.startswith("serviceUrl") else ("pulsar", "pulsar+ssl")
        if url and (not separator or not rest or scheme not in wanted):
            raise Refused(400, "Illegal service url, example: http://pulsar.example.com:8080")
    return data


def _get_cluster(core: Core, call: Call) -> object:
    text = _known(core, CLUSTERS, call.parts["cluster"], "Cluster does not exist")
    data = {key: value for key, value in json.loads(text).items() if key not in _MIGRATION}
    if call.parts["cluster"] == core.config.cluster_name and data.keys() <= {_PEERS}:
        addresses = call.addresses
        urls = (addresses.http, addresses.http_tls, addresses.binary, addresses.binary_tls)
        data |= {key: url for key, url in zip(_ADDRESSES, urls, strict=False) if url is not None} | _OF_OWN_CLUSTER
    return {**dict.fromkeys(_ALWAYS, False), **data}


def _create_cluster(core: Core, call: Call) -> None:
    name, body = call.parts["cluster"], call.json()
    _check_name(name, "Cluster")
    data = _cluster_data(body)
    if name in core.state.documents[CLUSTERS]:
        raise Refused(409, "Cluster already exists")
    core.append(DocumentSet(CLUSTERS, name, json.dumps(data)))


def _update_cluster(core: Core, call: Call) -> None:
    data = _cluster_data(call.json())
    known = json.loads(_known(core, CLUSTERS, call.parts["cluster"], "Cluster does not exist"))
    data |= {member: known[member] for member in _MIGRATION if member in known}
    core.append(DocumentSet(CLUSTERS, call.parts["cluster"], json.dumps(data)))


def _delete_cluster(core: Core, call: Call) -> None:
    name = call.parts["cluster"]
    _known(core, CLUSTERS, name, "Cluster does not exist")
    if name == core.config.cluster_name:
        raise Refused(412, f"Cluster {name} is the one that this broker serves")
    core.append(DocumentDeleted(CLUSTERS, name))
    for kind in (FAILURE_DOMAINS, ISOLATION_POLICIES):
        if name in core.state.documents[kind]:
            core.append(DocumentDeleted(kind, name))


def _set_members(core: Core, name: str, wanted: Mapping[str, Any]) -> None:
    """Sets members of the document of a cluster; None removes one."""
    known = json.loads(_known(core, CLUSTERS, name, "Cluster does not exist"))
    data = {member: value for member, value in {**known, **wanted}.items() if value is not None}
    core.append(DocumentSet(CLUSTERS, name, json.dumps(data)))


async def _get_peers(call: Call) -> Response:
    document = _known(call.core, CLUSTERS, call.parts["cluster"], "Cluster does not exist")
    return value_or_empty(json.loads(document).get(_PEERS))


def _set_peers(core: Core, call: Call) -> None:
    name, body = call.parts["cluster"], call.json()
    peers = None if body is None else names(body, "peers")
    _known(core, CLUSTERS, name, "Cluster does not exist")
    for peer in peers or ():
        if peer == name:
            raise Refused(412, f"{name} itself can't be part of peer-list")
        if peer not in core.state.documents[CLUSTERS]:
            raise Refused(412, f"Peer cluster {peer} does not exist")
    _set_members(core, name, {_PEERS: peers})


def _get_migration(core: Core, call: Call) -> object:
    known = json.loads(_known(core, CLUSTERS, call.parts["cluster"], "Cluster does not exist"))
    if _MIGRATION[0] not in known:
        raise Refused(404, "Cluster does not exist")
    urls = known.get(_MIGRATION[1], {})
    return {"migrated": known[_MIGRATION[0]], "migratedClusterUrl": {**urls, "empty": not urls}}


def _set_migration(core: Core, call: Call) -> None:
    """Marks a cluster as moved to these addresses; clients stay."""
    body = call.json()
    if not isinstance(body, Mapping):
        raise Refused(400, "the addresses of the other cluster are required")
    urls = {key: _url(body[key], key) for key in _ADDRESSES[:4] if body.get(key) is not None}
    wanted = dict(zip(_MIGRATION, (call.flag("migrated"), urls), strict=True))
    _set_members(core, call.parts["cluster"], wanted)


def _url(value: object, key: str) -> str:
    if not isinstance(value, str) or len(value) > _MAX_URL_LENGTH:
        raise Refused(400, f"{key}: want a text of at most {_MAX_URL_LENGTH} characters")
    return value


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
    if not isinstance(roles, list | None):
        raise Refused(400, f"adminRoles: want a list of texts, got {roles!r}")
    info = {} if roles is None else {"adminRoles": [str(role) for role in roles]}
    return {**info, "allowedClusters": names}


def _get_tenant(core: Core, call: Call) -> object:
    return json.loads(_known(core, TENANTS, call.parts["tenant"], "Tenant does not exist"))


def _create_tenant(core: Core, call: Call) -> None:
    name, body = call.parts["tenant"], call.json()
    _check_name(name, "Tenant")
    info = _tenant_info(core, body)
    if name in core.state.documents[TENANTS]:
        raise Refused(409, "Tenant already exist")
    core.append(DocumentSet(TENANTS, name, json.dumps(info)))


def _update_tenant(core: Core, call: Call) -> None:
    name, info = call.parts["tenant"], _tenant_info(core, call.json())
    _known(core, TENANTS, name, f"Tenant {name} not found")
    own = core.config.cluster_name
    if own not in info["allowedClusters"] and namespaces_of(core, name):
        raise Refused(409, f"Cluster {own} cannot be taken away: the tenant has namespaces on it")
    core.append(DocumentSet(TENANTS, name, json.dumps(info)))
    revocation.close_revoked(core, name)


def _delete_tenant(core: Core, call: Call) -> Steps[None]:
    name, force = call.parts["tenant"], call.flag("force")
    if force and not core.config.force_delete_tenant:
        raise Refused(405, "Broker doesn't allow forced deletion of tenants")
    _known(core, TENANTS, name, "Tenant doesn't exist")
    for namespace in namespaces_of(core, name) if force else ():
        if namespace in core.state.namespaces:
            yield from namespace_lifecycle.delete_in_steps(core, namespace, force=True)
    if namespaces_of(core, name):
        raise Refused(409, "The tenant still has active namespaces")
    core.append(DocumentDeleted(TENANTS, name))


ROUTES: Final[Routes] = routes(
    ADMIN_PATH,
    ("GET /clusters", access.anyone, reads(lambda core, _: sorted(core.state.documents[CLUSTERS]))),
    ("GET /clusters/{cluster}", access.cluster("GET_CLUSTER"), reads(_get_cluster)),
    ("PUT /clusters/{cluster}", access.cluster("CREATE_CLUSTER"), changes(_create_cluster, 200)),
    ("POST /clusters/{cluster}", access.cluster("UPDATE_CLUSTER"), changes(_update_cluster, 200)),
    ("DELETE /clusters/{cluster}", access.cluster("DELETE_CLUSTER"), changes(_delete_cluster)),
    ("GET /clusters/{cluster}/peers", access.cluster("GET_PEER_CLUSTER"), _get_peers),
    ("POST /clusters/{cluster}/peers", access.cluster("UPDATE_PEER_CLUSTER"), changes(_set_peers)),
    ("GET /clusters/{cluster}/migrate", access.cluster_policy("READ"), reads(_get_migration)),
    ("POST /clusters/{cluster}/migrate", access.cluster_policy("WRITE"), changes(_set_migration, 200)),
    ("GET /tenants", access.all_tenants, reads(lambda core, _: sorted(core.state.documents[TENANTS]))),
    ("GET /tenants/{tenant}", access.tenant("GET_TENANT"), reads(_get_tenant)),
    ("PUT /tenants/{tenant}", access.tenant("CREATE_TENANT"), changes(_create_tenant)),
    ("POST /tenants/{tenant}", access.tenant("UPDATE_TENANT"), changes(_update_tenant)),
    ("DELETE /tenants/{tenant}", access.tenant("DELETE_TENANT"), changes(_delete_tenant)),
)
