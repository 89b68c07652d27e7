"""Orders that the broker has not finished: new subscriptions, moves of subscriptions, expiry."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from .account import Account, Place, Sent, Topic
from .comparing import Violation

if TYPE_CHECKING:
    from collections.abc import Collection

    from spark_pulsar.broker.entities.subscription import Subscription


class Beginnings:
    """Requests for subscriptions that did not exist, with their initial positions (CUR-9). In one turn one may be made,
    go, and be made again: all requests of the last request's turn are known, in their order. Some of them may have been
    refused."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, str], tuple[int, deque[bool]]] = {}
        """Turn of the requests, and whether each wanted the latest entry, by topic and subscription."""

    def ask(self, topic: str, subscription: str, turn: int, *, latest: bool) -> None:
        """Notes a request for a subscription."""
        key = (topic, subscription)
        if key not in self._asked or self._asked[key][0] != turn:
            self._asked[key] = (turn, deque())
        self._asked[key][1].append(latest)

    def check(self, topic: str, subscription: str, mark: Place, log: Collection[Place]) -> None:
        """Checks a new subscription that begins after `mark`. Violation when no request wanted that, or its requests
        were served before."""
        wrong: list[Place] | None = None
        _, asked = self._asked.get((topic, subscription), (0, deque[bool]()))
        while asked:
            latest = asked.popleft()
            wrong = [place for place in log if (place <= mark) != latest]
            if not wrong:
                return
        if wrong is None:
            raise Violation(f"no request for the subscription {subscription} of {topic}")
        raise Violation(f"{subscription} of {topic} begins at {mark}: wrong for {wrong} (CUR-9)")


@dataclass(slots=True)
class Seek:
    """A subscription is to move. `place` or `time_ms` is the target; `through` the last entry on disk when it began."""

    place: Place | None
    time_ms: int
    through: Place
    is_exact: bool = True
    """False when an entry could not be read meanwhile: a search by time may then miss."""
    submit: int = 0
    """The submit that moved the subscription, 0 before."""
    is_moot: bool = False
    """True when the subscription went meanwhile."""
    index: int = -1
    """Index in the batch at the place: messages before it are done; -1: the whole entry is next."""
    excluded: bool = False
    """True when the target itself is done too."""

    def bits(self, sent: Sent | None) -> int:
        """The messages of the place's entry that are next; 0 when the entry is done."""
        first = self.excluded if self.index < 0 or sent is None else min(self.index, sent.count) + self.excluded
        size = 1 if self.index < 0 or sent is None else sent.count
        if first >= size:
            return 0
        return -1 if not first or sent is None else sent.full & ~((1 << first) - 1)

    def wrong(self, mark: Place, log: dict[Place, Sent]) -> list[Place]:
        """Entries on the wrong side of where the subscription was moved to."""
        if self.place is not None:
            target = self.place
            through = self.bits(log.get(target)) == 0
            return [place for place in log if (place <= mark) != (place < target or (place == target and through))]
        if not self.is_exact or not _rises([sent.publish_ms for sent in log.values()]):
            return []
        return [
            place
            for place, sent in log.items()
            if (place <= mark) != (place <= self.through and sent.publish_ms < self.time_ms)
        ]


@dataclass(slots=True)
class Promise:
    """An ack with a receipt: the entries that it promises."""

    topic: str
    name: str
    places: list[Place]
    parts: list[tuple[Place, int]]
    created_in: int
    """The submit that the subscription was created in: another one of the same name promised nothing."""

    def broken(self, topic: Topic) -> list[Place]:
        """Lists promised entries that an account has as unacknowledged."""
        subscription = topic.subscriptions[self.name]
        lost = [place for place in self.places if place in topic.log and place not in subscription.acked]
        for place, bits in self.parts:
            if place in topic.log and place not in subscription.acked:
                left = subscription.bits.get(place, topic.log[place].full)
                lost += [place] if left & ~bits else []
        return lost


@dataclass(slots=True)
class Expiring:
    """An order to acknowledge entries older than a time, from the front up to the first entry that is not."""

    topic: str
    name: str
    time_ms: int
    ahead_ms: int
    """Entries published later than this are those of a clock that is ahead, and stepped over."""
    wanted: list[Place] = field(default_factory=list)
    """Unacknowledged entries when it began."""
    is_exact: bool = True
    """False when an entry could not be read, or the subscription was moved."""
    is_over: bool = False

    def check(self, account: Account, subscription: Subscription) -> None:
        """Checks an order that is over. Violation unless all of the front that is older is acknowledged."""
        self.is_over = True
        topic = account.topics.get(self.topic)
        if topic is None or subscription.topic.subscriptions.get(subscription.name) is not subscription:
            return
        for place in self.wanted:
            sent = topic.log.get(place)
            if sent is None or not self.is_exact:
                continue
            if self.time_ms <= sent.publish_ms <= self.ahead_ms:
                return
            if sent.publish_ms < self.time_ms and not subscription.cursor.is_acked(*place):
                raise Violation(f"{self}: {place} is older and not acked (TTL-8)")


def _rises(numbers: list[int]) -> bool:
    return all(first <= second for first, second in pairwise(numbers))
