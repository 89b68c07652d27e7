"""Registration of a row schema with its topic, before the first row: on the driver, when a write is planned.

A topic that has a schema which takes the rows keeps it: they are written as the topic's definition says, fields that
the DataFrame lacks with their default or null, and no new version is made. Otherwise the topic's definition, extended
by the columns that are new, becomes its next version, if its strategy of compatibility lets it; else the refusal names
the fields that differ.

Spark plans each micro-batch anew, mostly in one process, which remembers the agreed schema. Tasks register the schema
again as each producer does, so that a topic that does not exist yet, or was deleted since, has it before its first
message.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.deriving.definition_differences import differences
from spark_pulsar.connector.schemas.deriving.row_schema import RECORDS, RowSchema
from spark_pulsar.connector.schemas.extended_definition import MissingFields, extended
from spark_pulsar.model.errors import IncompatibleSchema, PulsarError, TopicNotFound
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.schemas import Compatibility, Schema

_STRATEGY: Final = re.compile(r"strategy (?:is )?(\w+)")
_MOST_REMEMBERED: Final = 256
_MOST_VERSIONS: Final = 50
_VERSION_BYTES: Final = 8
_MOST_REASON: Final = 300
_AGREED: Final[OrderedDict[tuple[str, str, bytes, str], RowSchema]] = OrderedDict()
"""Schemas that this process has agreed upon, by service, topic and derived definition; longest unused first."""


def agreed_schema(client: PulsarClient, topic: str, rows: RowSchema) -> RowSchema:
    """Returns the schema with which rows are written: the topic's where it says the same, else the derived one, which
    is registered. SchemaError when the topic cannot have it, with what differs."""
    if not rows.is_registered:
        return rows
    key = (client.config.service_url, topic, rows.schema.data, repr(rows))
    agreed = _AGREED.get(key)
    if agreed is None:
        agreed = _AGREED[key] = _agree(client, topic, rows)
        if len(_AGREED) > _MOST_REMEMBERED:
            _AGREED.popitem(last=False)
    else:
        _AGREED.move_to_end(key)
    return agreed


def _agree(client: PulsarClient, topic: str, rows: RowSchema) -> RowSchema:
    try:
        partition = client.partitions_of(topic)[0]
        registered = client.schema_of(topic)
        if registered is not None:
            last = Definition.of(registered)
            chosen, is_new = _chosen(client, topic, last, rows)
            if not is_new:
                return chosen
            rows = chosen
        _check_parts(client, topic, client.register_schema(partition, rows.schema, rows.schema.type.name), rows)
    except TopicNotFound:
        return rows  # the first producer makes the topic and registers
    except IncompatibleSchema as refusal:
        raise refused(client, topic, rows, refusal) from None
    return rows


def _chosen(client: PulsarClient, topic: str, last: Definition, rows: RowSchema) -> tuple[RowSchema, bool]:
    """Returns the rows with a version of the topic that takes them, the newest such, or with the last one extended by
    what they have beyond it; and whether that is a new definition. Raises SchemaError for columns that are missing."""
    missing: MissingFields | None = None
    try:
        newest, is_new = extend(last, rows)
        if not is_new:
            return newest, False
    except MissingFields as error:
        newest, missing = rows, error
    if last.type is rows.schema.type:
        for older in _older(client, topic, last):
            adopted = adopt(older, rows)
            if adopted is not None:
                return adopted, False
    if missing is not None:
        raise SchemaError(
            f"{missing} is on the topic, but not in the DataFrame: add the column, as version {_number(last)} of the "
            f"schema of {topic} has no default and no null for it"
        )
    return newest, True


def _check_parts(client: PulsarClient, topic: str, version: bytes, rows: RowSchema) -> None:
    """Checks that a version of a KEY_VALUE schema has the types and the encoding of the rows: brokers take those of
    equal definitions for equal, and primitives have none. Raises SchemaError."""
    registered = None if rows.key is None else client.schema_of(topic, version)
    if registered is None or rows.key is None:
        return
    key, value, encoding = Definition.of(registered).key_value()
    there = f"key {key.type.name}, value {value.type.name}, {encoding.value}"
    wanted = f"key {rows.key.schema.type.name}, value {rows.value.schema.type.name}, {rows.encoding.value}"
    if there != wanted:
        raise SchemaError(
            f"the KEY_VALUE schema of {topic} is {there}, that of the DataFrame {wanted}; set keySchemaType, "
            "valueSchemaType and keyValueEncodingType as the topic's, or use a new topic"
        )


def adopt(topic: Definition, rows: RowSchema) -> RowSchema | None:
    """Returns the rows with the topic's definition where it takes them; None where it does not (SCHEMA-6)."""
    try:
        row_schema, is_new = extend(topic, rows)
    except MissingFields:
        return None
    return None if is_new else row_schema


