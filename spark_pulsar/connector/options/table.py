"""The table of options of `format("pulsar")`, and of options other connectors know that are not here (yet) (READ-7).

The parser (`parsing`) accepts nothing else, and docs/connector-options.md has its rows (`tables`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

BATCH_READ: Final = "batch read"
STREAM_READ: Final = "stream read"
BATCH_WRITE: Final = "batch write"
STREAM_WRITE: Final = "stream write"
READ: Final = (BATCH_READ, STREAM_READ)
WRITE: Final = (BATCH_WRITE, STREAM_WRITE)
ANY: Final = READ + WRITE

Use = Literal["batch read", "stream read", "batch write", "stream write"]

REQUIRED: Final = "required"


@dataclass(frozen=True, slots=True)
class Option:
    """One row: canonical name, type as shown to users, default as text ("" = none), where it is valid, meaning."""

    name: str
    kind: str
    default: str
    uses: tuple[str, ...]
    meaning: str


OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        "service.url",
        "URL",
        REQUIRED,
        ANY,
        "Broker to connect to: `pulsar://host:6650`, with TLS `pulsar+ssl://host:6651`; several hosts separated by "
        "commas are tried in turn.",
    ),
    Option(
        "admin.url",
        "URL",
        "",
        ANY,
        "Admin API, `http://host:8080` or `https://host:8443`. Writes read policies of their topics there "
        "(`maxMessageSize`, `delayedDelivery`), with the credentials that they show to brokers, and check rows before "
        "they are sent; without it, or the right to, refusals say the same later ([Limits](#limits-of-a-topic)). Reads "
        "do not use it.",
    ),
    Option(
        "topic",
        "topic name",
        "",
        ANY,
        "Read: the one topic (or one partition) to read, persistent. Write: the topic of every row; wins over the "
        "column `__topic`.",
    ),
    Option(
        "topics",
        "topic names",
        "",
        READ,
        "Comma-separated list of topics to read. Exactly one of `topic`, `topics`, `topicsPattern`.",
    ),
    Option(
        "topicsPattern",
        "regex",
        "",
        READ,
        "Topics of one namespace whose local name matches as a whole: `tenant/namespace/regex`, or just a "
        "regex for `public/default`. Topics that appear later are read from their start.",
    ),
    Option(
        "startingOffsets",
        "`earliest`, `latest` or JSON",
        "`latest` (stream), `earliest` (batch)",
        READ,
        "Where a new query starts, a checkpoint wins. JSON names every partition: "
        '`{"persistent://public/default/t-partition-0": "ledger:entry:partition:batch"}`, the id of the first '
        "message to read, with -1 for no partition and no batch; `earliest` and `latest` are allowed as values. "
        "[Other spellings](#message-ids) are read, too.",
    ),
    Option(
        "endingOffsets",
        "`latest` or JSON",
        "`latest`",
        (BATCH_READ,),
        "Where a batch read ends, exclusive; JSON as for `startingOffsets`.",
    ),
    Option(
        "startingTime",
        "milliseconds or JSON",
        "",
        READ,
        "In place of `startingOffsets`: a new query starts at the first message that was published at or after this "
        "time (since 1970 UTC), at the end of a partition without one. What is published together as a batch has one "
        'time. JSON names every partition: `{"persistent://public/default/t-partition-0": 1764288000000}`.',
    ),
    Option(
        "endingTime",
        "milliseconds or JSON",
        "",
        (BATCH_READ,),
        "In place of `endingOffsets`: a batch read ends before the first message that was published at or after this "
        "time; JSON as for `startingTime`.",
    ),
    Option(
        "keys",
        "texts or JSON",
        "",
        READ,
        "Only messages with one of these keys: texts separated by commas, or a JSON list of texts and, for keys that "
        'are bytes, `{"base64": "…"}`, see [Reading less](#reading-less). At most 10,000.',
    ),
    Option(
        "keysHashingScheme",
        "`JavaStringHash`, `Murmur3_32Hash`, `BoostHash`",
        "",
        READ,
        "With `keys`: how all producers of the topics choose a partition; partitions that no key hashes to are not "
        "read. Without it all are read.",
    ),
    Option(
        "subscriptionName",
        "name",
        "",
        (STREAM_READ,),
        "Durable subscription that mirrors the query's progress on the broker, so that backlog and retention "
        "follow it; it stays when the query ends. It is not read from: a new query starts at `startingOffsets`. "
        "Without it nothing is left on the broker.",
    ),
    Option(
        "predefinedSubscription",
        "name",
        "",
        READ,
        "Durable subscription at whose cursor a new query, or a batch read, starts: after what is acknowledged without "
        "a gap, in whole entries. It must have no connected consumer. A stream moves it along like `subscriptionName`; "
        "a batch read acknowledges nothing. One that does not exist is made at `startingOffsets`, `earliest` or "
        "`latest`.",
    ),
    Option(
        "subscriptionPrefix",
        "text",
        "`spark-pulsar-reader`",
        ANY,
        "Begin of the names of all subscriptions that the connector makes for itself: of readers, which leave nothing "
        "behind, and of the log of `transactional` writes. A namespace with `subscriptionAuthMode` `Prefix` demands "
        "that it begins with the name of the role ([Restricted namespaces](#restricted-namespaces)).",
    ),
    Option(
        "enableRetry",
        "boolean",
        "`false`",
        (STREAM_READ,),
        "Read the retry letter topic of `subscriptionName` too, `<topic>-<subscription>-RETRY` of each topic that is "
        "named, each letter when its delay is over ([Retry and dead letters](#retry-and-dead-letters)). It need not "
        "exist yet.",
    ),
    Option(
        "retryLetterTopic",
        "topic name",
        "",
        (STREAM_READ,),
        "With `enableRetry`: the retry letter topic, if it has another name; one for all topics.",
    ),
    Option(
        "maxMessagesPerTrigger",
        "integer",
        "",
        (STREAM_READ,),
        "At most this many rows in a micro-batch: of all partitions those that were published first, at least one"
        " of each.",
    ),
    Option(
        "maxBytesPerTrigger",
        "bytes",
        "",
        (STREAM_READ,),
        "At most this many bytes in a micro-batch, of entries as they are stored (metadata and payload, compressed as "
        "it was sent; a batch's bytes are spread evenly over its messages): those that were published first, at least "
        "one message of each partition. Together with `maxMessagesPerTrigger` both hold. `0`: no limit.",
    ),
    Option(
        "minMessagesPerTrigger",
        "integer",
        "",
        (STREAM_READ,),
        "A micro-batch waits until there are so many messages, counted ahead on the driver, but no longer than "
        "`maxTriggerDelay`. The first of a run does not wait, and nothing waits with `availableNow`.",
    ),
    Option(
        "maxTriggerDelay",
        "duration",
        "`15m`",
        (STREAM_READ,),
        "With `minMessagesPerTrigger`: how long it may hold back what there is, since the last micro-batch or the last "
        "time that there was nothing: `500ms`, `10s`, `15m`, `1h`, `1d`, or milliseconds.",
    ),
    Option(
        "minPartitions",
        "integer",
        "",
        READ,
        "About so many tasks for a read at least: ranges of topic partitions are cut between entries, in proportion to "
        "their entries. Rows of a partition are in order within a task.",
    ),
    Option(
        "maxRecordsPerPartition",
        "integer",
        "",
        READ,
        "At most so many rows for a task: ranges with more are cut. Exact in a stream with `maxMessagesPerTrigger` or "
        "`maxBytesPerTrigger`, which counts them; else by the number of entries, and samples of how many messages "
        "these have. 4,096 tasks at most.",
    ),
    Option(
        "smallBatchMaxMessages",
        "integer",
        "`5000`",
        (STREAM_READ,),
        "A micro-batch of at most this many messages (and 1 MiB of each partition) is read ahead on the driver and "
        "travels with the plan to one task, which saves the hand-over to Python workers. `0`: each partition is always "
        "read by a task of its own; the default with `minPartitions` or `maxRecordsPerPartition`.",
    ),
    Option(
        "readCompacted",
        "boolean",
        "`false`",
        (BATCH_READ,),
        "Only the latest message of each key of a partition, and none of a key whose latest one has a null value: the "
        "compacted view of the topic, where there is one, and what came after it. Messages without a key are read as "
        "far as the view has them. A task holds the rows that it returns in memory. Nothing is reported as lost.",
    ),
    Option(
        "failOnDataLoss",
        "boolean",
        "`true`",
        READ,
        "Fail when messages that should be read are gone (topic deleted, data trimmed); `false` logs a "
        "warning and goes on.",
    ),
    Option(
        "useTopicSchema",
        "boolean",
        "`true`",
        READ,
        "Columns by the topic's registered schema, see [Topics with a schema](#topics-with-a-schema); `false`: `value` "
        "is the payload as bytes, as for a topic without schema.",
    ),
    Option(
        "allowDifferentTopicSchemas",
        "boolean",
        "`false`",
        READ,
        "Several topics with different schemas, or some without: `true` reads all as bytes, as `useTopicSchema` false "
        "does; `false` reads what the schemas have in common, and is an error where two contradict each other.",
    ),
    Option(
        "unsupportedFields",
        "`FAIL`, `JSON`, `BINARY`",
        "`FAIL`",
        READ,
        "Fields of the topic's schema that Spark has no type for, such as a record that contains itself, or a decimal "
        "of more than 38 digits, in a read without `.schema(...)`: an error that names them; columns with the value as "
        "JSON text (string); with its bytes (binary). With `.schema(...)` such a field may be left out, or named as "
        "string or binary ([Fields without a type](#fields-without-a-type)).",
    ),
    Option(
        "jsonBytes",
        "`BASE64`, `TEXT`",
        "`BASE64`",
        ANY,
        "Bytes in JSON, read and written: base64, as Java and Go have them, or text in UTF-8, as the Python client has "
        "them. What is none of the form is an error.",
    ),
    Option(
        "mode",
        "`FAILFAST`, `PERMISSIVE`, `DEADLETTER`",
        "`FAILFAST`",
        READ,
        "Messages that do not decode by their schema: fail the query; read as nulls with their payload in "
        "`columnNameOfCorruptRecord` and the reason in `__error`; publish them to `deadLetterTopic` and leave them "
        "out.",
    ),
    Option(
        "columnNameOfCorruptRecord",
        "name",
        "`_corrupt_record`",
        READ,
        "Column of mode `PERMISSIVE` with the payload of a message that does not decode.",
    ),
    Option(
        "deadLetterTopic",
        "topic name",
        "",
        READ,
        "Topic of mode `DEADLETTER`: gets payload, key, event time and properties of the message, with the properties "
        "`REAL_TOPIC`, `ORIGIN_MESSAGE_ID` and `DECODE_ERROR`; in chunks if it is larger than the broker takes; "
        "at least once.",
    ),
    Option(
        "metadataColumns",
        "column names or `all`",
        "",
        READ,
        "More columns of a read, separated by commas, see [Columns of a read](#columns-of-a-read). A read with "
        "`.schema(...)` names them there.",
    ),
    Option(
        "waitingForNonExistedTopic",
        "boolean",
        "`false`",
        READ,
        "Wait until every topic that is named exists, for as long as it takes, in place of an error; the log says what "
        "is waited for. A topic that comes while a stream waits is read from its start if `startingOffsets` is "
        "`latest`. A pattern waits for nothing.",
    ),
    Option(
        "pollTimeoutMs",
        "milliseconds",
        "`120000`",
        READ,
        "How long a task waits for the next entry of its range before it fails.",
    ),
    Option(
        "operationTimeoutMs",
        "milliseconds",
        "`30000`",
        ANY,
        "Limit for one request to the broker (lookup, subscribe, acknowledge, …), retries included; also for the first "
        "entries of a micro-batch, and for what `maxMessagesPerTrigger` counts ahead, all partitions together.",
    ),
    Option(
        "connectionTimeoutMs",
        "milliseconds",
        "`10000`",
        ANY,
        "Limit for opening one connection.",
    ),
    Option(
        "messageRoutingMode",
        "`RoundRobinPartition`, `SinglePartition`",
        "`RoundRobinPartition`",
        WRITE,
        "Partition of rows without a key: in turn, a batch at a time, or one random partition for each task. "
        "A key always decides by its hash.",
    ),
    Option(
        "hashingScheme",
        "`JavaStringHash`, `Murmur3_32Hash`, `BoostHash`",
        "`JavaStringHash`",
        WRITE,
        "Hash of the key, modulo the partitions. `JavaStringHash` and `Murmur3_32Hash` are the Java client's, "
        "`BoostHash` is that of the C++, Python and Node clients, as the official Python client has it from 3.6 on.",
    ),
    Option(
        "compressionType",
        "`NONE`, `LZ4`, `ZLIB`, `ZSTD`, `SNAPPY`",
        "`NONE`",
        WRITE,
        "Compression of each batch of messages.",
    ),
    Option(
        "batchingMaxMessages",
        "integer",
        "`1000`",
        WRITE,
        "Most messages in one batch on the wire; 1 turns batching off. By default 10000 with `effectively-once` and "
        "`transactional`, where one batch is on its way at a time.",
    ),
    Option(
        "batchingMaxBytes",
        "bytes",
        "`131072`",
        WRITE,
        "Most bytes in one batch on the wire, before compression. By default 1048576 with `effectively-once` and "
        "`transactional`.",
    ),
    Option(
        "batcherBuilder",
        "`DEFAULT`, `KEY_BASED`",
        "`DEFAULT`",
        WRITE,
        "`KEY_BASED`: each batch holds rows of one ordering key or key, so that Key_Shared subscriptions share out "
        "whole batches; rows of different keys may change places.",
    ),
    Option(
        "chunkingEnabled",
        "boolean",
        "`false`",
        WRITE,
        "Rows that are larger than the broker takes go out as chunks, which consumers put together (also with batches, "
        "unlike in the Java client; on persistent topics); `false`: such a row is an error.",
    ),
    Option(
        "chunkMaxMessageSize",
        "bytes",
        "",
        WRITE,
        "With `chunkingEnabled`: most bytes of a chunk and its metadata, where the broker takes more; a row above it "
        "is cut.",
    ),
    Option(
        "producerProperties",
        "JSON",
        "",
        WRITE,
        'Properties of the producers, shown in the statistics of topics: `{"team": "flights"}`.',
    ),
    Option(
        "encryptionKeys",
        "names",
        "",
        WRITE,
        "Names of the public keys, separated by commas, that messages are encrypted for: the holder of any of the "
        "private keys can read them ([Encryption](#encryption)).",
    ),
    Option(
        "encryptionPublicKeys",
        "place or JSON",
        "",
        WRITE,
        "File (PEM) of the public key of all names of `encryptionKeys`, as `/path`, `file:///path`, `env:NAME` or a "
        '`data:` URL, or JSON of name to file: `{"k": "/etc/pulsar/k.pem"}`.',
    ),
    Option(
        "encryptionPrivateKeys",
        "place or JSON",
        "",
        READ,
        "File (PEM) of the private key that decrypts messages, as `/path`, `file:///path` or `env:NAME`, for all names "
        "of keys or in JSON for each; on the driver and on every executor.",
    ),
    Option(
        "cryptoFailureAction",
        "`FAIL`, `SEND`; `FAIL`, `DISCARD`, `CONSUME`",
        "`FAIL`",
        ANY,
        "Write, where a public key cannot be used: fail, or send what is not encrypted. Read, messages that cannot be "
        "decrypted: fail, leave them out with a warning, or read them as they are stored: one row for each entry, "
        "whose `value` is encrypted, compressed and a whole batch as it may be.",
    ),
    Option(
        "sendTimeoutMs",
        "milliseconds",
        "`30000`",
        WRITE,
        "How long a task waits for the next receipt of what it sent before it fails, also while no broker can be "
        "reached; a connection that breaks late in this time gives it up to `connectionTimeoutMs` more. "
        "(A task that finds none when it begins has `operationTimeoutMs`.)",
    ),
    Option(
        "deliveryGuarantee",
        "`at-least-once`, `effectively-once`, `transactional`",
        "`at-least-once`",
        WRITE,
        "`effectively-once`: a row is stored one time, whatever is killed and run again, on topics that de-duplicate "
        "([Effectively once](#effectively-once)); `transactional`: a micro-batch, or a batch write, appears all at "
        "once or not at all ([Transactions](#transactions)). What cannot be promised is refused.",
    ),
    Option(
        "producerName",
        "name",
        "",
        WRITE,
        "With `effectively-once` or `transactional`: how names of producers begin, in place of `spark-pulsar`. Inside "
        "`foreachBatch` it is required, another one for each write to the same topic. With `effectively-once` a batch "
        "write with a name needs `__sequenceId`, and leaves out rows up to the last id of this name; without a name "
        "each job writes all its rows.",
    ),
    Option(
        "repeatableRowOrder",
        "boolean",
        "`false`",
        WRITE,
        "With `effectively-once` or `transactional`: `true` says that rows come in the same order when a task runs "
        "again, so that their number is compared with what is written, and their content is not: for rows with "
        "`uuid()`, `rand()` or a clock in them.",
    ),
    Option(
        "transactionTimeoutMs",
        "milliseconds",
        "`900000`",
        WRITE,
        "With `transactional`: the broker aborts the transaction of a micro-batch, or of a batch write, that is not "
        "committed in this time. Until then readers of its topics wait for one whose driver is dead.",
    ),
    Option(
        "transactionTopic",
        "topic name",
        "",
        WRITE,
        "Persistent topic, one for each query, where a query keeps with `transactional` which micro-batch it has "
        "committed last, with `effectively-once` which tasks have written to which partitions. By default "
        "`__spark_pulsar_transactions-` or `__spark_pulsar_producers-`, and the query's name, in the namespace of "
        "`topic`, else in `public/default`.",
    ),
    Option(
        "pulsar.client.useTls",
        "boolean",
        "as `service.url` says",
        ANY,
        "`true` encrypts connections to a `service.url` that begins with `pulsar://`, as `pulsar+ssl://` does.",
    ),
    Option(
        "pulsar.client.tlsTrustCertsFilePath",
        "path",
        "the system's authorities",
        ANY,
        "File of the certificates (PEM) of the authorities that are trusted to sign the brokers' certificates, on the "
        "driver and on every executor.",
    ),
    Option(
        "pulsar.client.tlsHostnameVerificationEnable",
        "boolean",
        "`true`",
        ANY,
        "A broker's certificate must name the host that was connected to. (The Java client's default is `false`.)",
    ),
    Option(
        "pulsar.client.tlsAllowInsecureConnection",
        "boolean",
        "`false`",
        ANY,
        "Accept every certificate: encrypted, but with anyone.",
    ),
    Option(
        "pulsar.client.tlsCertificateFilePath",
        "path",
        "",
        ANY,
        "File of the client's own certificate (PEM), for brokers that ask for one; with "
        "`pulsar.client.tlsKeyFilePath`.",
    ),
    Option(
        "pulsar.client.tlsKeyFilePath",
        "path",
        "",
        ANY,
        "File of the private key (PEM, not encrypted) of `pulsar.client.tlsCertificateFilePath`.",
    ),
    Option(
        "pulsar.client.authPluginClassName",
        "class name",
        "",
        ANY,
        "Authentication, by the name of the Java client's class: `org.apache.pulsar.client.impl.auth."
        "AuthenticationToken`, `…AuthenticationBasic`, `…AuthenticationTls` or `…oauth2.AuthenticationOAuth2`; "
        "`token`, `basic`, `tls`, `oauth2` for short.",
    ),
    Option(
        "pulsar.client.authParams",
        "text, `file:///path` or `env:NAME`",
        "",
        ANY,
        "Parameters of `pulsar.client.authPluginClassName`, or the file or environment variable that holds them, read "
        "anew for each connection ([Secured clusters](#secured-clusters)).",
    ),
    Option(
        "pulsar.client.listenerName",
        "name",
        "",
        ANY,
        "Listener (`advertisedListeners` of the brokers) whose addresses are used.",
    ),
    Option(
        "pulsar.client.proxyServiceUrl",
        "URL",
        "",
        ANY,
        "`pulsar+ssl://host:port` of a proxy that all connections go through; with `pulsar.client.proxyProtocol`.",
    ),
    Option(
        "pulsar.client.proxyProtocol",
        "`SNI`",
        "",
        ANY,
        "The proxy finds the broker by the name in the TLS handshake.",
    ),
    Option(
        "schemaType",
        "`NONE`, `AUTO`, `AVRO`, `JSON`, `KEY_VALUE`, `AUTO_PRODUCE_BYTES` or a primitive",
        "`NONE`",
        WRITE,
        "Schema that the topic gets for the rows, and that each message names ([Writing with a "
        "schema](#writing-with-a-schema)). `NONE`: bytes and text in the column `value`, without a schema. `AVRO`, "
        "`JSON`: a record of all columns but those that begin with `__`. Primitives are `STRING`, `BOOLEAN`, `INT8`, "
        "`INT16`, `INT32`, `INT64`, `FLOAT`, `DOUBLE`, `BYTES`, `DATE`, `TIME`, `TIMESTAMP`, `INSTANT`, `LOCAL_DATE`, "
        "`LOCAL_TIME`, `LOCAL_DATE_TIME`: the one column there is. `AUTO`: as StreamNative's sink, `AVRO` for several "
        "columns or a struct, else the primitive of the column's type. `AUTO_PRODUCE_BYTES`: the column `value` holds "
        "bytes that are encoded by the topic's schema already.",
    ),
    Option(
        "jsonTimes",
        "`TEXT`, `NUMBER`",
        "`TEXT`",
        WRITE,
        "With schemas of type `JSON`: timestamps and times of day as ISO 8601, which Java's `Instant`, `LocalDateTime` "
        "and `LocalTime` and Go's `time.Time` are read from, or as numbers in the unit of the schema, for consumers "
        "whose field is a number (Java takes such a number for the seconds of an `Instant`). Both are read.",
    ),
    Option(
        "keySchemaType",
        "as `schemaType`",
        "`AUTO`",
        WRITE,
        "With `KEY_VALUE`: schema of the column `key`: `AUTO`, `AVRO`, `JSON` or a primitive.",
    ),
    Option(
        "valueSchemaType",
        "as `schemaType`",
        "`AUTO`",
        WRITE,
        "With `KEY_VALUE`: schema of the column `value`: `AUTO`, `AVRO`, `JSON` or a primitive.",
    ),
    Option(
        "keyValueEncodingType",
        "`INLINE`, `SEPARATED`",
        "`INLINE`",
        WRITE,
        "With `KEY_VALUE`: key and value together in the payload, or the key as the key of the message, which then "
        "decides the partition.",
    ),
)

BY_LOWER: Final = {option.name.lower(): option for option in OPTIONS}

# Options other connectors know. Silence would let a job run with another meaning than its author's.
UNSUPPORTED: Final[Mapping[str, str]] = {
    "kafka.bootstrap.servers": "use service.url",
    "pulsar.client.serviceUrl": "use service.url",
    "pulsar.client.authParamMap": "use pulsar.client.authParams",
    "pulsar.client.useKeyStoreTls": "use PEM files, with pulsar.client.tlsTrustCertsFilePath and its neighbours",
    "pulsar.client.tlsKeyStorePath": "use PEM files, with pulsar.client.tlsCertificateFilePath and tlsKeyFilePath",
    "pulsar.client.tlsTrustStorePath": "use a PEM file, with pulsar.client.tlsTrustCertsFilePath",
    "batchingType": "use batcherBuilder",
    "pulsar.producer.batcherBuilder": "use batcherBuilder",
    "pulsar.producer.chunkingEnabled": "use chunkingEnabled",
    "pulsar.producer.properties": "use producerProperties",
    "pushDownFilters": "Spark 4.3 hands the reader of a filtered scan to other scans of the DataFrame, which then lack "
    "rows; use keys, startingTime and endingTime",
    "defaultCryptoKeyReader": "use encryptionPublicKeys and encryptionPrivateKeys",
    "pulsar.producer.encryptionKeys": "use encryptionKeys",
    "pulsar.producer.cryptoFailureAction": "use cryptoFailureAction",
    "pulsar.reader.cryptoFailureAction": "use cryptoFailureAction",
}
UNSUPPORTED_PREFIXES: Final = ("pulsar.client.", "pulsar.admin.", "pulsar.reader.", "pulsar.producer.", "kafka.")
"""Groups of settings that other connectors pass on to their clients."""
