"""`spark-pulsar top`: its options."""

from typing import Annotated

import typer

from spark_pulsar.cli.access.decorator import with_admin_access
from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.cli.output.formats import Output
from spark_pulsar.cli.values import MOST_COUNT, MOST_SECONDS


@with_admin_access
def top(
    scope: Annotated[
        str, typer.Argument(metavar="[TENANT[/NAMESPACE]]", help="All but the broker's own topics without one.")
    ] = "",
    sort: Annotated[
        str, typer.Option("--sort", "-s", help="in, out, backlog, unacked, storage, producers, consumers or topic.")
    ] = "in",
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=0.1, max=MOST_SECONDS, help="Seconds between two refreshes.")
    ] = 2.0,
    count: Annotated[
        int,
        typer.Option(
            "--count", "-n", min=0, max=MOST_COUNT, help="Refreshes; 1 prints a plain table, 0 = until q on a terminal."
        ),
    ] = 0,
    partitions: Annotated[bool, typer.Option("--partitions", help="A row for each partition.")] = False,
    output: Output = None,
    *,
    access: AccessOptions,
) -> None:
    """Show topics as a live table: rates, backlog, unacknowledged, producers, consumers, storage. Keys sort, q ends."""
    from spark_pulsar.cli.access.access import admin_access
    from spark_pulsar.cli.admin.rest import Admin
    from spark_pulsar.cli.topics import top as showing
    from spark_pulsar.cli.topics.topic_table import TopicTable, sort_key
    from spark_pulsar.cli.values import namespace_path

    if "/" in scope:
        namespace_path(scope)
    table = TopicTable(Admin(admin_access(access)), scope, each_partition=partitions)
    showing.top(table, sort=sort_key(sort), interval_s=interval, count=count, output=output)
