"""Options of `format("pulsar")`: one table, one parser.

`option_table` is the single list of names; the parser accepts nothing else, and answers a name that is close to one of
them with a suggestion. Names are matched without case, as everywhere in Spark.

Values are checked as soon as a `DataSource` is built, which is when the user still stands at the call site; what
depends on the kind of work (batch or stream, read or write) is checked by `for_read` and `for_write`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from spark_pulsar.client.encryption.key_files import KeyFiles
from spark_pulsar.client.retry_letters import retry_letter_topic_of
from spark_pulsar.connector.catalog_tables import no_options, refuse_table
from spark_pulsar.connector.columns import metadata_columns
from spark_pulsar.connector.decode_mode import (
    CORRUPT_RECORD,
    DEADLETTER,
    FAILFAST,
    MODES,
    PERMISSIVE,
    DecodeMode,
)
from spark_pulsar.connector.encryption_options import (
    FAIL,
    FAILURE_ACTIONS,
    PRIVATE_KEYS,
    PUBLIC_KEYS,
    check_decryption,
    check_encryption,
    key_names,
    private_key_files,
    public_key_files,
)
from spark_pulsar.connector.errors import OptionError
from spark_pulsar.connector.keys import Keys, read_keys
from spark_pulsar.connector.option_aliases import given_values
from spark_pulsar.connector.option_table import BATCH_READ, OPTIONS, UNSUPPORTED, UNSUPPORTED_PREFIXES, Use
from spark_pulsar.connector.option_values import boolean as _boolean
from spark_pulsar.connector.option_values import duration_ms
from spark_pulsar.connector.option_values import read as _read
from spark_pulsar.connector.security_options import SecurityOptions, read_security, read_service_url
from spark_pulsar.connector.splitting import Split
from spark_pulsar.model.errors import InvalidTopicName
from spark_pulsar.model.names import TopicName, split_namespace

_BY_LOWER: Final = {option.name.lower(): option for option in OPTIONS}

_UNSUPPORTED_LOWER: Final = {name.lower(): (name, hint) for name, hint in UNSUPPORTED.items()}

# What Spark itself puts among a source's options.
_SPARK_OWN: Final = frozenset({"path", "checkpointlocation", "queryname", "serialization.format"})

Endpoint = Literal["earliest", "latest"] | Mapping[str, str]
"""A start or an end: a word, or positions as text by full topic name."""

Time = int | Mapping[str, int]
"""A start or an end as a publish time in ms since 1970 UTC: for all partitions, or by full topic name."""

ROUTING_MODES: Final = ("RoundRobinPartition", "SinglePartition")
HASHING_SCHEMES: Final = ("JavaStringHash", "Murmur3_32Hash", "BoostHash")
KEY_VALUE: Final = "KEY_VALUE"
PART_SCHEMA_TYPES: Final = (
    "AUTO", "AVRO", "JSON", "BYTES", "STRING", "BOOLEAN", "INT8", "INT16", "INT32", "INT64", "FLOAT", "DOUBLE", "DATE",
    "TIME", "TIMESTAMP", "INSTANT", "LOCAL_DATE", "LOCAL_TIME", "LOCAL_DATE_TIME",
)  # fmt: skip
NO_SCHEMA: Final = "NONE"
AUTO_PRODUCE_BYTES: Final = "AUTO_PRODUCE_BYTES"
SCHEMA_TYPES: Final = (NO_SCHEMA, *PART_SCHEMA_TYPES, KEY_VALUE, AUTO_PRODUCE_BYTES)
"""Schemas that the sink writes, by Pulsar's names; NONE and AUTO are ours."""
KEY_VALUE_ENCODINGS: Final = ("INLINE", "SEPARATED")
KEY_BASED: Final = "KEY_BASED"
BATCHER_BUILDERS: Final = ("DEFAULT", KEY_BASED)
"""Ways of batching, by the Java client's names."""
AT_LEAST_ONCE: Final = "at-least-once"
EFFECTIVELY_ONCE: Final = "effectively-once"
DEFAULT_PRODUCER_NAME: Final = "spark-pulsar"
COMPRESSION_TYPES: Final = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")

