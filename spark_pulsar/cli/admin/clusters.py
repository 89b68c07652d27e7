"""`spark-pulsar admin clusters` and `tenants`."""

from typing import Annotated, Any, Final

import typer

from spark_pulsar.cli.admin.command import Command
from spark_pulsar.model.policies.policy_columns import Option, Written

_CLUSTERS: Final = "/admin/v2/clusters"
_CLUSTER: Final = "/admin/v2/clusters/{cluster}"
_TENANTS: Final = "/admin/v2/tenants"
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


COMMANDS: Final = (
    Command("clusters list", "GET", _CLUSTERS, "List the clusters."),
    Command("clusters create", "PUT", _CLUSTER, "Make a cluster known.", body=_ADDRESSES),
    Command("clusters update", "POST", _CLUSTER, "Replace a cluster's addresses.", body=_ADDRESSES),
    Command("clusters get", "GET", _CLUSTER, "Show a cluster's addresses."),
    Command("clusters delete", "DELETE", _CLUSTER, "Forget a cluster."),
    Command("tenants list", "GET", _TENANTS, "List the tenants."),
    Command(
        "tenants create",
        "PUT",
        _TENANT,
        "Create a tenant.",
        work=_create,
        also=(("GET", _CLUSTERS),),
    ),
    Command(
        "tenants update",
        "POST",
        _TENANT,
        "Replace a tenant's admin roles and allowed clusters.",
        work=_update,
        also=(("GET", _CLUSTERS),),
    ),
    Command("tenants get", "GET", _TENANT, "Show a tenant's admin roles and allowed clusters."),
    Command(
        "tenants delete",
        "DELETE",
        _TENANT,
        "Delete a tenant without namespaces.",
        query=(Option("force", "--force -f", Written.FLAG, "Delete its namespaces and topics, too.", False),),
    ),
)
