"""`spark-pulsar config`: the configuration of a file, and the keys that change in a running broker."""

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from spark_pulsar.cli.access.access import admin_access
from spark_pulsar.cli.access.decorator import with_admin_access
from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.cli.admin.rest import Admin
from spark_pulsar.cli.configuration.printing import print_configuration
from spark_pulsar.cli.frame.help import Commands, examples
from spark_pulsar.cli.output.formats import Format, Output, show
from spark_pulsar.cli.values import segment

app = Commands(
    help="The configuration of a broker.",
    epilog=examples("config show --conf broker.conf", "config set dispatchThrottlingRatePerTopicInMsg 1000"),
)
_PATH: Final = "/admin/v2/brokers/configuration"
Name = Annotated[str, typer.Argument(metavar="NAME", help="Pulsar's name of the key.")]


@app.command("show", epilog=examples("config show", "config show --conf broker.conf -o json"))
def show_configuration(
    conf: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Configuration file with Pulsar's key names.")
    ] = None,
    output: Annotated[
        Format | None,
        typer.Option("--output", "-o", help="table, text, json or yaml.", show_default="a configuration file"),
    ] = None,
) -> None:
    """Print all keys that a broker with this file acts upon with their values, secrets masked."""
    print_configuration(conf, output)


@app.command("list", epilog=examples("config list", "config list -o json"))
@with_admin_access
def list_keys(*, access: AccessOptions, output: Output = None) -> None:
    """List the keys that change in the running broker, with their values, and whether they were set there."""
    admin = Admin(admin_access(access))
    changed, values = admin.get(f"{_PATH}/values"), admin.get(f"{_PATH}/runtime")
    names = sorted(admin.get(_PATH))
    show([{"name": name, "value": values.get(name, ""), "set": name in changed} for name in names], output)


@app.command(
    "get",
    epilog=examples(
        "config get dispatchThrottlingRatePerTopicInMsg",
        "config get dispatchThrottlingRatePerTopicInMsg --profile prod",
    ),
)
@with_admin_access
def get(name: Name, *, access: AccessOptions, output: Output = None) -> None:
    """Print the value that a key has in the running broker."""
    values: dict[str, Any] = Admin(admin_access(access)).get(f"{_PATH}/runtime")
    if name not in values:
        near = get_close_matches(name, values, 1)
        meant = f": did you mean {near[0]}?" if near else ""
        typer.echo(f"spark-pulsar config: the broker has no key {name}{meant}", err=True)
        raise typer.Exit(1)
    show(values[name], output)


@app.command(
    "set",
    epilog=examples(
        "config set dispatchThrottlingRatePerTopicInMsg 1000",
        "config set dispatchThrottlingRatePerTopicInMsg 0 --profile prod",
    ),
)
@with_admin_access
def set_(
    name: Name,
    value: Annotated[str, typer.Argument(metavar="VALUE")],
    *,
    access: AccessOptions,
) -> None:
    """Set a key of the running broker: at once, over restarts, and whatever its file says."""
    if not value:
        raise typer.BadParameter(f"an empty value cannot be set: spark-pulsar config delete {name} takes it back")
    Admin(admin_access(access)).post(f"{_PATH}/{segment(name)}/{segment(value)}")


@app.command(
    "delete",
    epilog=examples(
        "config delete dispatchThrottlingRatePerTopicInMsg",
        "config delete dispatchThrottlingRatePerTopicInMsg --profile prod",
    ),
)
@with_admin_access
def delete(name: Name, *, access: AccessOptions) -> None:
    """Remove the dynamic value of a key: the broker's file applies again."""
    Admin(admin_access(access)).delete(f"{_PATH}/{segment(name)}")
