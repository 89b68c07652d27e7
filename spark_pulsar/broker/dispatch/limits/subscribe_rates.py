"""Subscribe rate of a topic: refuses a consumer that subscribes in a loop (SUB-6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.turn.token_bucket import TokenBucket
from spark_pulsar.model.errors import NotAllowed

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.model.policies.effective_policies import SubscribeRate

_MOST_KNOWN: Final = 1_000
"""Consumers of one topic that are remembered; beyond, those with a full bucket are removed, or all."""

Identity = tuple[str, str, int]
"""Address of the client without its port, name and id of the consumer."""


class SubscribeLimit:
    """Token buckets of the consumers that subscribed to a topic lately."""

    def __init__(self, core: Core, rate: SubscribeRate) -> None:
        self._core = core
        self.rate = rate
        self._buckets: dict[Identity, tuple[TokenBucket, int]] = {}
        """Token bucket of each consumer, and when it was last filled."""

    def try_acquire(self, identity: Identity) -> bool:
        """Returns whether a consumer may subscribe once more, and counts it."""
        if len(self._buckets) >= _MOST_KNOWN and identity not in self._buckets:
            self._discard_filled()
        bucket = self._filled(identity)
        if bucket.wait_ms:
            return False
        bucket.spend(1)
        return True

    def _filled(self, identity: Identity) -> TokenBucket:
        now_ms = self._core.now_ms
        bucket, filled_ms = self._buckets.get(identity) or (TokenBucket(self.rate.times, self.rate.seconds), now_ms)
        bucket.refill(now_ms - filled_ms)
        self._buckets[identity] = bucket, now_ms
        return bucket

    def _discard_filled(self) -> None:
        spent = [identity for identity in list(self._buckets) if self._filled(identity).tokens < self.rate.times]
        self._buckets = (
            {identity: self._buckets[identity] for identity in spent} if len(spent) * 2 < _MOST_KNOWN else {}
        )


def admit(session: Session, topic: Topic, consumer_id: int, name: str) -> None:
    """Raises NotAllowed when a consumer subscribes too often."""
    limit = None if topic.dispatch_limits is None else topic.dispatch_limits.subscribers
    if limit is not None and not limit.try_acquire((session.host, name, consumer_id)):
        raise NotAllowed("Subscribe limited by subscribe rate limit per consumer.")
