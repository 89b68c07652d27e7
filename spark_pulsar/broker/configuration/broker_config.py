"""Configuration of the deterministic core: limits, defaults and switches, and the keys of `broker.conf` that set them.

`server.configuration` reads the file. Each key is one field: name, reader, default in the key's unit, rule ids, and
meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spark_pulsar.ledger.storage import MAX_SUBMIT_BYTES
from spark_pulsar.model.limits import HANDSHAKE_TIMEOUT_MS, KEEP_ALIVE_INTERVAL_MS, MAX_MESSAGE_SIZE_BYTES
from spark_pulsar.model.policies.effective_policies import (
    INACTIVE_MODES,
    NO_SUBSCRIPTIONS,
    QUOTA_POLICIES,
    REQUEST_HOLD,
)
from spark_pulsar.model.schemas import Compatibility

from .addresses import Listener, Ports, listeners
from .keys import (
    ADDRESSES,
    CONNECTIONS,
    SECURITY,
    STORAGE,
    Section,
    address,
    integer,
    is_partitioned,
    limit,
    mebibytes,
    mebibytes_or_zero,
    minutes,
    minutes_or_zero,
    names,
    namespaces,
    natural,
    natural_long,
    one_of,
    positive,
    seconds,
    seconds_or_zero,
    share,
    signed,
    signed_long,
    subscription_types,
    switch,
    times,
)

_RETENTION: Final = Section(
    "Retention, expiry and backlog quotas, where no policy of a namespace or topic says otherwise"
)
_TOPICS: Final = Section("Topics and namespaces")
_PRODUCERS: Final = Section("Producers")
_COMPACTION: Final = Section("Compaction")
_TRANSACTIONS: Final = Section("Transactions")
_CONSUMERS: Final = Section("Consumers")
_STATISTICS: Final = Section("Statistics")

AUTHORIZATION_PROVIDER: Final = "org.apache.pulsar.broker.authorization.PulsarAuthorizationProvider"

_entry_size: Final = integer(1, MAX_SUBMIT_BYTES // 4)
"""Size of one entry: with all that a turn takes in besides, it has to fit into one submit."""
_compatibility: Final = one_of(
    tuple(strategy.value for strategy in Compatibility if strategy is not Compatibility.UNDEFINED)
)


# A table: a key's name, reader, default and rules in one line, its meaning in the next.
# fmt: off
@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Settings of one broker."""

    advertised_address: str = ADDRESSES.key(
        "advertisedAddress", address, "", "A4",
        "Host, or host:port, to which clients connect; empty: the address through which a client came.",
        unset="")
    advertised_listeners: tuple[Listener, ...] = ADDRESSES.key(
        "advertisedListeners", listeners, "", "SEC-47",
        "Addresses under names, for clients in different networks: NAME:SCHEME://HOST:PORT, by commas, with pulsar, "
        "pulsar+ssl, http or https. A client names its listener in a lookup. They win over advertisedAddress.",
        unset=())
    internal_listener: str = ADDRESSES.key(
        "internalListenerName", str, "", "SEC-47",
        "Listener of clients that name none; empty: the first one.", unset="")
    cluster_name: str = ADDRESSES.key(
        "clusterName", str, "standalone", "PR-1",
        "First part of generated producer names.")
    web_page: bool = ADDRESSES.key(
        "webPageEnabled", switch, True, "",
        "Serves the page at / of the admin API, which shows and does what its user may (ours).")

    ledger_max_entries: int = STORAGE.key(
        "managedLedgerMaxEntriesPerLedger", positive, 50_000, "ML-2",
        "Entries at which a ledger is closed and the next one opened.")
    ledger_max_bytes: int = STORAGE.key(
        "managedLedgerMaxSizePerLedgerMbytes", mebibytes, 2048, "ML-2",
        "Size in MB at which a ledger is closed and the next one opened.")
    ledger_min_age_ms: int = STORAGE.key(
        "managedLedgerMinLedgerRolloverTimeMinutes", minutes_or_zero, 10, "ML-2",
        "Least age in minutes of a ledger that is closed for its entries or its size.")
    ledger_max_age_ms: int = STORAGE.key(
        "managedLedgerMaxLedgerRolloverTimeMinutes", minutes, 240, "ML-2",
        "Age in minutes at which a ledger is closed in any case; a shorter retention time takes its place.")
    ledger_inactive_ms: int = STORAGE.key(
        "managedLedgerInactiveLedgerRolloverTimeSeconds", seconds_or_zero, 0, "ML-3",
        "Seconds without a new entry after which a ledger is closed; 0: never for this reason.", is_dynamic=True)
    cache_bytes: int = STORAGE.key(
        "managedLedgerCacheSizeMB", mebibytes_or_zero, 64, "",
        "Memory in MB for recent entries, from which consumers near the end of a topic are served.", is_dynamic=True)

    default_retention_time_minutes: int = _RETENTION.key(
        "defaultRetentionTimeInMinutes", limit, 0, "RET-1, RET-2",
        "Minutes for which messages are kept that every subscription has acknowledged, or that no subscription wants, "
        "in whole closed ledgers; -1: no limit.", is_dynamic=True)
    default_retention_size_mb: int = _RETENTION.key(
        "defaultRetentionSizeInMB", limit, 0, "RET-1, RET-2",
        "MB of such messages that a topic keeps; the limit that is reached first counts. -1: no limit.",
        is_dynamic=True)
    retention_check_interval_ms: int = _RETENTION.key(
        "retentionCheckIntervalInSeconds", times(1000, signed), 120, "TRIM-1",
        "Seconds between two checks of all topics for ledgers whose retention is over, besides the check when it is "
        "over; 0 or less: no ledger is deleted because of its time.", is_dynamic=True)
    default_message_ttl_s: int = _RETENTION.key(
        "ttlDurationDefaultInSeconds", natural, 0, "TTL-1",
        "Age in seconds at which unacknowledged messages count as acknowledged; 0: never.", is_dynamic=True)
    ttl_from_delivery: bool = _RETENTION.key(
        "ttlCountsFromDeliveryTime", switch, False, "TTL-6",
        "Begins the time to live of a delayed message when the message is due, not when it was published (ours); if "
        "not, it may expire before it is delivered.")
    quota_check_enabled: bool = _RETENTION.key(
        "backlogQuotaCheckEnabled", switch, True, "BQ-3",
        "Enforces backlog quotas: at the message that reaches one, when the oldest message grows too old, and at every "
        "check of all topics.", is_dynamic=True)
    quota_check_interval_ms: int = _RETENTION.key(
        "backlogQuotaCheckIntervalInSeconds", seconds, 60, "BQ-3",
        "Seconds between two checks of all topics for backlog quotas.", is_dynamic=True)
    default_quota_bytes: int = _RETENTION.key(
        "backlogQuotaDefaultLimitBytes", signed_long, -1, "BQ-1",
        "Backlog in bytes at which a topic's quota is reached; negative: no limit.", is_dynamic=True)
    default_quota_time_s: int = _RETENTION.key(
        "backlogQuotaDefaultLimitSecond", signed, -1, "BQ-2",
        "Age in seconds of the oldest unacknowledged message at which a topic's quota is reached; 0 or less: no limit.",
        is_dynamic=True)
    default_quota_policy: str = _RETENTION.key(
        "backlogQuotaDefaultRetentionPolicy", one_of(QUOTA_POLICIES), REQUEST_HOLD, "BQ-4, BQ-5, BQ-6",
        "Action when a quota is reached: producer_request_hold, producer_exception or consumer_backlog_eviction.",
        is_dynamic=True)

    allow_auto_topic_creation: bool = _TOPICS.key(
        "allowAutoTopicCreation", switch, True, "TN-7",
        "Creates a topic when a producer or consumer first names it.", is_dynamic=True)
    auto_topic_creation_partitioned: bool = _TOPICS.key(
        "allowAutoTopicCreationType", is_partitioned, "non-partitioned", "TN-7",
        "Type of topics that are created automatically: non-partitioned or partitioned.", is_dynamic=True)
    default_num_partitions: int = _TOPICS.key(
        "defaultNumPartitions", positive, 1, "TN-7",
        "Partitions of a partitioned topic that is created automatically.", is_dynamic=True)
    force_delete_namespace: bool = _TOPICS.key(
        "forceDeleteNamespaceAllowed", switch, False, "TN-15",
        "Allows to delete a namespace with its topics by force.", is_dynamic=True)
    force_delete_tenant: bool = _TOPICS.key(
        "forceDeleteTenantAllowed", switch, False, "TN-15",
        "Allows to delete a tenant with its namespaces and their topics by force.", is_dynamic=True)
    non_persistent_topics: bool = _TOPICS.key(
        "enableNonPersistentTopics", switch, True, "NP-1",
        "Allows topics that store nothing, non-persistent://tenant/namespace/topic: a message goes at once to the "
        "consumers that can take it.", is_dynamic=True)
    max_partitions_per_topic: int = _TOPICS.key(
        "maxNumPartitionsPerPartitionedTopic", natural, 0, "TN-8",
        "Most partitions of a topic; 0: no limit.", is_dynamic=True)
    max_topics_per_namespace: int = _TOPICS.key(
        "maxTopicsPerNamespace", natural, 0, "TN-10",
        "Most topics and partitions of a namespace; 0: no limit.", is_dynamic=True)
    namespaces: tuple[str, ...] = _TOPICS.key(
        "additionalNamespaces", namespaces, "", "B-1",
        "Namespaces that exist from the start beside public/default: tenant/namespace, separated by commas (ours).",
        unset=("public/default",))

    max_message_size_bytes: int = _PRODUCERS.key(
        "maxMessageSize", _entry_size, MAX_MESSAGE_SIZE_BYTES, "PR-10",
        "Largest message in bytes, metadata included; clients learn it when they connect.")
    max_publish_rate_messages: int = _PRODUCERS.key(
        "maxPublishRatePerTopicInMessages", natural, 0, "PR-14",
        "Messages a second that a topic takes, where no policy says otherwise; more have to wait. 0: no limit.",
        is_dynamic=True)
    max_publish_rate_bytes: int = _PRODUCERS.key(
        "maxPublishRatePerTopicInBytes", natural_long, 0, "PR-14",
        "Bytes a second that a topic takes, where no policy says otherwise; more have to wait. 0: no limit.",
        is_dynamic=True)
    broker_publish_rate_messages: int = _PRODUCERS.key(
        "brokerPublisherThrottlingMaxMessageRate", natural, 0, "PR-14",
        "Messages a second that all topics together take; there is no tick, a waiting message is taken as soon as the "
        "rate allows. 0: no limit.", is_dynamic=True)
    broker_publish_rate_bytes: int = _PRODUCERS.key(
        "brokerPublisherThrottlingMaxByteRate", natural_long, 0, "PR-14",
        "Bytes a second that all topics together take; 0: no limit.", is_dynamic=True)
    max_producers_per_topic: int = _PRODUCERS.key(
        "maxProducersPerTopic", natural, 0, "PR-13",
        "Most producers of a topic; 0: no limit.", is_dynamic=True)
    max_same_address_producers: int = _PRODUCERS.key(
        "maxSameAddressProducersPerTopic", natural, 0, "PR-13",
        "Most producers of a topic from clients on one host; 0: no limit.", is_dynamic=True)
    encryption_required_of_producers: bool = _PRODUCERS.key(
        "encryptionRequireOnProducer", switch, False, "PR-12",
        "Refuses producers that do not encrypt, on every topic; the policy encryptionRequired does it for a namespace.",
        is_dynamic=True)
    max_pending_publishes_per_session: int = _PRODUCERS.key(
        "maxPendingPublishRequestsPerConnection", positive, 1_000, "PR-15",
        "Entries of one connection that may wait for the disk; at this number the connection is not read.",
        is_dynamic=True)
    max_pending_publish_bytes: int = _PRODUCERS.key(
        "maxMessagePublishBufferSizeInMB", mebibytes, 64, "PR-15",
        "MB of entries of all connections that may wait for the disk; at this size no connection is read.",
        is_dynamic=True)
    schema_compatibility: str = _PRODUCERS.key(
        "schemaCompatibilityStrategy", _compatibility, Compatibility.FULL.value, "SC-4",
        "Schemas that may follow those of a topic, where no policy says otherwise: ALWAYS_COMPATIBLE, "
        "ALWAYS_INCOMPATIBLE, BACKWARD, FORWARD or FULL (compared with the last one), BACKWARD_TRANSITIVE, "
        "FORWARD_TRANSITIVE or FULL_TRANSITIVE (compared with all).", is_dynamic=True)
    allow_schema_updates: bool = _PRODUCERS.key(
        "isAllowAutoUpdateSchemaEnabled", switch, True, "SC-6",
        "Lets producers and consumers add schemas, where no policy says otherwise; if not, only the admin API adds "
        "them.", is_dynamic=True)
    enforce_schemas: bool = _PRODUCERS.key(
        "isSchemaValidationEnforced", switch, False, "SC-7",
        "Refuses producers without a schema on a topic that has one.", is_dynamic=True)
    max_schema_bytes: int = _PRODUCERS.key(
        "schemaMaxSizeBytes", positive, 1024 * 1024, "SC-2",
        "Largest definition and properties of one schema, in bytes (ours); a larger one is refused before it is read.",
        is_dynamic=True)
    max_schema_versions: int = _PRODUCERS.key(
        "schemaMaxVersionsPerTopic", natural, 1_000, "SC-11",
        "Most versions of a topic's schema (ours); 0: no limit.", is_dynamic=True)
    max_schema_total_bytes: int = _PRODUCERS.key(
        "schemaMaxTotalSizeBytes", natural, 16 * 1024 * 1024, "SC-11",
        "Most bytes of all versions of a topic's schema (ours), which are held in memory; 0: no limit.",
        is_dynamic=True)
    deduplication: bool = _PRODUCERS.key(
        "brokerDeduplicationEnabled", switch, False, "DED-1",
        "Stores a message once whose sequence id a producer repeats, where no policy says otherwise. Each id is on "
        "disk with its message, so Apache Pulsar's keys for the interval of snapshots have no effect.", is_dynamic=True)
    deduplication_max_producers: int = _PRODUCERS.key(
        "brokerDeduplicationMaxNumberOfProducers", positive, 10_000, "DED-6",
        "Producer names of one topic whose last sequence ids are kept; the name that was unused for longest goes "
        "first.", is_dynamic=True)
    deduplication_producer_timeout_ms: int = _PRODUCERS.key(
        "brokerDeduplicationProducerInactivityTimeoutMinutes", minutes, 360, "DED-9",
        "Minutes after which the broker removes the last sequence id of a producer that is not connected.")

    compaction_threshold_bytes: int = _COMPACTION.key(
        "brokerServiceCompactionThresholdInBytes", natural_long, 0, "CMP-C1",
        "Bytes not yet compacted at which a topic is compacted, where no policy says otherwise; 0: only on request.",
        is_dynamic=True)
    compaction_interval_ms: int = _COMPACTION.key(
        "brokerServiceCompactionMonitorIntervalInSeconds", seconds, 60, "CMP-C1",
        "Seconds between two checks of all topics for that threshold.", is_dynamic=True)
    compaction_keeps_null_keys: bool = _COMPACTION.key(
        "topicCompactionRetainNullKey", switch, False, "CMP-C2",
        "Keeps messages without a key in the compacted view.", is_dynamic=True)

    transactions_enabled: bool = _TRANSACTIONS.key(
        "transactionCoordinatorEnabled", switch, False, "TX-1",
        "Serves transactions: their coordinator, messages and acknowledgements in them.")
    max_active_transactions: int = _TRANSACTIONS.key(
        "maxActiveTransactionsPerCoordinator", natural_long, 0, "TX-24",
        "Open transactions that a coordinator may have; 0: no limit but 100,000 for all together.", is_dynamic=True)
    max_active_transactions_per_role: int = _TRANSACTIONS.key(
        "maxActiveTransactionsPerRole", natural_long, 10_000, "TX-28",
        "Open transactions that a role may have, behind a proxy that of the client; 0: no limit. Without "
        "authentication there are no roles, and no limit (ours).", is_dynamic=True)
    max_active_transactions_per_connection: int = _TRANSACTIONS.key(
        "maxActiveTransactionsPerConnection", natural_long, 10_000, "TX-28",
        "Open transactions that may have been opened over one connection; 0: no limit (ours).", is_dynamic=True)

    topic_patterns: bool = _CONSUMERS.key(
        "enableBrokerSideSubscriptionPatternEvaluation", switch, True, "MT-2",
        "Filters lists of topics by a client's pattern, and notifies the client of topics that come and go.")
    topic_pattern_max_length: int = _CONSUMERS.key(
        "subscriptionPatternMaxLength", natural, 50, "MT-2",
        "Longest such pattern, in characters.", is_dynamic=True)
    allow_auto_subscription_creation: bool = _CONSUMERS.key(
        "allowAutoSubscriptionCreation", switch, True, "TN-9",
        "Creates a subscription when a consumer first names it.", is_dynamic=True)
    subscription_types: frozenset[str] = _CONSUMERS.key(
        "subscriptionTypesEnabled", subscription_types, "Exclusive,Shared,Failover,Key_Shared", "SUB-3",
        "Subscription types that consumers may use, separated by commas.", is_dynamic=True)
    batch_index_acks: bool = _CONSUMERS.key(
        "acknowledgmentAtBatchIndexLevelEnabled", switch, True, "ACK-9",
        "Keeps acknowledgements of single messages inside a batch. Apache Pulsar's default is false: there they come "
        "again when another message of the batch is acknowledged negatively.")
    max_same_address_consumers: int = _CONSUMERS.key(
        "maxSameAddressConsumersPerTopic", natural, 0, "SUB-5",
        "Most consumers of a topic from clients on one host; 0: no limit.", is_dynamic=True)
    max_consumers_per_topic: int = _CONSUMERS.key(
        "maxConsumersPerTopic", natural, 0, "SUB-5",
        "Most consumers of a topic; 0: no limit.", is_dynamic=True)
    max_consumers_per_subscription: int = _CONSUMERS.key(
        "maxConsumersPerSubscription", natural, 0, "SUB-5",
        "Most consumers of a subscription; 0: no limit.", is_dynamic=True)
    max_subscriptions_per_topic: int = _CONSUMERS.key(
        "maxSubscriptionsPerTopic", natural, 0, "CUR-18",
        "Most subscriptions of a topic; 0: no limit.", is_dynamic=True)
    delete_inactive_topics: bool = _CONSUMERS.key(
        "brokerDeleteInactiveTopicsEnabled", switch, False, "TN-11",
        "Deletes inactive topics, where no policy says otherwise. Apache Pulsar's default is true.", is_dynamic=True)
    inactive_check_interval_ms: int = _CONSUMERS.key(
        "brokerDeleteInactiveTopicsFrequencySeconds", seconds, 60, "TN-11",
        "Seconds between two checks of all topics for inactive ones.", is_dynamic=True)
    inactive_max_s: int = _CONSUMERS.key(
        "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds", positive, "", "TN-11",
        "Seconds without use after which a topic is inactive; empty: the interval of the checks.",
        unset=0, is_dynamic=True)
    inactive_mode: str = _CONSUMERS.key(
        "brokerDeleteInactiveTopicsMode", one_of(INACTIVE_MODES), NO_SUBSCRIPTIONS, "TN-11",
        "Use of a topic: any subscription (delete_when_no_subscriptions), or only one with a consumer or a backlog "
        "(delete_when_subscriptions_caught_up).", is_dynamic=True)
    subscription_expiration_minutes: int = _CONSUMERS.key(
        "subscriptionExpirationTimeMinutes", natural, 0, "CUR-17",
        "Minutes without a consumer after which a subscription is deleted with its backlog; 0: never.", is_dynamic=True)
    max_unacked_per_consumer: int = _CONSUMERS.key(
        "maxUnackedMessagesPerConsumer", natural, 50_000, "SH-6",
        "Unacknowledged messages at which a consumer of a Shared or Key_Shared subscription gets no more; 0: no limit.",
        is_dynamic=True)
    max_unacked_per_subscription: int = _CONSUMERS.key(
        "maxUnackedMessagesPerSubscription", natural, 200_000, "SH-7",
        "Unacknowledged messages at which a Shared or Key_Shared subscription gets no more; 0: no limit.",
        is_dynamic=True)
    max_unacked_of_all: int = _CONSUMERS.key(
        "maxUnackedMessagesPerBroker", natural, 0, "SH-8",
        "Unacknowledged messages of all Shared and Key_Shared subscriptions together at which those with a large part "
        "of them get no more; 0: no limit.")
    max_unacked_share: float = _CONSUMERS.key(
        "maxUnackedMessagesPerSubscriptionOnBrokerBlocked", share, 0.16, "SH-8",
        "Part of that limit which one subscription may still hold when it is reached; 0: no limit for all together.")
    dispatch_rate_messages: int = _CONSUMERS.key(
        "dispatchThrottlingRateInMsg", natural, 0, "SUB-7",
        "Messages a second that consumers of all topics together are sent; more wait in their topics. 0: no limit.",
        is_dynamic=True)
    dispatch_rate_bytes: int = _CONSUMERS.key(
        "dispatchThrottlingRateInByte", natural_long, 0, "SUB-7",
        "Bytes a second that consumers of all topics together are sent; 0: no limit.", is_dynamic=True)
    topic_dispatch_rate_messages: int = _CONSUMERS.key(
        "dispatchThrottlingRatePerTopicInMsg", natural, 0, "SUB-7",
        "Messages a second that consumers of a topic are sent, where no policy says otherwise; 0: no limit.",
        is_dynamic=True)
    topic_dispatch_rate_bytes: int = _CONSUMERS.key(
        "dispatchThrottlingRatePerTopicInByte", natural_long, 0, "SUB-7",
        "Bytes a second that consumers of a topic are sent, where no policy says otherwise; 0: no limit.",
        is_dynamic=True)
    subscription_dispatch_rate_messages: int = _CONSUMERS.key(
        "dispatchThrottlingRatePerSubscriptionInMsg", natural, 0, "SUB-7",
        "Messages a second that consumers of a subscription are sent, where no policy says otherwise; 0: no limit.",
        is_dynamic=True)
    subscription_dispatch_rate_bytes: int = _CONSUMERS.key(
        "dispatchThrottlingRatePerSubscriptionInByte", natural_long, 0, "SUB-7",
        "Bytes a second that consumers of a subscription are sent, where no policy says otherwise; 0: no limit.",
        is_dynamic=True)
    dispatch_rates_count_entries: bool = _CONSUMERS.key(
        "dispatchThrottlingOnBatchMessageEnabled", switch, False, "SUB-7",
        "Counts a batch as one message for the rates of dispatch; if not, each message in it counts.", is_dynamic=True)
    dispatch_rates_without_backlog: bool = _CONSUMERS.key(
        "dispatchThrottlingOnNonBacklogConsumerEnabled", switch, True, "SUB-7",
        "Applies the rates of dispatch to subscriptions without a backlog too.", is_dynamic=True)
    backlogged_cursor_entries: int = _CONSUMERS.key(
        "managedLedgerCursorBackloggedThreshold", natural_long, 1_000, "SUB-7",
        "Entries to be sent with which a subscription has a backlog in this sense; compared when a consumer joins and "
        "when statistics are taken.", is_dynamic=True)
    subscribe_rate: int = _CONSUMERS.key(
        "subscribeThrottlingRatePerConsumer", natural, 0, "SUB-6",
        "Times that a consumer may subscribe to a topic in one period, so that one that reconnects in a loop is "
        "stopped; where no policy says otherwise. 0: no limit.", is_dynamic=True)
    subscribe_rate_period_s: int = _CONSUMERS.key(
        "subscribeRatePeriodPerConsumerInSecond", positive, 30, "SUB-6",
        "Length of that period in seconds.", is_dynamic=True)
    failover_delay_ms: int = _CONSUMERS.key(
        "activeConsumerFailoverDelayTimeMillis", natural, 1_000, "FO-6",
        "Milliseconds that the next consumer of a Failover subscription waits before it takes over, so that "
        "acknowledgements under way still count.", is_dynamic=True)
    failover_ring_for_partitions: bool = _CONSUMERS.key(
        "activeConsumerFailoverConsistentHashing", switch, False, "FO-4",
        "Chooses the active consumer of a partition by a hash ring, as for topics without partitions, and not by the "
        "partition's number.")
    delayed_delivery: bool = _CONSUMERS.key(
        "delayedDeliveryEnabled", switch, True, "DEL-2",
        "Delivers a message to Shared and Key_Shared subscriptions at the time that its producer set (deliverAt, "
        "deliverAfter): never before it, and a few milliseconds after it at most, so that no strict mode is needed.",
        is_dynamic=True)
    delayed_tick_ms: int = _CONSUMERS.key(
        "delayedDeliveryTickTimeMillis", natural_long, 1_000, "DEL-3",
        "Tick that the delayed-delivery policy shows where none is set; it has no other effect.", is_dynamic=True)
    max_delay_ms: int = _CONSUMERS.key(
        "delayedDeliveryMaxDelayInMillis", natural_long, 0, "DEL-9",
        "Longest delay of a message in milliseconds, from its publish time on; a longer one is refused. 0: no limit.",
        is_dynamic=True)
    key_shared: bool = _CONSUMERS.key(
        "subscriptionKeySharedEnable", switch, True, "KS-16",
        "Allows Key_Shared subscriptions.", is_dynamic=True)
    key_shared_ring: bool = _CONSUMERS.key(
        "subscriptionKeySharedUseConsistentHashing", switch, True, "KS-4, KS-6",
        "Assigns keys to the consumers of a Key_Shared subscription by a hash ring; if not, a new consumer takes half "
        "of the widest range of hashes.")
    key_shared_ring_points: int = _CONSUMERS.key(
        "subscriptionKeySharedConsistentHashingReplicaPoints", positive, 100, "KS-6",
        "Points of one consumer on that ring.")
    key_shared_classic: bool = _CONSUMERS.key(
        "subscriptionKeySharedUseClassicPersistentImplementation", switch, False, "KS-9",
        "Sends a new consumer of a Key_Shared subscription nothing new until all that was read before it joined is "
        "acknowledged, as before 4.0.", is_dynamic=True)
    look_ahead_per_consumer: int = _CONSUMERS.key(
        "keySharedLookAheadMsgInReplayThresholdPerConsumer", natural, 2_000, "KS-10",
        "Entries per consumer that may wait for slow consumers of a Key_Shared subscription while the others get "
        "theirs; 0: no limit.", is_dynamic=True)
    look_ahead_per_subscription: int = _CONSUMERS.key(
        "keySharedLookAheadMsgInReplayThresholdPerSubscription", natural, 20_000, "KS-10",
        "Entries of the whole subscription that may wait so; 0: no limit.", is_dynamic=True)
    round_robin_batch: int = _CONSUMERS.key(
        "dispatcherMaxRoundRobinBatchSize", positive, 20, "SH-1",
        "Messages that a Shared subscription sends to one consumer before it is the next one's turn.", is_dynamic=True)
    max_read_bytes: int = _CONSUMERS.key(
        "dispatcherMaxReadSizeBytes", positive, MAX_MESSAGE_SIZE_BYTES, "SUB-8",
        "Most bytes that a subscription reads from storage at a time.", is_dynamic=True)

    stats_interval_ms: int = _STATISTICS.key(
        "statsUpdateFrequencyInSecs", seconds, 60, "ST-7",
        "Interval in seconds of the rates in topic statistics and metrics.", is_dynamic=True)

    keep_alive_interval_ms: int = CONNECTIONS.key(
        "keepAliveIntervalSeconds", seconds, KEEP_ALIVE_INTERVAL_MS // 1000, "SUB-10, SEC-26",
        "Seconds after which an idle connection is pinged; without an answer in the same time again it is closed. A "
        "handshake may take as long.")
    liveness_check_timeout_ms: int = CONNECTIONS.key(
        "connectionLivenessCheckTimeoutMillis", positive, 5_000, "",
        "Milliseconds that the connection of an old producer or consumer may take to answer before a new one replaces "
        "it.", is_dynamic=True)

    authentication_enabled: bool = SECURITY.key(
        "authenticationEnabled", switch, False, "AU-1, SEC-63",
        "Lets in clients with credentials only, over both ports.")
    authentication_refresh_check_ms: int = SECURITY.key(
        "authenticationRefreshCheckSeconds", seconds, 60, "AU-3",
        "Seconds between two checks of a connection for credentials that expired. At the first one the broker requests "
        "fresh ones of the client; at the next, or when the client has none, it closes the connection.")
    proxy_roles: tuple[str, ...] = SECURITY.key(
        "proxyRoles", names(), "", "AU-10",
        "Roles of proxies, separated by commas: they name the role of the client that they speak for.", unset=())
    authenticate_original_auth_data: bool = SECURITY.key(
        "authenticateOriginalAuthData", switch, False, "AU-10",
        "Checks the credentials that a proxy forwards, instead of believing the role that it names.")
    authorization_enabled: bool = SECURITY.key(
        "authorizationEnabled", switch, False, "AU-7, SEC-63",
        "Whether roles need permissions for their operations; needs authenticationEnabled.")
    authorization_provider: str = SECURITY.key(
        "authorizationProvider", one_of((AUTHORIZATION_PROVIDER,)), AUTHORIZATION_PROVIDER, "SEC-62",
        "Class of the rules for roles: there are those of Pulsar's default.")
    super_user_roles: tuple[str, ...] = SECURITY.key(
        "superUserRoles", names(), "", "AU-7",
        "Roles, separated by commas, that may do everything.", unset=(), is_dynamic=True)
    authorization_wildcards: bool = SECURITY.key(
        "authorizationAllowWildcardsMatching", switch, False, "AU-9",
        "Takes a role `PREFIX*` or `*SUFFIX` of a permission for all roles that begin or end so.")
    audit_log: bool = SECURITY.key(
        "auditLogEnabled", switch, True, "SEC-20",
        "Writes a line of the log `spark_pulsar.audit` for each authentication, each refused request and each change "
        "over the admin API, while authentication is on (ours).")

    # Settings without a key
    ports: Ports = Ports()  # noqa: RUF009 - it is frozen
    """Ports that the process has opened."""
    texts: tuple[tuple[str, str], ...] = field(default=(), repr=False, compare=False)
    """All keys of the process with their texts, secrets masked, as the admin API shows them."""
    handshake_timeout_ms: int = HANDSHAKE_TIMEOUT_MS
    """Time that a handshake may take: one keep-alive interval, as in Apache Pulsar."""
    max_read_entries: int = 1_000
    """Entries of one read from storage. (`dispatcherMaxReadBatchSize` bounds Apache Pulsar's reads at 100.)"""
    max_dispatch_bytes: int = 2 * 1024 * 1024
    """Bytes that one subscription may send in one turn of the loop, so that no consumer holds up the others."""
    max_turn_bytes: int = 16 * 1024 * 1024
    """Bytes that all subscriptions together may send in one turn."""
    lazy_record_delay_ms: int = 100
    """Time that an ack without receipt may wait for a group to join."""

    @property
    def retains_nothing_by_mistake(self) -> bool:
        """Returns whether one limit of retention is 0 and the other is not, which retains nothing and is seldom meant
        (RET-2)."""
        return (self.default_retention_time_minutes == 0) != (self.default_retention_size_mb == 0)
# fmt: on
