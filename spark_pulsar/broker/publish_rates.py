"""How fast a topic may be published to (PR-14). Nothing is refused: what comes too fast is held back in its order, and
the connections that it came over are not read until it is stored.

Messages and bytes have a bucket of tokens each, for one second, that fills again at the rate. An entry may go while no
bucket is empty and takes what it is, so that one larger than a bucket goes too, and those after it wait the longer.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from . import back_pressure, publishing

if TYPE_CHECKING:
    from spark_pulsar.model.policies import PublishRate
    from spark_pulsar.wire.send_runs import SendRun

    from .core import Core, Timer
    from .producers import Producer
    from .sessions import Session
    from .topics import Topic

_SECOND_MS = 1_000


class Bucket:
    """Tokens in thousandths, so that a millisecond of any rate is a whole number of them."""

    __slots__ = ("left", "rate")

    def __init__(self, rate: int) -> None:
        self.rate = rate
        """A second; 0 = no limit."""
        self.left = rate * _SECOND_MS

    def refill(self, elapsed_ms: int) -> None:
        """So much time has passed."""
        self.left = min(self.rate * _SECOND_MS, self.left + self.rate * elapsed_ms)

    def take(self, amount: int) -> None:
        """Below zero, too."""
        if self.rate:
            self.left -= amount * _SECOND_MS

    @property
    def wait_ms(self) -> int:
        """How long it holds no whole token."""
        missing = _SECOND_MS - self.left
        return 0 if not self.rate or missing <= 0 else -(-missing // self.rate)


class PublishLimit:
    """The rate of one topic, and what it holds back."""

    def __init__(self, core: Core, rate: PublishRate) -> None:
        self._core = core
        self.rate = rate
        self._buckets = (Bucket(rate.messages), Bucket(rate.bytes))
        self._filled_ms = core.now_ms
        self._held: deque[tuple[Producer, SendRun]] = deque()
        self._sessions: dict[Session, None] = {}
        """Those that are not read because of what is held."""
        self._timer: Timer | None = None
        self.times = 0
        """How often the limit was reached."""

    def take(self, producer: Producer, sends: SendRun) -> None:
        """Store what may be stored now and hold the rest."""
        if not self._held:
            rest = self._store(producer, sends)
            if rest is None:
                return
            self.times += 1
            sends = rest
        self._held.append((producer, sends))
        if producer.session not in self._sessions:
            self._sessions[producer.session] = None
            back_pressure.throttle(self._core, producer.session)
        self._set_timer()

    def let_through(self, producer: Producer) -> None:
        """A producer is about to be closed by its client: store what is held of it, whatever the rate."""
        mine = [sends for owner, sends in self._held if owner is producer]
        self._held = deque(each for each in self._held if each[0] is not producer)
        for sends in mine:
            self._count(sends)
            publishing.take_now(self._core, producer, sends)

    def end(self) -> None:
        """There is no limit any more: everything goes."""
        if self._timer is not None:
            self._timer.cancel()
        held, self._held = self._held, deque()
        for producer, sends in held:
            if _is_open(producer):
                publishing.take_now(self._core, producer, sends)
        self._release()

    def _store(self, producer: Producer, sends: SendRun) -> SendRun | None:
        """Store as many as the buckets allow; returns the rest."""
        self._refill()
        messages, sizes = self._buckets
        entries = 0
        for count, start, end in zip(sends.message_counts, sends.starts, sends.ends, strict=True):
            if messages.wait_ms or sizes.wait_ms:
                break
            messages.take(count)
            sizes.take(end - start)
            entries += 1
        if entries == len(sends.ends):
            publishing.take_now(self._core, producer, sends)
            return None
        if entries:
            publishing.take_now(self._core, producer, sends.slice(0, entries))
        return sends.slice(entries, len(sends.ends))

    def _count(self, sends: SendRun) -> None:
        self._buckets[0].take(sum(sends.message_counts))
        self._buckets[1].take(sends.ends[-1] - sends.starts[0])

    def _refill(self) -> None:
        now_ms = self._core.now_ms
        for bucket in self._buckets:
            bucket.refill(now_ms - self._filled_ms)
        self._filled_ms = now_ms

    def _set_timer(self) -> None:
        if self._timer is None:
            wait_ms = max(1, *(bucket.wait_ms for bucket in self._buckets))
            self._timer = self._core.at(self._core.now_ms + wait_ms, self._go_on)

    def _go_on(self) -> None:
        self._timer = None
        while self._held:
            producer, sends = self._held.popleft()
            if not _is_open(producer):
                continue  # its client sends again what has no receipt
            rest = self._store(producer, sends)
            if rest is not None:
                self._held.appendleft((producer, rest))
                self._set_timer()
                return
        self._release()

    def _release(self) -> None:
        sessions, self._sessions = self._sessions, {}
        for session in sessions:
            back_pressure.unthrottle(self._core, session)


def _is_open(producer: Producer) -> bool:
    return producer.topic.producers.get(producer.name) is producer


def adopt(core: Core, topic: Topic) -> None:
    """A topic came into use, or its policies are others: limit it as they say."""
    rate = core.policies_of(topic.name).publish_rate
    limit = topic.publish_limit
    if limit is not None and limit.rate == rate:
        return
    topic.publish_limit = None
    if limit is not None:
        core.publish_limits -= 1
        limit.end()
    if rate.is_limited:
        core.publish_limits += 1
        topic.publish_limit = PublishLimit(core, rate)


def let_go(core: Core, topic: Topic) -> None:
    """A topic is gone."""
    if topic.publish_limit is not None:
        limit, topic.publish_limit = topic.publish_limit, None
        core.publish_limits -= 1
        limit.end()
