"""`spark-pulsar admin`: the commands of `pulsar-admin` that this broker serves, over the REST API of any Pulsar."""

from typing import Annotated

import typer

from spark_pulsar.cli import admin_brokers, admin_namespaces, admin_schemas, admin_topics
from spark_pulsar.cli.admin_rest import Admin

DEFAULT_ADMIN_URL = "http://127.0.0.1:8080"

app = typer.Typer(
    name="spark-pulsar admin",
    help="Clusters, tenants, namespaces, topics and their policies, as pulsar-admin has them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback()
def connect(
    ctx: typer.Context,
    admin_url: Annotated[
        str, typer.Option("--admin-url", envvar="PULSAR_ADMIN_URL", help="Address of the admin REST API.")
    ] = DEFAULT_ADMIN_URL,
) -> None:
    """Clusters, tenants, namespaces, topics and their policies, as pulsar-admin has them."""
    ctx.obj = Admin(admin_url)


app.add_typer(admin_namespaces.app, name="namespaces")
app.add_typer(admin_topics.app, name="topics")
app.add_typer(admin_topics.policies, name="topicPolicies")
app.add_typer(admin_schemas.app, name="schemas")
app.add_typer(admin_brokers.clusters, name="clusters")
app.add_typer(admin_brokers.tenants, name="tenants")
app.add_typer(admin_brokers.brokers, name="brokers")
