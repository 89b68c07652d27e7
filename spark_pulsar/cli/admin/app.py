"""`spark-pulsar admin`: the commands of `pulsar-admin` that this broker serves, over the REST API of any Pulsar."""

from typing import Annotated

import typer

from spark_pulsar.cli.access import options as of_access
from spark_pulsar.cli.access.access import admin_access
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
def connect(
    ctx: typer.Context,
    admin_url: Annotated[
        str | None,
        typer.Option(
            "--admin-url",
            envvar="PULSAR_ADMIN_URL",
            help="Address of the admin REST API: http:// or https://.",
            show_default=of_access.DEFAULT_ADMIN_URL,
        ),
    ] = None,
    auth_plugin: of_access.AuthPlugin = None,
    auth_params: of_access.AuthParams = None,
    tls_trust_cert_path: of_access.TrustCerts = None,
    tls_allow_insecure: of_access.AllowInsecure = None,
    tls_enable_hostname_verification: of_access.VerifyHostname = None,
    client_conf: of_access.ClientConf = None,
) -> None:
    """Clusters, tenants, namespaces, topics and their policies, as pulsar-admin has them."""
    options = of_access.AccessOptions(
        url=admin_url,
        auth_plugin=auth_plugin,
        auth_params=auth_params,
        tls_trust_cert_path=tls_trust_cert_path,
        tls_allow_insecure=tls_allow_insecure,
        tls_enable_hostname_verification=tls_enable_hostname_verification,
        client_conf=client_conf,
    )
    ctx.obj = Admin(admin_access(options))


app.add_typer(admin_namespaces.app, name="namespaces")
app.add_typer(admin_topics.app, name="topics")
app.add_typer(admin_topics.policies, name="topicPolicies")
app.add_typer(admin_schemas.app, name="schemas")
app.add_typer(admin_brokers.clusters, name="clusters")
app.add_typer(admin_brokers.tenants, name="tenants")
app.add_typer(admin_brokers.brokers, name="brokers")
