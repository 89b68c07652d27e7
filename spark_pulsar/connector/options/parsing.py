"""Parsing of options: Spark's strings as `Options`.

`table` is the single list of names; the parser accepts nothing else, and answers a name that is close to one of
them with a suggestion. Names are matched without case, as everywhere in Spark.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, Final

from spark_pulsar.client.connections.config import DEFAULT_SUBSCRIPTION_PREFIX
from spark_pulsar.connector.columns import metadata_columns
from spark_pulsar.connector.errors import OptionError
from spark_pulsar.connector.options.aliases import given_values
from spark_pulsar.connector.options.catalog_tables import no_options, refuse_table
from spark_pulsar.connector.options.decode_mode import (
    BASE64,
    CORRUPT_RECORD,
    FAILFAST,
    JSON_BYTES,
    JSON_TIMES,
    MODES,
    TEXT,
    UNSUPPORTED_FIELDS,
)
from spark_pulsar.connector.options.decode_mode import FAIL as FAIL_FIELDS
from spark_pulsar.connector.options.encryption import (
    FAIL,
    FAILURE_ACTIONS,
    PRIVATE_KEYS,
    PUBLIC_KEYS,
    key_names,
    private_key_files,
    public_key_files,
)
from spark_pulsar.connector.options.endpoints import ending_endpoint, endpoint, publish_time
from spark_pulsar.connector.options.keys import read_keys
from spark_pulsar.connector.options.options import (
    AT_LEAST_ONCE,
    BATCHER_BUILDERS,
    COMPRESSION_TYPES,
    DELIVERY_GUARANTEES,
    HASHING_SCHEMES,
    KEY_VALUE_ENCODINGS,
    PART_SCHEMA_TYPES,
    ROUTING_MODES,
    SCHEMA_TYPES,
    Options,
)
from spark_pulsar.connector.options.security import read_security, read_service_url
from spark_pulsar.connector.options.subscriptions import subscription_name, subscription_prefix
from spark_pulsar.connector.options.table import BY_LOWER, OPTIONS, UNSUPPORTED, UNSUPPORTED_PREFIXES
from spark_pulsar.connector.options.topics import persistent_topic_name, topic_name, topic_names, topic_pattern
from spark_pulsar.connector.options.values import boolean, duration_ms, integer, one_of, texts_by_name, web_url
from spark_pulsar.connector.options.values import read as _read

_UNSUPPORTED_LOWER: Final = {name.lower(): (name, hint) for name, hint in UNSUPPORTED.items()}

# What Spark itself puts among a source's options.
_SPARK_OWN: Final = frozenset({"path", "checkpointlocation", "queryname", "serialization.format"})

_EXCLUSIVE: Final = (
    ("topic", "topics", "topicsPattern"),
    ("subscriptionName", "predefinedSubscription"),
    ("predefinedSubscription", "startingTime"),
    ("startingOffsets", "startingTime"),
    ("endingOffsets", "endingTime"),
)
"""Options that say the same thing in different words."""

_DIRECTORY: Final = re.compile(r"(?!(?:non-)?persistent://)[A-Za-z][A-Za-z0-9+.-]*:/|file:|/")
_MAX_TIMEOUT_MS: Final = 24 * 60 * 60 * 1000
_MOST_NAME: Final = 200
_PIPELINED_BATCH: Final = (1_000, 128 * 1024)
_SINGLE_BATCH: Final = (10_000, 1024 * 1024)
"""Messages and bytes of a batch by default: where many are on their way at a time, and where one is."""


def parse_options(raw: Mapping[str, str]) -> Options:
    """Turns Spark's option strings into `Options` (READ-7). Raises OptionError."""
    values = _values_by_name(raw)
    predefined = _read(values, "predefinedSubscription", subscription_name, None)
    # A read with several tasks does not want its rows in one, unless it says so.
    small_batch_default = 0 if {"minPartitions", "maxRecordsPerPartition"} & values.keys() else 5_000
    guarantee = _read(values, "deliveryGuarantee", one_of(*DELIVERY_GUARANTEES), AT_LEAST_ONCE)
    batch_messages, batch_bytes = _PIPELINED_BATCH if guarantee == AT_LEAST_ONCE else _SINGLE_BATCH
    return Options(
        service_url=(service_url := read_service_url(values)),
        security=read_security(values, service_url),
        admin_url=_read(values, "admin.url", web_url, None),
        topic=_read(values, "topic", topic_name, None),
        topics=_read(values, "topics", topic_names, ()),
        topics_pattern=_read(values, "topicsPattern", topic_pattern, None),
        starting_offsets=_read(values, "startingOffsets", endpoint, None),
        ending_offsets=_read(values, "endingOffsets", ending_endpoint, None),
        starting_time=_read(values, "startingTime", publish_time, None),
        ending_time=_read(values, "endingTime", publish_time, None),
        keys=_read(values, "keys", read_keys, None),
        keys_hashing_scheme=_read(values, "keysHashingScheme", one_of(*HASHING_SCHEMES), None),
        subscription_name=_read(values, "subscriptionName", subscription_name, predefined),
        predefined_subscription=predefined,
        subscription_prefix=_read(values, "subscriptionPrefix", subscription_prefix, DEFAULT_SUBSCRIPTION_PREFIX),
        enable_retry=_read(values, "enableRetry", boolean, False),
        retry_letter_topic=_read(values, "retryLetterTopic", persistent_topic_name, None),
        max_messages_per_trigger=_read(values, "maxMessagesPerTrigger", integer(1, 2**62), None),
        max_bytes_per_trigger=_read(values, "maxBytesPerTrigger", integer(0, 2**62), 0) or None,
        min_messages_per_trigger=_read(values, "minMessagesPerTrigger", integer(1, 2**62), None),
        max_trigger_delay_ms=_read(values, "maxTriggerDelay", duration_ms, 15 * 60 * 1000),
        min_partitions=_read(values, "minPartitions", integer(1, 2**31 - 1), None),
        max_records_per_partition=_read(values, "maxRecordsPerPartition", integer(1, 2**62), None),
        small_batch_max_messages=_read(values, "smallBatchMaxMessages", integer(0, 100_000), small_batch_default),
        read_compacted=_read(values, "readCompacted", boolean, False),
        fail_on_data_loss=_read(values, "failOnDataLoss", boolean, True),
        use_topic_schema=_read(values, "useTopicSchema", boolean, True),
        allow_different_topic_schemas=_read(values, "allowDifferentTopicSchemas", boolean, False),
        **_decoding(values),
        metadata_columns=_read(values, "metadataColumns", metadata_columns, ()),
        waiting_for_non_existed_topic=_read(values, "waitingForNonExistedTopic", boolean, False),
        poll_timeout_ms=_read(values, "pollTimeoutMs", integer(1, _MAX_TIMEOUT_MS), 120_000),
        operation_timeout_ms=_read(values, "operationTimeoutMs", integer(1, _MAX_TIMEOUT_MS), 30_000),
        connection_timeout_ms=_read(values, "connectionTimeoutMs", integer(1, _MAX_TIMEOUT_MS), 10_000),
        message_routing_mode=_read(values, "messageRoutingMode", one_of(*ROUTING_MODES), ROUTING_MODES[0]),
        hashing_scheme=_read(values, "hashingScheme", one_of(*HASHING_SCHEMES), HASHING_SCHEMES[0]),
        compression_type=_read(values, "compressionType", one_of(*COMPRESSION_TYPES), COMPRESSION_TYPES[0]),
        batching_max_messages=_read(values, "batchingMaxMessages", integer(1, 100_000), batch_messages),
        batching_max_bytes=_read(values, "batchingMaxBytes", integer(1, 5 * 1024 * 1024), batch_bytes),
        batcher_builder=_read(values, "batcherBuilder", one_of(*BATCHER_BUILDERS), BATCHER_BUILDERS[0]),
        chunking_enabled=_read(values, "chunkingEnabled", boolean, False),
        chunk_max_message_size=_read(values, "chunkMaxMessageSize", integer(1, 2**31 - 1), None),
        producer_properties=_read(values, "producerProperties", texts_by_name, ()),
        encryption_keys=_read(values, "encryptionKeys", key_names, ()),
        encryption_public_keys=_read(values, PUBLIC_KEYS, public_key_files, None),
        encryption_private_keys=_read(values, PRIVATE_KEYS, private_key_files, None),
        crypto_failure_action=_read(values, "cryptoFailureAction", one_of(*FAILURE_ACTIONS), FAIL),
        send_timeout_ms=_read(values, "sendTimeoutMs", integer(1, _MAX_TIMEOUT_MS), 30_000),
        delivery_guarantee=guarantee,
        producer_name=_read(values, "producerName", _producer_name, None),
        repeatable_row_order=_read(values, "repeatableRowOrder", boolean, False),
        transaction_timeout_ms=_read(values, "transactionTimeoutMs", integer(1, _MAX_TIMEOUT_MS), 15 * 60 * 1000),
        transaction_topic=_read(values, "transactionTopic", persistent_topic_name, None),
        schema_type=_read(values, "schemaType", one_of(*SCHEMA_TYPES), SCHEMA_TYPES[0]),
        json_times=_read(values, "jsonTimes", one_of(*JSON_TIMES), TEXT),
        key_schema_type=_read(values, "keySchemaType", one_of(*PART_SCHEMA_TYPES), PART_SCHEMA_TYPES[0]),
        value_schema_type=_read(values, "valueSchemaType", one_of(*PART_SCHEMA_TYPES), PART_SCHEMA_TYPES[0]),
        key_value_encoding_type=_read(values, "keyValueEncodingType", one_of(*KEY_VALUE_ENCODINGS), "INLINE"),
        given=frozenset(values),
    )


