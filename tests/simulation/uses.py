"""Uses of subscriptions and topics, and by producers: since when there are none, and what follows. Noted beside the
broker: idle subscriptions go (CUR-17), inactive topics go (TN-11, RET-6), sequence ids of silent producers may be
forgotten (DED-9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.policies.effective_policies import NO_SUBSCRIPTIONS, InactiveTopicPolicy

from .comparing import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.ledger.records import Record

    from .judge import Judge

Key = tuple[str, str]
"""(topic, subscription)."""

_MOMENT_MS: Final = 1_000
_MOMENT_TURNS: Final = 8
_MOST_MS: Final = 250
"""Milliseconds between two turns that count: a turn may do what became due before in the turn after it."""


class Idleness:
    """Notes the use of every durable subscription beside the broker's own records of it: with them it is on disk."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.limit_ms = 0
        """Milliseconds that a subscription may be idle; 0: for ever."""
        self._used: set[Key] = set()
        """Subscriptions with a consumer after this turn."""
        self._late: dict[Key, tuple[int, int]] = {}
        """Subscriptions that should have gone: time and turns after which that was seen first."""
        self._turns = self._counted_ms = self._last_ms = 0

    def begin_life(self, now_ms: int) -> None:
        """A broker starts: what was in use until its end is idle from now on."""
        used = self._judge.current.idle_since_ms
        self._late.clear()
        self._last_ms = now_ms
        used.update((key, now_ms) for key, since_ms in used.items() if since_ms is None)

    def note(self, core: Core) -> None:
        """Something happened, and its records are not judged yet. A use may begin and end within one turn."""
        if not self.limit_ms:
            return
        known = self._judge.current.idle_since_ms
        self._used.clear()
        for topic in core.topics.values():
            for name, subscription in topic.subscriptions.items():
                key = (topic.full_name, name)
                if subscription.is_durable and subscription.consumers:
                    self._used.add(key)
                    if known.get(key, 0) is not None:
                        self._judge.post("used", key, None)
                elif key in known and known[key] is None:
                    self._judge.post("used", key, core.now_ms)

    def created(self, key: Key) -> None:
        """A subscription was made in this turn."""
        self._judge.post("used", key, None if key in self._used else self._judge.now_ms)

    def may_go(self, key: Key) -> bool:
        """Tells whether the broker may delete a subscription by itself."""
        since_ms = self._judge.current.idle_since_ms.get(key)
        return self.limit_ms > 0 and since_ms is not None and self._judge.now_ms - since_ms >= self.limit_ms

    def check(self) -> None:
        """Violation when one is there that should have gone. A broker that has just started, or was not asked for long,
        looks for a moment."""
        if not self.limit_ms:
            return
        current, now_ms = self._judge.current, self._judge.now_ms
        keys = [(topic_name, name) for topic_name, topic in current.topics.items() for name in topic.subscriptions]
        self._turns += 1
        self._counted_ms += min(_MOST_MS, now_ms - self._last_ms)
        self._last_ms = now_ms
        seen = (self._counted_ms, self._turns)
        self._late = {key: self._late.get(key, seen) for key in keys if self.may_go(key)}
        for (topic_name, name), (seen_ms, turn) in self._late.items():
            if self._counted_ms - seen_ms >= _MOMENT_MS and self._turns - turn >= _MOMENT_TURNS:
                since_ms = current.idle_since_ms[topic_name, name]
                raise Violation(f"{name} of {topic_name} is idle since {since_ms} and is still there (CUR-17)")


@dataclass(slots=True)
class _Unused:
    """A topic that the broker will delete if nothing changes."""

    rule: tuple[int, str]
    """After how many milliseconds, and what counts as use."""
    since_ms: int
    noticed_ms: int | None = None
    """Time when the broker must have noticed."""
    noticed_turn: int = 0


