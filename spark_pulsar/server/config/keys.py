"""The keys of `broker.conf` that have an effect: how each is read, and what it is for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from spark_pulsar.model.policies import INACTIVE_MODES, QUOTA_POLICIES
from spark_pulsar.model.schemas import Compatibility

from .dispatch_keys import DISPATCH_KEYS
from .key_readers import (
    Key,
    address,
    entry_size,
    limit,
    namespaces,
    natural,
    natural_long,
    one_of,
    port,
    positive,
    segment_mib,
    signed,
    signed_long,
    switch,
    times,
    types,
)

_MIB: Final = 1024 * 1024

_STRATEGIES: Final = tuple(each.value for each in Compatibility if each is not Compatibility.UNDEFINED)

KEYS: Final[Mapping[str, Key]] = {
    **DISPATCH_KEYS,
    "bindAddress": Key(
        "bind_address",
        str,
        of_broker=False,
        help="Address that both ports listen on.",
    ),
    "brokerServicePort": Key(
        "port",
        port,
        of_broker=False,
        help="Port of the binary protocol; 0 chooses a free one.",
    ),
    "webServicePort": Key(
        "http_port",
        port,
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
        switch,
        of_broker=False,
        help="Sync the journal to the disk before a receipt; false survives kill -9 but not power loss.",
    ),
    "journalMaxSizeMB": Key(
        "journal_segment_bytes",
        times(_MIB, segment_mib),
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
        address,
        help="Host, or host:port, that lookups answer; empty: the address the client connected to.",
    ),
    "maxMessageSize": Key(
        "max_message_size_bytes",
        entry_size,
        help="Bytes of metadata and payload of one message, announced to clients.",
    ),
    "keepAliveIntervalSeconds": Key(
        "keep_alive_interval_ms",
        times(1000),
        help="Time between pings; a silent client is closed after two, and a handshake may take one.",
    ),
    "connectionLivenessCheckTimeoutMillis": Key(
        "liveness_check_timeout_ms",
        positive,
        help="How long an old connection may take to answer before its name is given away.",
    ),
    "allowAutoTopicCreation": Key(
        "allow_auto_topic_creation",
        switch,
        help="Whether using a missing topic creates it.",
    ),
    "allowAutoTopicCreationType": Key(
        "auto_topic_creation_partitioned",
        lambda text: one_of(("partitioned", "non-partitioned"))(text) == "partitioned",
        help="partitioned or non-partitioned: what is created then.",
    ),
    "enableNonPersistentTopics": Key(
        "non_persistent_topics",
        switch,
        help="Whether there are topics that keep nothing: non-persistent://tenant/namespace/topic.",
    ),
    "defaultNumPartitions": Key(
        "default_num_partitions",
        positive,
        help="Partitions of an automatically created partitioned topic.",
    ),
    "enableBrokerSideSubscriptionPatternEvaluation": Key(
        "topic_patterns",
        switch,
        help="Whether clients may have lists of topics filtered by a pattern, and watch them.",
    ),
    "subscriptionPatternMaxLength": Key(
        "topic_pattern_max_length",
        natural,
        help="Longest pattern, in characters, that is looked at here.",
    ),
    "allowAutoSubscriptionCreation": Key(
        "allow_auto_subscription_creation",
        switch,
        help="Whether subscribing creates a missing subscription.",
    ),
    "maxNumPartitionsPerPartitionedTopic": Key(
        "max_partitions_per_topic",
        natural,
        help="Most partitions of a topic; 0: no limit.",
    ),
    "maxTopicsPerNamespace": Key(
        "max_topics_per_namespace",
        natural,
        help="Most topics and partitions of a namespace; 0: no limit.",
    ),
    "maxPublishRatePerTopicInMessages": Key(
        "max_publish_rate_messages",
        natural,
        help="Messages a second that a topic takes, where no policy says otherwise; 0: no limit.",
    ),
    "maxPublishRatePerTopicInBytes": Key(
        "max_publish_rate_bytes",
        natural_long,
        help="Bytes a second that a topic takes, where no policy says otherwise; 0: no limit.",
    ),
    "brokerPublisherThrottlingMaxMessageRate": Key(
        "broker_publish_rate_messages",
        natural,
        help="Messages a second that all topics together take; 0: no limit.",
    ),
    "brokerPublisherThrottlingMaxByteRate": Key(
        "broker_publish_rate_bytes",
        natural_long,
        help="Bytes a second that all topics together take; 0: no limit.",
    ),
    "encryptionRequireOnProducer": Key(
        "encryption_required_of_producers",
        switch,
        help="Refuse producers that do not encrypt, whatever the policies say.",
    ),
    "maxProducersPerTopic": Key(
        "max_producers_per_topic",
        natural,
        help="Most producers of a topic; 0: no limit.",
    ),
    "maxSameAddressProducersPerTopic": Key(
        "max_same_address_producers",
        natural,
        help="Most producers of a topic that clients on one host have; 0: no limit.",
    ),
    "maxSameAddressConsumersPerTopic": Key(
        "max_same_address_consumers",
        natural,
        help="Most consumers of a topic that clients on one host have; 0: no limit.",
    ),
    "maxConsumersPerTopic": Key(
        "max_consumers_per_topic",
        natural,
        help="Most consumers of a topic; 0: no limit.",
    ),
    "maxConsumersPerSubscription": Key(
        "max_consumers_per_subscription",
        natural,
        help="Most consumers of a subscription; 0: no limit.",
    ),
    "maxSubscriptionsPerTopic": Key(
        "max_subscriptions_per_topic",
        natural,
        help="Most subscriptions of a topic; 0: no limit.",
    ),
    "subscriptionExpirationTimeMinutes": Key(
        "subscription_expiration_minutes",
        natural,
        help="Delete a subscription with its backlog when nobody was connected to it for so long; 0: never.",
    ),
    "brokerDeleteInactiveTopicsEnabled": Key(
        "delete_inactive_topics",
        switch,
        help="Delete topics that nobody uses; false here (Apache Pulsar: true), policies may turn it on.",
    ),
    "brokerDeleteInactiveTopicsFrequencySeconds": Key(
        "inactive_check_interval_ms",
        times(1000),
        help="How often such topics are looked for.",
    ),
    "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": Key(
        "inactive_max_s",
        positive,
        help="How long nobody must have used them; empty: as long as it is between two looks.",
    ),
    "brokerDeleteInactiveTopicsMode": Key(
        "inactive_mode",
        one_of(INACTIVE_MODES),
        help="delete_when_no_subscriptions or delete_when_subscriptions_caught_up: what counts as use.",
    ),
    "subscriptionTypesEnabled": Key(
        "subscription_types",
        types,
        help="Subscription types that may be used, by commas.",
    ),
    "additionalNamespaces": Key(
        "namespaces",
        namespaces,
        help="Namespaces that exist from the start beside public/default, tenant/namespace by commas (ours).",
    ),
    "acknowledgmentAtBatchIndexLevelEnabled": Key(
        "batch_index_acks",
        switch,
        help="Whether messages inside a batch can be acknowledged one by one. Apache Pulsar's default is `false`.",
    ),
    "dispatcherMaxReadSizeBytes": Key(
        "max_read_bytes",
        positive,
        help="Bytes of one read from storage.",
    ),
    "maxPendingPublishRequestsPerConnection": Key(
        "max_pending_publishes_per_session",
        positive,
        help="Entries of a connection that may wait for the disk before it is not read any more.",
    ),
    "maxMessagePublishBufferSizeInMB": Key(
        "max_pending_publish_bytes",
        times(_MIB),
        help="Entries of all connections that may wait for the disk.",
    ),
    "schemaCompatibilityStrategy": Key(
        "schema_compatibility",
        one_of(_STRATEGIES),
        help="Which schemas may follow those that a topic has, where no policy says otherwise.",
    ),
    "isAllowAutoUpdateSchemaEnabled": Key(
        "allow_schema_updates",
        switch,
        help="Whether producers and consumers may bring new schemas, where no policy says otherwise.",
    ),
    "isSchemaValidationEnforced": Key(
        "enforce_schemas",
        switch,
        help="Whether a topic that has a schema refuses producers without.",
    ),
    "schemaMaxSizeBytes": Key(
        "max_schema_bytes",
        positive,
        help="Definition and properties of one schema (ours): a larger one is refused before it is read.",
    ),
    "brokerDeduplicationEnabled": Key(
        "deduplication",
        switch,
        help="Whether a sequence id that a producer repeats is stored once, where no policy says otherwise.",
    ),
    "brokerDeduplicationMaxNumberOfProducers": Key(
        "deduplication_max_producers",
        positive,
        help="Producer names of one topic whose last sequence ids are kept.",
    ),
    "brokerDeduplicationProducerInactivityTimeoutMinutes": Key(
        "deduplication_producer_timeout_ms",
        times(60_000),
        help="How long a producer may be away before its last sequence id is forgotten.",
    ),
    "brokerServiceCompactionThresholdInBytes": Key(
        "compaction_threshold_bytes",
        natural_long,
        help="Compact a topic when it has so much to compact, where no policy says otherwise; 0: when asked to.",
    ),
    "brokerServiceCompactionMonitorIntervalInSeconds": Key(
        "compaction_interval_ms",
        times(1000),
        help="How often topics are compared with their compaction threshold.",
    ),
    "topicCompactionRetainNullKey": Key(
        "compaction_keeps_null_keys",
        switch,
        help="Whether compaction keeps messages without a key.",
    ),
    "managedLedgerMaxEntriesPerLedger": Key(
        "ledger_max_entries",
        positive,
        help="Entries of one ledger.",
    ),
    "managedLedgerMaxSizePerLedgerMbytes": Key(
        "ledger_max_bytes",
        times(_MIB),
        help="Size of one ledger.",
    ),
    "managedLedgerMinLedgerRolloverTimeMinutes": Key(
        "ledger_min_age_ms",
        times(60_000, natural),
        help="Least age of a ledger before it is followed by the next.",
    ),
    "managedLedgerMaxLedgerRolloverTimeMinutes": Key(
        "ledger_max_age_ms",
        times(60_000),
        help="Age at which a ledger is followed by the next; retention by time makes it less.",
    ),
    "managedLedgerInactiveLedgerRolloverTimeSeconds": Key(
        "ledger_inactive_ms",
        times(1000, natural),
        help="A ledger that took nothing for this long is followed by the next; 0: never for this reason.",
    ),
    "defaultRetentionTimeInMinutes": Key(
        "default_retention_time_minutes",
        limit,
        help="How long acknowledged messages are kept, where no policy says otherwise; -1: without limit.",
    ),
    "defaultRetentionSizeInMB": Key(
        "default_retention_size_mb",
        limit,
        help="How much of acknowledged messages a topic keeps, where no policy says otherwise; -1: without limit.",
    ),
    "retentionCheckIntervalInSeconds": Key(
        "retention_check_interval_ms",
        times(1000, signed),
        help="Ledgers go when their retention is over, and all topics are looked at so often; 0: never by themselves.",
    ),
    "statsUpdateFrequencyInSecs": Key(
        "stats_interval_ms", times(1000), help="Interval that rates in statistics and metrics are over."
    ),
    "ttlDurationDefaultInSeconds": Key(
        "default_message_ttl_s",
        natural,
        help="Age at which unacknowledged messages count as acknowledged, where no policy says otherwise; 0: never.",
    ),
    "ttlCountsFromDeliveryTime": Key(
        "ttl_from_delivery",
        switch,
        help="Whether a delayed message's time to live begins when it is due (ours); else when it was published.",
    ),
    "backlogQuotaCheckEnabled": Key(
        "quota_check_enabled",
        switch,
        help="Whether backlog quotas are enforced.",
    ),
    "backlogQuotaCheckIntervalInSeconds": Key(
        "quota_check_interval_ms",
        times(1000),
        help="Backlog quotas are looked at when messages come or grow too old, and so often besides.",
    ),
    "backlogQuotaDefaultLimitBytes": Key(
        "default_quota_bytes",
        signed_long,
        help="Backlog of a topic at which its quota is reached, where no policy says otherwise; negative: no limit.",
    ),
    "backlogQuotaDefaultLimitSecond": Key(
        "default_quota_time_s",
        signed,
        help="Age of the oldest message at which the quota is reached; 0 or negative: no limit.",
    ),
    "backlogQuotaDefaultRetentionPolicy": Key(
        "default_quota_policy",
        one_of(QUOTA_POLICIES),
        help="What happens then: producer_request_hold, producer_exception or consumer_backlog_eviction.",
    ),
    "managedLedgerCacheSizeMB": Key(
        "cache_bytes",
        times(_MIB, natural),
        help="Memory for recent entries, from which consumers near the tail are served.",
    ),
}
"""Every key that has an effect."""
