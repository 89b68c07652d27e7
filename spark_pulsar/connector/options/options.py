"""Options of `format("pulsar")`, checked, none of them ignored (READ-7); in any case of their names, and with dots
(READ-27).

Values are checked as soon as a `DataSource` is built, which is when the user still stands at the call site; what
depends on the kind of work (batch or stream, read or write) is checked by `for_read` and `for_write`. `writing` acts
upon those of a write, such as `producerProperties` (SINK-6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final, NamedTuple

from spark_pulsar.client.connections.config import DEFAULT_SUBSCRIPTION_PREFIX
from spark_pulsar.client.encryption.key_files import KeyFiles
from spark_pulsar.client.retry_letters import retry_letter_topic_of
from spark_pulsar.connector.columns import metadata_columns
from spark_pulsar.connector.errors import OptionError
from spark_pulsar.connector.options.decode_mode import (
    ADD_NEW_COLUMNS,
    CORRUPT_RECORD,
    DEADLETTER,
    FAILFAST,
    JSON_BYTES,
    JSON_TIMES,
    MODES,
    PERMISSIVE,
    RESCUE,
    RESCUED_DATA,
    SCHEMA_EVOLUTION_MODES,
    UNSUPPORTED_FIELDS,
    DecodeMode,
)
from spark_pulsar.connector.options.encryption import (
    ACTION,
    FAILURE_ACTIONS,
    PRIVATE_KEYS,
    PUBLIC_KEYS,
    check_decryption,
    check_encryption,
    key_names,
    private_key_files,
    public_key_files,
)
from spark_pulsar.connector.options.java_settings import PRODUCER, READER
from spark_pulsar.connector.options.keys import Keys, read_keys
from spark_pulsar.connector.options.offsets import Endpoint, Time, ending_endpoint, endpoint, publish_time
from spark_pulsar.connector.options.security import ROWS, SecurityOptions
from spark_pulsar.connector.options.subscriptions import prefix, subscription
from spark_pulsar.connector.options.table import (
    ANY,
    BATCH_READ,
    ONLY_BATCH,
    ONLY_STREAM,
    READ,
    REQUIRED,
    WRITE,
    Option,
    Use,
    choice,
    option,
    switch,
)
from spark_pulsar.connector.options.topics import (
    persistent_topic_name,
    split_pattern,
    topic_name,
    topic_names,
    topic_pattern,
)
from spark_pulsar.connector.options.values import duration_ms, integer, names_in, one_of, texts_by_name, web_url
from spark_pulsar.model.names import TopicName

ROUTING_MODES: Final = ("RoundRobinPartition", "SinglePartition")
HASHING_SCHEMES: Final = ("JavaStringHash", "Murmur3_32Hash", "BoostHash")
LATEST: Final = "latest"
ERROR: Final = "error"
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
TRANSACTIONAL: Final = "transactional"
DELIVERY_GUARANTEES: Final = (AT_LEAST_ONCE, EFFECTIVELY_ONCE, TRANSACTIONAL)
DEFAULT_PRODUCER_NAME: Final = "spark-pulsar"
DEFAULT_ROUND_ROBIN_ROWS: Final = 1_000
COMPRESSION_TYPES: Final = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")
_HASHES: Final = ", ".join(f"`{scheme}`" for scheme in HASHING_SCHEMES)
_SCHEMA_TYPES: Final = "`NONE`, `AUTO`, `AVRO`, `JSON`, `KEY_VALUE`, `AUTO_PRODUCE_BYTES` or a primitive"
_ROWS: Final = integer(1, 2**62)
_INT: Final = integer(1, 2**31 - 1)
_TIMEOUT: Final = integer(1, 24 * 60 * 60 * 1000)
_MOST_NAME: Final = 200


def _bytes_or_no_limit(text: str) -> int | None:
    return integer(0, 2**62)(text) or None


def _column(text: str) -> str:
    if not text or text.startswith("__"):
        raise ValueError("expected the name of a column, and names that begin with __ are the connector's own")
    return text


def _metadata(text: str) -> tuple[str, ...]:
    return metadata_columns(tuple(names_in(text)))


def _producer_name(text: str) -> str:
    if not 0 < len(text) <= _MOST_NAME:
        raise ValueError(f"expected a name of 1 to {_MOST_NAME} characters")
    return text


class Split(NamedTuple):
    """Wishes of the options; None: no such wish."""

    min_partitions: int | None = None
    max_records: int | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """All options of one DataFrame, checked. Picklable; the same object goes to planners and tasks."""

    given: frozenset[str]
    """Names of the options that were given."""
    lenient: Mapping[str, str] = field(compare=False)
    """Names of options that may be given where they are of no use, and how each was spelled."""
    without_effect: Mapping[str, str]
    """Settings that are accepted, and the reason why each has no effect here."""
    service_url: str
    security: SecurityOptions
    admin_url: str | None = option("admin.url", "URL", ANY, web_url)
    topic: str | None = option("topic", "topic name", ANY, topic_name)
    topics: tuple[str, ...] = option("topics", "topic names", READ, topic_names, ())
    topics_pattern: str | None = option("topicsPattern", "regex", READ, topic_pattern)
    starting_offsets: Endpoint | None = option(
        "startingOffsets", "`earliest`, `latest` or JSON", READ, endpoint, shown="`latest` (stream), `earliest` (batch)"
    )
    ending_offsets: Endpoint | None = option(
        "endingOffsets", "`latest` or JSON", ONLY_BATCH, ending_endpoint, shown="`latest`"
    )
    starting_offsets_by_timestamp_strategy: str = choice("startingOffsetsByTimestampStrategy", (LATEST, ERROR), READ)
    starting_time: Time | None = option("startingTime", "milliseconds or JSON", READ, publish_time)
    ending_time: Time | None = option("endingTime", "milliseconds or JSON", ONLY_BATCH, publish_time)
    keys: Keys | None = option("keys", "texts or JSON", READ, read_keys)
    keys_hashing_scheme: str | None = option("keysHashingScheme", _HASHES, READ, one_of(*HASHING_SCHEMES))
    subscription_name: str | None = option("subscriptionName", "name", ONLY_STREAM, subscription)
    """Subscription that mirrors the progress of a query, the predefined one too."""
    predefined_subscription: str | None = option("predefinedSubscription", "name", READ, subscription)
    subscription_prefix: str = option("subscriptionPrefix", "text", ANY, prefix, DEFAULT_SUBSCRIPTION_PREFIX)
    enable_retry: bool = switch("enableRetry", ONLY_STREAM)
    retry_letter_topic: str | None = option("retryLetterTopic", "topic name", ONLY_STREAM, persistent_topic_name)
    max_messages_per_trigger: int | None = option("maxMessagesPerTrigger", "integer", ONLY_STREAM, _ROWS)
    max_bytes_per_trigger: int | None = option("maxBytesPerTrigger", "bytes", ONLY_STREAM, _bytes_or_no_limit)
    min_messages_per_trigger: int | None = option("minMessagesPerTrigger", "integer", ONLY_STREAM, _ROWS)
    max_trigger_delay_ms: int = option("maxTriggerDelay", "duration", ONLY_STREAM, duration_ms, 15 * 60 * 1000, "`15m`")
    min_partitions: int | None = option("minPartitions", "integer", READ, _INT)
    max_records_per_partition: int | None = option("maxRecordsPerPartition", "integer", READ, _ROWS)
    small_batch_max_messages: int = option("smallBatchMaxMessages", "integer", ONLY_STREAM, integer(0, 100_000), 5_000)
    """0 by default where a read has several tasks: then it does not want its rows in one, unless it says so."""
    read_compacted: bool = switch("readCompacted", ONLY_BATCH)
    fail_on_data_loss: bool = switch("failOnDataLoss", READ, True)
    use_topic_schema: bool = switch("useTopicSchema", READ, True)
    allow_different_topic_schemas: bool = switch("allowDifferentTopicSchemas", READ)
    mode: str = choice("mode", MODES, READ)
    column_name_of_corrupt_record: str = option("columnNameOfCorruptRecord", "name", READ, _column, CORRUPT_RECORD)
    dead_letter_topic: str | None = option("deadLetterTopic", "topic name", READ, persistent_topic_name)
    json_bytes: str = choice("jsonBytes", JSON_BYTES, ANY)
    json_times: str = choice("jsonTimes", JSON_TIMES, WRITE)
    unsupported_fields: str = choice("unsupportedFields", UNSUPPORTED_FIELDS, READ)
    schema_evolution_mode: str = choice("schemaEvolutionMode", SCHEMA_EVOLUTION_MODES, READ)
    rescued_data_column: str = option("rescuedDataColumn", "name", READ, _column, RESCUED_DATA)
    """Column of rescued data, which is there where the option is given, too."""
    metadata_columns: tuple[str, ...] = option("metadataColumns", "column names or `all`", READ, _metadata, ())
    waiting_for_non_existed_topic: bool = switch("waitingForNonExistedTopic", READ)
    poll_timeout_ms: int = option("pollTimeoutMs", "milliseconds", READ, _TIMEOUT, 120_000)
    operation_timeout_ms: int = option("operationTimeoutMs", "milliseconds", ANY, _TIMEOUT, 30_000)
    connection_timeout_ms: int = option("connectionTimeoutMs", "milliseconds", ANY, _TIMEOUT, 10_000)
    keep_alive_interval_seconds: int = option(
        "pulsar.client.keepAliveIntervalSeconds", "seconds", ANY, integer(1, 24 * 60 * 60), 30
    )
    memory_limit_bytes: int = option("pulsar.client.memoryLimitBytes", "bytes", ANY, integer(0, 2**62), 0)
    """Bytes that wait at most, read ahead of a task or on the way to a partition; 0: the connector's own limits."""
    receiver_queue_size: int | None = option("pulsar.reader.receiverQueueSize", "integer", READ, integer(0, 2**31 - 1))
    max_pending_messages: int | None = option(
        "pulsar.producer.maxPendingMessages", "integer", WRITE, integer(0, 2**31 - 1)
    )
    message_routing_mode: str = choice("messageRoutingMode", ROUTING_MODES, WRITE)
    hashing_scheme: str = choice("hashingScheme", HASHING_SCHEMES, WRITE)
    compression_type: str = choice("compressionType", COMPRESSION_TYPES, WRITE)
    batching_max_messages: int = option("batchingMaxMessages", "integer", WRITE, integer(1, 100_000), 1_000)
    """10,000, and 1 MiB, by default where one batch is on its way at a time."""
    batching_max_bytes: int = option("batchingMaxBytes", "bytes", WRITE, integer(1, 5 * 1024 * 1024), 128 * 1024)
    batcher_builder: str = choice("batcherBuilder", BATCHER_BUILDERS, WRITE)
    chunking_enabled: bool = switch("chunkingEnabled", WRITE)
    chunk_max_message_size: int | None = option("chunkMaxMessageSize", "bytes", WRITE, _INT)
    producer_properties: tuple[tuple[str, str], ...] = option("producerProperties", "JSON", WRITE, texts_by_name, ())
    encryption_keys: tuple[str, ...] = option("encryptionKeys", "names", WRITE, key_names, ())
    encryption_public_keys: KeyFiles | None = option(PUBLIC_KEYS, "place or JSON", WRITE, public_key_files)
    encryption_private_keys: KeyFiles | None = option(PRIVATE_KEYS, "place or JSON", READ, private_key_files)
    crypto_failure_action: str = choice(ACTION, FAILURE_ACTIONS, ANY, "`FAIL`, `SEND`; `FAIL`, `DISCARD`, `CONSUME`")
    send_timeout_ms: int = option("sendTimeoutMs", "milliseconds", WRITE, _TIMEOUT, 30_000)
    delivery_guarantee: str = choice("deliveryGuarantee", DELIVERY_GUARANTEES, WRITE)
    producer_name: str | None = option("producerName", "name", WRITE, _producer_name)
    repeatable_row_order: bool = switch("repeatableRowOrder", WRITE)
    transaction_timeout_ms: int = option("transactionTimeoutMs", "milliseconds", WRITE, _TIMEOUT, 15 * 60 * 1000)
    transaction_topic: str | None = option("transactionTopic", "topic name", WRITE, persistent_topic_name)
    schema_type: str = choice("schemaType", SCHEMA_TYPES, WRITE, _SCHEMA_TYPES)
    key_schema_type: str = choice("keySchemaType", PART_SCHEMA_TYPES, WRITE, "as `schemaType`")
    value_schema_type: str = choice("valueSchemaType", PART_SCHEMA_TYPES, WRITE, "as `schemaType`")
    key_value_encoding_type: str = choice("keyValueEncodingType", KEY_VALUE_ENCODINGS, WRITE)

    def for_read(self, use: Use) -> Options:
        """Checks what only makes sense for reading (batch or stream); returns the options of such a read. Raises
        OptionError."""
        return self._of_use(use)._checked_for_read(use)

    def _checked_for_read(self, use: Use) -> Options:
        self.check_topics_to_read()
        if use == BATCH_READ and self.starting_offsets == "latest":
            raise OptionError('startingOffsets "latest" makes no sense for a batch read: there is nothing after it')
        self._check_times()
        self._check_limits()
        self._check_retry()
        if self.keys is None and self.keys_hashing_scheme is not None:
            raise OptionError("option keysHashingScheme says where the keys of the option keys are: give keys, too")
        check_decryption(
            self.encryption_private_keys, self.crypto_failure_action, self.mode, prunes_by_key=self.keys is not None
        )
        return self

    def for_write(self, use: Use) -> Options:
        """Checks what only makes sense for writing (batch or stream); returns the options of such a write. Raises
        OptionError."""
        return self._of_use(use)._checked_for_write()

    def _checked_for_write(self) -> Options:
        for name in ("keySchemaType", "valueSchemaType", "keyValueEncodingType"):
            if name in self.given and self.schema_type != KEY_VALUE:
                raise OptionError(f"option {name} is for schemaType {KEY_VALUE} only, not for {self.schema_type}")
        if self.chunk_max_message_size is not None and not self.chunking_enabled:
            raise OptionError("option chunkMaxMessageSize is for chunkingEnabled = true only")
        self._check_delivery_guarantee()
        check_encryption(self.encryption_keys, self.encryption_public_keys, self.crypto_failure_action, self.given)
        return self

    def _check_delivery_guarantee(self) -> None:
        """Refuses what contradicts a delivery guarantee (ONCE-7, TXN-6)."""
        guarantee = self.delivery_guarantee
        if "transactionTimeoutMs" in self.given and guarantee != TRANSACTIONAL:
            raise OptionError(f"option transactionTimeoutMs is for deliveryGuarantee {TRANSACTIONAL} only")
        if guarantee == AT_LEAST_ONCE:
            for name in ("producerName", "repeatableRowOrder", "transactionTopic"):
                if name in self.given:
                    raise OptionError(
                        f"option {name} is for deliveryGuarantee {EFFECTIVELY_ONCE} or {TRANSACTIONAL} only"
                    )
            return
        if self.batcher_builder == KEY_BASED:
            raise OptionError(
                f"batcherBuilder {KEY_BASED} and deliveryGuarantee {guarantee} contradict each other: batches "
                "by key change the order of the rows, by which those that are written are found"
            )
        if self.chunking_enabled:
            raise OptionError(
                f"chunkingEnabled and deliveryGuarantee {guarantee} contradict each other: a broker knows only "
                "the last chunk of a message again, and would keep the others twice"
            )
        if self.topic is not None and self.topic.startswith("non-persistent://"):
            raise OptionError(
                f"deliveryGuarantee {guarantee} cannot be kept on {self.topic}: a non-persistent topic keeps "
                "nothing that duplicates could be found by"
            )

    def check_topics_to_read(self) -> None:
        """Checks that topics to read are named, and that they are of a kind that can be read. Raises OptionError."""
        if not self.named_topics and self.topics_pattern is None:
            raise OptionError("reading needs one of the options topic, topics, topicsPattern")
        for topic in self.named_topics:
            if topic.startswith("non-persistent://"):
                raise OptionError(f"{topic} cannot be read: a non-persistent topic keeps nothing")
        self._check_mode()

    @property
    def named_topics(self) -> tuple[str, ...]:
        """Topics that the options name, in full; none with a pattern."""
        return self.topics if self.topic is None else (self.topic,)

    @property
    def starts_at_cursor(self) -> bool:
        """Returns whether a new query, or a batch read, starts at the cursor of `predefinedSubscription`: a time or
        positions that are given say more than it does (OFFSET-14)."""
        is_placed = self.starting_time is not None or isinstance(self.starting_offsets, Mapping)
        return self.predefined_subscription is not None and not is_placed

    @property
    def is_from_latest(self) -> bool:
        """Returns whether a new query starts at the end of its topics."""
        return self.starting_time is None and self.starting_offsets in (None, "latest")

    def queued_bytes(self, most: int) -> int:
        """Returns the bytes that may wait, `most` or less."""
        return min(most, self.memory_limit_bytes or most)

    @property
    def pending_entries(self) -> int | None:
        """Batches without a receipt that a partition may have; None: no limit is given."""
        messages = self.max_pending_messages
        return max(1, messages // self.batching_max_messages) if messages else None

    @property
    def split(self) -> Split:
        """Wishes to read one partition with several tasks."""
        return Split(self.min_partitions, self.max_records_per_partition)

    @property
    def decode_mode(self) -> DecodeMode:
        """Way of messages that do not decode."""
        return DecodeMode(
            self.mode,
            self.column_name_of_corrupt_record,
            self.dead_letter_topic,
            json_bytes=self.json_bytes,
            unsupported_fields=self.unsupported_fields,
            schema_evolution=self.schema_evolution_mode,
            rescued_data=self.rescued_data_column if self._rescues else None,
        )

    @property
    def _rescues(self) -> bool:
        return self.schema_evolution_mode in (RESCUE, ADD_NEW_COLUMNS) or "rescuedDataColumn" in self.given

    def _check_mode(self) -> None:
        """Checks that what belongs to a mode comes with it, and that dead letters are not read again. Raises
        OptionError."""
        for name, of in (("columnNameOfCorruptRecord", PERMISSIVE), ("deadLetterTopic", DEADLETTER)):
            if name in self.given and self.mode != of:
                raise OptionError(f"option {name} is for mode {of} only, and mode is {self.mode}")
        if self.mode != FAILFAST and not self.use_topic_schema:
            raise OptionError(f"mode {self.mode} and useTopicSchema = false contradict each other: bytes always decode")
        if self.decode_mode.minds_new_fields and not self.use_topic_schema:
            name = "rescuedDataColumn" if "rescuedDataColumn" in self.given else "schemaEvolutionMode"
            raise OptionError(
                f"option {name} and useTopicSchema = false contradict each other: bytes have no new fields"
            )
        if self._rescues and self.mode == PERMISSIVE and self.rescued_data_column == self.column_name_of_corrupt_record:
            raise OptionError(
                f"rescuedDataColumn and columnNameOfCorruptRecord are both {self.rescued_data_column}: name two columns"
            )
        if self.dead_letter_topic is None:
            if self.mode == DEADLETTER:
                raise OptionError(f"mode {DEADLETTER} needs the option deadLetterTopic")
            return
        letters = TopicName.parse(self.dead_letter_topic).base
        is_read = any(TopicName.parse(topic).base == letters for topic in self.named_topics)
        if self.topics_pattern is not None:
            namespace, local = split_pattern(self.topics_pattern)
            is_read = letters.namespace_name == namespace and local.fullmatch(letters.local) is not None
        if is_read:
            raise OptionError(f"deadLetterTopic {letters.full} is one of the topics to read: it must be another one")

    @property
    def round_robin_rows(self) -> int:
        """Rows without a key that go to one partition before the next one gets any."""
        return self.batching_max_messages if "batchingMaxMessages" in self.given else DEFAULT_ROUND_ROBIN_ROWS

    @property
    def retry_letter_topics(self) -> tuple[str, ...]:
        """Retry letter topics that are read, too: full names without partitions (LETTER-2)."""
        if not self.enable_retry:
            return ()
        if self.retry_letter_topic is not None:
            return (TopicName.parse(self.retry_letter_topic).base.full,)
        return tuple(
            dict.fromkeys(retry_letter_topic_of(topic, self.subscription_name or "") for topic in self.named_topics)
        )

    def _check_retry(self) -> None:
        if self.retry_letter_topic is not None and not self.enable_retry:
            raise OptionError("option retryLetterTopic is for enableRetry = true only")
        if not self.enable_retry:
            return
        if self.subscription_name is None:
            raise OptionError("enableRetry needs the option subscriptionName: retry letters belong to a subscription")
        if self.retry_letter_topic is None and self.topics_pattern is not None:
            raise OptionError("enableRetry and topicsPattern need the option retryLetterTopic, one for all topics")
        for letters in self.retry_letter_topics:
            if any(TopicName.parse(topic).base.full == letters for topic in self.named_topics):
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

    def _uses_of(self, name: str) -> tuple[Use, ...]:
        """Returns where a given option is of use: settings of Java's readers in reads, of its producers in writes."""
        spelled, uses = self.lenient.get(name, ""), BY_LOWER[name.lower()].uses
        if spelled.startswith((READER, PRODUCER)):
            return tuple(use for use in uses if (use in READ) == spelled.startswith(READER))
        return uses

    def _of_use(self, use: Use) -> Options:
        """Returns the options without those that have no effect in such a job, but may be given (READ-44). Raises
        OptionError for one that may not."""
        uses = {name: self._uses_of(name) for name in sorted(self.given)}
        strange = {name: of for name, of in uses.items() if use not in of}
        for name, of in strange.items():
            if name not in self.lenient:
                raise OptionError(f"option {name} is for {' and '.join(of)} only, not for {use}")
        if not strange:
            return self
        reasons = {self.lenient[name]: f"it is for {' and '.join(of)}" for name, of in strange.items()}
        defaults = {name: row.value for name, row in BY_FIELD.items() if row.name in strange}
        return replace(
            self, **defaults, given=self.given - strange.keys(), without_effect={**self.without_effect, **reasons}
        )


BY_FIELD: Final[Mapping[str, Option]] = {
    field.name: field.metadata["option"] for field in fields(Options) if "option" in field.metadata
}
OPTIONS: Final = (Option("service.url", "URL", ANY, REQUIRED), *BY_FIELD.values(), *ROWS)
BY_LOWER: Final = {row.name.lower(): row for row in OPTIONS}