class Inactivity:
    """Notes the use of every topic beside the broker."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.is_on = False
        self.interval_ms = 0
        """Milliseconds between the broker's looks."""
        self.on_gone: Callable[[str], None] = lambda _name: None
        """Hears of a topic that the broker deleted by itself."""
        self._connected_ms: dict[int, int] = {}
        """Time of the last client of each topic, by its id."""
        self._subscribed_ms: dict[int, int] = {}
        self._unused: dict[int, _Unused] = {}
        self._going: dict[str, bool | None] = {}
        """Topics that go in the submit that is judged, and whether they may; None: not yet worked out."""
        self._turns = 0

    def begin_life(self) -> None:
        """A broker starts, and waits as if everything had been used just now."""
        self._connected_ms.clear()
        self._subscribed_ms.clear()
        self._unused.clear()
        self._going.clear()

    def note(self, core: Core) -> None:
        """Something happened, and its records are not judged yet."""
        if not self.is_on:
            return
        for topic_id, state in core.state.topics.items():
            topic = core.topics.get(state.name)
            if topic_id not in self._connected_ms or (topic is not None and (topic.producers or topic.consumer_count)):
                self._connected_ms[topic_id] = core.now_ms
            if state.cursors or (topic is not None and topic.subscriptions):
                self._subscribed_ms[topic_id] = core.now_ms

    # What may go

    def begin_submit(self, records: Iterable[Record], going: type[Record]) -> None:
        """Records are about to be judged; `going` is the kind that ends a topic."""
        if self.is_on:
            names = self._judge.current.topic_names
            gone = [names[record.topic_id] for record in records if type(record) is going]  # type: ignore[attr-defined]
            self._going = {name: None for name in gone if name not in self._judge.deleting}

    def goes(self, name: str) -> bool:
        """Tells whether the broker deletes a topic by itself in the submit that is judged. Violation when it may
        not."""
        may = self._going.get(name, False)
        if may is None:
            may = self._going[name] = self._may_go(name)
            if not may:
                raise Violation(f"{name} goes without a request (TN-11)")
        return may

    def gone(self, name: str) -> None:
        """A topic went by itself."""
        self.on_gone(name)
        self._judge.forget_policies(name)
        topic_id = self._id_of(name)
        for known in (self._connected_ms, self._subscribed_ms, self._unused):
            known.pop(topic_id, None)

    def _id_of(self, name: str) -> int:
        return next(topic_id for topic_id, each in self._judge.current.topic_names.items() if each == name)

    def _may_go(self, name: str) -> bool:
        judge, topic_id = self._judge, self._id_of(name)
        for policy, retained_ms in judge.rules.inactive(name):
            unused_ms = judge.now_ms - self._last_use_ms(topic_id, policy.mode)
            is_long = unused_ms >= max(retained_ms, 1_000 * policy.max_inactive_s)
            if policy.delete_while_inactive and retained_ms >= 0 and is_long and not self._is_wanted(name, policy.mode):
                return True
        return False

    def _last_use_ms(self, topic_id: int, mode: str) -> int:
        connected_ms = self._connected_ms.get(topic_id, self._judge.now_ms)
        return max(connected_ms, self._subscribed_ms.get(topic_id, 0)) if mode == NO_SUBSCRIPTIONS else connected_ms

    def _is_wanted(self, name: str, mode: str) -> bool:
        """Tells whether a topic without clients is still wanted."""
        topic = self._judge.current.topics[name]
        if mode == NO_SUBSCRIPTIONS:
            return bool(topic.subscriptions)
        return any(topic.unacked(subscription) for subscription in topic.subscriptions)

    # What must go

    def check(self, core: Core) -> None:
        """A turn is over. Violation when a topic is there that should have gone: the broker looks every now and then,
        must have seen it unused once, and again when that was so for long enough."""
        if not self.is_on:
            return
        now_ms = self._judge.now_ms
        self._turns += 1
        known, self._unused = self._unused, {}
        for topic_id, state in core.state.topics.items():
            rule = self._rule(topic_id, state.name, core)
            if rule is None:
                continue
            unused = known.get(topic_id)
            if unused is None or unused.rule != rule:
                unused = _Unused(rule, now_ms)
            self._unused[topic_id] = unused
            if unused.noticed_ms is None:
                if now_ms >= unused.since_ms + self.interval_ms and unused.since_ms < now_ms:
                    unused.noticed_ms, unused.noticed_turn = now_ms, self._turns
            elif (
                now_ms > unused.noticed_ms + rule[0] + self.interval_ms
                and self._turns >= unused.noticed_turn + _MOMENT_TURNS
            ):
                raise Violation(f"{state.name} is unused since {unused.since_ms} and is still there (TN-11)")

    def _rule(self, topic_id: int, name: str, core: Core) -> tuple[int, str] | None:
        """After how long a topic goes, None when it stays as long as nothing changes."""
        judge = self._judge
        policies: list[tuple[InactiveTopicPolicy, int]] = judge.rules.inactive(name)
        policy, retained_ms = policies[0]
        if not policy.delete_while_inactive or retained_ms < 0 or name not in judge.current.topics:
            return None
        if self._last_use_ms(topic_id, policy.mode) >= judge.now_ms or self._is_wanted(name, policy.mode):
            return None
        if core.topics.get(name) is not None and core.topics[name].subscriptions and policy.mode == NO_SUBSCRIPTIONS:
            return None
        return max(retained_ms, 1_000 * policy.max_inactive_s), policy.mode