_WORDS: Final = ("earliest", "latest")
_DIRECTORY: Final = re.compile(r"(?!(?:non-)?persistent://)[A-Za-z][A-Za-z0-9+.-]*:/|file:|/")
_PLAIN_NAME: Final = re.compile(r"[\w.=:-]*")
_MAX_TIMEOUT_MS: Final = 24 * 60 * 60 * 1000
_MOST_NAME: Final = 200
_MAX_TIME_MS: Final = 2**63 - 1

_EXCLUSIVE: Final = (
    ("topic", "topics", "topicsPattern"),
    ("subscriptionName", "predefinedSubscription"),
    ("predefinedSubscription", "startingTime"),
    ("startingOffsets", "startingTime"),
    ("endingOffsets", "endingTime"),
)
"""Options that say the same thing in different words."""


@dataclass(frozen=True, slots=True)
class Options:
    """All options of one DataFrame, checked. Picklable; the same object goes to planners and tasks."""

    service_url: str
    security: SecurityOptions
    topic: str | None
    topics: tuple[str, ...]
    topics_pattern: str | None
    starting_offsets: Endpoint | None
    ending_offsets: Endpoint | None
    starting_time: Time | None
    ending_time: Time | None
    keys: Keys | None
    keys_hashing_scheme: str | None
    subscription_name: str | None
    """Subscription that mirrors the progress of a query, the predefined one too."""
    predefined_subscription: str | None
    enable_retry: bool
    retry_letter_topic: str | None
    max_messages_per_trigger: int | None
    max_bytes_per_trigger: int | None
    min_messages_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    small_batch_max_messages: int
    read_compacted: bool
    fail_on_data_loss: bool
    use_topic_schema: bool
    allow_different_topic_schemas: bool
    mode: str
    column_name_of_corrupt_record: str
    dead_letter_topic: str | None
    metadata_columns: tuple[str, ...]
    waiting_for_non_existed_topic: bool
    poll_timeout_ms: int
    operation_timeout_ms: int
    connection_timeout_ms: int
    message_routing_mode: str
    hashing_scheme: str
    compression_type: str
    batching_max_messages: int
    batching_max_bytes: int
    batcher_builder: str
    chunking_enabled: bool
    chunk_max_message_size: int | None
    producer_properties: tuple[tuple[str, str], ...]
    encryption_keys: tuple[str, ...]
    encryption_public_keys: KeyFiles | None
    encryption_private_keys: KeyFiles | None
    crypto_failure_action: str
    send_timeout_ms: int
    delivery_guarantee: str
    producer_name: str | None
    repeatable_row_order: bool
    schema_type: str
    key_schema_type: str
    value_schema_type: str
    key_value_encoding_type: str
    given: frozenset[str]

    def for_read(self, use: Use) -> Options:
        """Checks what only makes sense for reading (batch or stream); returns self. Raises OptionError."""
        self._check_uses(use)
        self.check_topics_to_read()
        if use == BATCH_READ and self.starting_offsets == "latest":
            raise OptionError('startingOffsets "latest" makes no sense for a batch read: there is nothing after it')
        self._check_times()
        self._check_limits()
        if self.predefined_subscription is not None and isinstance(self.starting_offsets, Mapping):
            raise OptionError(
                "predefinedSubscription and startingOffsets with JSON contradict each other: its cursor says where to "
                "start; earliest and latest are for a subscription that does not exist yet"
            )
        self._check_retry()
        if self.keys is None and self.keys_hashing_scheme is not None:
            raise OptionError("option keysHashingScheme says where the keys of the option keys are: give keys, too")
        check_decryption(
            self.encryption_private_keys, self.crypto_failure_action, self.mode, prunes_by_key=self.keys is not None
        )
        return self

    def for_write(self, use: Use) -> Options:
        """Checks what only makes sense for writing (batch or stream); returns self. Raises OptionError."""
        self._check_uses(use)
        for name in ("keySchemaType", "valueSchemaType", "keyValueEncodingType"):
            if name in self.given and self.schema_type != KEY_VALUE:
                raise OptionError(f"option {name} is for schemaType {KEY_VALUE} only, not for {self.schema_type}")
        if self.chunk_max_message_size is not None and not self.chunking_enabled:
            raise OptionError("option chunkMaxMessageSize is for chunkingEnabled = true only")
        self._check_delivery_guarantee()
        check_encryption(self.encryption_keys, self.encryption_public_keys, self.crypto_failure_action, self.given)
        return self

    def _check_delivery_guarantee(self) -> None:
        if self.delivery_guarantee != EFFECTIVELY_ONCE:
            for name in ("producerName", "repeatableRowOrder"):
                if name in self.given:
                    raise OptionError(f"option {name} is for deliveryGuarantee {EFFECTIVELY_ONCE} only")
            return
        if self.batcher_builder == KEY_BASED:
            raise OptionError(
                f"batcherBuilder {KEY_BASED} and deliveryGuarantee {EFFECTIVELY_ONCE} contradict each other: batches "
                "by key change the order of the rows, by which those that are written are told"
            )
        if self.chunking_enabled:
            raise OptionError(
                f"chunkingEnabled and deliveryGuarantee {EFFECTIVELY_ONCE} contradict each other: a broker knows only "
                "the last chunk of a message again, and would keep the others twice"
            )
        if self.topic is not None and self.topic.startswith("non-persistent://"):
            raise OptionError(
                f"deliveryGuarantee {EFFECTIVELY_ONCE} cannot be kept on {self.topic}: a non-persistent topic keeps "
                "nothing that duplicates could be told by"
            )

    def check_topics_to_read(self) -> None:
        """Checks that topics to read are named, and that they are of a kind that can be read. Raises OptionError."""
        named = self.topics if self.topic is None else (self.topic,)
        if not named and self.topics_pattern is None:
            raise OptionError("reading needs one of the options topic, topics, topicsPattern")
        for topic in named:
            if topic.startswith("non-persistent://"):
                raise OptionError(f"{topic} cannot be read: a non-persistent topic keeps nothing")
        self._check_mode(named)

    @property
    def split(self) -> Split:
        """Wishes to read one partition with several tasks."""
        return Split(self.min_partitions, self.max_records_per_partition)

    @property
    def decode_mode(self) -> DecodeMode:
        """Way of messages that do not decode."""
        return DecodeMode(self.mode, self.column_name_of_corrupt_record, self.dead_letter_topic)

    def _check_mode(self, named: Sequence[str]) -> None:
        """Checks that what belongs to a mode comes with it, and that dead letters are not read again. Raises
        OptionError."""
        for name, of in (("columnNameOfCorruptRecord", PERMISSIVE), ("deadLetterTopic", DEADLETTER)):
            if name in self.given and self.mode != of:
                raise OptionError(f"option {name} is for mode {of} only, and mode is {self.mode}")
        if self.mode != FAILFAST and not self.use_topic_schema:
            raise OptionError(f"mode {self.mode} and useTopicSchema = false contradict each other: bytes always decode")
        if self.dead_letter_topic is None:
            if self.mode == DEADLETTER:
                raise OptionError(f"mode {DEADLETTER} needs the option deadLetterTopic")
            return
        letters = TopicName.parse(self.dead_letter_topic).base
        is_read = any(TopicName.parse(topic).base == letters for topic in named)
        if self.topics_pattern is not None:
            namespace, local = split_pattern(self.topics_pattern)
            is_read = letters.namespace_name == namespace and local.fullmatch(letters.local) is not None
        if is_read:
            raise OptionError(f"deadLetterTopic {letters.full} is one of the topics to read: it must be another one")

    @property
    def retry_letter_topics(self) -> tuple[str, ...]:
        """Retry letter topics that are read, too: full names without partitions."""
        if not self.enable_retry:
            return ()
        if self.retry_letter_topic is not None:
            return (TopicName.parse(self.retry_letter_topic).base.full,)
        named = self.topics if self.topic is None else (self.topic,)
        return tuple(dict.fromkeys(retry_letter_topic_of(topic, self.subscription_name or "") for topic in named))

    def _check_retry(self) -> None:
        if self.retry_letter_topic is not None and not self.enable_retry:
            raise OptionError("option retryLetterTopic is for enableRetry = true only")
        if not self.enable_retry:
            return
        if self.subscription_name is None:
            raise OptionError("enableRetry needs the option subscriptionName: retry letters belong to a subscription")
        if self.retry_letter_topic is None and self.topics_pattern is not None:
            raise OptionError("enableRetry and topicsPattern need the option retryLetterTopic, one for all topics")
        named = self.topics if self.topic is None else (self.topic,)
        for letters in self.retry_letter_topics:
            if any(TopicName.parse(topic).base.full == letters for topic in named):
                raise OptionError(f"the retry letter topic {letters} is one of the topics to read: it must be another")
            if self.dead_letter_topic is not None and TopicName.parse(self.dead_letter_topic).base.full == letters:
                raise OptionError(f"deadLetterTopic {letters} is the retry letter topic: it must be another one")

    def _check_times(self) -> None:
        start, end = self.starting_time, self.ending_time
        if start is None or end is None:
            return
        topics = [*(start if isinstance(start, Mapping) else ()), *(end if isinstance(end, Mapping) else ())]
        for topic in topics or [""]:
            begin_ms = start.get(topic, 0) if isinstance(start, Mapping) else start
            end_ms = end.get(topic, begin_ms) if isinstance(end, Mapping) else end
            if end_ms < begin_ms:
                of_topic = f" for {topic}" if topic else ""
                raise OptionError(f"endingTime = {end_ms} lies before startingTime = {begin_ms}{of_topic}")

    def _check_limits(self) -> None:
        least, most = self.min_messages_per_trigger, self.max_messages_per_trigger
        if least is not None and most is not None and least > most:
            raise OptionError(f"minMessagesPerTrigger = {least} is more than maxMessagesPerTrigger = {most}")
        if least is None and "maxTriggerDelay" in self.given:
            raise OptionError("option maxTriggerDelay needs minMessagesPerTrigger: without it nothing is held back")
        if self.read_compacted and any(self.split):
            raise OptionError(
                "readCompacted needs all messages of a partition in one task: leave minPartitions and "
                "maxRecordsPerPartition out"
            )

    def _check_uses(self, use: Use) -> None:
        for name in sorted(self.given):
            option = _BY_LOWER[name.lower()]
            if use not in option.uses:
                raise OptionError(f"option {option.name} is for {' and '.join(option.uses)} only, not for {use}")


