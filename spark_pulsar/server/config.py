"""Configuration: `broker.conf` with Pulsar's key names, and overrides, as one checked value.

A key that Apache Pulsar knows and this broker does not act upon is named in `unsupported_keys`; a key that nobody
knows in `unknown_keys`. Both are for the caller to report; neither stops the broker. A value that cannot be read does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from spark_pulsar.broker.config import BrokerConfig
from spark_pulsar.model.names import split_namespace

from .pulsar_keys import PULSAR_KEYS

_MIB: Final = 1024 * 1024
_MAX_SEGMENT_MIB: Final = 2048
"""Places in a journal segment are kept in 32 bits."""


class InvalidConfiguration(ValueError):
    """A value of a known key cannot be read; the text names key, value and what was wanted."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Everything `serve` needs."""

    bind_address: str = "0.0.0.0"
    """bindAddress: where both ports listen."""
    port: int = 6650
    """brokerServicePort; 0 chooses a free one."""
    http_port: int = 8080
    """webServicePort; 0 chooses a free one."""
    data_dir: Path = Path("data")
    """dataDirectory (ours): journal, ledger files and checkpoint."""
    journal_sync: bool = True
    """journalSyncData: fdatasync before a receipt (DUR-1, DUR-5)."""
    journal_segment_bytes: int = 64 * _MIB
    """journalMaxSizeMB: size of one preallocated journal segment."""
    with_parent: bool = False
    """End when standard input ends: a child that must not outlive its parent (CLI switch, no key)."""
    broker: BrokerConfig = field(default_factory=BrokerConfig)
    """What the core decides by."""
    unsupported_keys: tuple[str, ...] = ()
    """Keys of Apache Pulsar that were set and have no effect here."""
    unknown_keys: tuple[str, ...] = ()
    """Keys that were set and that neither broker knows."""


def load_config(path: str | Path | None = None, overrides: Mapping[str, object] | None = None) -> ServerConfig:
    """The configuration of the file at `path` (none: defaults), with `overrides` (Pulsar's key names) on top.

    Raises InvalidConfiguration for a value that cannot be read, OSError for a file that cannot.
    """
    settings = parse_properties(Path(path).read_text(encoding="utf-8")) if path is not None else {}
    settings.update({key: _text(value) for key, value in (overrides or {}).items()})
    server: dict[str, Any] = {}
    broker: dict[str, Any] = {}
    unsupported: list[str] = []
    unknown: list[str] = []
    for key, text in settings.items():
        known = KEYS.get(key)
        if known is None:
            (unsupported if key in PULSAR_KEYS else unknown).append(key)
            continue
        if text == "":
            continue  # `key=` in broker.conf means: not set
        try:
            value = known.read(text)
        except ValueError as error:
            raise InvalidConfiguration(f"{key}={text}: {error}") from error
        (broker if known.of_broker else server)[known.field] = value
    if "keep_alive_interval_ms" in broker:
        broker["handshake_timeout_ms"] = broker["keep_alive_interval_ms"]
    config = ServerConfig(**server, unsupported_keys=tuple(unsupported), unknown_keys=tuple(unknown))
    return replace(config, broker=replace(config.broker, **broker))


def parse_properties(text: str) -> dict[str, str]:
    """`key=value` lines; `#` and `!` begin comments; a key that comes twice keeps its last value."""
    settings: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        key, separator, value = stripped.partition("=")
        if not separator:
            raise InvalidConfiguration(f"line {number}: want key=value, got {stripped!r}")
        settings[key.strip()] = value.strip()
    return settings


@dataclass(frozen=True, slots=True)
class Key:
    """One key: the field it sets (of BrokerConfig when `of_broker`, else of ServerConfig), how, and what it is for."""

    field: str
    read: Callable[[str], Any]
    of_broker: bool = True
    help: str = ""


def _whole(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]+", text):
        raise ValueError("want a whole number")
    return int(text)


def _natural(text: str) -> int:
    number = _whole(text)
    if number < 0:
        raise ValueError("want a number that is not negative")
    return number


