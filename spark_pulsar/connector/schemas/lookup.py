"""Schemas of the topics of a read: looked up when it is planned, and at the versions that its messages carry."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.model import avro
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.schemas import AVRO_BASED, Schema, SchemaType

MAX_VERSIONS: Final = 1_000
MAX_VERSION_BYTES: Final = 16 * 1024 * 1024
"""Versions of schemas that a process keeps, of all topics together, and the bytes of their definitions; the one that
was asked for first goes first."""

_VERSIONS: Final[OrderedDict[tuple[object, ...], Definition]] = OrderedDict()


def common_definition(client: PulsarClient, topics: Iterable[str], allow_different: bool) -> Definition | None:
    """Returns the newest schema of all topics (partitions stand for their topics); None when they have none.

    Topics whose schemas differ, or of which some have none, are an error unless `allow_different`: then they are read
    without schema. Raises SchemaError that names two of them.
    """
    bases = sorted({TopicName.parse(topic).base.full for topic in topics})
    found = client.schemas_of(bases)
    first: Definition | None = None
    for i, topic in enumerate(bases):
        registered = found[topic]
        definition = None if registered is None else Definition.of(registered)
        if i == 0:
            first = definition
        elif not _alike(first, definition):
            if allow_different:
                return None
            raise SchemaError(
                f"topics have different schemas: {bases[0]} has {_told(first)}, {topic} has {_told(definition)}; set "
                "allowDifferentTopicSchemas to true to read value as bytes, or read them one by one"
            )
    return first


def _alike(one: Definition | None, other: Definition | None) -> bool:
    if one is None or other is None:
        return one is other
    if one.type is not other.type:
        return False
    if one.type is SchemaType.KEY_VALUE and one.schema.properties != other.schema.properties:
        return False  # they say types and encoding; properties of other schemas are the users' own
    return one.schema.data == other.schema.data or _meaning(one.schema) == _meaning(other.schema)


def _meaning(schema: Schema) -> bytes:
    if schema.type not in AVRO_BASED:
        return schema.data
    try:
        return avro.meaning(schema.data)
    except avro.InvalidAvro:
        return schema.data


def _told(definition: Definition | None) -> str:
    if definition is None:
        return "none"
    version = int.from_bytes(definition.version, "big") if definition.version else 0
    return f"{definition.type.name} (version {version})"


def definition_at(
    client: PulsarClient, topic: str, version: int, *, ledger_id: int, planned: Definition
) -> Definition | None:
    """Returns the schema of a topic at the version that a message carries; None when the registry no longer has it.

    Asked for once in a process for the messages of a ledger: versions begin anew when a topic is deleted and made
    again, and ledgers do not. With the definition that was `planned` for the read it holds for a broker that begins
    anew with its ledgers as well. A missing one is asked for again.
    """
    read = (planned.type, planned.version, hashlib.sha256(planned.schema.data).digest())
    key = (client.config, TopicName.parse(topic).base.full, ledger_id, read, version)
    known = _VERSIONS.get(key)
    if known is not None:
        return known
    registered = client.schema_of(topic, version.to_bytes(8, "big", signed=True))
    if registered is None:
        return None
    definition = _VERSIONS[key] = Definition.of(registered)
    kept_bytes = sum(len(each.schema.data) for each in _VERSIONS.values())
    while len(_VERSIONS) > 1 and (len(_VERSIONS) > MAX_VERSIONS or kept_bytes > MAX_VERSION_BYTES):
        kept_bytes -= len(_VERSIONS.popitem(last=False)[1].schema.data)
    return definition
