"""Statistics of Key_Shared subscriptions: sticky hashes of each consumer, and hashes that drain (KS-10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_pulsar.broker.dispatch.key_shared.classic import ClassicKeySharedDispatcher
from spark_pulsar.broker.dispatch.key_shared.dispatcher import KeySharedDispatcher

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.broker.entities.subscription import Subscription


def subscription_members(subscription: Subscription) -> dict[str, Any]:
    """Returns the members of a subscription's statistics; counters are 0 for other types."""
    dispatcher = subscription.dispatcher
    if not isinstance(dispatcher, KeySharedDispatcher) or not subscription.consumers:
        return {"allowOutOfOrderDelivery": False, **_draining(0, 0, 0)}
    replay_queues = dispatcher.replay_queues
    waiting = dispatcher.newcomers if isinstance(dispatcher, ClassicKeySharedDispatcher) else {}
    return {
        "consumersAfterMarkDeletePosition": {consumer.name: str(position) for consumer, position in waiting.items()},
        "allowOutOfOrderDelivery": not dispatcher.keeps_order,
        "keySharedMode": "STICKY" if dispatcher.selector.is_fixed else "AUTO_SPLIT",
        **_draining(
            len(replay_queues.draining),
            sum(replay_queues.drained.values()),
            sum(drain.left for drain in replay_queues.draining.values()),
        ),
    }


def consumer_members(consumer: Consumer) -> dict[str, Any]:
    """Returns the members of a consumer's statistics; counters are 0 for other types."""
    dispatcher = consumer.subscription.dispatcher
    if not isinstance(dispatcher, KeySharedDispatcher):
        return _draining(0, 0, 0)
    replay_queues = dispatcher.replay_queues
    draining = {sticky_hash: drain for sticky_hash, drain in replay_queues.draining.items() if drain.holder is consumer}
    members = _draining(len(draining), replay_queues.drained[consumer], sum(drain.left for drain in draining.values()))
    members["drainingHashes"] = [
        {
            "hash": sticky_hash,
            "unackMsgs": drain.left,
            "blockedAttempts": replay_queues.parked[sticky_hash].count() if sticky_hash in replay_queues.parked else 0,
        }
        for sticky_hash, drain in sorted(draining.items())
    ]
    ranges = [list(hash_range) for hash_range in dispatcher.selector.ranges_of(consumer)]
    if isinstance(dispatcher, ClassicKeySharedDispatcher):
        members["readPositionWhenJoining"] = str(dispatcher.joined_at[consumer])
        members["keyHashRanges"] = [str(hash_range) for hash_range in ranges]
    else:
        members["keyHashRangeArrays"] = ranges
    return members


def _draining(hashes: int, cleared: int, unacked: int) -> dict[str, Any]:
    return {
        "drainingHashesCount": hashes,
        "drainingHashesClearedTotal": cleared,
        "drainingHashesUnackedMessages": unacked,
    }
