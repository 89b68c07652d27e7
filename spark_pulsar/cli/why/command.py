"""The command `spark-pulsar why` and its options."""

from typing import Annotated

import typer

from spark_pulsar.cli.access.decorator import with_admin_access
from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.cli.access.topics import Topic
from spark_pulsar.cli.output.formats import Output


@with_admin_access
def why(
    topic: Topic,
    subscription: Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="All of the topic without one.")] = "",
    role: Annotated[
        str, typer.Option("--role", help="Role of the consumer or producer: is it granted the topic?")
    ] = "",
    output: Output = None,
    *,
    access: AccessOptions,
) -> None:
    """Name the cause why a consumer receives nothing, or nothing can be published, and what to do, on any Pulsar. Reads
    the admin API alone, changes nothing, and takes about 2 seconds. Status 1 for a cause, 0 when nothing is wrong.
    Notes explain why others wait or are refused."""
    from spark_pulsar.admin.diagnosis.findings import State
    from spark_pulsar.cli.access.access import admin_access
    from spark_pulsar.cli.admin.rest import Admin
    from spark_pulsar.cli.output.formats import show
    from spark_pulsar.cli.values import topic_name
    from spark_pulsar.cli.why.requests import diagnosed_by

    name = str(topic_name(topic))
    findings = diagnosed_by(Admin(admin_access(access)), name, subscription, role)
    show(
        [{**finding.to_json(), "topic": name} for finding in findings], output, columns=("cause", "sentence", "advice")
    )
    if any(finding.state is State.CAUSE for finding in findings):
        raise typer.Exit(1)
