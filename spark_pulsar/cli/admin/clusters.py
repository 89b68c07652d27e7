"""`spark-pulsar admin clusters` and `tenants`."""

from typing import Annotated, Any, Final

import typer

from spark_pulsar.cli.admin.command import rows
from spark_pulsar.model.policies.policy_columns import Option, Written, flag

_CLUSTERS: Final = "/admin/v2/clusters"
_TENANT: Final = "/admin/v2/tenants/{tenant}"
_ADDRESSES: Final = (
    Option("serviceUrl", "--url", Written.TEXT, "http://HOST:PORT of the admin API.", None),
    Option("serviceUrlTls", "--url-secure", Written.TEXT, "The same with https://.", None),
    Option("brokerServiceUrl", "--broker-url", Written.TEXT, "pulsar://HOST:PORT.", None),
    Option("brokerServiceUrlTls", "--broker-url-secure", Written.TEXT, "pulsar+ssl://HOST:PORT.", None),
)
Tenant = Annotated[str, typer.Argument(metavar="TENANT")]
Roles = Annotated[str | None, typer.Option("--admin-roles", "-r", help="Roles by commas.")]
Allowed = Annotated[
    str | None, typer.Option("--allowed-clusters", "-c", help="Clusters by commas; all when not given.")
]


def _create(ctx: typer.Context, tenant: Tenant, admin_roles: Roles = None, clusters: Allowed = None) -> None:
    ctx.obj.put(_TENANT.format(tenant=tenant), _tenant_info(ctx, admin_roles, clusters))


def _update(ctx: typer.Context, tenant: Tenant, admin_roles: Roles = None, clusters: Allowed = None) -> None:
    ctx.obj.post(_TENANT.format(tenant=tenant), _tenant_info(ctx, admin_roles, clusters))


def _tenant_info(ctx: typer.Context, roles: str | None, allowed: str | None) -> dict[str, Any]:
    return {
        "adminRoles": [] if roles is None else roles.split(","),
        "allowedClusters": ctx.obj.get(_CLUSTERS) if allowed is None else allowed.split(","),
    }


_clusters: Final = rows("clusters", "/admin/v2")
_cluster: Final = rows("clusters", "/admin/v2/clusters/{cluster}")
_tenants: Final = rows("tenants", "/admin/v2")

COMMANDS: Final = (
    _clusters("list", "GET /clusters", "List the clusters."),
    _cluster("create", "PUT", "Make a cluster known.", body=_ADDRESSES),
    _cluster("update", "POST", "Replace a cluster's addresses.", body=_ADDRESSES),
    _cluster("get", "GET", "Show a cluster's addresses."),
    _cluster("delete", "DELETE", "Delete a cluster."),
    _tenants("list", "GET /tenants", "List the tenants."),
    _tenants("create", "PUT /tenants/{tenant}", "Create a tenant.", work=_create, also=(("GET", _CLUSTERS),)),
    _tenants(
        "update",
        "POST /tenants/{tenant}",
        "Replace a tenant's admin roles and allowed clusters.",
        work=_update,
        also=(("GET", _CLUSTERS),),
    ),
    _tenants("get", "GET /tenants/{tenant}", "Show a tenant's admin roles and allowed clusters."),
    _tenants(
        "delete",
        "DELETE /tenants/{tenant}",
        "Delete a tenant without namespaces.",
        query=(flag("force", "--force -f", "Delete its namespaces and topics, too."),),
    ),
)
