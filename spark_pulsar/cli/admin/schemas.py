"""`spark-pulsar admin schemas`: schemas of topics."""

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from spark_pulsar.cli.access.topics import Topic
from spark_pulsar.cli.admin.command import PLACES, rows
from spark_pulsar.cli.values import topic_name
from spark_pulsar.model.policies.policy_columns import flag

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
_SCHEMAS: Final = "/admin/v2/schemas/{local_topic}"


def _get(
    ctx: typer.Context,
    topic: Topic,
    version: Annotated[int | None, typer.Option("--version", "-v", help="Not the last one, but this.")] = None,
    all_versions: Annotated[bool, typer.Option("--all-version", "-a", help="All of them.")] = False,
) -> Any:
    path = _path(topic)
    if all_versions:
        return [_shown(topic, response) for response in ctx.obj.get(f"{path}/schemas")["getSchemaResponses"]]
    if version is not None:
        return _shown(topic, ctx.obj.get(f"{path}/schema/{version}"))["schemaInfo"]
    return _shown(topic, ctx.obj.get(f"{path}/schema"))


def _upload(ctx: typer.Context, topic: Topic, filename: File) -> Any:
    return ctx.obj.post(f"{_path(topic)}/schema", _payload(filename))["version"]["version"]


def _compatibility(ctx: typer.Context, topic: Topic, filename: File) -> Any:
    return ctx.obj.post(f"{_path(topic)}/compatibility", _payload(filename))


def _version_of(ctx: typer.Context, topic: Topic, filename: File) -> Any:
    return ctx.obj.post(f"{_path(topic)}/version", _payload(filename))["version"]


def _path(topic: str) -> str:
    return _SCHEMAS.format(local_topic=PLACES["local_topic"].segments(topic))


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
    added = {"timestamp": answer["timestamp"], "properties": answer["properties"]}
    return {"version": answer["version"], "schemaInfo": {**described, **added}}


_schemas: Final = rows("schemas", "/admin/v2/schemas/{local_topic}")

COMMANDS: Final = (
    _schemas(
        "get",
        "GET /schema",
        "Show the schema of a topic.",
        work=_get,
        also=(("GET", f"{_SCHEMAS}/schemas"), ("GET", f"{_SCHEMAS}/schema/{{version}}")),
    ),
    _schemas("metadata", "GET /metadata", "Show the versions of a schema.", shows=True),
    _schemas("upload", "POST /schema", "Give a topic a schema; its version.", work=_upload, shows=True),
    _schemas(
        "delete",
        "DELETE /schema",
        "Delete all schemas of a topic.",
        query=(flag("force", "--force -f", "Leave no mark that there were any."),),
    ),
    _schemas(
        "compatibility",
        "POST /compatibility",
        "Say whether a topic could get a schema.",
        work=_compatibility,
        shows=True,
    ),
    _schemas(
        "version",
        "POST /version",
        "The version of a schema that a topic has; -1 when it has it not.",
        work=_version_of,
        shows=True,
    ),
)
