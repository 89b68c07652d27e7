"""Copies of schemas: the versions that a topic has on one Pulsar, registered with a topic of another (SCHEMA-4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.schema_requests import RegisteredSchema
from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.timeouts import naming
from spark_pulsar.connector.worker_clients import own_client
from spark_pulsar.model.errors import TopicNotFound

MAX_COPIED_VERSIONS: Final = 1_000
_VERSION_BYTES: Final = 8


def copy_schemas(
    source: Mapping[str, str], target: Mapping[str, str], topic: str, target_topic: str | None = None
) -> dict[int, int]:
    """Registers all versions of the schema of `topic` with `target_topic`, oldest first, and returns the version that
    each has there. Versions that are there already keep theirs.

    `source` and `target` are options of `format("pulsar")` that name and enter a service: `service.url` and those of
    authentication and TLS. The target topic is made if it does not exist and the broker lets clients do so. Empty for
    a topic without schema. Raises SchemaError for more than 1,000 versions, IncompatibleSchema where the target's
    strategy of compatibility refuses one.
    """
    reading, writing = parse_options({**source, "topic": topic}), parse_options({**target, "topic": topic})
    with naming("operationTimeoutMs"), own_client(reading) as old, own_client(writing) as new:
        return _copy(old, new, topic, topic if target_topic is None else target_topic)


def _copy(old: PulsarClient, new: PulsarClient, topic: str, target_topic: str) -> dict[int, int]:
    newest = old.schema_of(topic)
    if newest is None:
        return {}
    count = _number(newest.version) + 1
    if count > MAX_COPIED_VERSIONS:
        raise SchemaError(f"{topic} has {count} versions of a schema, more than the {MAX_COPIED_VERSIONS} copied")
    partition = new.partitions_of(target_topic, create=True)[0]
    versions: dict[int, int] = {}
    for version in range(count):
        registered = old.schema_of(topic, version.to_bytes(_VERSION_BYTES, "big"))
        if registered is not None:
            versions[version] = _number(_register(new, partition, registered))
    return versions


def _register(client: PulsarClient, partition: str, schema: RegisteredSchema) -> bytes:
    try:
        return client.register_schema(partition, schema.schema, schema.name)
    except TopicNotFound:
        with client.publisher(partition):  # makes the topic, where clients may
            return client.register_schema(partition, schema.schema, schema.name)


def _number(version: bytes) -> int:
    return int.from_bytes(version, "big", signed=True)