def parse_options(raw: Mapping[str, str]) -> Options:
    """Turns Spark's option strings into `Options`. Raises OptionError."""
    values = _values_by_name(raw)
    service_url = read_service_url(values)
    predefined = _read(values, "predefinedSubscription", _subscription, None)
    # A read that asks for several tasks does not want its rows in one, unless it says so.
    small_batch_default = 0 if {"minPartitions", "maxRecordsPerPartition"} & values.keys() else 5_000
    return Options(
        service_url=service_url,
        security=read_security(values, service_url),
        topic=_read(values, "topic", _topic, None),
        topics=_read(values, "topics", _topics, ()),
        topics_pattern=_read(values, "topicsPattern", _pattern, None),
        starting_offsets=_read(values, "startingOffsets", _endpoint, None),
        ending_offsets=_read(values, "endingOffsets", _ending, None),
        starting_time=_read(values, "startingTime", _time, None),
        ending_time=_read(values, "endingTime", _time, None),
        keys=_read(values, "keys", read_keys, None),
        keys_hashing_scheme=_read(values, "keysHashingScheme", _one_of(*HASHING_SCHEMES), None),
        subscription_name=_read(values, "subscriptionName", _subscription, predefined),
        predefined_subscription=predefined,
        enable_retry=_read(values, "enableRetry", _boolean, False),
        retry_letter_topic=_read(values, "retryLetterTopic", _persistent_topic, None),
        max_messages_per_trigger=_read(values, "maxMessagesPerTrigger", _integer(1, 2**62), None),
        max_bytes_per_trigger=_read(values, "maxBytesPerTrigger", _integer(0, 2**62), 0) or None,
        min_messages_per_trigger=_read(values, "minMessagesPerTrigger", _integer(1, 2**62), None),
        max_trigger_delay_ms=_read(values, "maxTriggerDelay", duration_ms, 15 * 60 * 1000),
        min_partitions=_read(values, "minPartitions", _integer(1, 2**31 - 1), None),
        max_records_per_partition=_read(values, "maxRecordsPerPartition", _integer(1, 2**62), None),
        small_batch_max_messages=_read(values, "smallBatchMaxMessages", _integer(0, 100_000), small_batch_default),
        read_compacted=_read(values, "readCompacted", _boolean, False),
        fail_on_data_loss=_read(values, "failOnDataLoss", _boolean, True),
        use_topic_schema=_read(values, "useTopicSchema", _boolean, True),
        allow_different_topic_schemas=_read(values, "allowDifferentTopicSchemas", _boolean, False),
        mode=_read(values, "mode", _one_of(*MODES), FAILFAST),
        column_name_of_corrupt_record=_read(values, "columnNameOfCorruptRecord", _column, CORRUPT_RECORD),
        dead_letter_topic=_read(values, "deadLetterTopic", _persistent_topic, None),
        metadata_columns=_read(values, "metadataColumns", metadata_columns, ()),
        waiting_for_non_existed_topic=_read(values, "waitingForNonExistedTopic", _boolean, False),
        poll_timeout_ms=_read(values, "pollTimeoutMs", _integer(1, _MAX_TIMEOUT_MS), 120_000),
        operation_timeout_ms=_read(values, "operationTimeoutMs", _integer(1, _MAX_TIMEOUT_MS), 30_000),
        connection_timeout_ms=_read(values, "connectionTimeoutMs", _integer(1, _MAX_TIMEOUT_MS), 10_000),
        message_routing_mode=_read(values, "messageRoutingMode", _one_of(*ROUTING_MODES), ROUTING_MODES[0]),
        hashing_scheme=_read(values, "hashingScheme", _one_of(*HASHING_SCHEMES), HASHING_SCHEMES[0]),
        compression_type=_read(values, "compressionType", _one_of(*COMPRESSION_TYPES), COMPRESSION_TYPES[0]),
        batching_max_messages=_read(values, "batchingMaxMessages", _integer(1, 100_000), 1_000),
        batching_max_bytes=_read(values, "batchingMaxBytes", _integer(1, 5 * 1024 * 1024), 128 * 1024),
        batcher_builder=_read(values, "batcherBuilder", _one_of(*BATCHER_BUILDERS), BATCHER_BUILDERS[0]),
        chunking_enabled=_read(values, "chunkingEnabled", _boolean, False),
        chunk_max_message_size=_read(values, "chunkMaxMessageSize", _integer(1, 2**31 - 1), None),
        producer_properties=_read(values, "producerProperties", _texts_by_name, ()),
        encryption_keys=_read(values, "encryptionKeys", key_names, ()),
        encryption_public_keys=_read(values, PUBLIC_KEYS, public_key_files, None),
        encryption_private_keys=_read(values, PRIVATE_KEYS, private_key_files, None),
        crypto_failure_action=_read(values, "cryptoFailureAction", _one_of(*FAILURE_ACTIONS), FAIL),
        send_timeout_ms=_read(values, "sendTimeoutMs", _integer(1, _MAX_TIMEOUT_MS), 30_000),
        delivery_guarantee=_read(values, "deliveryGuarantee", _delivery_guarantee, AT_LEAST_ONCE),
        producer_name=_read(values, "producerName", _producer_name, None),
        repeatable_row_order=_read(values, "repeatableRowOrder", _boolean, False),
        schema_type=_read(values, "schemaType", _one_of(*SCHEMA_TYPES), SCHEMA_TYPES[0]),
        key_schema_type=_read(values, "keySchemaType", _one_of(*PART_SCHEMA_TYPES), PART_SCHEMA_TYPES[0]),
        value_schema_type=_read(values, "valueSchemaType", _one_of(*PART_SCHEMA_TYPES), PART_SCHEMA_TYPES[0]),
        key_value_encoding_type=_read(values, "keyValueEncodingType", _one_of(*KEY_VALUE_ENCODINGS), "INLINE"),
        given=frozenset(values),
    )


