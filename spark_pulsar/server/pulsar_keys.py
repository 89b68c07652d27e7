"""Keys of Apache Pulsar's broker.conf that this broker knows by name only: they are accepted and have no effect."""

from __future__ import annotations

import re
from typing import Final

PULSAR_KEYS: Final = frozenset(
    re.findall(
        r"\S+",
        """
        advertisedListeners internalListenerName brokerServicePortTls webServicePortTls metadataStoreUrl
        configurationMetadataStoreUrl zookeeperServers configurationStoreServers brokerShutdownTimeoutMs
        backlogQuotaDefaultLimitGB preciseTimeBasedBacklogQuotaCheck messageExpiryCheckIntervalInMinutes
        subscriptionExpiryCheckIntervalInMinutes
        subscriptionRedeliveryTrackerEnabled
        unblockStuckSubscriptionEnabled
        dispatcherMaxReadBatchSize
        dispatcherMinReadBatchSize preciseDispatcherFlowControl
        isDelayedDeliveryDeliverAtTimeStrict delayedDeliveryFixedDelayDetectionLookahead delayedDeliveryMaxNumBuckets
        delayedDeliveryTrackerFactoryClassName
        managedLedgerDefaultMarkDeleteRateLimit
        managedLedgerCursorPositionFlushSeconds managedLedgerMaxUnackedRangesToPersist
        managedLedgerMaxUnackedRangesToPersistInMetadataStore managedLedgerCursorMaxEntriesPerLedger
        managedLedgerCursorRolloverTimeInSeconds managedLedgerDefaultEnsembleSize managedLedgerDefaultWriteQuorum
        managedLedgerDefaultAckQuorum managedLedgerDigestType managedLedgerMaxBatchDeletedIndexToPersist
        managedLedgerCursorBackloggedThreshold managedLedgerNewEntriesCheckDelayInMillis
        brokerPublisherThrottlingTickTimeMillis topicPublisherThrottlingTickTimeMillis
        preciseTopicPublishRateLimiterEnable
        dispatchThrottlingOnNonBacklogConsumerEnabled brokerMaxConnections brokerMaxConnectionsPerIp
        enablePersistentTopics
        maxConcurrentNonPersistentMessagePerConnection systemTopicEnabled
        topicLevelPoliciesEnabled systemTopicSchemaCompatibilityStrategy
        brokerServiceCompactionMonitorIntervalInSeconds
        brokerServiceCompactionThresholdInBytes maxConcurrentLookupRequest maxConcurrentTopicLoadRequest
        topicFencingTimeoutSeconds
        enableReplicatedSubscriptions autoSkipNonRecoverableData
        brokerDeleteInactivePartitionedTopicMetadataEnabled
        brokerDeduplicationEnabled brokerDeduplicationEntriesInterval brokerDeduplicationSnapshotIntervalSeconds
        brokerDeduplicationProducerInactivityTimeoutMinutes brokerDeduplicationMaxNumberOfProducers
        forceDeleteNamespaceAllowed forceDeleteTenantAllowed transactionCoordinatorEnabled functionsWorkerEnabled
        authenticationEnabled authenticationProviders authenticationRefreshCheckSeconds authorizationEnabled
        authorizationProvider superUserRoles proxyRoles anonymousUserRole authenticateOriginalAuthData
        brokerClientAuthenticationPlugin brokerClientAuthenticationParameters tokenSecretKey tokenPublicKey
        tokenAuthClaim tokenAudienceClaim tokenAudience tokenAllowedClockSkewSeconds tlsEnabled tlsCertificateFilePath
        tlsKeyFilePath tlsTrustCertsFilePath tlsRequireTrustedClientCertOnConnect tlsAllowInsecureConnection
        exposeTopicLevelMetricsInPrometheus exposeConsumerLevelMetricsInPrometheus
        exposeProducerLevelMetricsInPrometheus exposeManagedLedgerMetricsInPrometheus authenticateMetricsEndpoint
        splitTopicAndPartitionLabelInPrometheus statsUpdateFrequencyInSecs brokerEntryMetadataInterceptors
        exposingBrokerEntryMetadataToClientEnabled journalWriteData journalMaxGroupWaitMSec
        journalBufferedWritesThreshold journalAdaptiveGroupWrites journalMaxBackups journalDirectory
        journalDirectories ledgerDirectories nettyMaxFrameSizeBytes numIOThreads numHttpServerThreads
        webSocketServiceEnabled defaultNumberOfNamespaceBundles loadBalancerEnabled replicationMetricsEnabled
        """,
    )
)
