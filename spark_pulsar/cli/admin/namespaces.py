"""`spark-pulsar admin namespaces`: namespaces and their policies."""

from typing import Annotated

import typer

from spark_pulsar.cli.admin.permissions import add_namespace_commands
from spark_pulsar.cli.admin.policies import Target, add_policy_commands
from spark_pulsar.cli.admin.rest import NO_BODY, Command, add_commands
from spark_pulsar.cli.values import namespace_path, pairs, show

app = typer.Typer(help="Namespaces and their policies.", no_args_is_help=True)
Namespace = Annotated[str, typer.Argument(metavar="NAMESPACE", help="tenant/namespace")]


@app.command("list")
def list_namespaces(ctx: typer.Context, tenant: Annotated[str, typer.Argument(metavar="TENANT")]) -> None:
    """List the namespaces of a tenant."""
    show(ctx.obj.get(f"/admin/v2/namespaces/{tenant}"))


@app.command("topics")
def list_topics(ctx: typer.Context, namespace: Namespace) -> None:
    """List the topics of a namespace, each partition by itself."""
    show(ctx.obj.get(f"{namespace_path(namespace)}/topics", mode="ALL"))


@app.command("create")
def create(
    ctx: typer.Context,
    namespace: Namespace,
    bundles: Annotated[int | None, typer.Option("--bundles", "-b", min=1, help="Number of bundles.")] = None,
    clusters: Annotated[str | None, typer.Option("--clusters", "-c", help="Clusters by commas.")] = None,
) -> None:
    """Create a namespace."""
    body: dict[str, object] = {} if bundles is None else {"bundles": {"numBundles": bundles}}
    if clusters is not None:
        body["replication_clusters"] = clusters.split(",")
    ctx.obj.put(namespace_path(namespace), body or NO_BODY)


@app.command("delete")
def delete(
    ctx: typer.Context, namespace: Namespace, force: Annotated[bool, typer.Option("--force", "-f")] = False
) -> None:
    """Delete a namespace without topics."""
    ctx.obj.delete(namespace_path(namespace), **({"force": True} if force else {}))


@app.command("clear-backlog")
def clear_backlog(
    ctx: typer.Context,
    namespace: Namespace,
    sub: Annotated[str | None, typer.Option("--sub", "-s", help="Of this subscription only.")] = None,
    bundle: Annotated[str | None, typer.Option("--bundle", "-b", help="Of this bundle only: 0xLOW_0xHIGH.")] = None,
    force: Annotated[bool, typer.Option("--force", "-force", "-f", help="Do not ask.")] = False,
) -> None:
    """Acknowledge everything for all subscriptions of a namespace, or one of them."""
    if not force and not typer.confirm("Are you sure you want to clear the backlog?"):
        return
    path = namespace_path(namespace) + ("" if bundle is None else f"/{bundle}")
    ctx.obj.post(f"{path}/clearBacklog" + ("" if sub is None else f"/{sub}"))


@app.command("unsubscribe")
def unsubscribe(
    ctx: typer.Context, namespace: Namespace, sub: Annotated[str, typer.Option("--sub", "-s", help="Subscription.")]
) -> None:
    """Delete a subscription of all topics of a namespace."""
    ctx.obj.post(f"{namespace_path(namespace)}/unsubscribe/{sub}")


@app.command("set-properties")
def set_properties(
    ctx: typer.Context,
    namespace: Namespace,
    prop: Annotated[list[str], typer.Option("--properties", "-p", metavar="NAME=VALUE", help="May be repeated.")],
) -> None:
    """Add properties to a namespace."""
    ctx.obj.put(f"{namespace_path(namespace)}/properties", pairs(prop, "--properties"))


add_commands(
    app,
    typer.Argument(metavar="NAMESPACE", help="tenant/namespace"),
    namespace_path,
    Command("bundles", "GET", "/bundles", "Show the bundles of a namespace."),
    Command("policies", "GET", "", "Show all policies of a namespace."),
    Command(
        "unload", "PUT", "/unload", "Close all producers and consumers of a namespace; they come back by themselves."
    ),
    Command("get-clusters", "GET", "/replication", "List the clusters that a namespace is on."),
    Command("get-properties", "GET", "/properties", "Show the properties of a namespace."),
    Command("clear-properties", "DELETE", "/properties", "Remove all properties of a namespace."),
)
add_policy_commands(app, Target("NAMESPACE", namespace_path, is_topic=False))
add_namespace_commands(app)
