"""What the core decides by: limits, defaults and switches, as plain values. `server.config` reads them from a file."""

from __future__ import annotations

from dataclasses import dataclass

from spark_pulsar.model.limits import HANDSHAKE_TIMEOUT_MS, KEEP_ALIVE_INTERVAL_MS, MAX_MESSAGE_SIZE_BYTES


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Settings of one broker; the key of `broker.conf` stands behind each field."""

    cluster_name: str = "standalone"
    """clusterName: first part of generated producer names (PR-1)."""
    advertised_address: str = ""
    """advertisedAddress: host, or host:port, that lookups answer; empty = the address that the client connected to."""
    max_message_size_bytes: int = MAX_MESSAGE_SIZE_BYTES
    """maxMessageSize (PR-10)."""
    keep_alive_interval_ms: int = KEEP_ALIVE_INTERVAL_MS
    """keepAliveIntervalSeconds (wire-protocol 5.12)."""
    handshake_timeout_ms: int = HANDSHAKE_TIMEOUT_MS
    """One keep-alive interval in Apache Pulsar (wire-protocol 5.1)."""
    liveness_check_timeout_ms: int = 5_000
    """connectionLivenessCheckTimeoutMillis: how long an old producer's or consumer's connection may take to answer."""

    allow_auto_topic_creation: bool = True
    """allowAutoTopicCreation (TN-7)."""
    auto_topic_creation_partitioned: bool = False
    """allowAutoTopicCreationType=partitioned (TN-7)."""
    non_persistent_topics: bool = True
    """enableNonPersistentTopics (NP-1)."""
    default_num_partitions: int = 1
    """defaultNumPartitions (TN-7)."""
    topic_patterns: bool = True
    """enableBrokerSideSubscriptionPatternEvaluation: whether lists of topics are filtered and watched here (MT-2)."""
    topic_pattern_max_length: int = 50
    """subscriptionPatternMaxLength, in characters (MT-2)."""
    allow_auto_subscription_creation: bool = True
    """allowAutoSubscriptionCreation (TN-9)."""
    max_partitions_per_topic: int = 0
    """maxNumPartitionsPerPartitionedTopic (TN-8); 0 = no limit."""
    max_topics_per_namespace: int = 0
    """maxTopicsPerNamespace (TN-10); 0 = no limit."""
    max_publish_rate_messages: int = 0
    """maxPublishRatePerTopicInMessages, a second (PR-14); 0 = no limit."""
    max_publish_rate_bytes: int = 0
    """maxPublishRatePerTopicInBytes, a second (PR-14); 0 = no limit."""
    broker_publish_rate_messages: int = 0
    """brokerPublisherThrottlingMaxMessageRate, a second for all topics together (PR-14); 0 = no limit."""
    broker_publish_rate_bytes: int = 0
    """brokerPublisherThrottlingMaxByteRate, a second for all topics together (PR-14); 0 = no limit."""
    encryption_required_of_producers: bool = False
    """encryptionRequireOnProducer (PR-12): of those of all topics, whatever the policies say."""
    max_producers_per_topic: int = 0
    """maxProducersPerTopic (PR-13); 0 = no limit."""
    max_same_address_producers: int = 0
    """maxSameAddressProducersPerTopic: of clients on one host (PR-13); 0 = no limit."""
    max_same_address_consumers: int = 0
    """maxSameAddressConsumersPerTopic: of clients on one host (SUB-5); 0 = no limit."""
    max_consumers_per_topic: int = 0
    """maxConsumersPerTopic (SUB-5); 0 = no limit."""
    max_consumers_per_subscription: int = 0
    """maxConsumersPerSubscription (SUB-5); 0 = no limit."""
    max_subscriptions_per_topic: int = 0
    """maxSubscriptionsPerTopic (CUR-18); 0 = no limit."""
    subscription_types: frozenset[str] = frozenset({"Exclusive", "Shared", "Failover", "Key_Shared"})
    """subscriptionTypesEnabled (SUB-3)."""
    namespaces: tuple[str, ...] = ("public/default",)
    """`public/default` and those of `additionalNamespaces`: `tenant/namespace` that exist from the start."""

    default_retention_time_minutes: int = 0
    """defaultRetentionTimeInMinutes (RET-1); -1 = no limit."""
    default_retention_size_mb: int = 0
    """defaultRetentionSizeInMB (RET-1); -1 = no limit."""
    default_message_ttl_s: int = 0
    """ttlDurationDefaultInSeconds (TTL-1); 0 = off."""
    ttl_from_delivery: bool = False
    """ttlCountsFromDeliveryTime (ours): a delayed entry's time to live begins when it is delivered (TTL-6)."""
    default_quota_bytes: int = -1
    """backlogQuotaDefaultLimitBytes (BQ-1); negative = no limit."""
    default_quota_time_s: int = -1
    """backlogQuotaDefaultLimitSecond (BQ-2); 0 and below = no limit."""
    default_quota_policy: str = "producer_request_hold"
    """backlogQuotaDefaultRetentionPolicy (BQ-4)."""
    deduplication: bool = False
    """brokerDeduplicationEnabled (DED-1)."""
    deduplication_snapshot_interval_s: int = 120
    """brokerDeduplicationSnapshotIntervalSeconds."""
    deduplication_max_producers: int = 10_000
    """brokerDeduplicationMaxNumberOfProducers: names of one topic whose sequence ids are kept (DED-6)."""
    deduplication_producer_timeout_ms: int = 360 * 60_000
    """brokerDeduplicationProducerInactivityTimeoutMinutes (DED-9)."""
    schema_compatibility: str = "FULL"
    """schemaCompatibilityStrategy (SC-4)."""
    allow_schema_updates: bool = True
    """isAllowAutoUpdateSchemaEnabled (SC-6)."""
    enforce_schemas: bool = False
    """isSchemaValidationEnforced (SC-7)."""
    max_schema_bytes: int = 1024 * 1024
    """schemaMaxSizeBytes (ours): definition and properties of one schema."""
    compaction_interval_ms: int = 60_000
    """brokerServiceCompactionMonitorIntervalInSeconds: how often thresholds are looked at (CMP-C1)."""
    compaction_keeps_null_keys: bool = False
    """topicCompactionRetainNullKey (CMP-C2)."""
    compaction_threshold_bytes: int = 0
    """brokerServiceCompactionThresholdInBytes; 0 = never by itself."""
    subscription_expiration_minutes: int = 0
    """subscriptionExpirationTimeMinutes; 0 = never."""
    delete_inactive_topics: bool = False
    """brokerDeleteInactiveTopicsEnabled (TN-11)."""
    inactive_check_interval_ms: int = 60_000
    """brokerDeleteInactiveTopicsFrequencySeconds."""
    inactive_max_s: int = 0
    """brokerDeleteInactiveTopicsMaxInactiveDurationSeconds; 0 = the interval of the checks."""
    inactive_mode: str = "delete_when_no_subscriptions"
    """brokerDeleteInactiveTopicsMode."""

    batch_index_acks: bool = True
    """acknowledgmentAtBatchIndexLevelEnabled (ACK-9; on by default, section 21 row 11)."""
    max_unacked_per_consumer: int = 50_000
    """maxUnackedMessagesPerConsumer, in messages (SH-6); 0 = no limit."""
    max_unacked_per_subscription: int = 200_000
    """maxUnackedMessagesPerSubscription, in messages (SH-7); 0 = no limit."""
    max_unacked_of_all: int = 0
    """maxUnackedMessagesPerBroker, in messages (SH-8); 0 = no limit."""
    max_unacked_share: float = 0.16
    """maxUnackedMessagesPerSubscriptionOnBrokerBlocked: what part of it one subscription may hold when it is reached
    (SH-8); 0 = no limit of all."""
    dispatch_rate_messages: int = 0
    """dispatchThrottlingRateInMsg, a second for all topics together (SUB-7); 0 = no limit."""
    dispatch_rate_bytes: int = 0
    """dispatchThrottlingRateInByte, a second for all topics together (SUB-7); 0 = no limit."""
    topic_dispatch_rate_messages: int = 0
    """dispatchThrottlingRatePerTopicInMsg, a second (SUB-7); 0 = no limit."""
    topic_dispatch_rate_bytes: int = 0
    """dispatchThrottlingRatePerTopicInByte, a second (SUB-7); 0 = no limit."""
    subscription_dispatch_rate_messages: int = 0
    """dispatchThrottlingRatePerSubscriptionInMsg, a second (SUB-7); 0 = no limit."""
    subscription_dispatch_rate_bytes: int = 0
    """dispatchThrottlingRatePerSubscriptionInByte, a second (SUB-7); 0 = no limit."""
    dispatch_rates_count_entries: bool = False
    """dispatchThrottlingOnBatchMessageEnabled: a batch counts as one message for rates of dispatch (SUB-7)."""
    dispatch_rates_spare_nobody: bool = True
    """dispatchThrottlingOnNonBacklogConsumerEnabled: rates of dispatch hold for who has no backlog, too (SUB-7)."""
    backlogged_cursor_entries: int = 1_000
    """managedLedgerCursorBackloggedThreshold: who has so many entries to be sent has a backlog (SUB-7)."""
    subscribe_rate: int = 0
    """subscribeThrottlingRatePerConsumer (SUB-6); 0 = no limit."""
    subscribe_rate_period_s: int = 30
    """subscribeRatePeriodPerConsumerInSecond (SUB-6)."""
    failover_delay_ms: int = 1_000
    """activeConsumerFailoverDelayTimeMillis (FO-6)."""
    failover_ring_for_partitions: bool = False
    """activeConsumerFailoverConsistentHashing: choose by the ring for partitions too (FO-4)."""
    delayed_delivery: bool = True
    """delayedDeliveryEnabled (DEL-2)."""
    delayed_tick_ms: int = 1_000
    """delayedDeliveryTickTimeMillis (DEL-3): answered as the default of the policy."""
    max_delay_ms: int = 0
    """delayedDeliveryMaxDelayInMillis (DEL-9); 0 = no limit."""
    key_shared: bool = True
    """subscriptionKeySharedEnable (KS-16)."""
    key_shared_ring: bool = True
    """subscriptionKeySharedUseConsistentHashing (KS-6); else ranges are split (KS-4)."""
    key_shared_ring_points: int = 100
    """subscriptionKeySharedConsistentHashingReplicaPoints: points of one consumer (KS-6)."""
    key_shared_classic: bool = False
    """subscriptionKeySharedUseClassicPersistentImplementation: newcomers wait for all that was read before (KS-9)."""
    look_ahead_per_consumer: int = 2_000
    """keySharedLookAheadMsgInReplayThresholdPerConsumer, in entries (KS-10); 0 = no limit."""
    look_ahead_per_subscription: int = 20_000
    """keySharedLookAheadMsgInReplayThresholdPerSubscription, in entries (KS-10); 0 = no limit."""
    round_robin_batch: int = 20
    """dispatcherMaxRoundRobinBatchSize: messages of one turn (SH-1)."""
    max_read_entries: int = 1_000
    """Entries of one read from storage. (`dispatcherMaxReadBatchSize` bounds Apache Pulsar's reads at 100.)"""
    max_read_bytes: int = MAX_MESSAGE_SIZE_BYTES
    """dispatcherMaxReadSizeBytes (SUB-8)."""
    max_dispatch_bytes: int = 2 * 1024 * 1024
    """What one subscription may send in one turn of the loop, so that no consumer holds up the others."""

    max_turn_bytes: int = 16 * 1024 * 1024
    """What all subscriptions together may send in one turn."""

    stats_interval_ms: int = 60_000
    """statsUpdateFrequencyInSecs: the interval that rates are over."""

    max_pending_publishes_per_session: int = 1_000
    """maxPendingPublishRequestsPerConnection, in entries (PR-15)."""
    max_pending_publish_bytes: int = 64 * 1024 * 1024
    """maxMessagePublishBufferSizeInMB: entries of all sessions that wait for the disk (PR-15)."""
    lazy_record_delay_ms: int = 100
    """How long an ack without receipt may wait for a group to join (architecture: on disk within 100 ms)."""

    ledger_max_entries: int = 50_000
    """managedLedgerMaxEntriesPerLedger (ML-2)."""
    ledger_max_bytes: int = 2048 * 1024 * 1024
    """managedLedgerMaxSizePerLedgerMbytes (ML-2)."""
    ledger_min_age_ms: int = 10 * 60_000
    """managedLedgerMinLedgerRolloverTimeMinutes (ML-2)."""
    ledger_max_age_ms: int = 240 * 60_000
    """managedLedgerMaxLedgerRolloverTimeMinutes (ML-2)."""
    ledger_inactive_ms: int = 0
    """managedLedgerInactiveLedgerRolloverTimeSeconds (ML-3); 0 = off."""
    retention_check_interval_ms: int = 120_000
    """retentionCheckIntervalInSeconds (TRIM-1): how often all topics are looked at; 0 and below = nothing goes because
    time has passed."""
    quota_check_enabled: bool = True
    """backlogQuotaCheckEnabled (BQ-3)."""
    quota_check_interval_ms: int = 60_000
    """backlogQuotaCheckIntervalInSeconds (BQ-3), beside the looks at each publish and age."""
    cache_bytes: int = 64 * 1024 * 1024
    """managedLedgerCacheSizeMB: entries kept in memory for consumers near the tail."""

    @property
    def retains_nothing_by_mistake(self) -> bool:
        """Whether one limit of retention is 0 and the other is not: then nothing is retained, which is seldom what
        was meant (RET-2)."""
        return (self.default_retention_time_minutes == 0) != (self.default_retention_size_mb == 0)
