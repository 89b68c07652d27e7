"""`spark-pulsar admin`: the commands of `pulsar-admin` that this broker serves, over the REST API of any Pulsar."""

import typer

from spark_pulsar.cli.access.access import admin_access
from spark_pulsar.cli.access.decorator import with_admin_access
from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.cli.admin import brokers as admin_brokers
from spark_pulsar.cli.admin import namespaces as admin_namespaces
from spark_pulsar.cli.admin import schemas as admin_schemas
from spark_pulsar.cli.admin import topics as admin_topics
from spark_pulsar.cli.admin.rest import Admin

app = typer.Typer(
    name="spark-pulsar admin",
    help="Clusters, tenants, namespaces, topics and their policies, as pulsar-admin has them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback()
@with_admin_access
def connect(ctx: typer.Context, *, access: AccessOptions) -> None:
    """Clusters, tenants, namespaces, topics and their policies, as pulsar-admin has them."""
    ctx.obj = Admin(admin_access(access))


app.add_typer(admin_namespaces.app, name="namespaces")
app.add_typer(admin_topics.app, name="topics")
app.add_typer(admin_topics.policies, name="topicPolicies")
app.add_typer(admin_schemas.app, name="schemas")
app.add_typer(admin_brokers.clusters, name="clusters")
app.add_typer(admin_brokers.tenants, name="tenants")
app.add_typer(admin_brokers.brokers, name="brokers")