def extend(topic: Definition, rows: RowSchema) -> tuple[RowSchema, bool]:
    """Returns the rows with the topic's definition, extended by what they have beyond it, and whether that makes a new
    definition (SCHEMA-6). Rows of other types of schema stay as they are, for the broker to refuse.

    Raises MissingFields for fields of the topic that nothing fills.
    """
    if topic.type is not rows.schema.type:
        return rows, True
    if rows.key is None:
        schema, is_new = _extended_part(topic, rows.value.schema, "")
        return rows.with_schemas(schema), is_new
    key, value, encoding = topic.key_value()
    if encoding is not rows.encoding:
        return rows, True
    key_schema, is_new_key = _extended_part(key, rows.key.schema, "key.")
    value_schema, is_new_value = _extended_part(value, rows.value.schema, "value.")
    return rows.with_schemas(value_schema, key_schema), is_new_key or is_new_value


def _extended_part(topic: Definition, schema: Schema, path: str) -> tuple[Schema, bool]:
    if topic.type is not schema.type:
        return schema, True
    if schema.type not in RECORDS:
        return topic.schema, False
    try:
        topic.avro()  # within bounds
        definition, is_new = extended(json.loads(topic.schema.data), json.loads(schema.data), path)
    except MissingFields:
        raise
    except (SchemaError, ValueError, RecursionError):
        return schema, True
    if not is_new:
        return topic.schema, False
    return replace(topic.schema, data=json.dumps(definition, ensure_ascii=False).encode()), True


def refused(client: PulsarClient, topic: str, rows: RowSchema, refusal: IncompatibleSchema) -> SchemaError:
    """Returns the error that says how the rows differ from the topic's schema, and what decides that they may not."""
    namespace = TopicName.parse(topic).namespace_name
    strategy = _strategy(refusal)
    known = f"schema compatibility strategy {strategy.name}" if strategy else "schema compatibility strategy"
    sentences = [f"the schema {rows.schema.type.name} of the DataFrame was refused for {topic}"]
    sentences += _differences(client, topic, rows, strategy)
    if "auto updating is disabled" in refusal.message:
        sentences.append(
            "clients may add no schema there: upload it first, or allow it with pulsar-admin namespaces "
            f"set-is-allow-auto-update-schema --enable {namespace}"
        )
    else:
        sentences.append(
            f"the {known} decides; it is set with pulsar-admin namespaces set-schema-compatibility-strategy "
            f"--compatibility ... {namespace}, for one topic with pulsar-admin topicPolicies "
            "set-schema-compatibility-strategy, and by schemaCompatibilityStrategy in the broker's configuration"
        )
    reason = " ".join(refusal.message.split())
    sentences.append(f"the broker said: {reason if len(reason) <= _MOST_REASON else reason[:_MOST_REASON] + '...'}")
    return SchemaError("; ".join(sentences))


def _strategy(refusal: PulsarError) -> Compatibility | None:
    match = _STRATEGY.search(refusal.message)
    name = match[1] if match else ""
    return Compatibility[name] if name in Compatibility.__members__ else None


def _differences(client: PulsarClient, topic: str, rows: RowSchema, strategy: Compatibility | None) -> list[str]:
    """Compares with the topic's last schema, and where a transitive strategy requires them, with older ones: what the
    strategy forbids, or else everything that differs from the last one."""
    try:
        registered = client.schema_of(topic)
        if registered is None:
            return []
        last = Definition.of(registered)
        for topic_schema in _followed(client, topic, last, strategy):
            if forbidden := _compared(topic_schema, rows, strategy):
                return forbidden
        return _compared(last, rows, None)
    except (PulsarError, SchemaError):
        return []  # the refusal itself is what counts


def _followed(
    client: PulsarClient, topic: str, last: Definition, strategy: Compatibility | None
) -> Iterator[Definition]:
    """Yields the schemas that a new one must be compatible with, newest first."""
    yield last
    if strategy is not None and strategy.is_transitive:
        yield from _older(client, topic, last)


def _older(client: PulsarClient, topic: str, last: Definition) -> Iterator[Definition]:
    """Yields the schemas before the last one, newest first."""
    if len(last.version) != _VERSION_BYTES:
        return
    newest = _number(last)
    for version in range(newest - 1, max(-1, newest - 1 - _MOST_VERSIONS), -1):
        older = client.schema_of(topic, version.to_bytes(_VERSION_BYTES, "big"))
        if older is not None:
            yield Definition.of(older)


def _number(definition: Definition) -> int:
    return int.from_bytes(definition.version, "big")


def _compared(topic: Definition, rows: RowSchema, strategy: Compatibility | None) -> list[str]:
    version = f"version {_number(topic)}" if topic.version else "its schema"
    if topic.type is not rows.schema.type:
        return [f"{version} of the topic's schema is {topic.type.name}: use schemaType {topic.type.name}"]
    if rows.key is None:
        pairs: list[tuple[str, Definition, Schema]] = [("", topic, rows.value.schema)]
    else:
        key, value, _ = topic.key_value()
        pairs = [("key: ", key, rows.key.schema), ("value: ", value, rows.value.schema)]
    texts: list[str] = []
    for name, one, schema in pairs:
        if one.type is not schema.type:
            texts.append(f"{name}{one.type.name} on the topic, but {schema.type.name} in the DataFrame")
        elif schema.type in RECORDS:
            texts += [f"{name}{text}" for text in differences(one.avro(), Definition(schema).avro(), strategy)]
    return [f"compared with {version} of the topic's schema, {'; '.join(texts)}"] if texts else []
