"""Requests to the schema registry: the schema of a topic at a version, and the version of a schema.

`PulsarClient.schema_of`, `schemas_of` and `register_schema` run them. Schemas belong to a whole topic: a partition's
name stands for its topic.
"""

from dataclasses import dataclass
from typing import Final

from spark_pulsar.client.connections.pool import ConnectionPool
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import UnexpectedReply
from spark_pulsar.client.lookup import TopicDirectory
from spark_pulsar.model.errors import TopicNotFound
from spark_pulsar.model.schemas import Schema, SchemaType
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import Schema as WireSchema

from .connections.demultiplexer import next_id
from .connections.pipelined_requests import PipelinedRequest

MAX_SCHEMA_BYTES: Final = 1024 * 1024
"""Definition and properties of one schema that this client believes in: it is parsed in every planner and task."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as the registry of a broker gives it. `version` is what messages carry in their metadata."""

    name: str
    schema: Schema
    version: bytes


def get_schema(
    pool: ConnectionPool, topic: str, version: bytes | None, deadline: Deadline
) -> PipelinedRequest[RegisteredSchema | None]:
    """Returns the schema of `topic` (a full name) with a version, without one the last; None when there is none.

    A topic that does not exist has none either: brokers answer both alike. UnexpectedReply for a schema that is larger
    than MAX_SCHEMA_BYTES or of an unknown type.
    """
    _, connection = pool.service(deadline)
    request_id = next_id()
    try:
        answer = yield connection.start(requests.get_schema(request_id, topic, version), request_id)
    except TopicNotFound:
        return None
    response = answer.getSchemaResponse
    schema = _schema_of(topic, response.schema)
    if schema.type is SchemaType.NONE:
        return None
    return RegisteredSchema(response.schema.name, schema, response.schema_version)


def get_or_create_schema(
    directory: TopicDirectory, topic: str, name: str, schema: Schema, deadline: Deadline
) -> PipelinedRequest[bytes]:
    """Returns the version of a schema, which the existing `topic` (a full name of one partition) gets if it is new.

    IncompatibleSchema when it may not follow those that are there, or the policies forbid new ones; TopicNotFound.
    """
    connection = yield from directory.connect(topic, deadline)
    request_id = next_id()
    try:
        answer = yield connection.start(requests.get_or_create_schema(request_id, topic, name, schema), request_id)
    except TopicNotFound:
        directory.discard(topic)
        raise
    version: bytes = answer.getOrCreateSchemaResponse.schema_version
    return version


def _schema_of(topic: str, wire: WireSchema) -> Schema:
    properties = {pair.key: pair.value for pair in wire.properties}
    size_bytes = len(wire.schema_data) + sum(len(key) + len(value) for key, value in properties.items())
    if size_bytes > MAX_SCHEMA_BYTES:
        raise UnexpectedReply(f"the schema of {topic} has {size_bytes} bytes, more than {MAX_SCHEMA_BYTES}")
    try:
        return Schema(SchemaType(wire.type), wire.schema_data, properties)
    except ValueError:
        raise UnexpectedReply(f"the schema of {topic} has the unknown type {wire.type}") from None
