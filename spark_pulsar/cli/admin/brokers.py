"""`spark-pulsar admin clusters`, `tenants` and `brokers`."""

from typing import Annotated

import typer

from spark_pulsar.cli.admin.rest import Command, add_commands, add_question
from spark_pulsar.cli.values import show

clusters = typer.Typer(help="Clusters.", no_args_is_help=True)
tenants = typer.Typer(help="Tenants.", no_args_is_help=True)
brokers = typer.Typer(help="The broker itself.", no_args_is_help=True)

_CLUSTERS = "/admin/v2/clusters"
_TENANTS = "/admin/v2/tenants"
Cluster = Annotated[str, typer.Argument(metavar="CLUSTER")]
Tenant = Annotated[str, typer.Argument(metavar="TENANT")]
Url = Annotated[str | None, typer.Option("--url", help="http://HOST:PORT of the admin API.")]
UrlSecure = Annotated[str | None, typer.Option("--url-secure", help="The same with https://.")]
BrokerUrl = Annotated[str | None, typer.Option("--broker-url", help="pulsar://HOST:PORT.")]
BrokerUrlSecure = Annotated[str | None, typer.Option("--broker-url-secure", help="pulsar+ssl://HOST:PORT.")]
Roles = Annotated[str | None, typer.Option("--admin-roles", "-r", help="Roles by commas.")]
Allowed = Annotated[
    str | None, typer.Option("--allowed-clusters", "-c", help="Clusters by commas; all when not given.")
]


add_question(clusters, "list", _CLUSTERS, "List the clusters.")


def _add_cluster(name: str, method: str, text: str) -> None:
    @clusters.command(name, help=text)
    def set_cluster(
        ctx: typer.Context,
        cluster: Cluster,
        url: Url = None,
        url_secure: UrlSecure = None,
        broker_url: BrokerUrl = None,
        broker_url_secure: BrokerUrlSecure = None,
    ) -> None:
        data = {
            "serviceUrl": url,
            "serviceUrlTls": url_secure,
            "brokerServiceUrl": broker_url,
            "brokerServiceUrlTls": broker_url_secure,
        }
        given = {key: value for key, value in data.items() if value is not None}
        getattr(ctx.obj, method)(f"{_CLUSTERS}/{cluster}", given)


_add_cluster("create", "put", "Make a cluster known.")
_add_cluster("update", "post", "Replace a cluster's addresses.")
add_commands(
    clusters,
    typer.Argument(metavar="CLUSTER"),
    f"{_CLUSTERS}/{{}}".format,
    Command("get", "GET", "", "Show a cluster's addresses."),
    Command("delete", "DELETE", "", "Forget a cluster."),
)


def _tenant_info(ctx: typer.Context, roles: str | None, allowed: str | None) -> dict[str, list[str]]:
    return {
        "adminRoles": [] if roles is None else roles.split(","),
        "allowedClusters": ctx.obj.get(_CLUSTERS) if allowed is None else allowed.split(","),
    }


add_question(tenants, "list", _TENANTS, "List the tenants.")


def _add_tenant(name: str, method: str, text: str) -> None:
    @tenants.command(name, help=text)
    def set_tenant(ctx: typer.Context, tenant: Tenant, admin_roles: Roles = None, clusters: Allowed = None) -> None:
        getattr(ctx.obj, method)(f"{_TENANTS}/{tenant}", _tenant_info(ctx, admin_roles, clusters))


_add_tenant("create", "put", "Create a tenant.")
_add_tenant("update", "post", "Replace a tenant's admin roles and allowed clusters.")
add_commands(
    tenants,
    typer.Argument(metavar="TENANT"),
    f"{_TENANTS}/{{}}".format,
    Command("get", "GET", "", "Show a tenant's admin roles and allowed clusters."),
)


@tenants.command("delete")
def delete_tenant(
    ctx: typer.Context, tenant: Tenant, force: Annotated[bool, typer.Option("--force", "-f")] = False
) -> None:
    """Delete a tenant without namespaces."""
    ctx.obj.delete(f"{_TENANTS}/{tenant}", force=force)


add_commands(
    brokers,
    typer.Argument(metavar="CLUSTER"),
    "/admin/v2/brokers/{}".format,
    Command("list", "GET", "", "List the brokers of a cluster: HOST:PORT of their admin API."),
)
add_question(brokers, "leader-broker", "/admin/v2/brokers/leaderBroker", "Show the broker that leads the others.")
add_question(brokers, "healthcheck", "/admin/v2/brokers/health", "Print ok when the broker serves.")


@brokers.command("backlog-quota-check")
def check_quotas(ctx: typer.Context) -> None:
    """Look at all backlog quotas now; the broker does so by itself when one may be reached."""
    ctx.obj.get("/admin/v2/brokers/backlog-quota-check")
    show("ok")


_VERSION_HELP = "Print the version of Apache Pulsar that the broker speaks."
add_question(brokers, "version", "/admin/v2/brokers/version", _VERSION_HELP)
