"""GET_SCHEMA and GET_OR_CREATE_SCHEMA (SC-9, C6), for roles that `security.commands` lets (SEC-61). Their refusals go
inside their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.broker.entities import registry as registry_rules
from spark_pulsar.broker.topic_log import disk_full
from spark_pulsar.model.errors import IncompatibleSchema, PulsarError, TopicNotFound
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.schemas import SchemaType, StoredSchema
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.protocol.replies import refusal
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandGetOrCreateSchema, CommandGetSchema
from spark_pulsar.wire.pulsar_api_pb2 import Schema as WireSchema

from . import admission, registry

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session


def on_get_schema(core: Core, session: Session, command: CommandGetSchema) -> None:
    """GET_SCHEMA: the schema with a version, or the last one; after a deletion that is the mark of it, a schema of type
    NONE (SC-9, SC-10)."""
    name = TopicName.parse(command.topic)
    if command.HasField("schema_version"):
        stored = registry.at_version(core, name, _version(command.schema_version))
    else:
        stored = registry.latest(core, name)
    if stored is None:
        raise TopicNotFound(f"Topic not found or no-schema {command.topic}")
    answer = commands.schema_found(
        command.request_id, _on_wire(registry.name_of(name), stored), registry.version_bytes(stored.version)
    )
    core.when_group_durable(registry.group_of(core, name), lambda: core.send(session, answer))


def on_get_or_create_schema(core: Core, session: Session, command: CommandGetOrCreateSchema) -> None:
    """GET_OR_CREATE_SCHEMA: the version of a schema, which the topic, if it exists, gets if need be (SC-9)."""
    name = TopicName.parse(command.topic)
    if registry_rules.find(core, name) is None:
        raise TopicNotFound(f"Topic not found {command.topic}")
    version = b""
    if command.schema.type == getattr(WireSchema, "None"):
        admission.check_without_schema(core, name)
    else:
        version = registry.version_bytes(admission.add(core, name, registry.from_wire(command.schema)))
    answer = commands.schema_created(command.request_id, version)

    def refused(error: PulsarError) -> None:
        request = BaseCommand(type=BaseCommand.GET_OR_CREATE_SCHEMA, getOrCreateSchema=command)
        answer = refusal(request, error)
        assert answer is not None, "it has a request id"
        core.send(session, answer)

    disk_full.answer_when_durable(core, lambda: core.send(session, answer), refused, registry.group_of(core, name))


def _version(data: bytes) -> int:
    if not data:
        raise IncompatibleSchema("Empty schema version")
    if len(data) < registry.VERSION_BYTES:
        raise IncompatibleSchema(f"A schema version has {registry.VERSION_BYTES} bytes, not {len(data)}")
    return int.from_bytes(data[: registry.VERSION_BYTES], "big", signed=True)


def _on_wire(name: str, stored: StoredSchema) -> WireSchema:
    schema = stored.schema
    wire_schema = WireSchema(name=name, schema_data=schema.data)
    wire_schema.type = WireSchema.Type.ValueType(max(int(schema.type), int(SchemaType.NONE)))
    for key, value in schema.properties.items():
        wire_schema.properties.add(key=key, value=value)
    return wire_schema