def _values_by_name(raw: Mapping[str, str]) -> dict[str, str]:
    """Returns the texts of the options that are given, by their names in the table, a path as the option `topic`.
    Raises OptionError."""
    refuse_table(raw, {lower: option.name for lower, option in _BY_LOWER.items()})
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
    """Tells whether a path comes from `load("flights")`, and is not the directory that Spark has for a table."""
    return bool(path.strip()) and _DIRECTORY.match(path) is None


def _canonical(lower: str, as_given: str) -> str:
    option = _BY_LOWER.get(lower)
    if option is not None:
        return option.name
    if lower in _UNSUPPORTED_LOWER:
        name, hint = _UNSUPPORTED_LOWER[lower]
        told = f"{hint}; leave it out" if hint.startswith("not needed") else f"not supported yet: {hint}"
        raise OptionError(f"option {name} is {told}")
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
    known = {name.removeprefix(prefix): option for name, option in _BY_LOWER.items() if name.startswith(prefix)}
    near = difflib.get_close_matches(lower, list(known), n=3, cutoff=cutoff)
    return " or ".join(known[name].name for name in near)


def _topic(text: str) -> str:
    return TopicName.parse(text).full


def _persistent_topic(text: str) -> str:
    topic = _topic(text)
    if topic.startswith("non-persistent://"):
        raise ValueError("a non-persistent topic keeps nothing")
    return topic


