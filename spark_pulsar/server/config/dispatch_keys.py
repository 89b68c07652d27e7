"""The keys of `broker.conf` about who gets which message, for `keys`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .key_readers import Key, natural, natural_long, positive, share, switch

DISPATCH_KEYS: Final[Mapping[str, Key]] = {
    "maxUnackedMessagesPerConsumer": Key(
        "max_unacked_per_consumer",
        natural,
        help="Messages a Shared consumer may hold unacknowledged; 0: no limit.",
    ),
    "maxUnackedMessagesPerSubscription": Key(
        "max_unacked_per_subscription",
        natural,
        help="Messages a Shared subscription may hold unacknowledged; 0: no limit.",
    ),
    "maxUnackedMessagesPerBroker": Key(
        "max_unacked_of_all",
        natural,
        help="Messages all Shared subscriptions together may hold unacknowledged; 0: no limit.",
    ),
    "maxUnackedMessagesPerSubscriptionOnBrokerBlocked": Key(
        "max_unacked_share",
        share,
        help="What part of these one subscription may still hold when they are reached; 0: no limit of all.",
    ),
    "dispatchThrottlingRateInMsg": Key(
        "dispatch_rate_messages",
        natural,
        help="Messages a second that consumers of all topics together are sent; 0: no limit.",
    ),
    "dispatchThrottlingRateInByte": Key(
        "dispatch_rate_bytes",
        natural_long,
        help="Bytes a second that consumers of all topics together are sent; 0: no limit.",
    ),
    "dispatchThrottlingRatePerTopicInMsg": Key(
        "topic_dispatch_rate_messages",
        natural,
        help="Messages a second that consumers of a topic are sent, where no policy says otherwise; 0: no limit.",
    ),
    "dispatchThrottlingRatePerTopicInByte": Key(
        "topic_dispatch_rate_bytes",
        natural_long,
        help="Bytes a second that consumers of a topic are sent, where no policy says otherwise; 0: no limit.",
    ),
    "dispatchThrottlingRatePerSubscriptionInMsg": Key(
        "subscription_dispatch_rate_messages",
        natural,
        help="Messages a second that a subscription is sent, where no policy says otherwise; 0: no limit.",
    ),
    "dispatchThrottlingRatePerSubscriptionInByte": Key(
        "subscription_dispatch_rate_bytes",
        natural_long,
        help="Bytes a second that a subscription is sent, where no policy says otherwise; 0: no limit.",
    ),
    "dispatchThrottlingOnBatchMessageEnabled": Key(
        "dispatch_rates_count_entries",
        switch,
        help="Whether these rates count a batch as one message; false: each message in it.",
    ),
    "dispatchThrottlingOnNonBacklogConsumerEnabled": Key(
        "dispatch_rates_spare_nobody",
        switch,
        help="Whether these rates hold for subscriptions without a backlog, too.",
    ),
    "managedLedgerCursorBackloggedThreshold": Key(
        "backlogged_cursor_entries",
        natural_long,
        help="Entries still to be sent with which a subscription has a backlog in this sense.",
    ),
    "subscribeThrottlingRatePerConsumer": Key(
        "subscribe_rate",
        natural,
        help="How often a consumer may subscribe to a topic in a period, where no policy says otherwise; 0: no limit.",
    ),
    "subscribeRatePeriodPerConsumerInSecond": Key(
        "subscribe_rate_period_s",
        positive,
        help="Length of that period.",
    ),
    "activeConsumerFailoverDelayTimeMillis": Key(
        "failover_delay_ms",
        natural,
        help="How long the next consumer of a Failover subscription waits before it takes over.",
    ),
    "activeConsumerFailoverConsistentHashing": Key(
        "failover_ring_for_partitions",
        switch,
        help="Choose the active consumer of a partition by a hash ring, as for other topics, not by its number.",
    ),
    "subscriptionKeySharedEnable": Key(
        "key_shared",
        switch,
        help="Whether there are Key_Shared subscriptions.",
    ),
    "subscriptionKeySharedUseConsistentHashing": Key(
        "key_shared_ring",
        switch,
        help="Share out keys by a hash ring; false: a newcomer takes half of the widest range of hashes.",
    ),
    "subscriptionKeySharedConsistentHashingReplicaPoints": Key(
        "key_shared_ring_points",
        positive,
        help="Points of one consumer on that ring.",
    ),
    "subscriptionKeySharedUseClassicPersistentImplementation": Key(
        "key_shared_classic",
        switch,
        help="A newcomer gets nothing new until all that was read before it joined is acknowledged, as before 4.0.",
    ),
    "keySharedLookAheadMsgInReplayThresholdPerConsumer": Key(
        "look_ahead_per_consumer",
        natural,
        help="Messages per consumer that may wait for slow Key_Shared consumers while others get theirs; 0: no limit.",
    ),
    "keySharedLookAheadMsgInReplayThresholdPerSubscription": Key(
        "look_ahead_per_subscription",
        natural,
        help="The same for all consumers of a subscription together.",
    ),
    "dispatcherMaxRoundRobinBatchSize": Key(
        "round_robin_batch",
        positive,
        help="Messages a Shared consumer gets in one turn.",
    ),
    "delayedDeliveryEnabled": Key(
        "delayed_delivery",
        switch,
        help="Whether Shared and Key_Shared subscriptions get a message at the time its producer gave it.",
    ),
    "delayedDeliveryTickTimeMillis": Key(
        "delayed_tick_ms",
        natural_long,
        help="Answered as the policy's default tick; messages are delivered at their time, whatever it is.",
    ),
    "delayedDeliveryMaxDelayInMillis": Key(
        "max_delay_ms",
        natural_long,
        help="Longest delay of a message; a longer one is refused. 0: no limit.",
    ),
}
"""Limits of unacknowledged messages, Failover, Key_Shared, turns."""
