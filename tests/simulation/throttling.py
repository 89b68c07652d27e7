"""Rates: never more is stored, sent or admitted than a policy allows (PR-14, SUB-6, SUB-7).

Each rate is a bucket of what may happen in a period, full at first, and full again whenever any policy changes: the
broker is never held to more than the rule. Whatever happens must find a whole token; what it is goes below zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.policies.effective_policies import DispatchRate, PublishRate

from .comparing import Violation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe

    from .account import Sent
    from .judge import Judge

_SECOND_MS: Final = 1_000
RATES: Final = frozenset(
    {
        policy_table.PUBLISH_RATE,
        policy_table.DISPATCH_RATE,
        policy_table.SUBSCRIPTION_DISPATCH_RATE,
        policy_table.SUBSCRIBE_RATE,
    }
)
AMPLE: Final[dict[str, Any]] = {
    policy_table.PUBLISH_RATE: PublishRate(messages=150).to_json(),
    policy_table.DISPATCH_RATE: DispatchRate(messages=200).to_json(),
    policy_table.SUBSCRIPTION_DISPATCH_RATE: DispatchRate(messages=150, bytes=1 << 19).to_json(),
}
"""Rates under which everything that there is comes within seconds."""


class Tokens:
    """Tokens of a rate; 0 is no limit."""

    def __init__(self, rate: int, period_s: int, now_ms: int) -> None:
        self._rate, self._unit = max(0, rate), _SECOND_MS * period_s
        self._left, self._filled_ms = self._rate * self._unit, now_ms

    def has_one(self, now_ms: int) -> bool:
        """Tells whether there is a token now."""
        self._left = min(self._rate * self._unit, self._left + self._rate * (now_ms - self._filled_ms))
        self._filled_ms = now_ms
        return not self._rate or self._left >= self._unit

    def take(self, amount: int) -> None:
        """Takes tokens; a negative amount gives them back."""
        self._left = min(self._rate * self._unit, self._left - amount * self._unit)


class Throttling:
    """Checks of the rates of one core."""

    def __init__(self, judge: Judge, core: Core) -> None:
        self._judge = judge
        self._core = core
        self._buckets: dict[tuple[Any, ...], Tokens] = {}
        self._most: dict[tuple[Any, ...], Tokens] = {}
        self._changes = judge.rules.changes
        self._asked: dict[tuple[int, int], tuple[tuple[Any, ...], bool]] = {}
        """Requests to subscribe, and whether those before left no token, by session and request id."""
        self._fresh: list[tuple[str, tuple[Any, ...]]] = []
        """Consumers that subscribed to a topic that did not exist."""
        self._let_through: set[Sent] = set()
        """Entries held back of producers that their clients close in this turn."""

    @property
    def _is_moment(self) -> bool:
        """True when a change may be under way: then nothing is checked, and everything begins anew."""
        rules = self._judge.rules
        if rules.changes != self._changes:
            self._changes = rules.changes
            self._buckets.clear()
        return rules.is_changing

    def _tokens(self, topic: str, member: str, owner: Any, what: str) -> Tokens | None:
        """The bucket of an owner; None when there is no limit."""
        policy = self._judge.rules.value(topic, member)
        rate = max(0, policy.get(what, -1))
        if not rate:
            return None
        key = (owner, member, what)
        if key not in self._buckets:
            period_s = policy.get("ratePeriodInSecond", 1)
            self._buckets[key] = Tokens(rate, period_s, self._judge.now_ms)
        return self._buckets[key]

    def _happens(self, where: str, limits: list[tuple[Tokens | None, int]], rule: str) -> None:
        for tokens, amount in limits:
            if tokens is not None:
                if not tokens.has_one(self._judge.now_ms):
                    raise Violation(f"{where}, and nothing is left of its rate ({rule})")
                tokens.take(amount)

    def close_producer(self, waiting: Iterable[Sent]) -> None:
        """CLOSE_PRODUCER: what the producer left behind may be stored whatever the rate is. One of the same name may
        open in the same turn."""
        self._let_through.update(waiting)

    def stored(self, sent: Sent) -> None:
        """An entry is stored."""
        topic = self._core.topics.get(sent.topic)
        if topic is None or self._is_moment:
            return
        messages, size_bytes = (
            self._tokens(sent.topic, policy_table.PUBLISH_RATE, topic, f"publishThrottlingRateIn{what}")
            for what in ("Msg", "Byte")
        )
        limits = [(messages, sent.count), (size_bytes, len(sent.entry))]
        if sent not in self._let_through:
            self._happens(f"{sent!r} of {sent.topic} is stored", limits, "PR-14")
        else:
            for tokens, amount in limits:
                if tokens is not None:
                    tokens.take(amount)

    def sent(self, effect: fx.SendMessages, consumer: Consumer) -> None:
        """Entries go to a consumer."""
        if self._is_moment:
            return
        subscription = consumer.subscription
        if self._is_spared(subscription):
            return
        topic = subscription.topic.full_name
        owners = (
            (policy_table.DISPATCH_RATE, subscription.topic),
            (policy_table.SUBSCRIPTION_DISPATCH_RATE, subscription),
        )
        of_messages, of_bytes = (
            [self._tokens(topic, member, owner, f"dispatchThrottlingRateIn{what}") for member, owner in owners]
            for what in ("Msg", "Byte")
        )
        for index, (start, end) in enumerate(zip(effect.starts, effect.ends, strict=True)):
            sent = self._judge.sent.get(effect.buffer[start:end])
            bits = None if effect.ack_sets is None else effect.ack_sets[index]
            count = 1 if sent is None else sent.count if bits is None else bits.bit_count()
            if self._core.config.dispatch_rates_count_entries:
                count = 1
            limits = [(each, count) for each in of_messages] + [(each, end - start) for each in of_bytes]
            self._happens(f"{subscription.name} of {topic} is sent {sent!r}", limits, "SUB-7")

    def _is_spared(self, subscription: Subscription) -> bool:
        """Tells whether no rate holds for a subscription without backlog: when it has one, the broker may say."""
        limits = subscription.topic.dispatch_limits
        is_spared = limits is not None and subscription in limits._spared
        if is_spared and self._core.config.dispatch_rates_without_backlog:
            raise Violation(f"{subscription.name} of {subscription.topic.full_name} is spared by its rates (SUB-7)")
        return is_spared

    # Of subscribe rates at least the tokens of admitted consumers are gone, at most those of all requests

    def _times(self, topic: str, who: tuple[Any, ...], which: str) -> Tokens | None:
        owner = self._core.topics.get(topic)
        member, what = policy_table.SUBSCRIBE_RATE, "subscribeThrottlingRatePerConsumer"
        if which == "least":
            return self._tokens(topic, member, (owner, who), what)
        policy = self._judge.rules.value(topic, member)
        rate, period_s = max(0, policy.get(what, -1)), policy.get("ratePeriodInSecond", 1)
        if not rate:
            return None
        key = (owner, who, rate, period_s)  # this one is not full again because something else changes
        if key not in self._most:
            self._most[key] = Tokens(rate, period_s, self._judge.now_ms)
        return self._most[key]

    def ask(self, session_id: int, command: CommandSubscribe) -> None:
        """SUBSCRIBE of a consumer that is not there."""
        self.note_fresh()
        is_moment = self._is_moment
        topic, now_ms = command.topic, self._judge.now_ms
        who = (topic, command.consumer_name, command.consumer_id)
        if topic not in self._core.topics:
            self._fresh.append((topic, who))
            return
        most = self._times(topic, who, "most")
        if most is None:
            return
        may_be_refused = not most.has_one(now_ms)
        if not may_be_refused:
            most.take(1)  # also while a change is under way: it may be of another policy
        if is_moment:
            return
        least = self._times(topic, who, "least")
        is_left = least is None or least.has_one(now_ms)
        self._asked[session_id, command.request_id] = (who, is_left)
        if may_be_refused:
            self._asked[session_id, -command.request_id] = (who, True)

    def end_turn(self) -> None:
        """All orders of a turn were seen."""
        self.note_fresh()
        self._let_through.clear()

    def note_fresh(self) -> None:
        """Topics that were missing may be there."""
        fresh, self._fresh = self._fresh, []
        for topic, who in fresh:
            most = self._times(topic, who, "most") if topic in self._core.topics else None
            if most is not None:
                most.take(1)

    def succeed(self, session_id: int, request_id: int) -> None:
        """SUCCESS."""
        who, is_left = self._asked.pop((session_id, request_id), (None, True))
        self._asked.pop((session_id, -request_id), None)
        if who is None or self._is_moment:
            return
        if not is_left:
            raise Violation(f"{who} may subscribe once more, and nothing is left of its rate (SUB-6)")
        least = self._times(who[0], who, "least")
        if least is not None:
            least.take(1)

    def refuse(self, session_id: int, request_id: int, message: str) -> None:
        """ERROR."""
        who, _ = self._asked.pop((session_id, request_id), (None, True))
        may_be_refused = self._asked.pop((session_id, -request_id), None) is not None
        is_limited = "subscribe rate limit" in message
        if is_limited and who is not None and not may_be_refused and not self._is_moment:
            raise Violation(f"{who} may not subscribe, and has not done so too often (SUB-6)")