def _column(text: str) -> str:
    if not text or text.startswith("__"):
        raise ValueError("expected the name of a column, and names that begin with __ are the connector's own")
    return text


def _topics(text: str) -> tuple[str, ...]:
    names = [_topic(part.strip()) for part in text.split(",") if part.strip()]
    if not names:
        raise ValueError("no topic name in the list")
    double = {name for name in names if names.count(name) > 1}
    if double:
        raise ValueError(f"named more than once: {', '.join(sorted(double))}")
    return tuple(names)


def _pattern(text: str) -> str:
    if not text:
        raise ValueError("empty pattern")
    split_pattern(text)
    return text


def split_pattern(text: str) -> tuple[str, re.Pattern[str]]:
    """Namespace `tenant/namespace` and the compiled regex for local topic names. Raises ValueError."""
    body = text.removeprefix("persistent://")
    if body.startswith("non-persistent://"):
        raise ValueError("non-persistent topics cannot be read: they keep nothing")
    parts = body.split("/", 2)
    if not any(_PLAIN_NAME.fullmatch(part) for part in parts[:-1]):
        parts = [body]  # what slash there is belongs to the regex, as in "orders-[^/]+"
    if len(parts) == 2:
        raise ValueError("expected tenant/namespace/regex, or a regex without slash for public/default")
    namespace, local = (f"{parts[0]}/{parts[1]}", parts[2]) if len(parts) == 3 else ("public/default", body)
    try:
        split_namespace(namespace)
    except InvalidTopicName:
        raise ValueError(f"{namespace!r} is no tenant/namespace; only the local name can be a regex") from None
    try:
        return namespace, re.compile(local)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error


