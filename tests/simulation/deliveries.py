"""Deliveries: each must be on disk, whole, not acked, and come in its turn; and none may be left out."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_pulsar.broker.dispatch.key_shared.dispatcher import KeySharedDispatcher
from spark_pulsar.broker.entities.consumer import Consumer
from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.entities.subscription import Subscription
from spark_pulsar.broker.turn import effects as fx

from .account import Place, Sent, Topic
from .account import Subscription as KnownSubscription
from .comparing import Violation
from .judge import Judge
from .key_order import KeyOrder, free_to_go
from .sharing import DEALT_OUT, FAILOVER, KEY_SHARED
from .takeovers import Takeovers

_LATE_MS = 50
"""A delayed entry comes so much after its time at the latest (DEL-4)."""


@dataclass(slots=True)
class Delivering:
    """Deliveries of one subscription so far."""

    consumer: Consumer | None = None
    last: Place | None = None
    acked: set[Place] = field(default_factory=set)
    """Entries that a reader acknowledged; no account keeps those."""
    holders: dict[Place, Consumer] = field(default_factory=dict)
    """Shared and Key_Shared: consumers of the entries that were sent and neither acked nor given back."""
    keys: KeyOrder = field(default_factory=KeyOrder)


class Deliveries:
    """Deliveries of one core to consumers, by subscription."""

    def __init__(self, judge: Judge, core: Core) -> None:
        self.judge = judge
        self.core = core
        self.takeovers = Takeovers(core, self._taken_over, is_needed=judge.has_takeovers)
        self._known: dict[tuple[str, str], Delivering] = {}

    def _taken_over(self, subscription: Subscription) -> None:
        """Another consumer gets everything that is not acked, from the beginning (FO-6)."""
        delivering = self.of(subscription.topic.full_name, subscription.name)
        delivering.consumer = delivering.last = None

    def of(self, topic_name: str, name: str) -> Delivering:
        """Finds the deliveries of a subscription."""
        return self._known.setdefault((topic_name, name), Delivering())

    def forget(self, topic_name: str, name: str) -> None:
        """The subscription begins anew somewhere."""
        self._known.pop((topic_name, name), None)

    def forget_topic(self, topic_name: str) -> list[str]:
        """A topic is gone; its subscriptions."""
        names = [name for topic, name in self._known if topic == topic_name]
        for name in names:
            self.forget(topic_name, name)
        return names

    def see(self, effect: fx.SendMessages, consumer: Consumer) -> None:
        """Entries go to a consumer."""
        subscription = consumer.subscription
        name, topic_name = subscription.name, subscription.topic.full_name
        current, durable = (
            self.judge.current.topics[topic_name],
            self.judge.durable.topics.get(topic_name),
        )
        where = f"{name} of {topic_name}"
        if subscription.reads_compacted:
            self._see_compacted(effect, consumer, current, durable or Topic())
            return
        account = current.subscriptions.get(name) if subscription.is_durable else None
        done = current.withheld | self.of(topic_name, name).acked
        if account is not None:
            done = account.acked | account.hidden() if account.pending else account.acked
        hold = _first_open(current, durable)
        delivering = self.of(topic_name, name)
        is_shared = subscription.type in DEALT_OUT
        if subscription.type == FAILOVER:
            self.takeovers.see(where, consumer)
        entry_ids = effect.entry_ids or range(effect.first_entry_id, effect.first_entry_id + len(effect.starts))
        for index, (entry_id, start, end) in enumerate(zip(entry_ids, effect.starts, effect.ends, strict=True)):
            place = (effect.ledger_id, entry_id)
            sent = current.log.get(place)
            if sent is None or sent.entry != effect.buffer[start:end]:
                raise Violation(f"{where}: {place} is delivered and holds {sent!r}")
            if durable is None or place not in durable.log:
                raise Violation(f"{where}: {place} is delivered before it is on disk (ML-5)")
            _check_visible(where, place, current, hold)
            if account is not None:
                self._check_unacked(f"{where}: {place}", (place, sent), account, effect, index, is_shared=is_shared)
                if place in done:
                    raise Violation(f"{where}: {place} is delivered though its ack is pending (TX-12)")
            if is_shared:
                if self.judge.rules.holds_back(topic_name, sent, self.judge.latest_ms):
                    raise Violation(f"{where}: {place} is delivered before {sent.deliver_at_ms} (DEL-3)")
                if subscription.type == KEY_SHARED and account is not None:
                    unacked = self._must_come(topic_name, name, current, done)
                    delivering.keys.see(where, place, consumer, {**unacked, place: sent}, delivering.holders)
                self._hold(where, delivering, place, consumer)
            else:
                self._in_turn(where, delivering, place, consumer, current, done)

    def _check_unacked(
        self,
        what: str,
        entry: tuple[Place, Sent],
        account: KnownSubscription,
        effect: fx.SendMessages,
        index: int,
        *,
        is_shared: bool,
    ) -> None:
        """Checks an entry that a durable subscription is sent: that it is wanted, and what is told with it."""
        place, sent = entry
        if self.judge.rules.must_be_expired(sent):
            raise Violation(f"{what} is delivered though it is expired (TTL-1)")
        if place in account.acked:
            raise Violation(f"{what} is delivered though it is acked (ACK-4)")
        bits, left = None if effect.ack_sets is None else effect.ack_sets[index], account.left_of(place)
        if bits != left:
            raise Violation(f"{what} is delivered with {bits}, not {left} (ACK-9, TX-14)")
        count = 0 if effect.redelivery_counts is None else effect.redelivery_counts[index]
        if is_shared and count != account.redelivered.get(place, 0):
            raise Violation(f"{what} is delivered with redelivery count {count} (RC-1)")

    def _must_come(self, topic_name: str, name: str, current: Topic, acked: set[Place]) -> dict[Place, Sent]:
        """Lists unacknowledged entries that no rule lets the broker leave out."""
        may_skip = self.judge.rules.may_skip
        return {
            place: sent
            for place, sent in current.log.items()
            if place not in acked and not may_skip(topic_name, name, sent)
        }

    def _see_compacted(self, effect: fx.SendMessages, consumer: Consumer, current: Topic, durable: Topic) -> None:
        """Up to the horizon what the last compaction left, behind it everything, in order (CMP-C4)."""
        name, topic_name = consumer.subscription.name, consumer.subscription.topic.full_name
        delivering = self.of(topic_name, name)
        horizon, hold = current.horizon, _first_open(current, durable)
        shown = dict(current.view)
        shown.update((place, sent) for place, sent in current.log.items() if horizon is None or place > horizon)
        shown = {place: sent for place, sent in shown.items() if place not in current.withheld}
        for index, (start, end) in enumerate(zip(effect.starts, effect.ends, strict=True)):
            place = (effect.ledger_id, effect.first_entry_id + index)
            last = delivering.last if delivering.consumer is consumer else None
            sent = shown.get(place)
            _check_visible(f"{name} of {topic_name}", place, current, hold)
            if sent is None or sent.entry != effect.buffer[start:end]:
                raise Violation(f"{name} of {topic_name}: {place} is delivered, the compacted view has {[*shown]}")
            if place not in durable.log and place not in durable.view:
                raise Violation(f"{name} of {topic_name}: {place} is delivered before it is on disk (ML-5)")
            if last is not None:
                if place <= last:
                    raise Violation(f"{name} of {topic_name}: {place} is delivered after {last} (EX-2)")
                missed = [each for each in shown if last < each < place and each not in delivering.acked]
                if missed:
                    raise Violation(f"{name} of {topic_name}: {place} is delivered, {missed} are not (CMP-C4)")
            delivering.consumer, delivering.last = consumer, place

    def check_nothing_is_stuck(self) -> None:
        """Checks, in a world at rest, that each consumer that can receive has got all entries for it (SH-10, EX-2)."""
        for topic_name, topic in self.core.topics.items():
            for name, subscription in topic.subscriptions.items():
                if not subscription.is_durable or not any(each.can_receive for each in subscription.consumers):
                    continue
                active = subscription.dispatcher.active_consumer
                if active is not None and not active.can_receive:
                    continue
                delivering = self.of(topic_name, name)
                log = self.judge.current.topics[topic_name].log
                account = self.judge.current.topics[topic_name]
                hold, hidden = account.first_open(), account.subscriptions[name].hidden()
                wanted = [place for place in account.unacked(name) if place not in hidden]
                wanted = [place for place in wanted if hold is None or place < hold]
                if subscription.type in DEALT_OUT:
                    limit = self.core.config.max_unacked_per_subscription
                    if limit and sum(each.unacked for each in subscription.consumers) >= limit // 2:
                        continue
                    holders = delivering.holders
                    due_ms = self.core.now_ms - _LATE_MS
                    stuck = [
                        place
                        for place in wanted
                        if holders.get(place) not in subscription.consumers
                        and not self.judge.rules.may_wait(topic_name, log[place], due_ms)
                    ]
                    if isinstance(subscription.dispatcher, KeySharedDispatcher):
                        stuck = free_to_go(stuck, log, holders, subscription.dispatcher)
                else:
                    last = delivering.last if delivering.consumer in subscription.consumers else None
                    stuck = [place for place in wanted if last is None or place > last]
                if stuck:
                    raise Violation(f"{name} of {topic_name}: {stuck} are wanted, can be sent, and are not (SH-10)")

    def _hold(self, where: str, delivering: Delivering, place: Place, consumer: Consumer) -> None:
        holder = delivering.holders.get(place)
        if holder is not None and holder in consumer.subscription.consumers:
            raise Violation(f"{where}: {place} is delivered while {holder.name or 'a consumer'} holds it (SH-4)")
        delivering.holders[place] = consumer

    def _in_turn(
        self, where: str, delivering: Delivering, place: Place, consumer: Consumer, log: Topic, acked: set[Place]
    ) -> None:
        """Exclusive: everything unacked, in order, nothing left out (EX-2)."""
        if delivering.consumer is not consumer:
            delivering.consumer, delivering.last = consumer, None
        last = delivering.last
        if last is not None and place <= last:
            raise Violation(f"{where}: {place} is delivered after {last} (EX-2)")
        if last is not None or consumer.subscription.is_durable:
            name, topic_name = consumer.subscription.name, consumer.subscription.topic.full_name
            may_skip = self.judge.rules.may_skip
            missed = [
                each
                for each, sent in log.log.items()
                if (last is None or last < each) and each < place and each not in acked
                if not (consumer.subscription.is_durable and may_skip(topic_name, name, sent))
            ]
            if missed:
                raise Violation(f"{where}: {place} is delivered, {missed} are not (EX-2)")
        delivering.last = place


class Endings:
    """Ends of topics that consumers hear of: once all is acked and the end is on disk, and all of them do (TN-13)."""

    def __init__(self, judge: Judge, core: Core) -> None:
        self._judge = judge
        self._core = core
        self._told: set[Consumer] = set()

    def tell(self, consumer: Consumer) -> None:
        """REACHED_END_OF_TOPIC."""
        subscription = consumer.subscription
        name, topic_name = subscription.name, subscription.topic.full_name
        durable = self._judge.durable.topics.get(topic_name)
        if durable is None or not durable.is_terminated:
            raise Violation(f"{consumer.name} hears of the end of {topic_name}, which is not on disk (TN-13)")
        topic, may_skip = self._judge.current.topics[topic_name], self._judge.rules.may_skip
        wanted = topic.unacked(name) if subscription.is_durable else []
        wanted = [place for place in wanted if not may_skip(topic_name, name, topic.log[place])]
        if wanted:
            raise Violation(f"{consumer.name} hears of the end of {topic_name}: {name} still wants {wanted} (TN-13)")
        self._told.add(consumer)

    def check_at_rest(self) -> None:
        """Checks that no consumer with all entries waits for more."""
        for topic_name, topic in self._judge.current.topics.items():
            known = self._core.topics.get(topic_name)
            if not topic.is_terminated or known is None:
                continue
            for name in topic.subscriptions:
                consumers = known.subscriptions[name].consumers if name in known.subscriptions else []
                deaf = [each.name for each in consumers if each.ready and each not in self._told]
                if deaf and not topic.unacked(name):
                    raise Violation(f"{deaf} of {name} have all of {topic_name} and did not hear of its end (TN-13)")


def _first_open(current: Topic, durable: Topic | None) -> Place | None:
    """Finds the first entry of a transaction whose end is not on disk."""
    firsts = (topic.first_open() for topic in (current, durable) if topic is not None and topic.open)
    return min((first for first in firsts if first is not None), default=None)


def _check_visible(where: str, place: Place, current: Topic, hold: Place | None) -> None:
    """Checks that no transaction keeps an entry from consumers."""
    if place in current.withheld:
        raise Violation(f"{where}: {place} is delivered, of an aborted transaction, or its marker (TX-10, TX-11)")
    if hold is not None and place >= hold:
        raise Violation(f"{where}: {place} is delivered, and {hold} is of an open transaction (TX-9)")
