"""Options of `format("pulsar")`, checked.

Values are checked as soon as a `DataSource` is built, which is when the user still stands at the call site; what
depends on the kind of work (batch or stream, read or write) is checked by `for_read` and `for_write`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from spark_pulsar.client.encryption.key_files import KeyFiles
from spark_pulsar.client.retry_letters import retry_letter_topic_of
from spark_pulsar.connector.errors import OptionError
from spark_pulsar.connector.options.decode_mode import DEADLETTER, FAILFAST, PERMISSIVE, DecodeMode
from spark_pulsar.connector.options.encryption import check_decryption, check_encryption
from spark_pulsar.connector.options.endpoints import Endpoint, Time
from spark_pulsar.connector.options.keys import Keys
from spark_pulsar.connector.options.security import SecurityOptions
from spark_pulsar.connector.options.table import BATCH_READ, BY_LOWER, Use
from spark_pulsar.connector.options.topics import split_pattern
from spark_pulsar.model.names import TopicName

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
TRANSACTIONAL: Final = "transactional"
DELIVERY_GUARANTEES: Final = (AT_LEAST_ONCE, EFFECTIVELY_ONCE, TRANSACTIONAL)
DEFAULT_PRODUCER_NAME: Final = "spark-pulsar"
DEFAULT_ROUND_ROBIN_ROWS: Final = 1_000
COMPRESSION_TYPES: Final = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")


class Split(NamedTuple):
    """Wishes of the options; None: no such wish."""

    min_partitions: int | None = None
    max_records: int | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """All options of one DataFrame, checked. Picklable; the same object goes to planners and tasks."""

    service_url: str
    security: SecurityOptions
    admin_url: str | None
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
    subscription_prefix: str
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
    json_bytes: str
    json_times: str
    unsupported_fields: str
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
    transaction_timeout_ms: int
    transaction_topic: str | None
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
        )

    def _check_mode(self) -> None:
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

    def _check_uses(self, use: Use) -> None:
        for name in sorted(self.given):
            option = BY_LOWER[name.lower()]
            if use not in option.uses:
                raise OptionError(f"option {option.name} is for {' and '.join(option.uses)} only, not for {use}")