def _endpoint(text: str) -> Endpoint:
    if text.lower() in _WORDS:
        return "earliest" if text.lower() == "earliest" else "latest"
    try:
        loaded = json.loads(text, object_pairs_hook=_by_topic)
    except json.JSONDecodeError:
        raise ValueError("expected earliest, latest or a JSON object of topic partition to position") from None
    if not isinstance(loaded, dict) or not loaded:
        raise ValueError("expected a JSON object with at least one topic partition")
    return {name: _position_text(name, value) for name, value in loaded.items()}


def _by_topic(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Returns the members of a JSON object under the full names of their topics."""
    out: dict[str, object] = {}
    for name, value in pairs:
        full = TopicName.parse(name).full
        if full in out:
            raise ValueError(f"{full} is named more than once")
        out[full] = value
    return out


def _position_text(name: str, value: object) -> str:
    from spark_pulsar.connector.offsets import parse_position

    if not isinstance(value, str):
        raise ValueError(
            f'position of {name} must be a text like "12:34:0" (ledger:entry:batch index), not {type(value).__name__}'
        )
    if value not in _WORDS:
        parse_position(value)
    return value


def _ending(text: str) -> Endpoint:
    end = _endpoint(text)
    if end == "earliest" or (isinstance(end, Mapping) and "earliest" in end.values()):
        raise ValueError("a read cannot end at earliest")
    return end


def _texts_by_name(text: str) -> tuple[tuple[str, str], ...]:
    try:
        loaded = json.loads(text)
    except json.JSONDecodeError:
        loaded = None
    if not isinstance(loaded, dict) or not all(isinstance(value, str) for value in loaded.values()):
        raise ValueError('expected a JSON object of texts, for example {"team": "flights"}')
    return tuple(loaded.items())


def _time(text: str) -> Time:
    if not text.startswith("{"):
        return _time_ms(text)
    try:
        loaded = json.loads(text, object_pairs_hook=_by_topic)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not loaded:
        raise ValueError("expected a JSON object with at least one topic partition")
    return {name: _time_ms(str(value)) for name, value in loaded.items()}


def _time_ms(text: str) -> int:
    if not re.fullmatch(r"\d{1,19}", text) or int(text) > _MAX_TIME_MS:
        raise ValueError(
            f"expected milliseconds since 1970 UTC, or a JSON object of topic partition to these; not {text}"
        )
    return int(text)


def _delivery_guarantee(text: str) -> str:
    if text.lower() == "transactional":
        raise ValueError(f"transactional is not supported yet; use {EFFECTIVELY_ONCE}")
    return _one_of(AT_LEAST_ONCE, EFFECTIVELY_ONCE)(text)


def _producer_name(text: str) -> str:
    if not 0 < len(text) <= _MOST_NAME:
        raise ValueError(f"expected a name of 1 to {_MOST_NAME} characters")
    return text


def _subscription(text: str) -> str:
    if not text:
        raise ValueError("empty name")
    return text


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"-?\d{1,19}", text) or not low <= int(text) <= high:
            raise ValueError(f"expected a whole number from {low} to {high}")
        return int(text)

    return parse


def _one_of(*names: str) -> Callable[[str], str]:
    by_lower = {name.lower(): name for name in names}

    def parse(text: str) -> str:
        if text.lower() not in by_lower:
            raise ValueError(f"expected one of {', '.join(names)}")
        return by_lower[text.lower()]

    return parse
