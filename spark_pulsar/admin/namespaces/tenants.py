"""Tenants over REST (ADM-63, AU-8). Those of a new broker are in `broker.policies.documents` (B-1)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import ADMIN_PATH, changes, reads, routes
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.namespaces import namespace_lifecycle
from spark_pulsar.admin.namespaces.namespace_lifecycle import namespaces_of
from spark_pulsar.broker.security import revocation
from spark_pulsar.ledger.state.documents import CLUSTERS, TENANTS, DocumentDeleted, DocumentSet
from spark_pulsar.model.errors import InvalidTopicName
from spark_pulsar.model.names import check_entity

if TYPE_CHECKING:
    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.admin.http.slices import Steps
    from spark_pulsar.broker.entities.core import Core


def check_name(name: str, what: str) -> None:
    """Refuses a name that no cluster or tenant may have."""
    try:
        check_entity(name)
    except InvalidTopicName as error:
        raise Refused(412, f"{what} name is not valid") from error


def stored_document(core: Core, kind: str, name: str, missing: str) -> str:
    """Returns the document of a cluster or tenant; 404 with this reason when there is none."""
    text = core.state.documents[kind].get(name)
    if text is None:
        raise Refused(404, missing)
    return text


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
    return json.loads(stored_document(core, TENANTS, call.parts["tenant"], "Tenant does not exist"))


def _create_tenant(core: Core, call: Call) -> None:
    name, body = call.parts["tenant"], call.json()
    check_name(name, "Tenant")
    info = _tenant_info(core, body)
    if name in core.state.documents[TENANTS]:
        raise Refused(409, "Tenant already exist")
    core.append(DocumentSet(TENANTS, name, json.dumps(info)))


def _update_tenant(core: Core, call: Call) -> None:
    name, info = call.parts["tenant"], _tenant_info(core, call.json())
    stored_document(core, TENANTS, name, f"Tenant {name} not found")
    own = core.config.cluster_name
    if own not in info["allowedClusters"] and namespaces_of(core, name):
        raise Refused(409, f"Cluster {own} cannot be taken away: the tenant has namespaces on it")
    core.append(DocumentSet(TENANTS, name, json.dumps(info)))
    revocation.close_revoked(core, name)


def _delete_tenant(core: Core, call: Call) -> Steps[None]:
    """Deletes a tenant without namespaces, or with `force` its namespaces, too (TN-15)."""
    name, force = call.parts["tenant"], call.flag("force")
    if force and not core.config.force_delete_tenant:
        raise Refused(405, "Broker doesn't allow forced deletion of tenants")
    stored_document(core, TENANTS, name, "Tenant doesn't exist")
    for namespace in namespaces_of(core, name) if force else ():
        if namespace in core.state.namespaces:
            yield from namespace_lifecycle.delete_in_steps(core, namespace, force=True)
    if namespaces_of(core, name):
        raise Refused(409, "The tenant still has active namespaces")
    core.append(DocumentDeleted(TENANTS, name))


ROUTES: Final[Routes] = routes(
    ADMIN_PATH,
    ("GET /tenants", access.all_tenants, reads(lambda core, _: sorted(core.state.documents[TENANTS]))),
    ("GET /tenants/{tenant}", access.tenant("GET_TENANT"), reads(_get_tenant)),
    ("PUT /tenants/{tenant}", access.tenant("CREATE_TENANT"), changes(_create_tenant)),
    ("POST /tenants/{tenant}", access.tenant("UPDATE_TENANT"), changes(_update_tenant)),
    ("DELETE /tenants/{tenant}", access.tenant("DELETE_TENANT"), changes(_delete_tenant)),
)
