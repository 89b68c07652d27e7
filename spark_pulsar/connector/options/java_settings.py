"""Settings of the Java client, which StreamNative's connector passes on under `pulsar.client.`, `pulsar.admin.`,
`pulsar.reader.` and `pulsar.producer.` (READ-43).

The names are those of the fields of the Java client's configuration data, version 4.0.8: they are the dictionary that
finds misspelt names. A setting is read as an option of ours, or has no effect here, which the log says once with the
reason (READ-44); one that no text can give, or that would weaken security if it were left out, is refused with what to
do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from spark_pulsar.connector.options.table import UNSUPPORTED
from spark_pulsar.connector.options.values import boolean, integer, names_in, texts_by_name

CLIENT: Final = "pulsar.client."
ADMIN: Final = "pulsar.admin."
READER: Final = "pulsar.reader."
PRODUCER: Final = "pulsar.producer."
PREFIXES: Final = (CLIENT, ADMIN, READER, PRODUCER)

_LONGEST_MS: Final = 24 * 60 * 60 * 1000


class JavaSetting(NamedTuple):
    """A setting by its whole name: the option that it is read as, its reader, or why it has no effect."""

    name: str
    option: str = ""
    """Empty: none."""
    read: Callable[[str], str | None] = str
    """Turns its text into that of the option; None: nothing is to be set."""
    reason: str = ""
    """Why it has no effect, where no option is named, or none is set."""
    needs: str = ""
    """Option without which it has no effect."""


def _timeout(text: str) -> str:
    """Reads milliseconds; 0 is no limit for the Java client, and a day here."""
    return str(min(integer(0, 2**62)(text) or _LONGEST_MS, _LONGEST_MS))


def _batches_of_one(text: str) -> str | None:
    return None if boolean(text) else "1"


def _names(text: str) -> str:
    return ",".join(names_in(text))


def _properties(text: str) -> str:
    return json.dumps(dict(texts_by_name(text)))


def _rows(prefix: str, reason: str, names: str) -> Iterable[JavaSetting]:
    return (JavaSetting(prefix + name, reason=reason) for name in names.split())


_THREADS: Final = "threads and connections are the connector's own"
_START: Final = "the start of a read is said by startingOffsets, startingTime and predefinedSubscription"
_DISCOVERY: Final = "partitions that are added are found at the next micro-batch, and by the next batch job"
_SPARK: Final = "Spark shows the progress, and the broker the statistics"
_NETWORK: Final = "the operating system resolves names"
_CHUNKS: Final = "chunks are put together whatever their number"
_ADMIN: Final = "calls of the admin API use the settings of pulsar.client."
_CLIENT_NAMES: Final = (
    "serviceUrl authPluginClassName authParams authParamMap originalPrincipal operationTimeoutMs lookupTimeoutMs "
    "statsIntervalSeconds numIoThreads numListenerThreads connectionsPerBroker connectionMaxIdleSeconds useTcpNoDelay "
    "useTls tlsKeyFilePath tlsCertificateFilePath tlsTrustCertsFilePath tlsAllowInsecureConnection "
    "tlsHostnameVerificationEnable sslFactoryPlugin sslFactoryPluginParams concurrentLookupRequest maxLookupRequest "
    "maxLookupRedirects maxNumberOfRejectedRequestPerConnection keepAliveIntervalSeconds connectionTimeoutMs "
    "requestTimeoutMs readTimeoutMs autoCertRefreshSeconds initialBackoffIntervalNanos maxBackoffIntervalNanos "
    "enableBusyWait listenerName useKeyStoreTls sslProvider tlsKeyStoreType tlsKeyStorePath tlsKeyStorePassword "
    "tlsTrustStoreType tlsTrustStorePath tlsTrustStorePassword tlsCiphers tlsProtocols memoryLimitBytes "
    "proxyServiceUrl proxyProtocol enableTransaction dnsLookupBindAddress dnsLookupBindPort dnsServerAddresses "
    "socks5ProxyAddress socks5ProxyUsername socks5ProxyPassword description lookupProperties"
)

JAVA_SETTINGS: Final[tuple[JavaSetting, ...]] = (
    JavaSetting(CLIENT + "operationTimeoutMs", "operationTimeoutMs", _timeout),
    JavaSetting(CLIENT + "connectionTimeoutMs", "connectionTimeoutMs", _timeout),
    JavaSetting(CLIENT + "serviceUrl", reason="service.url says it"),
    JavaSetting(CLIENT + "lookupTimeoutMs", reason="operationTimeoutMs limits lookups, too"),
    *_rows(CLIENT, "operationTimeoutMs limits requests", "requestTimeoutMs readTimeoutMs"),
    *_rows(CLIENT, _SPARK, "statsIntervalSeconds description lookupProperties"),
    *_rows(CLIENT, _THREADS, "numIoThreads numListenerThreads connectionsPerBroker connectionMaxIdleSeconds"),
    *_rows(CLIENT, _THREADS, "useTcpNoDelay enableBusyWait concurrentLookupRequest maxLookupRequest"),
    *_rows(CLIENT, _THREADS, "maxLookupRedirects maxNumberOfRejectedRequestPerConnection"),
    *_rows(CLIENT, _THREADS, "initialBackoffIntervalNanos maxBackoffIntervalNanos"),
    JavaSetting(CLIENT + "autoCertRefreshSeconds", reason="files of certificates are read for each connection"),
    JavaSetting(CLIENT + "sslProvider", reason="OpenSSL is the only one"),
    JavaSetting(CLIENT + "originalPrincipal", reason="only proxies of Pulsar send it"),
    JavaSetting(CLIENT + "enableTransaction", reason="deliveryGuarantee = transactional says it"),
    *_rows(CLIENT, _NETWORK, "dnsLookupBindAddress dnsLookupBindPort dnsServerAddresses"),
    *_rows(ADMIN, _ADMIN, _CLIENT_NAMES),
    JavaSetting(READER + "subscriptionRolePrefix", "subscriptionPrefix"),
    JavaSetting(READER + "subscriptionName", "subscriptionPrefix"),
    JavaSetting(READER + "readCompacted", "readCompacted"),
    JavaSetting(READER + "cryptoFailureAction", "cryptoFailureAction"),
    *_rows(READER, _START, "startMessageId startMessageFromRollbackDurationInSec resetIncludeHead"),
    *_rows(READER, _START, "subscriptionMode subscriptionInitialPosition"),
    JavaSetting(READER + "topicNames", reason="topic, topics and topicsPattern say it"),
    JavaSetting(READER + "readerName", reason="names of readers are made of subscriptionPrefix"),
    JavaSetting(READER + "poolMessages", reason="no object is made for a message"),
    *_rows(READER, _DISCOVERY, "autoUpdatePartitions autoUpdatePartitionsIntervalSeconds"),
    *_rows(READER, _CHUNKS, "maxPendingChunkedMessage autoAckOldestChunkedMessageOnQueueFull"),
    JavaSetting(READER + "expireTimeOfIncompleteChunkedMessageMillis", reason=_CHUNKS),
    JavaSetting(PRODUCER + "sendTimeoutMs", "sendTimeoutMs", _timeout),
    JavaSetting(PRODUCER + "batchingEnabled", "batchingMaxMessages", _batches_of_one, "rows go out in batches"),
    JavaSetting(PRODUCER + "batchingMaxMessages", "batchingMaxMessages", lambda text: str(min(int(text), 100_000))),
    JavaSetting(PRODUCER + "batchingMaxBytes", "batchingMaxBytes", lambda text: str(min(int(text), 5 * 1024 * 1024))),
    JavaSetting(PRODUCER + "batcherBuilder", "batcherBuilder"),
    JavaSetting(PRODUCER + "compressionType", "compressionType"),
    JavaSetting(PRODUCER + "messageRoutingMode", "messageRoutingMode"),
    JavaSetting(PRODUCER + "hashingScheme", "hashingScheme"),
    JavaSetting(PRODUCER + "chunkingEnabled", "chunkingEnabled"),
    JavaSetting(PRODUCER + "chunkMaxMessageSize", "chunkMaxMessageSize", needs="chunkingEnabled"),
    JavaSetting(PRODUCER + "properties", "producerProperties", _properties),
    JavaSetting(PRODUCER + "encryptionKeys", "encryptionKeys", _names),
    JavaSetting(PRODUCER + "cryptoFailureAction", "cryptoFailureAction", needs="encryptionKeys"),
    JavaSetting(PRODUCER + "blockIfQueueFull", reason="a task always waits for room"),
    JavaSetting(PRODUCER + "maxPendingMessagesAcrossPartitions", reason="maxPendingMessages is for each partition"),
    *_rows(PRODUCER, "a batch goes out when it is full, or its task ends", "batchingMaxPublishDelayMicros"),
    *_rows(PRODUCER, "rows change partitions with batches", "batchingPartitionSwitchFrequencyByPublishDelay"),
    *_rows(PRODUCER, _DISCOVERY, "autoUpdatePartitions autoUpdatePartitionsIntervalSeconds"),
    JavaSetting(PRODUCER + "topicName", reason="topic and the column __topic say it"),
    JavaSetting(PRODUCER + "producerName", reason="each task has a producer, with a name of its own"),
    JavaSetting(PRODUCER + "accessMode", reason="each task has a producer, so that they share topics"),
    JavaSetting(PRODUCER + "initialSequenceId", reason="deliveryGuarantee and the column __sequenceId say it"),
    JavaSetting(PRODUCER + "multiSchema", reason="schemaType says what is written"),
    JavaSetting(PRODUCER + "lazyStartPartitionedProducers", reason="producers are made for partitions that get rows"),
    JavaSetting(PRODUCER + "initialSubscriptionName", reason="a write makes no subscription"),
    *_rows(PRODUCER, "they are for brokers", "isNonPartitionedTopicExpected isReplProducer"),
)
"""Settings in the order in which they are read: the first that sets an option wins."""

_BY_LOWER: Final[Mapping[str, JavaSetting]] = {setting.name.lower(): setting for setting in JAVA_SETTINGS}
_ORDER: Final = {setting.name: number for number, setting in enumerate(JAVA_SETTINGS)}


def java_setting(name: str) -> JavaSetting | None:
    """Returns a setting by its name in any case, None for another name."""
    return _BY_LOWER.get(name.lower())


def in_order(settings: Iterable[JavaSetting]) -> list[JavaSetting]:
    """Returns settings in the order of the table."""
    return sorted(settings, key=lambda setting: _ORDER[setting.name])


def names_below(prefix: str) -> list[str]:
    """Returns the names of settings below a prefix, the refused ones, too."""
    names = [*(setting.name for setting in JAVA_SETTINGS), *UNSUPPORTED]
    return [name for name in names if name.startswith(prefix)]
