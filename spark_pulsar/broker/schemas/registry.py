"""Registry of schemas: the versions of a topic. Which producers and consumers may use them is in `admission`.

A topic's schemas are those of its name without domain and partition (SC-1). `definitions` checks one (SC-2), `requests`
answers with one (SC-9). A version is on disk before a client hears of it. Avro's rules are imported with the first
schema that needs them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote_plus

from spark_pulsar.ledger.state.schemas import SchemaAdded, SchemasDeleted, SchemasForgotten, next_version
from spark_pulsar.model.names import NON_PERSISTENT, PERSISTENT
from spark_pulsar.model.schemas import Compatibility, Schema, SchemaType, StoredSchema
from spark_pulsar.wire.pulsar_api_pb2 import Schema as WireSchema

from . import definitions

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.model.names import TopicName

NO_VERSION: Final = -1
VERSION_BYTES: Final = 8
_MOST_GROUPS: Final = 256
"""Names whose groups are kept before those that are on disk leave."""


# ---- names and numbers ------------------------------------------------------------------------------------------


def name_of(topic: TopicName) -> str:
    """Returns the name under which a topic's schemas are kept: `tenant/namespace/topic`, the last part URL-encoded."""
    base = topic.base
    local = quote_plus(base.local, safe="*").replace("~", "%7E")
    return f"{base.tenant}/{base.namespace}/{local}"


def version_bytes(version: int) -> bytes:
    """Encodes a version: 8 bytes, big-endian."""
    return version.to_bytes(VERSION_BYTES, "big", signed=True)


def from_wire(schema: WireSchema) -> Schema:
    """Decodes the schema of a command."""
    properties = {pair.key: pair.value for pair in schema.properties}
    return Schema(SchemaType(schema.type), schema.schema_data, properties)


# ---- stored schemas ---------------------------------------------------------------------------------------------


def versions_of(core: Core, topic: TopicName) -> list[StoredSchema]:
    """Lists the schemas of a topic, oldest first; none when they were deleted."""
    return [stored for stored in core.state.schemas.get(name_of(topic), ()) if not stored.is_deleted]


def latest(core: Core, topic: TopicName) -> StoredSchema | None:
    """Finds the last version, which may be the mark of a deletion."""
    versions = core.state.schemas.get(name_of(topic))
    return versions[-1] if versions else None


def at_version(core: Core, topic: TopicName, version: int) -> StoredSchema | None:
    """Finds the schema with this version."""
    return next((stored for stored in versions_of(core, topic) if stored.version == version), None)


def equal_version(core: Core, topic: TopicName, schema: Schema) -> int | None:
    """Finds the version that says the same as `schema`."""
    versions = versions_of(core, topic)
    alike = [stored for stored in versions if stored.schema.type is schema.type]
    same_bytes = next((stored.version for stored in alike if stored.schema.data == schema.data), None)
    if same_bytes is not None:
        return same_bytes
    if not alike:
        return None
    from . import compatibility

    return next((stored.version for stored in alike if compatibility.are_equal(stored.schema, schema)), None)


def strategy_of(core: Core, topic: TopicName) -> Compatibility:
    """Returns the compatibility strategy of a topic (SC-4)."""
    return Compatibility.ALWAYS_COMPATIBLE if topic.is_system else core.policies_of(topic).schema_compatibility


# ---- changes ----------------------------------------------------------------------------------------------------


def put(core: Core, topic: TopicName, schema: Schema) -> int:
    """Adds a schema to a topic unless it has it, and returns its version. IncompatibleSchema when it is none, or may
    not follow those that are there; TooManySchemas when there is no room for one more (SC-11)."""
    check(core, schema)
    known = equal_version(core, topic, schema)
    if known is not None:
        return known
    check_may_follow(core, topic, schema)
    name = name_of(topic)
    _check_room(core, topic, schema)
    version = next_version(core.state.schemas.get(name, ()))
    properties = dict(schema.properties)
    core.append(SchemaAdded(name, version, int(schema.type), core.wall_ms, schema.data, properties))
    _changed(core, name)
    return version


