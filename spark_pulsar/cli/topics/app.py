"""`spark-pulsar topics`: views of the topics of a broker."""

from typing import Annotated

import typer

from spark_pulsar.cli.access.access import admin_access
from spark_pulsar.cli.access.decorator import with_admin_access
from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.cli.admin.rest import Admin
from spark_pulsar.cli.frame.help import Commands, examples
from spark_pulsar.cli.output.formats import Output
from spark_pulsar.cli.topics.tree import print_tree
from spark_pulsar.cli.values import namespace_path

app = Commands(
    epilog=examples("topics tree", "topics tree public --system"),
    name="topics",
    help="Views of the topics of a broker.",
)
System = Annotated[bool, typer.Option("--system", help="The broker's own topics, too.")]


@app.callback()
def _topics() -> None:
    """Views of the topics of a broker."""


@app.command(epilog=examples("topics tree", "topics tree public/default -o json"))
@with_admin_access
def tree(
    scope: Annotated[str, typer.Argument(metavar="[TENANT[/NAMESPACE]]", help="All tenants without one.")] = "",
    system: System = False,
    output: Output = None,
    *,
    access: AccessOptions,
) -> None:
    """Print tenants, namespaces, topics and subscriptions with their backlog; partitions are together."""
    if "/" in scope:
        namespace_path(scope)
    print_tree(Admin(admin_access(access)), scope, output, with_system=system)
