"""`spark-pulsar admin schemas`, and the commands of the policies that concern schemas."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from spark_pulsar.cli.admin_policies import Applied, Disable, Enable, Global, Target, add_get_and_remove
from spark_pulsar.cli.admin_values import show, switched, topic_name, topic_path
from spark_pulsar.model.schemas import AUTO_UPDATE_STRATEGIES, Compatibility

_STRATEGY = "schemaCompatibilityStrategy"
_AUTO_UPDATE = "schemaAutoUpdateCompatibilityStrategy"
_ENFORCED = "schemaValidationEnforced"
_UPDATES = "isAllowAutoUpdateSchema"

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="Short (public/default) or full name.")]
File = Annotated[
    Path,
    typer.Option(
        "--filename",
        "-f",
        exists=True,
        dir_okay=False,
        help='A file that holds {"type": "AVRO", "schema": "...", "properties": {}}.',
    ),
]

app = typer.Typer(help="Schemas of topics.", no_args_is_help=True)


@app.command("get")
def get(
    ctx: typer.Context,
    topic: Topic,
    version: Annotated[int | None, typer.Option("--version", "-v", help="Not the last one, but this.")] = None,
    all_versions: Annotated[bool, typer.Option("--all-version", "-a", help="All of them.")] = False,
) -> None:
    """Show the schema of a topic."""
    path = _path(topic)
    if all_versions:
        show([_shown(topic, each) for each in ctx.obj.get(f"{path}/schemas")["getSchemaResponses"]])
    elif version is not None:
        show(_shown(topic, ctx.obj.get(f"{path}/schema/{version}"))["schemaInfo"])
    else:
        show(_shown(topic, ctx.obj.get(f"{path}/schema")))


@app.command("upload")
def upload(ctx: typer.Context, topic: Topic, filename: File) -> None:
    """Give a topic a schema; its version."""
    show(ctx.obj.post(f"{_path(topic)}/schema", _payload(filename))["version"]["version"])


@app.command("delete")
def delete(
    ctx: typer.Context,
    topic: Topic,
    force: Annotated[bool, typer.Option("--force", "-f", help="Leave no mark that there were any.")] = False,
) -> None:
    """Delete all schemas of a topic."""
    ctx.obj.delete(f"{_path(topic)}/schema", force=force)


@app.command("compatibility")
def compatibility(ctx: typer.Context, topic: Topic, filename: File) -> None:
    """Say whether a topic could get a schema."""
    show(ctx.obj.post(f"{_path(topic)}/compatibility", _payload(filename)))


@app.command("version")
def version_of(ctx: typer.Context, topic: Topic, filename: File) -> None:
    """The version of a schema that a topic has; -1 when it has it not."""
    show(ctx.obj.post(f"{_path(topic)}/version", _payload(filename))["version"])


def _path(topic: str) -> str:
    return topic_path(topic).replace("/persistent/", "/schemas/", 1).replace("/non-persistent/", "/schemas/", 1)


def _payload(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise typer.BadParameter(f"{path} is no JSON: {error}") from error


def _shown(topic: str, answer: dict[str, Any]) -> dict[str, Any]:
    """A schema as `pulsar-admin` shows it: a definition that is JSON unfolded."""
    try:
        definition = json.loads(answer["data"])
    except ValueError:
        definition = answer["data"]
    described = {"name": topic_name(topic).base.local, "schema": definition, "type": answer["type"]}
    told = {"timestamp": answer["timestamp"], "properties": answer["properties"]}
    return {"version": answer["version"], "schemaInfo": {**described, **told}}


# ---- policies ---------------------------------------------------------------------------------------------------


def add_schema_policy_commands(group: typer.Typer, target: Target) -> None:
    """Register them on a group."""
    argument: Any = typer.Argument(metavar=target.metavar)
    flag = "--strategy" if target.is_topic else "--compatibility"
    strategy: Any = typer.Option(..., flag, flag[1:3], help=f"One of {', '.join(Compatibility)}.")
    add_get_and_remove(group, target, "schema-compatibility-strategy", _STRATEGY)

    @group.command("set-schema-compatibility-strategy")
    def set_strategy(ctx: typer.Context, name: str = argument, chosen: str = strategy, for_all: Global = False) -> None:
        """Set which schemas may follow those that a topic has."""
        ctx.obj.put(target.of(name, _STRATEGY), chosen.upper(), **target.query(for_all))

    @group.command("get-schema-validation-enforce")
    def get_enforced(
        ctx: typer.Context, name: str = argument, for_all: Global = False, applied: Applied = False
    ) -> None:
        """Show whether producers without schema are refused where there is one."""
        show(ctx.obj.get(target.of(name, _ENFORCED), **target.query(for_all, applied)))

    @group.command("set-schema-validation-enforce")
    def set_enforced(
        ctx: typer.Context,
        name: str = argument,
        enable: Enable = False,
        disable: Disable = False,
        for_all: Global = False,
    ) -> None:
        """Set whether producers without schema are refused where there is one."""
        ctx.obj.post(target.of(name, _ENFORCED), switched(enable, disable), **target.query(for_all))

    if not target.is_topic:
        _add_of_namespaces(group, target, argument)


def _add_of_namespaces(group: typer.Typer, target: Target, argument: Any) -> None:
    old_names: Any = typer.Option(..., "--compatibility", "-c", help=f"One of {', '.join(AUTO_UPDATE_STRATEGIES)}.")

    @group.command("get-is-allow-auto-update-schema")
    def get_updates(ctx: typer.Context, name: str = argument) -> None:
        """Show whether producers and consumers may bring new schemas."""
        show(ctx.obj.get(target.of(name, _UPDATES)))

    @group.command("set-is-allow-auto-update-schema")
    def set_updates(ctx: typer.Context, name: str = argument, enable: Enable = False, disable: Disable = False) -> None:
        """Set whether producers and consumers may bring new schemas."""
        ctx.obj.post(target.of(name, _UPDATES), switched(enable, disable))

    @group.command("get-schema-autoupdate-strategy")
    def get_auto_update(ctx: typer.Context, name: str = argument) -> None:
        """Show the strategy under its old name; null when it is not set."""
        show(ctx.obj.get(target.of(name, _AUTO_UPDATE)))

    @group.command("set-schema-autoupdate-strategy")
    def set_auto_update(ctx: typer.Context, name: str = argument, chosen: str = old_names) -> None:
        """Set the strategy under its old name; that of set-schema-compatibility-strategy goes before it."""
        ctx.obj.put(target.of(name, _AUTO_UPDATE), chosen)
