"""`spark-pulsar admin`: the commands of `pulsar-admin` that this broker serves, over the REST API of any Pulsar
(ADM-71)."""

import typer

from spark_pulsar.cli.access.access import admin_access
from spark_pulsar.cli.access.decorator import with_admin_access
from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.cli.admin.command import add_commands
from spark_pulsar.cli.admin.rest import Admin
from spark_pulsar.cli.admin.table import COMMANDS, GROUPS
from spark_pulsar.cli.frame.help import Commands, examples

app = Commands(
    epilog=examples("admin topics list public/default", "admin --profile prod tenants list"),
    name="spark-pulsar admin",
    help="Clusters, tenants, namespaces, topics and their policies, as pulsar-admin has them.",
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback()
@with_admin_access
def connect(ctx: typer.Context, *, access: AccessOptions) -> None:
    """Clusters, tenants, namespaces, topics and their policies, as pulsar-admin has them."""
    ctx.obj = Admin(admin_access(access))


_GROUPS = {name: Commands(help=text) for name, text in GROUPS.items()}
add_commands(_GROUPS, COMMANDS)
for _name, _group in _GROUPS.items():
    app.add_typer(_group, name=_name)
