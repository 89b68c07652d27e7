"""Keys of Apache Pulsar's configuration that this broker knows by name only: they are accepted and have no effect.

All that brokers of 4.0.8 and 4.2.4 have, and those of their bookies, tokens and past that stand in the same files.
"""

from __future__ import annotations

import re
from typing import Final

PULSAR_KEYS: Final = frozenset(
    re.findall(
        r"\S+",
        """
        additionalServletDirectory additionalServlets additionalSystemCursorNames
        aggregatePublisherStatsByProducerName allowAclChangesOnNonExistentTopics
        allowedTopicPropertyKeysForMetrics allowOverrideEntryFilters authenticationRoleLoggingAnonymizer
        autoSkipNonRecoverableData backlogQuotaDefaultLimitGB bindAddresses
        bookkeeperClientAuthenticationParameters bookkeeperClientAuthenticationParametersName
        bookkeeperClientAuthenticationPlugin bookkeeperClientEnforceMinNumRacksPerWriteQuorum
        bookkeeperClientExposeStatsToPrometheus bookkeeperClientGetBookieInfoIntervalSeconds
        bookkeeperClientGetBookieInfoRetryIntervalSeconds bookkeeperClientHealthCheckEnabled
        bookkeeperClientHealthCheckErrorThresholdPerInterval bookkeeperClientHealthCheckIntervalSeconds
        bookkeeperClientHealthCheckQuarantineTimeInSeconds bookkeeperClientIsolationGroups
        bookkeeperClientLimitStatsLogging bookkeeperClientMinNumRacksPerWriteQuorum bookkeeperClientNumIoThreads
        bookkeeperClientNumWorkerThreads bookkeeperClientQuarantineRatio bookkeeperClientRackawarePolicyEnabled
        bookkeeperClientRegionawarePolicyEnabled bookkeeperClientReorderReadSequenceEnabled
        bookkeeperClientSecondaryIsolationGroups bookkeeperClientSeparatedIoThreadsEnabled
        bookkeeperClientSpeculativeReadTimeoutInMillis bookkeeperClientThrottleValue
        bookkeeperClientTimeoutInSeconds bookkeeperDiskWeightBasedPlacementEnabled bookkeeperEnableStickyReads
        bookkeeperExplicitLacIntervalInMills bookkeeperMetadataServiceUri bookkeeperNumberOfChannelsPerBookie
        bookkeeperTlsCertFilesRefreshDurationSeconds bookkeeperTLSCertificateFilePath
        bookkeeperTLSClientAuthentication bookkeeperTLSKeyFilePath bookkeeperTLSKeyFileType
        bookkeeperTLSKeyStorePasswordPath bookkeeperTLSProviderFactoryClass bookkeeperTLSTrustCertsFilePath
        bookkeeperTLSTrustCertTypes bookkeeperTLSTrustStorePasswordPath bookkeeperUseV2WireProtocol
        bootstrapNamespaces brokerClientAuthenticationParameters brokerClientAuthenticationPlugin
        brokerClientCertificateFilePath brokerClientKeyFilePath brokerClientSslFactoryPlugin
        brokerClientSslFactoryPluginParams brokerClientSslProvider brokerClientTlsCiphers brokerClientTlsEnabled
        brokerClientTlsEnabledWithKeyStore brokerClientTlsKeyStore brokerClientTlsKeyStorePassword
        brokerClientTlsKeyStoreType brokerClientTlsProtocols brokerClientTlsTrustStore
        brokerClientTlsTrustStorePassword brokerClientTlsTrustStoreType brokerClientTrustCertsFilePath
        brokerDeduplicationEntriesInterval brokerDeduplicationSnapshotFrequencyInSeconds
        brokerDeduplicationSnapshotIntervalSeconds brokerDeleteInactivePartitionedTopicMetadataEnabled
        brokerEntryMetadataInterceptors brokerEntryPayloadProcessors brokerInterceptors
        brokerInterceptorsDirectory brokerPublisherThrottlingTickTimeMillis
        brokerReplicationInactiveThresholdSeconds brokerServiceCompactionPhaseOneLoopTimeInSeconds
        brokerServicePurgeInactiveFrequencyInSeconds brokerShutdownTimeoutMs cacheEvictionByExpectedReadCount
        cacheEvictionByMarkDeletedPosition clientLibraryVersionCheckEnabled clusterMigrationAutoResourceCreation
        clusterMigrationCheckDurationSeconds compactionServiceFactoryClassName configurationMetadataStoreUrl
        configurationMetadataSyncEventTopic configurationStoreConfigPath configurationStoreServers
        createTopicToRemoteClusterForReplication defaultNamespaceBundleSplitAlgorithm
        defaultNumberOfNamespaceBundles delayedDeliveryFixedDelayDetectionLookahead
        delayedDeliveryMaxIndexesPerBucketSnapshotSegment delayedDeliveryMaxNumBuckets
        delayedDeliveryMaxTimeStepPerBucketSnapshotSegmentSeconds delayedDeliveryMinIndexCountPerBucket
        delayedDeliveryTrackerFactoryClassName disableHttpDebugMethods
        dispatcherDispatchMessagesInSubscriptionThread dispatcherEntryFilterRescheduledMessageDelay
        dispatcherMaxReadBatchSize dispatcherMinReadBatchSize dispatcherPauseOnAckStatePersistentEnabled
        dispatcherReadFailureBackoffInitialTimeInMs dispatcherReadFailureBackoffMandatoryStopTimeInMs
        dispatcherReadFailureBackoffMaxTimeInMs dispatcherRetryBackoffInitialTimeInMs
        dispatcherRetryBackoffMaxTimeInMs dispatchRateLimiterFactoryClassName
        dispatchThrottlingForFilteredEntriesEnabled dispatchThrottlingRatePerReplicatorInByte
        dispatchThrottlingRatePerReplicatorInMsg dispatchThrottlingRateRelativeToPublishRate
        enableBrokerTopicListWatcher enableBusyWait enableNamespaceIsolationUpdateOnTime
        enablePackagesManagement enablePersistentTopics enableReplicatedSubscriptions
        enableRunBookieAutoRecoveryTogether enableRunBookieTogether entryFilterNames entryFiltersDirectory
        exposeBundlesMetricsInPrometheus exposeConsumerLevelMetricsInPrometheus
        exposeCustomTopicMetricLabelsEnabled exposeManagedCursorMetricsInPrometheus
        exposeManagedLedgerMetricsInPrometheus exposePreciseBacklogInPrometheus
        exposeProducerLevelMetricsInPrometheus exposePublisherStats exposeSubscriptionBacklogSizeInPrometheus
        exposeTopicLevelMetricsInPrometheus exposingBrokerEntryMetadataToClientEnabled failureDomainsEnabled
        flowOrQpsDifferenceThresholdPercentage functionsWorkerEnabled functionsWorkerEnablePackageManagement
        functionsWorkerServiceNarPackage globalZookeeperServers haProxyProtocolEnabled
        healthCheckMetricsUpdateTimeInSeconds httpMaxRequestSize httpRequestsFailOnUnknownPropertiesEnabled
        httpRequestsLimitEnabled httpRequestsMaxPerSecond httpServerAcceptQueueSize
        httpServerGzipCompressionExcludedPaths httpServerIdleTimeout httpServerThreadPoolQueueSize
        inflightSaslContextExpiryMs isDelayedDeliveryDeliverAtTimeStrict journalAdaptiveGroupWrites
        journalBufferedWritesThreshold journalDirectories journalDirectory journalMaxBackups
        journalMaxGroupWaitMSec journalWriteData jvmGCMetricsLoggerClassName keySharedUnblockingIntervalMs
        kinitCommand lazyCursorRecovery ledgerDirectories loadBalancerAutoBundleSplitEnabled
        loadBalancerAutoUnloadSplitBundlesEnabled loadBalancerAverageResourceUsageDifferenceThresholdPercentage
        loadBalancerAvgShedderHighThreshold loadBalancerAvgShedderHitCountHighThreshold
        loadBalancerAvgShedderHitCountLowThreshold loadBalancerAvgShedderLowThreshold
        loadBalancerBandwidthInResourceWeight loadBalancerBandwidthOutResourceWeight
        loadBalancerBandwithInResourceWeight loadBalancerBandwithOutResourceWeight
        loadBalancerBrokerComfortLoadLevelPercentage loadBalancerBrokerLoadDataTTLInSeconds
        loadBalancerBrokerLoadTargetStd loadBalancerBrokerMaxTopics
        loadBalancerBrokerOverloadedThresholdPercentage loadBalancerBrokerThresholdShedderPercentage
        loadBalancerBrokerUnderloadedThresholdPercentage loadBalancerBundleUnloadMinThroughputThreshold
        loadBalancerCPUResourceWeight loadBalancerDebugModeEnabled loadBalancerDirectMemoryResourceWeight
        loadBalancerDistributeBundlesEvenlyEnabled loadBalancerEnabled loadBalancerHistoryResourcePercentage
        loadBalancerHostUsageCheckIntervalMinutes loadBalancerInFlightServiceUnitStateWaitingTimeInMillis
        loadBalancerLoadPlacementStrategy loadBalancerLoadSheddingStrategy
        loadBalancerMaxNumberOfBrokerSheddingPerCycle loadBalancerMaxNumberOfBundlesInBundleLoadReport
        loadBalancerMaxNumberOfBundlesToSplitPerCycle loadBalancerMemoryResourceWeight
        loadBalancerMsgRateDifferenceShedderThreshold
        loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold loadBalancerMultiPhaseBundleUnload
        loadBalancerNamespaceBundleMaxBandwidthMbytes loadBalancerNamespaceBundleMaxMsgRate
        loadBalancerNamespaceBundleMaxSessions loadBalancerNamespaceBundleMaxTopics
        loadBalancerNamespaceBundleSplitConditionHitCountThreshold loadBalancerNamespaceMaximumBundles
        loadBalancerOverrideBrokerNics loadBalancerOverrideBrokerNicSpeedGbps loadBalancerPlacementStrategy
        loadBalancerReportUpdateMaxIntervalMinutes loadBalancerReportUpdateMinIntervalMillis
        loadBalancerReportUpdateThresholdPercentage loadBalancerResourceQuotaUpdateIntervalMinutes
        loadBalancerServiceUnitStateMaxConcurrentOverrides loadBalancerServiceUnitStateMonitorIntervalInSeconds
        loadBalancerServiceUnitStateTombstoneDelayTimeInSeconds loadBalancerServiceUnitTableViewSyncer
        loadBalancerSheddingBundlesWithPoliciesEnabled loadBalancerSheddingConditionHitCountThreshold
        loadBalancerSheddingEnabled loadBalancerSheddingExcludedNamespaces
        loadBalancerSheddingGracePeriodMinutes loadBalancerSheddingIntervalMinutes
        loadBalancerSplitIntervalMinutes loadBalancerTransferEnabled loadBalanceSheddingDelayInSeconds
        loadManagerClassName loadManagerServiceUnitStateTableViewClassName lookupPropertyPrefix
        lowerBoundarySheddingEnabled managedCursorInfoCompressionThresholdInBytes
        managedCursorInfoCompressionType managedLedgerAddEntryTimeoutSeconds managedLedgerCacheCopyEntries
        managedLedgerCacheEvictionExtendTTLOfEntriesWithRemainingExpectedReadsMaxTimes
        managedLedgerCacheEvictionExtendTTLOfRecentlyAccessed managedLedgerCacheEvictionFrequency
        managedLedgerCacheEvictionIntervalMs managedLedgerCacheEvictionTimeThresholdMillis
        managedLedgerCacheEvictionWatermark
        managedLedgerContinueCachingAddedEntriesAfterLastActiveCursorLeavesMillis
        managedLedgerCursorMaxEntriesPerLedger managedLedgerCursorPositionFlushSeconds
        managedLedgerCursorResetLedgerCloseTimestampMaxClockSkewMillis managedLedgerCursorRolloverTimeInSeconds
        managedLedgerDataReadPriority managedLedgerDefaultAckQuorum managedLedgerDefaultEnsembleSize
        managedLedgerDefaultMarkDeleteRateLimit managedLedgerDefaultWriteQuorum
        managedLedgerDeleteMaxConcurrentRequests managedLedgerDigestType managedLedgerForceRecovery
        managedLedgerInactiveOffloadedLedgerEvictionTimeSeconds managedLedgerInfoCompressionThresholdInBytes
        managedLedgerInfoCompressionType managedLedgerMaxAckQuorum
        managedLedgerMaxBacklogBetweenCursorsForCaching managedLedgerMaxBatchDeletedIndexToPersist
        managedLedgerMaxEnsembleSize managedLedgerMaxReadsInFlightPermitsAcquireQueueSize
        managedLedgerMaxReadsInFlightPermitsAcquireTimeoutMillis managedLedgerMaxReadsInFlightSizeInMB
        managedLedgerMaxUnackedRangesToPersist managedLedgerMaxUnackedRangesToPersistInMetadataStore
        managedLedgerMaxUnackedRangesToPersistInZooKeeper managedLedgerMaxWriteQuorum
        managedLedgerMetadataOperationsTimeoutSeconds managedLedgerMinimumBacklogCursorsForCaching
        managedLedgerMinimumBacklogEntriesForCaching managedLedgerNewEntriesCheckDelayInMillis
        managedLedgerNumSchedulerThreads managedLedgerOffloadAutoTriggerSizeThresholdBytes
        managedLedgerOffloadDeletionLagMs managedLedgerOffloadDriver managedLedgerOffloadMaxThreads
        managedLedgerOffloadPrefetchRounds managedLedgerOffloadReadThreads
        managedLedgerOffloadThresholdInSeconds managedLedgerPassword
        managedLedgerPersistIndividualAckAsLongArray managedLedgerPrometheusStatsLatencyRolloverSeconds
        managedLedgerReadEntryTimeoutSeconds managedLedgerStatsPeriodSeconds managedLedgerStorageClassName
        managedLedgerTraceTaskExecution managedLedgerUnackedRangesOpenCacheSetEnabled maxConcurrentHttpRequests
        maxConcurrentLookupRequest maxConcurrentNonPersistentMessagePerConnection maxConcurrentTopicLoadRequest
        maxConsumerMetadataSize maxHttpServerConnections maxInflightSaslContext maxNamespacesPerTenant
        maxSecondsToClearTopicNameCache maxTenants maxTopicListInFlightDirectMemSizeMB
        maxTopicListInFlightDirectMemSizePermitsAcquireQueueSize
        maxTopicListInFlightDirectMemSizePermitsAcquireTimeoutMillis maxTopicListInFlightHeapMemSizeMB
        maxTopicListInFlightHeapMemSizePermitsAcquireQueueSize
        maxTopicListInFlightHeapMemSizePermitsAcquireTimeoutMillis maxUnloadBundleNumPerShedding
        maxUnloadPercentage messageExpiryCheckIntervalInMinutes messagingProtocols
        metadataStoreAllowReadOnlyOperations metadataStoreBatchingEnabled metadataStoreBatchingMaxDelayMillis
        metadataStoreBatchingMaxOperations metadataStoreBatchingMaxSizeKb metadataStoreCacheExpirySeconds
        metadataStoreConfigPath metadataStoreOperationTimeoutSeconds metadataStoreSerDesThreads
        metadataStoreSessionTimeoutMillis metadataStoreUrl metadataSyncEventTopic metricsBufferResponse
        metricsServletTimeoutMs minUnloadMessage minUnloadMessageThroughput namespaceBundleUnloadingTimeoutMs
        narExtractionDirectory nettyMaxFrameSizeBytes numAcceptorThreads numCacheExecutorThreadPoolSize
        numExecutorThreadPoolSize numHttpServerThreads numIOThreads numOrderedExecutorThreads
        numTransactionReplayThreadPoolSize numWorkerThreadsForNonPersistentTopic offloadersDirectory
        openIDCacheSize packagesManagementLedgerRootPath packagesManagementStorageProvider packagesReplicas
        persistentUnackedRangesWithMultipleEntriesEnabled preciseDispatcherFlowControl
        preciseTimeBasedBacklogQuotaCheck preciseTopicPublishRateLimiterEnable preferLaterVersions
        protocolHandlerDirectory pulsarChannelPauseReceivingCooldownMs
        pulsarChannelPauseReceivingCooldownRateLimitPeriodMs pulsarChannelPauseReceivingCooldownRateLimitPermits
        pulsarChannelPauseReceivingRequestsIfUnwritable pulsarChannelWriteBufferHighWaterMark
        pulsarChannelWriteBufferLowWaterMark pulsarResourcesExtendedClassName
        replicatedSubscriptionsSnapshotFrequencyMillis replicatedSubscriptionsSnapshotMaxCachedPerSubscription
        replicatedSubscriptionsSnapshotTimeoutSeconds replicationConnectionsPerBroker replicationMetricsEnabled
        replicationPolicyCheckDurationSeconds replicationProducerQueueSize replicationStartAt
        replicationTlsEnabled replicatorPrefix resourceUsageTransportClassName
        resourceUsageTransportPublishIntervalInSecs saslJaasClientAllowedIds
        saslJaasServerRoleTokenSignerSecretPath saslJaasServerSectionName schemaJsonAllowLegacyJacksonFormat
        schemaLedgerForceRecovery schemaRegistryCompatibilityCheckers schemaRegistryStorageClassName
        skipBrokerShutdownOnOOM splitTopicAndPartitionLabelInPrometheus sslFactoryPlugin sslFactoryPluginParams
        statsUpdateInitialDelayInSecs statusFilePath strictAuthMethod strictBookieAffinityEnabled
        strictlyVerifySubscriptionName strictTopicNameEnabled subscriptionBacklogScanMaxEntries
        subscriptionBacklogScanMaxTimeMs subscriptionExpiryCheckIntervalInMinutes
        subscriptionRedeliveryTrackerEnabled subscriptionSharedUseClassicPersistentImplementation
        supportedNamespaceBundleSplitAlgorithms systemTopicEnabled systemTopicSchemaCompatibilityStrategy
        tlsEnabled tlsEnabledWithKeyStore tlsHostnameVerificationEnabled tlsKeyStore tlsKeyStorePassword
        tlsKeyStoreType tlsProvider tlsTrustStore tlsTrustStorePassword tlsTrustStoreType
        topicBundleAssignmentStrategy topicFactoryClassName topicFencingTimeoutSeconds topicLevelPoliciesEnabled
        topicLoadTimeoutSeconds topicNameCacheMaxCapacity topicOrderedExecutorThreadNum
        topicPoliciesCacheInitTimeoutSeconds topicPoliciesServiceClassName topicPolicyListenerReplayEnabled
        topicPublisherThrottlingTickTimeMillis topicsPatternRegexImplementation
        transactionBufferClientMaxConcurrentRequests transactionBufferClientOperationTimeoutInMills
        transactionBufferProviderClassName transactionBufferSegmentedSnapshotEnabled
        transactionBufferSnapshotMaxTransactionCount transactionBufferSnapshotMinTimeInMillis
        transactionBufferSnapshotSegmentSize transactionLogBatchedWriteEnabled
        transactionLogBatchedWriteMaxDelayInMillis transactionLogBatchedWriteMaxRecords
        transactionLogBatchedWriteMaxSize transactionMetadataStoreProviderClassName
        transactionPendingAckBatchedWriteEnabled transactionPendingAckBatchedWriteMaxDelayInMillis
        transactionPendingAckBatchedWriteMaxRecords transactionPendingAckBatchedWriteMaxSize
        transactionPendingAckLogIndexMinLag transactionPendingAckStoreProviderClassName
        triggerOffloadOnTopicLoad unblockStuckSubscriptionEnabled useSeparateThreadPoolForProtocolHandlers
        webServiceHaProxyProtocolEnabled webServiceLogDetailedAddresses webServiceTlsProvider
        webServiceTrustXForwardedFor webSocketConnectionsPerBroker webSocketNumIoThreads
        webSocketNumServiceThreads webSocketPulsarClientMemoryLimitInMB zooKeeperAllowReadOnlyOperations
        zooKeeperCacheExpirySeconds zooKeeperOperationTimeoutSeconds zookeeperServers
        zookeeperSessionExpiredPolicy zooKeeperSessionTimeoutMillis
        """,
    )
)