def _check_room(core: Core, topic: TopicName, schema: Schema) -> None:
    """Raises TooManySchemas when one more schema would exceed the versions, or the bytes of all of them, that are kept
    for a topic: all are in memory."""
    config, versions = core.config, versions_of(core, topic)
    size_bytes = sum(definitions.size_of(stored.schema) for stored in versions) + definitions.size_of(schema)
    if 0 < config.max_schema_versions <= len(versions):
        held = f"{len(versions)} versions of its schema, the most that schemaMaxVersionsPerTopic allows"
    elif 0 < config.max_schema_total_bytes < size_bytes:
        held = (
            f"with this one {size_bytes} bytes of schemas, more than schemaMaxTotalSizeBytes allows: "
            f"{config.max_schema_total_bytes}"
        )
    else:
        return
    raise definitions.TooManySchemas(
        f"{topic.base.full} has {held}. Raise that key, or delete the topic's schemas (pulsar-admin schemas delete) "
        "where no stored message needs them"
    )


def check(core: Core, schema: Schema) -> None:
    """Raises IncompatibleSchema unless it is a schema, of a size that is read here (SC-2)."""
    definitions.check_size(schema, core.config.max_schema_bytes)
    definitions.check(schema)


def check_may_follow(core: Core, topic: TopicName, schema: Schema) -> None:
    """Raises IncompatibleSchema unless the topic's strategy lets the schema follow those that are there (SC-3)."""
    strategy = strategy_of(core, topic)
    if strategy is Compatibility.ALWAYS_COMPATIBLE:
        return
    from . import compatibility

    existing = [stored.schema for stored in versions_of(core, topic)]
    if not strategy.is_transitive:
        existing = [
            earlier for earlier in existing[-1:] if earlier.type is not schema.type or earlier.data != schema.data
        ]
    compatibility.check_follows(existing, schema, strategy)


def delete(core: Core, topic: TopicName) -> int:
    """Deletes all schemas of a topic; returns the version of the mark that stays behind (SC-10)."""
    name = name_of(topic)
    version = next_version(core.state.schemas.get(name, ()))
    core.append(SchemasDeleted(name, version, core.wall_ms))
    _changed(core, name)
    return version


def delete_all(core: Core, topic: TopicName) -> None:
    """Deletes all schemas of a topic with their versions."""
    name = name_of(topic)
    if name in core.state.schemas:
        core.append(SchemasForgotten(name))
        _changed(core, name)


def topic_gone(core: Core, topic: TopicName) -> None:
    """Deletes the schemas of a deleted topic (not: one of several partitions), unless the topic of the other domain,
    which has the same, is still there."""
    other = replace(topic, domain=NON_PERSISTENT if topic.is_persistent else PERSISTENT).full
    state = core.state
    if other not in core.topics and other not in state.topics_by_name and other not in state.partitioned:
        delete_all(core, topic)


def delete_namespace(core: Core, namespace: str) -> None:
    """Deletes the schemas of a deleted namespace, for topics that were never created."""
    for name in [name for name in core.state.schemas if name.startswith(f"{namespace}/")]:
        core.append(SchemasForgotten(name))
        _changed(core, name)


def _changed(core: Core, name: str) -> None:
    groups = core.schema_groups
    if len(groups) >= _MOST_GROUPS:  # a durable schema needs no entry here; names come and go for ever
        for key in [key for key, group in groups.items() if not core.is_awaited(group)]:
            del groups[key]
    groups[name] = core.group_of_now


def group_of(core: Core, topic: TopicName) -> int:
    """Returns the group that the topic's schemas are durable with, for `Core.when_group_durable`."""
    return core.schema_groups.get(name_of(topic), 0)