def _decoding(values: Mapping[str, str]) -> dict[str, Any]:
    """Reads the options of how payloads are decoded."""
    return {
        "mode": _read(values, "mode", one_of(*MODES), FAILFAST),
        "column_name_of_corrupt_record": _read(values, "columnNameOfCorruptRecord", _column, CORRUPT_RECORD),
        "dead_letter_topic": _read(values, "deadLetterTopic", persistent_topic_name, None),
        "json_bytes": _read(values, "jsonBytes", one_of(*JSON_BYTES), BASE64),
        "unsupported_fields": _read(values, "unsupportedFields", one_of(*UNSUPPORTED_FIELDS), FAIL_FIELDS),
    }


def _values_by_name(raw: Mapping[str, str]) -> dict[str, str]:
    """Returns the texts of the options that are given, by their names in the table, a path as the option `topic`.
    Raises OptionError."""
    refuse_table(raw, {lower: option.name for lower, option in BY_LOWER.items()})
    path = next((value for key, value in raw.items() if key.lower() == "path"), None)
    ours = {key: value for key, value in raw.items() if key.lower() not in _SPARK_OWN}
    values = given_values(ours, lambda key: _canonical(key.lower(), key))
    for names in _EXCLUSIVE:
        if len(given := [values.spelling(name) for name in names if name in values]) > 1:
            raise OptionError(f"options {' and '.join(given)} contradict each other: give exactly one of them")
    if path is not None and _names_a_topic(path):
        if given := [values.spelling(name) for name in _EXCLUSIVE[0] if name in values]:
            raise OptionError(f"the path {path!r} and the option {given[0]} contradict each other: both name topics")
        values["topic"] = path  # load("flights") is short for option("topic", "flights")
    if not values.get("service.url", "").strip():
        raise OptionError(
            'option service.url is required, for example "pulsar://localhost:6650"' + ("" if raw else no_options())
        )
    return values


