"""Publish rates of a topic, and of all topics together (PR-14). Nothing is refused: entries that come too fast are
held back in their order, and the connections that they came over are not read until they are stored.

Messages and bytes have a bucket of tokens each, for one second, that fills again at the rate. An entry may go while no
bucket is empty and takes its size, so that one larger than a bucket goes too, and those after it wait the longer.

Entries that a topic's limit admits come to that of the broker, if there is one, which is also the limit of every topic
that has none of its own: there all wait in one line, so that no topic gets more because it sends more.

Between the two stands the limit of the resource group of the topic's namespace, if there is one: all topics of the
group share it (ADM-5).

Non-persistent topics are held back too, by the rates of the broker, of the configuration and of their namespace.
"""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING

from spark_pulsar.broker.turn.token_bucket import TokenBucket, believable_messages
from spark_pulsar.ledger.state.documents import RESOURCE_GROUPS
from spark_pulsar.model.policies.effective_policies import PublishRate
from spark_pulsar.model.policies.resource_groups import ResourceGroup

from . import pending_publishes, storing_entries

if TYPE_CHECKING:
    from spark_pulsar.broker.entities import features
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.producer import Producer
    from spark_pulsar.broker.entities.session import Session
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.broker.turn.turn import Timer
    from spark_pulsar.wire.sends.send_runs import SendRun


class PublishLimit:
    """One rate, and the runs of SENDs that it holds back."""

    def __init__(
        self, core: Core, rate: PublishRate, onward: PublishLimit | None = None, *, is_shared: bool = False
    ) -> None:
        self._core = core
        self.rate = rate
        self.is_shared = is_shared
        """True when several topics have it."""
        self.onward = onward
        """Next limit that a run has to pass, None behind the last."""
        self._buckets = (TokenBucket(max(0, rate.messages)), TokenBucket(max(0, rate.bytes)))
        self._filled_ms = core.now_ms
        self._held: deque[tuple[Producer, SendRun]] = deque()
        self._runs_of: dict[Producer, int] = {}
        """Number of held runs of each open producer."""
        self._stale = 0
        """Number of held runs of closed producers, or one more."""
        self._runs_from: dict[Session, int] = {}
        """Number of held runs of each session that is not read because of them."""
        self._free: list[Session] = []
        """Sessions without held runs, which are to be read again."""
        self._timer: Timer | None = None

    def accept(self, producer: Producer, sends: SendRun) -> None:
        """Stores the entries that may be stored now and holds the rest."""
        if not self._held:
            rest = self._store(producer, sends)
            if rest is None:
                return
            sends = rest
        if not _is_open(producer):
            return  # its stored entries brought a backlog to its quota
        self._held.append((producer, sends))
        self._note_held(producer)
        self._set_timer()

    def let_through(self, producer: Producer) -> None:
        """Stores the held runs of a producer that its client closes, whatever the rates."""
        if self.onward is not None:
            self.onward.let_through(producer)
        if producer in self._runs_of:
            mine = [sends for owner, sends in self._held if owner is producer]
            self._held = deque(held for held in self._held if held[0] is not producer)
            self._note_gone(producer, len(mine))
            for sends in mine:
                self._store_at_once(producer, sends)

    def remove_producer(self, producer: Producer) -> None:
        """Drops the held runs of a producer that is closed. Its client sends again entries without a receipt."""
        if self.onward is not None:
            self.onward.remove_producer(producer)
        held = self._runs_of.get(producer, 0)
        if not held:
            return
        self._note_gone(producer, held)
        self._stale += held
        if self._stale * 2 > len(self._held):  # each is moved once or twice, however many leave
            self._held = deque(held for held in self._held if held[0] in self._runs_of)
            self._stale = 0

    def change(self, rate: PublishRate) -> None:
        """Takes another rate, with full buckets; held runs keep their places."""
        self.rate = rate
        self._buckets = (TokenBucket(max(0, rate.messages)), TokenBucket(max(0, rate.bytes)))
        self._filled_ms = self._core.now_ms
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._core.at(self._core.now_ms, self._go_on)

    def end(self) -> None:
        """Ends the limit: all held runs go on."""
        if self._timer is not None:
            self._timer.cancel()
        held, self._held = self._held, deque()
        for producer, sends in held:
            if producer in self._runs_of:
                self._pass_on(producer, sends)
        for session in self._runs_from:
            pending_publishes.unthrottle(self._core, session)
        self._runs_of.clear()
        self._runs_from.clear()
        self._free.clear()

    def _store(self, producer: Producer, sends: SendRun) -> SendRun | None:
        """Stores as many entries as the buckets allow; returns the rest."""
        self._refill()
        messages, sizes = self._buckets
        entries = 0
        for count, start, end in zip(sends.message_counts, sends.starts, sends.ends, strict=True):
            if messages.wait_ms or sizes.wait_ms:
                break
            messages.spend(believable_messages(count, end - start))
            sizes.spend(end - start)
            entries += 1
        if entries == len(sends.ends):
            self._pass_on(producer, sends)
            return None
        if entries:
            self._pass_on(producer, sends.slice(0, entries))
        return sends.slice(entries, len(sends.ends))

    def _pass_on(self, producer: Producer, sends: SendRun) -> None:
        if self.onward is None:
            storing_entries.accept(self._core, producer, sends)
        else:
            self.onward.accept(producer, sends)

    def _store_at_once(self, producer: Producer, sends: SendRun) -> None:
        size_bytes = sends.ends[-1] - sends.starts[0]
        self._buckets[0].spend(believable_messages(sum(sends.message_counts), size_bytes))
        self._buckets[1].spend(size_bytes)
        if self.onward is None:
            storing_entries.accept(self._core, producer, sends)
        else:
            self.onward._store_at_once(producer, sends)

    def _refill(self) -> None:
        now_ms = self._core.now_ms
        for bucket in self._buckets:
            bucket.refill(now_ms - self._filled_ms)
        self._filled_ms = now_ms

    @property
    def _wait_ms(self) -> int:
        return max(bucket.wait_ms for bucket in self._buckets)

    def _set_timer(self) -> None:
        if self._timer is None:
            self._timer = self._core.at(self._core.now_ms + max(1, self._wait_ms), self._go_on)

    def _go_on(self) -> None:
        self._timer = None
        self._refill()
        if self._wait_ms:
            self._set_timer()
            return
        while self._held:
            producer, sends = self._held.popleft()
            if producer not in self._runs_of:
                self._stale -= 1
                continue
            rest = self._store(producer, sends)
            if producer not in self._runs_of:
                continue  # closed because of its stored entries
            if rest is None:
                self._note_gone(producer, 1)
            else:
                self._held.appendleft((producer, rest))
                self._set_timer()
                break
        self._release()

    def _note_held(self, producer: Producer) -> None:
        session = producer.session
        self._runs_of[producer] = self._runs_of.get(producer, 0) + 1
        if session not in self._runs_from:
            pending_publishes.throttle(self._core, session)
        self._runs_from[session] = self._runs_from.get(session, 0) + 1

    def _note_gone(self, producer: Producer, runs: int) -> None:
        session = producer.session
        self._runs_of[producer] -= runs
        if not self._runs_of[producer]:
            del self._runs_of[producer]
        self._runs_from[session] -= runs
        if not self._runs_from[session]:
            self._free.append(session)

    def _release(self) -> None:
        """Reads sessions without held runs again. Not sooner: else closing the producer goes past the rate."""
        free, self._free = self._free, []
        for session in free:
            if self._runs_from.get(session) == 0:
                del self._runs_from[session]
                pending_publishes.unthrottle(self._core, session)