class Silence:
    """Notes the producers that are not connected after each turn, beside the broker, which looks now and then."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._limit_ms = 0
        self._since_ms: dict[tuple[str, str], int] = {}
        """Topic and name of producers that ever stored something there → time since when they are silent."""

    def begin_life(self) -> None:
        """Begins with a start of the broker: no producer was connected, and time may have gone back."""
        self._since_ms.clear()

    def check(self, core: Core) -> None:
        """A turn is over and judged."""
        rules = self._judge.rules
        if not (rules.defaults[policy_table.DEDUPLICATION] or rules.is_any_set((policy_table.DEDUPLICATION,))):
            return
        self._limit_ms = core.config.deduplication_producer_timeout_ms
        before, self._since_ms = self._since_ms, {}
        for name, topic in self._judge.current.topics.items():
            used = core.topics.get(name)
            for producer in topic.heads:
                key = (name, producer)
                if used is None or producer not in used.producers:
                    self._since_ms[key] = before.get(key, self._judge.now_ms)
                elif key in before and core._records:  # it may have been forgotten before it came: that is not told yet
                    self._since_ms[key] = before[key]

    def check_away(self, topic: str, producers: Iterable[str]) -> None:
        """The broker forgets what these producers sent. Violation when one was connected too lately."""
        for producer in producers:
            since_ms = self._since_ms.get((topic, producer))
            if since_ms is None or self._judge.now_ms - since_ms < self._limit_ms:
                raise Violation(
                    f"what {producer} of {topic} sent is forgotten at {self._judge.now_ms}, "
                    f"and it was there until {since_ms} (DED-9)"
                )


class Uses:
    """Uses of subscriptions, of topics, and by producers."""

    def __init__(self, judge: Judge) -> None:
        self.idleness = Idleness(judge)
        self.inactivity = Inactivity(judge)
        self.silence = Silence(judge)

    def begin_life(self, now_ms: int) -> None:
        """A broker starts."""
        self.idleness.begin_life(now_ms)
        self.inactivity.begin_life()
        self.silence.begin_life()

    def note(self, core: Core) -> None:
        """Something happened, and its records are not judged yet."""
        self.idleness.note(core)
        self.inactivity.note(core)

    def check(self, core: Core) -> None:
        """Checks a turn that is over and judged. Violation when a subscription or topic exists that was unused for too
        long."""
        self.idleness.check()
        self.inactivity.check(core)
        self.silence.check(core)
