"""Schemas over REST (SC-12). A topic need not exist to have schemas; its namespace must."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import routes
from spark_pulsar.broker.schemas import definitions, registry
from spark_pulsar.broker.schemas.definitions import InvalidSchema, SchemaTooLarge
from spark_pulsar.model.errors import IncompatibleSchema
from spark_pulsar.model.schemas import Schema, SchemaType, StoredSchema, join_key_and_value

from .http.answers import Piecewise, json_pieces, unbounded_text_map
from .http.calls import reads, shows_change, value_or_empty, whole_number_in_path
from .http.path_names import topic_name
from .http.refusals import Refused
from .namespaces.namespace_lifecycle import check_tenant, existing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.responses import Response

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.model.names import TopicName

    from .http.calls import Call, Routes


def _topic(call: Call) -> TopicName:
    parts = call.parts
    return topic_name("persistent", parts["tenant"], parts["namespace"], parts["topic"])


def _payload(call: Call) -> Schema:
    """Reads the schema in a body `{"type": ..., "schema": text, "properties": ...}`."""
    body = call.json()
    if not isinstance(body, dict) or not isinstance(body.get("type"), str) or not isinstance(body.get("schema"), str):
        raise Refused(400, 'Want {"type": "AVRO", "schema": "...", "properties": {}}')
    if body["type"] not in SchemaType.__members__:
        raise Refused(422, f"Unknown schema type : {body['type']}")
    kind, text = SchemaType[body["type"]], body["schema"]
    data = _key_and_value(text) if kind is SchemaType.KEY_VALUE else text.encode()
    return Schema(kind, data, unbounded_text_map(body.get("properties"), "properties"))


def _key_and_value(text: str) -> bytes:
    """Reads the definition in a text `{"key": ..., "value": ...}`, where a primitive is the empty text."""
    try:
        parts = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(422, f"Invalid schema definition data for KEY_VALUE schema caused by {error}") from error
    if not isinstance(parts, dict) or not {"key", "value"} <= parts.keys():
        raise Refused(422, 'Invalid schema definition data for KEY_VALUE schema: want {"key": ..., "value": ...}')
    key, value = (b"" if parts[which] == "" else _compact(parts[which]).encode() for which in ("key", "value"))
    return join_key_and_value(key, value)


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _text(schema: Schema) -> str:
    """Returns a definition as text; that of KEY_VALUE as `_key_and_value` takes it."""
    if schema.type is not SchemaType.KEY_VALUE:
        return schema.data.decode(errors="replace")
    key, value = definitions.key_and_value(schema)
    return f'{{"key":{_part_text(key)},"value":{_part_text(value)}}}'


def _part_text(part: Schema) -> str:
    text = part.data.decode(errors="replace")
    try:
        return _compact(json.loads(text))
    except (ValueError, RecursionError):
        return _compact(text)


def _shown(stored: StoredSchema) -> dict[str, Any]:
    schema = stored.schema
    return {
        "version": stored.version,
        "type": schema.type.name,
        "timestamp": stored.created_ms,
        "data": _text(schema),
        "properties": dict(schema.properties),
    }


def _latest(core: Core, call: Call) -> object:
    schema = registry.latest(core, _topic(call))
    if schema is None or schema.is_deleted:
        raise Refused(404, "Schema not found")
    return _shown(schema)


def _at_version(core: Core, call: Call) -> object:
    schema = registry.at_version(core, _topic(call), whole_number_in_path(call.parts["version"]))
    if schema is None:
        raise Refused(404, "Schema not found")
    return _shown(schema)


async def _all(call: Call) -> Response:
    """Answers with all versions, of which one is written at a time: a thousand of them may be long."""
    return Piecewise(_all_blocks(registry.versions_of(call.core, _topic(call))), "application/json")


def _all_blocks(versions: list[StoredSchema]) -> Iterator[bytes]:
    before = '{"getSchemaResponses":['
    for version in versions:
        yield before.encode()
        for piece in json_pieces(_shown(version)):
            yield piece.encode()
        before = ","
    yield b"]}" if versions else f"{before}]}}".encode()


def _metadata(core: Core, call: Call) -> object:
    """Returns the places of the versions of a schema, nothing where there is none. They are in no ledger here: each
    place is -1:-1."""
    index = [
        {"ledgerId": -1, "entryId": -1, "version": version.version}
        for version in registry.versions_of(core, _topic(call))
    ]
    return {"info": index[-1], "index": index} if index else None


def _post(core: Core, call: Call) -> object:
    name, schema = _topic(call), _payload(call)
    existing(core, name.namespace_name)
    return {"version": {"version": registry.put(core, name, schema)}}


def _delete(core: Core, call: Call) -> object:
    """Deletes all schemas of a topic. With `force` the next version is 0 again; else a mark takes a version (SC-10)."""
    name = _topic(call)
    check_tenant(core, name.namespace_name)
    existing(core, name.namespace_name)
    if not call.flag("force"):
        return {"version": registry.delete(core, name)}
    registry.delete_all(core, name)
    return {"version": registry.NO_VERSION}


def _compatibility(core: Core, call: Call) -> object:
    name, schema = _topic(call), _payload(call)
    check_tenant(core, name.namespace_name)
    existing(core, name.namespace_name)
    fits = True
    try:
        registry.check(core, schema)
        registry.check_may_follow(core, name, schema)
    except (InvalidSchema, SchemaTooLarge):
        raise
    except IncompatibleSchema:
        fits = False
    return {"compatibility": fits, "schemaCompatibilityStrategy": registry.strategy_of(core, name).value}


def _version(core: Core, call: Call) -> object:
    """Returns the version whose text is that of the body, -1 when there is none."""
    schema = _payload(call)
    versions = registry.versions_of(core, _topic(call))
    alike = (
        version.version
        for version in versions
        if (version.schema.type, version.schema.data) == (schema.type, schema.data)
    )
    return {"version": next(alike, registry.NO_VERSION)}


async def _shows_metadata(call: Call) -> Response:
    return value_or_empty(_metadata(call.core, call))


_SCHEMAS: Final = "admin/v2/schemas/{tenant}/{namespace}/{topic}"

ROUTES: Final[Routes] = routes(
    _SCHEMAS,
    ("GET /schema", access.topic("GET_METADATA"), reads(_latest)),
    ("POST /schema", access.topic("PRODUCE"), shows_change(_post)),
    ("DELETE /schema", access.administrator, shows_change(_delete)),
    ("GET /schema/{version}", access.topic("GET_METADATA"), reads(_at_version)),
    ("GET /schemas", access.topic("GET_METADATA"), _all),
    ("GET /metadata", access.topic("GET_METADATA"), _shows_metadata),
    ("POST /compatibility", access.administrator, reads(_compatibility, 202)),
    ("POST /version", access.topic("GET_METADATA"), reads(_version)),
)
