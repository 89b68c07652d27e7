"""A value for each policy, by the last segment of its REST path: the same for namespaces and topics."""

from __future__ import annotations

from typing import Any

_RATE = {
    "dispatchThrottlingRateInMsg": 100_000,
    "dispatchThrottlingRateInByte": -1,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 1,
}
VALUES: dict[str, Any] = {
    "retention": {"retentionTimeInMinutes": 7, "retentionSizeInMB": 70},
    "messageTTL": 60,
    "persistence": {
        "bookkeeperEnsemble": 1,
        "bookkeeperWriteQuorum": 1,
        "bookkeeperAckQuorum": 1,
        "managedLedgerMaxMarkDeleteRate": 1.5,
    },
    "deduplication": True,
    "deduplicationEnabled": True,
    "deduplicationSnapshotInterval": 10,
    "compactionThreshold": 1_000_000,
    "subscriptionExpirationTime": 10,
    "maxProducersPerTopic": 5,
    "maxProducers": 5,
    "maxConsumersPerTopic": 6,
    "maxConsumers": 6,
    "maxConsumersPerSubscription": 3,
    "maxSubscriptionsPerTopic": 9,
    "maxUnackedMessagesPerConsumer": 100,
    "maxUnackedMessagesOnConsumer": 100,
    "maxUnackedMessagesPerSubscription": 200,
    "maxUnackedMessagesOnSubscription": 200,
    "maxTopicsPerNamespace": 100,
    "maxMessageSize": 1_000_000,
    "subscriptionTypesEnabled": ["Shared", "Exclusive", "Failover"],
    "inactiveTopicPolicies": {
        "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
        "maxInactiveDurationSeconds": 9_999,
        "deleteWhileInactive": False,
    },
    "delayedDelivery": {"tickTime": 1_000, "active": True, "maxDeliveryDelayInMillis": 0},
    "publishRate": {"publishThrottlingRateInMsg": 100_000, "publishThrottlingRateInByte": -1},
    "dispatchRate": _RATE,
    "subscriptionDispatchRate": _RATE,
    "replicatorDispatchRate": _RATE,
    "subscribeRate": {"subscribeThrottlingRatePerConsumer": 100, "ratePeriodInSecond": 30},
    "autoTopicCreation": {"allowAutoTopicCreation": True, "topicType": "non-partitioned"},
    "autoSubscriptionCreation": {"allowAutoSubscriptionCreation": True},
    "schemaCompatibilityStrategy": "FULL",
    "schemaAutoUpdateCompatibilityStrategy": "Full",
    "isAllowAutoUpdateSchema": True,
    "schemaValidationEnforced": True,
    "schemaValidationEnforcement": True,
    "encryptionRequired": True,
}