def _is_open(producer: Producer) -> bool:
    return producer.topic.producers.get(producer.name) is producer


class PublishLimits:
    """Publish limits of a broker, and of resource groups (ADM-5)."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.of_all: PublishLimit | None = None
        """Limit of all topics together."""
        self.of_groups: dict[str, PublishLimit] = {}
        """Limits of resource groups by their names; none for a group without one."""
        self.topics = 0
        """Number of topics in use to which a limit applies."""
        self.configure()

    def configure(self) -> None:
        """Takes the rates of the configuration and of resource groups. Topics have to adopt a limit that there was not
        before, or is not any more."""
        core, config = self._core, self._core.config
        rate = PublishRate(config.broker_publish_rate_messages, config.broker_publish_rate_bytes)
        self.of_all = _configured(core, self.of_all, rate, None)
        groups, before = core.state.documents[RESOURCE_GROUPS], self.of_groups
        self.of_groups = {}
        for name in {**groups, **before}:
            rate = ResourceGroup.from_json(json.loads(groups.get(name, "{}"))).publish_rate
            limit = _configured(core, before.get(name), rate, self.of_all)
            if limit is not None:
                self.of_groups[name] = limit

    def shared_by(self, group: str) -> PublishLimit | None:
        """Returns the limit that topics of a resource group (empty: of none) share with others."""
        return self.of_groups.get(group, self.of_all)


def _configured(
    core: Core, limit: PublishLimit | None, rate: PublishRate, onward: PublishLimit | None
) -> PublishLimit | None:
    """Returns a shared limit with this rate, None for a rate that is none; it goes on where there was one."""
    if limit is None:
        return PublishLimit(core, rate, onward, is_shared=True) if rate.is_limited else None
    limit.onward = onward
    if limit.rate != rate:
        limit.change(rate)
    if rate.is_limited:
        return limit
    limit.end()  # what comes to it before its topics adopt that goes through
    return None


def adopt(core: Core, topic: Topic) -> None:
    """Sets up the limit of a topic that comes into use, or has other policies."""
    # As in Apache Pulsar a non-persistent topic may be given a rate of its own, which does not hold.
    policies = core.policies_of(topic.name) if topic.non_persistent is None else core.policies.of_namespace(topic.name)
    rate, shared = policies.publish_rate, core.publish_limits.shared_by(policies.resource_group)
    limit = topic.publish_limit
    if limit is not None and rate.is_limited and not limit.is_shared and (limit.rate, limit.onward) == (rate, shared):
        return
    wanted = PublishLimit(core, rate, shared) if rate.is_limited else shared
    if wanted is not limit:
        _replace(core, topic, wanted)


def remove_topic(core: Core, topic: Topic) -> None:
    """Ends the limit of a topic that is deleted."""
    if topic.publish_limit is not None:
        _replace(core, topic, None)


def _replace(core: Core, topic: Topic, limit: PublishLimit | None) -> None:
    before, topic.publish_limit = topic.publish_limit, limit
    core.publish_limits.topics += (limit is not None) - (before is not None)
    if before is None:
        return
    if not before.is_shared:
        before.end()
    left = _shared(before)
    if left is not None and left is not core.publish_limits.of_all and left is not _shared(limit):
        # What a group holds of this topic comes before what no longer passes the group.
        for producer in list(topic.producers.values()):
            left.let_through(producer)


def _shared(limit: features.PublishLimit | None) -> features.PublishLimit | None:
    """Returns the first limit on the way of a topic's entries that other topics have too."""
    return limit if limit is None or limit.is_shared else limit.onward