def _names_a_topic(path: str) -> bool:
    """Returns whether a path comes from `load("flights")`, and is not the directory that Spark has for a table."""
    return bool(path.strip()) and _DIRECTORY.match(path) is None


def _canonical(lower: str, as_given: str) -> str:
    option = BY_LOWER.get(lower)
    if option is not None:
        return option.name
    if lower in _UNSUPPORTED_LOWER:
        name, hint = _UNSUPPORTED_LOWER[lower]
        raise OptionError(f"option {name} is not supported yet: {hint}")
    for prefix in UNSUPPORTED_PREFIXES:
        if lower.startswith(prefix):
            if near := _near(lower.removeprefix(prefix), prefix, 0.75):
                raise OptionError(f"unknown option {as_given}; did you mean {near}?")
            raise OptionError(
                f"option {as_given}: settings under {prefix}* are not supported yet; "
                "see connectionTimeoutMs, operationTimeoutMs, compressionType, batchingMaxMessages and their neighbours"
            )
    near = _near(lower, "", 0.6)
    hint = f"did you mean {near}?" if near else ""
    known = ", ".join(option.name for option in OPTIONS)
    raise OptionError(f"unknown option {as_given}{'; ' + hint if hint else ''} (options are: {known})")


def _near(lower: str, prefix: str, cutoff: float) -> str:
    """Names the options behind `prefix` that a name without it is close to; empty for none."""
    known = {name.removeprefix(prefix): option for name, option in BY_LOWER.items() if name.startswith(prefix)}
    near = difflib.get_close_matches(lower, list(known), n=3, cutoff=cutoff)
    return " or ".join(known[name].name for name in near)


def _column(text: str) -> str:
    if not text or text.startswith("__"):
        raise ValueError("expected the name of a column, and names that begin with __ are the connector's own")
    return text


def _producer_name(text: str) -> str:
    if not 0 < len(text) <= _MOST_NAME:
        raise ValueError(f"expected a name of 1 to {_MOST_NAME} characters")
    return text
