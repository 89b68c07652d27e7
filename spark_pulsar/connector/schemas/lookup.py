"""Schemas of the topics of a read: looked up when it is planned, and at the versions that its messages carry."""

from __future__ import annotations

import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.timeouts import naming
from spark_pulsar.connector.planning.topic_partitions import topics_of_pattern
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.united_definition import Contradiction, united, with_fields
from spark_pulsar.connector.worker_clients import own_client
from spark_pulsar.model import avro
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import MessageId
from spark_pulsar.model.schemas import AVRO_BASED, Schema, SchemaType

MAX_VERSIONS: Final = 1_000
MAX_VERSION_BYTES: Final = 16 * 1024 * 1024
"""Versions of schemas that a process keeps, of all topics together, and the bytes of their definitions; the one that
was requested first goes first."""

_VERSIONS: Final[OrderedDict[tuple[object, ...], Definition]] = OrderedDict()


def common_definition(
    client: PulsarClient, topics: Iterable[str], allow_different: bool, wanted: Collection[str] | None = None
) -> Definition | None:
    """Returns the schema that all topics can be read with (partitions stand for their topics): their newest one where
    that is the same, else what they have in common (SCHEMA-8); None when they have none.

    A topic without schema is one that has none yet, unless it has messages. Topics whose schemas contradict each other
    are an error that names both, unless they do in fields that are not `wanted`; with `allow_different` all that differ
    are read without schema. Raises SchemaError.
    """
    bases = sorted({TopicName.parse(topic).base.full for topic in topics})
    schemas = client.schemas_of(bases)
    there: dict[str, Definition] = {}
    for topic in bases:
        registered = schemas[topic]
        if registered is not None:
            there[topic] = Definition.of(registered)
    if not there:
        return None
    first = next(iter(there.values()))
    lacking = [topic for topic in bases if topic not in there]
    if not lacking and all(_alike(first, definition) for definition in there.values()):
        return first
    if allow_different:
        return None
    _refuse_messages(client, lacking, there)
    return replace(_united(there, wanted), is_of_several=True)


def _refuse_messages(client: PulsarClient, lacking: Sequence[str], there: Mapping[str, Definition]) -> None:
    """Checks that topics without schema are empty. Raises SchemaError."""
    partitions = {
        topic: names for topic, names in client.partitions_of_each(lacking).items() if isinstance(names, list)
    }
    ends = client.end_positions_of_each([partition for names in partitions.values() for partition in names])
    used = {partition: end for partition, end in ends.items() if isinstance(end, MessageId) and end.entry_id >= 0}
    firsts = client.first_available(dict.fromkeys(used, MessageId(0, 0)))
    for topic, names in partitions.items():
        if any(partition in used and firsts[partition] != used[partition] for partition in names):
            raise _different(next(iter(there.items())), (topic, None), None)


def _united(there: Mapping[str, Definition], wanted: Collection[str] | None) -> Definition:
    kinds: dict[tuple[object, ...], tuple[str, Definition]] = {}
    for topic, definition in there.items():
        schema = definition.schema
        own = tuple(sorted(schema.properties.items())) if definition.type is SchemaType.KEY_VALUE else ()
        kinds.setdefault((definition.type, schema.data, own), (topic, definition))
    several = list(kinds.values())
    try:
        return united([definition for _, definition in several])
    except Contradiction as error:
        if error.place and wanted is not None:
            return _united({topic: with_fields(definition, wanted) for topic, definition in there.items()}, None)
        raise _different(*_contradicting(several, error)) from None


def _contradicting(
    several: Sequence[tuple[str, Definition]], error: Contradiction
) -> tuple[tuple[str, Definition], tuple[str, Definition], Contradiction]:
    """Returns two topics that contradict each other, and in what (SCHEMA-9)."""
    for i, other in enumerate(several):
        for one in several[:i]:
            try:
                united([one[1], other[1]])
            except Contradiction as contradiction:
                return one, other, contradiction
    return several[0], several[-1], error  # what two have in common contradicts a third


def _different(
    one: tuple[str, Definition | None], other: tuple[str, Definition | None], error: Contradiction | None
) -> SchemaError:
    texts = []
    for i, (topic, definition) in enumerate((one, other)):
        place = f", where {error.place} is {error.types[i]}" if error is not None and error.place else ""
        texts.append(f"{topic} has {_described(definition)}{place}")
    return SchemaError(
        f"topics have different schemas: {texts[0]}, {texts[1]}; set allowDifferentTopicSchemas to true to read value "
        'as bytes, use .schema("value binary"), or read them one by one'
    )


def _alike(one: Definition, other: Definition) -> bool:
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


def _described(definition: Definition | None) -> str:
    if definition is None:
        return "none"
    version = int.from_bytes(definition.version, "big") if definition.version else 0
    return f"{definition.type.name} (version {version})"


def definition_at(
    client: PulsarClient, topic: str, version: int, *, ledger_id: int, planned: Definition
) -> Definition | None:
    """Returns the schema of a topic at the version that a message carries, the newest for one below 0; None when the
    registry no longer has it.

    Requested once in a process for the messages of a ledger: versions begin anew when a topic is deleted and made
    again, and ledgers do not. With the definition that was `planned` for the read it holds for a broker that begins
    anew with its ledgers as well. A missing one is requested again.
    """
    read = (planned.type, planned.version, hashlib.sha256(planned.schema.data).digest())
    key = (client.config, TopicName.parse(topic).base.full, ledger_id, read, version)
    known = _VERSIONS.get(key)
    if known is not None:
        return known
    registered = client.schema_of(topic, None if version < 0 else version.to_bytes(8, "big", signed=True))
    if registered is None:
        return None
    definition = _VERSIONS[key] = Definition.of(registered)
    kept_bytes = sum(len(definition.schema.data) for definition in _VERSIONS.values())
    while len(_VERSIONS) > 1 and (len(_VERSIONS) > MAX_VERSIONS or kept_bytes > MAX_VERSION_BYTES):
        kept_bytes -= len(_VERSIONS.popitem(last=False)[1].schema.data)
    return definition


def newest_definition(client: PulsarClient, topic: str) -> Definition | None:
    """Returns the newest schema of a topic, as the registry has it now; None for none."""
    registered = client.schema_of(topic, None)
    return None if registered is None else Definition.of(registered)


@naming("operationTimeoutMs")
def definition_of_read(
    options: Options, wanted: Collection[str] | None = None, client: PulsarClient | None = None
) -> Definition | None:
    """Returns the schema of the topics to read; None when they have none, or it is not to be used.

    A topic that does not exist has none. Raises SchemaError when the schemas of several topics contradict each
    other, in the fields that are `wanted` if they are given. Without a `client` one is made, and closed.
    """
    if not options.use_topic_schema:
        return None
    with own_client(options) if client is None else contextlib.nullcontext(client) as client:
        if options.topics_pattern is not None:
            topics = topics_of_pattern(client, options.topics_pattern)
        else:
            topics = list(options.named_topics)
        return common_definition(client, topics, options.allow_different_topic_schemas, wanted)
