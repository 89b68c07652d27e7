"""Clusters over REST (ADM-63, ADM-56). Tenants are in `admin.namespaces.tenants`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import ADMIN_PATH, changes, reads, routes, value_or_empty
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.namespaces.tenants import check_name, stored_document
from spark_pulsar.ledger.state.documents import (
    CLUSTERS,
    FAILURE_DOMAINS,
    ISOLATION_POLICIES,
    DocumentDeleted,
    DocumentSet,
)
from spark_pulsar.model.policies.policies_without_effect import names

if TYPE_CHECKING:
    from starlette.responses import Response

    from spark_pulsar.admin.http.calls import Call, Routes
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
    text = stored_document(core, CLUSTERS, call.parts["cluster"], "Cluster does not exist")
    data = {key: value for key, value in json.loads(text).items() if key not in _MIGRATION}
    if call.parts["cluster"] == core.config.cluster_name and data.keys() <= {_PEERS}:
        addresses = call.addresses
        urls = (addresses.http, addresses.http_tls, addresses.binary, addresses.binary_tls)
        data |= {key: url for key, url in zip(_ADDRESSES, urls, strict=False) if url is not None} | _OF_OWN_CLUSTER
    return {**dict.fromkeys(_ALWAYS, False), **data}


def _create_cluster(core: Core, call: Call) -> None:
    name, body = call.parts["cluster"], call.json()
    check_name(name, "Cluster")
    data = _cluster_data(body)
    if name in core.state.documents[CLUSTERS]:
        raise Refused(409, "Cluster already exists")
    core.append(DocumentSet(CLUSTERS, name, json.dumps(data)))


def _update_cluster(core: Core, call: Call) -> None:
    data = _cluster_data(call.json())
    known = json.loads(stored_document(core, CLUSTERS, call.parts["cluster"], "Cluster does not exist"))
    data |= {member: known[member] for member in _MIGRATION if member in known}
    core.append(DocumentSet(CLUSTERS, call.parts["cluster"], json.dumps(data)))


def _delete_cluster(core: Core, call: Call) -> None:
    name = call.parts["cluster"]
    stored_document(core, CLUSTERS, name, "Cluster does not exist")
    if name == core.config.cluster_name:
        raise Refused(412, f"Cluster {name} is the one that this broker serves")
    core.append(DocumentDeleted(CLUSTERS, name))
    for kind in (FAILURE_DOMAINS, ISOLATION_POLICIES):
        if name in core.state.documents[kind]:
            core.append(DocumentDeleted(kind, name))


def _set_members(core: Core, name: str, wanted: Mapping[str, Any]) -> None:
    """Sets members of the document of a cluster; None removes one."""
    known = json.loads(stored_document(core, CLUSTERS, name, "Cluster does not exist"))
    data = {member: value for member, value in {**known, **wanted}.items() if value is not None}
    core.append(DocumentSet(CLUSTERS, name, json.dumps(data)))


async def _get_peers(call: Call) -> Response:
    document = stored_document(call.core, CLUSTERS, call.parts["cluster"], "Cluster does not exist")
    return value_or_empty(json.loads(document).get(_PEERS))


def _set_peers(core: Core, call: Call) -> None:
    name, body = call.parts["cluster"], call.json()
    peers = None if body is None else names(body, "peers")
    stored_document(core, CLUSTERS, name, "Cluster does not exist")
    for peer in peers or ():
        if peer == name:
            raise Refused(412, f"{name} itself can't be part of peer-list")
        if peer not in core.state.documents[CLUSTERS]:
            raise Refused(412, f"Peer cluster {peer} does not exist")
    _set_members(core, name, {_PEERS: peers})


def _get_migration(core: Core, call: Call) -> object:
    known = json.loads(stored_document(core, CLUSTERS, call.parts["cluster"], "Cluster does not exist"))
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
)
