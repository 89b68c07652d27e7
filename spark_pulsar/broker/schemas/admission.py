"""Admission by schema: which producers and consumers may use a topic, and the schema that one brings to it (SC-6, SC-7,
SC-8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.model.errors import IncompatibleSchema
from spark_pulsar.model.schemas import Compatibility, Schema, SchemaType
from spark_pulsar.wire.pulsar_api_pb2 import Schema as WireSchema

from . import registry

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.model.names import TopicName
    from spark_pulsar.wire.pulsar_api_pb2 import CommandProducer, CommandSubscribe

_READ_AS_BACKWARD: Final = frozenset(
    {Compatibility.BACKWARD, Compatibility.FORWARD, Compatibility.FORWARD_TRANSITIVE, Compatibility.FULL}
)
"""Strategies under which a consumer must be able to read the messages of the last schema, and no more."""


def add(core: Core, topic: TopicName, schema: Schema) -> int:
    """Finds or adds the schema that a client brings, and returns its version; adds none when schema updates are off
    (SC-6)."""
    if core.policies_of(topic).allow_schema_updates:
        return registry.put(core, topic, schema)
    registry.check(core, schema)
    known = registry.equal_version(core, topic, schema)
    if known is None:
        raise IncompatibleSchema("Schema not found and schema auto updating is disabled.")
    return known


def admit_producer(core: Core, topic: Topic, command: CommandProducer) -> bytes:
    """Admits a producer by its schema, and returns the version for PRODUCER_SUCCESS, empty without schema.
    IncompatibleSchema when it may not produce with its schema, or without one (SC-7)."""
    if command.HasField("schema"):
        return registry.version_bytes(add(core, topic.name, registry.from_wire(command.schema)))
    check_without_schema(core, topic.name)
    return b""


def check_without_schema(core: Core, topic: TopicName) -> None:
    """Raises IncompatibleSchema when messages must have a schema, because the topic has one (SC-7)."""
    if core.policies_of(topic).enforce_schemas and registry.versions_of(core, topic):
        raise IncompatibleSchema(
            "Producers cannot connect or send message without a schema to topics with a schema "
            "when SchemaValidationEnforced is enabled"
        )


def admit_consumer(core: Core, topic: Topic, command: CommandSubscribe) -> None:
    """Raises IncompatibleSchema when a consumer brings a schema that does not fit. A topic without schemas, users and
    entries gets it (SC-8)."""
    if not command.HasField("schema"):
        return
    schema = registry.from_wire(command.schema)
    if schema.type is SchemaType.AUTO_CONSUME:
        return
    registry.check(core, schema)
    existing = [stored.schema for stored in registry.versions_of(core, topic.name)]
    if not existing and not _is_used(topic):
        add(core, topic.name, schema)
        return
    strategy = registry.strategy_of(core, topic.name)
    if strategy is Compatibility.ALWAYS_COMPATIBLE:
        return
    if not existing:
        raise IncompatibleSchema(
            f"Failed to add schema to an active topic with empty(BYTES) schema: new schema type {schema.type.name}"
        )
    from . import compatibility  # Avro's rules: with the first schema that needs them

    if strategy not in _READ_AS_BACKWARD:
        compatibility.check_follows(existing, schema, strategy)
    elif existing[-1].type is not schema.type or existing[-1].data != schema.data:
        compatibility.check_follows(existing[-1:], schema, Compatibility.BACKWARD)


def is_auto_consume(command: CommandSubscribe) -> bool:
    """Returns whether a consumer takes any schema (AUTO_CONSUME)."""
    return command.HasField("schema") and command.schema.type == WireSchema.AutoConsume


def _is_used(topic: Topic) -> bool:
    """Returns whether messages without a schema may be there or come: a producer, data, or a consumer that wants
    bytes."""
    return (
        bool(topic.producers)
        or topic.ledger.size_bytes > 0
        or any(
            not consumer.auto_consume
            for subscription in topic.subscriptions.values()
            for consumer in subscription.consumers
        )
    )
