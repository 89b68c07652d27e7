"""`spark-pulsar admin schemas`: schemas of topics."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from spark_pulsar.cli.values import Topic, show, topic_name, topic_path

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
    """Returns a schema as `pulsar-admin` shows it: a definition that is JSON unfolded."""
    try:
        definition = json.loads(answer["data"])
    except ValueError:
        definition = answer["data"]
    described = {"name": topic_name(topic).base.local, "schema": definition, "type": answer["type"]}
    told = {"timestamp": answer["timestamp"], "properties": answer["properties"]}
    return {"version": answer["version"], "schemaInfo": {**described, **told}}