def _positive(text: str) -> int:
    number = _whole(text)
    if number <= 0:
        raise ValueError("want a number above 0")
    return number


def _port(text: str) -> int:
    number = _whole(text)
    if not 0 <= number <= 65535:
        raise ValueError("want a port, 0 to 65535")
    return number


def _segment_mib(text: str) -> int:
    number = _positive(text)
    if number > _MAX_SEGMENT_MIB:
        raise ValueError(f"want at most {_MAX_SEGMENT_MIB}")
    return number


def _times(factor: int, read: Callable[[str], int] = _positive) -> Callable[[str], int]:
    return lambda text: read(text) * factor


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("want true or false")
    return text.lower() == "true"


def _creation_type(text: str) -> bool:
    if text not in ("partitioned", "non-partitioned"):
        raise ValueError("want partitioned or non-partitioned")
    return text == "partitioned"


def _types(text: str) -> frozenset[str]:
    types = frozenset(part.strip() for part in text.split(",") if part.strip())
    wrong = types - {"Exclusive", "Shared", "Failover", "Key_Shared"}
    if wrong:
        raise ValueError(f"no such subscription type: {', '.join(sorted(wrong))}")
    return types


def _namespaces(text: str) -> tuple[str, ...]:
    names = dict.fromkeys(["public/default", *(part.strip() for part in text.split(",") if part.strip())])
    for name in names:
        try:
            split_namespace(name)
        except Exception as error:
            raise ValueError(str(error)) from error
    return tuple(names)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


KEYS: Final[Mapping[str, Key]] = {
    "bindAddress": Key(
        "bind_address",
        str,
        of_broker=False,
        help="Address that both ports listen on.",
    ),
    "brokerServicePort": Key(
        "port",
        _port,
        of_broker=False,
        help="Port of the binary protocol; 0 chooses a free one.",
    ),
    "webServicePort": Key(
        "http_port",
        _port,
        of_broker=False,
        help="Port of the admin API and the metrics; 0 chooses a free one.",
    ),
    "dataDirectory": Key(
        "data_dir",
        Path,
        of_broker=False,
        help="Where journal, ledgers and checkpoint are kept (ours).",
    ),
    "journalSyncData": Key(
        "journal_sync",
        _switch,
        of_broker=False,
        help="Sync the journal to the disk before a receipt; false survives kill -9 but not power loss.",
    ),
    "journalMaxSizeMB": Key(
        "journal_segment_bytes",
        _times(_MIB, _segment_mib),
        of_broker=False,
        help="Size of one journal segment.",
    ),
    "clusterName": Key(
        "cluster_name",
        str,
        help="First part of generated producer names.",
    ),
    "advertisedAddress": Key(
        "advertised_address",
        str,
        help="Host, or host:port, that lookups answer; empty: the address the client connected to.",
    ),
    "maxMessageSize": Key(
        "max_message_size_bytes",
        _positive,
        help="Bytes of metadata and payload of one message, announced to clients.",
    ),
    "keepAliveIntervalSeconds": Key(
        "keep_alive_interval_ms",
        _times(1000),
        help="Time between pings; a silent client is closed after two, and a handshake may take one.",
    ),
    "connectionLivenessCheckTimeoutMillis": Key(
        "liveness_check_timeout_ms",
        _positive,
        help="How long an old connection may take to answer before its name is given away.",
    ),
    "allowAutoTopicCreation": Key(
        "allow_auto_topic_creation",
        _switch,
        help="Whether using a missing topic creates it.",
    ),
    "allowAutoTopicCreationType": Key(
        "auto_topic_creation_partitioned",
        _creation_type,
        help="partitioned or non-partitioned: what is created then.",
    ),
    "defaultNumPartitions": Key(
        "default_num_partitions",
        _positive,
        help="Partitions of an automatically created partitioned topic.",
    ),
    "allowAutoSubscriptionCreation": Key(
        "allow_auto_subscription_creation",
        _switch,
        help="Whether subscribing creates a missing subscription.",
    ),
    "maxNumPartitionsPerPartitionedTopic": Key(
        "max_partitions_per_topic",
        _natural,
        help="Most partitions of a topic; 0: no limit.",
    ),
    "maxTopicsPerNamespace": Key(
        "max_topics_per_namespace",
        _natural,
        help="Most topics and partitions of a namespace; 0: no limit.",
    ),
    "maxProducersPerTopic": Key(
        "max_producers_per_topic",
        _natural,
        help="Most producers of a topic; 0: no limit.",
    ),
    "maxConsumersPerTopic": Key(
        "max_consumers_per_topic",
        _natural,
        help="Most consumers of a topic; 0: no limit.",
    ),
    "maxConsumersPerSubscription": Key(
        "max_consumers_per_subscription",
        _natural,
        help="Most consumers of a subscription; 0: no limit.",
    ),
    "maxSubscriptionsPerTopic": Key(
        "max_subscriptions_per_topic",
        _natural,
        help="Most subscriptions of a topic; 0: no limit.",
    ),
    "subscriptionTypesEnabled": Key(
        "subscription_types",
        _types,
        help="Subscription types that may be used, by commas.",
    ),
    "additionalNamespaces": Key(
        "namespaces",
        _namespaces,
        help="Namespaces that exist from the start beside public/default, tenant/namespace by commas (ours).",
    ),
    "acknowledgmentAtBatchIndexLevelEnabled": Key(
        "batch_index_acks",
        _switch,
        help="Whether messages inside a batch can be acknowledged one by one.",
    ),
    "maxUnackedMessagesPerConsumer": Key(
        "max_unacked_per_consumer",
        _natural,
        help="Messages a Shared consumer may hold unacknowledged; 0: no limit.",
    ),
    "maxUnackedMessagesPerSubscription": Key(
        "max_unacked_per_subscription",
        _natural,
        help="Messages a Shared subscription may hold unacknowledged; 0: no limit.",
    ),
    "dispatcherMaxRoundRobinBatchSize": Key(
        "round_robin_batch",
        _positive,
        help="Messages a Shared consumer gets in one turn.",
    ),
    "dispatcherMaxReadSizeBytes": Key(
        "max_read_bytes",
        _positive,
        help="Bytes of one read from storage.",
    ),
    "maxPendingPublishRequestsPerConnection": Key(
        "max_pending_publishes_per_session",
        _positive,
        help="Entries of a connection that may wait for the disk before it is not read any more.",
    ),
    "maxMessagePublishBufferSizeInMB": Key(
        "max_pending_publish_bytes",
        _times(_MIB),
        help="Entries of all connections that may wait for the disk.",
    ),
    "brokerDeduplicationEnabled": Key(
        "deduplication",
        _switch,
        help="Whether a sequence id that a producer repeats is stored once, where no policy says otherwise.",
    ),
    "brokerDeduplicationMaxNumberOfProducers": Key(
        "deduplication_max_producers",
        _positive,
        help="Producer names of one topic whose last sequence ids are kept.",
    ),
    "brokerDeduplicationProducerInactivityTimeoutMinutes": Key(
        "deduplication_producer_timeout_ms",
        _times(60_000),
        help="How long a producer may be away before its last sequence id is forgotten.",
    ),
    "managedLedgerMaxEntriesPerLedger": Key(
        "ledger_max_entries",
        _positive,
        help="Entries of one ledger.",
    ),
    "managedLedgerMaxSizePerLedgerMbytes": Key(
        "ledger_max_bytes",
        _times(_MIB),
        help="Size of one ledger.",
    ),
    "managedLedgerMinLedgerRolloverTimeMinutes": Key(
        "ledger_min_age_ms",
        _times(60_000, _natural),
        help="Least age of a ledger before it is followed by the next.",
    ),
    "managedLedgerMaxLedgerRolloverTimeMinutes": Key(
        "ledger_max_age_ms",
        _times(60_000),
        help="Age at which a ledger is followed by the next.",
    ),
    "managedLedgerCacheSizeMB": Key(
        "cache_bytes",
        _times(_MIB, _natural),
        help="Memory for recent entries, from which consumers near the tail are served.",
    ),
}
"""Every key that has an effect."""
