"""Idle subscriptions are deleted with their backlog (CUR-17).

A durable subscription is idle from the moment its last consumer left, or it was made; that moment is durable, so that a
broker that is restarted often still deletes it. One that was in use when the broker stopped is idle since the start.
When the policy `subscription_expiration_time_minutes` of its topic is on, it goes exactly when that time is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.subscriptions import subscribing
from spark_pulsar.ledger.state.cursors.cursor import IN_USE
from spark_pulsar.ledger.state.cursors.records import CursorIdle
from spark_pulsar.model.names import TopicName

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.turn.turn import Timer
    from spark_pulsar.ledger.state.cursors.cursor import Cursor
    from spark_pulsar.ledger.state.topics import TopicState

_MINUTE_MS: Final = 60_000
_KEPT: Final = frozenset({"__compaction"})


class IdleSubscriptions:
    """Deadlines of all idle subscriptions. One timer each, and only where the policy is on."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._timers: dict[int, Timer] = {}
        self._since_ms: dict[int, int] = {}
        """Times since when cursors are idle, as `Core.now_ms` has it: a correction of the wall clock ages none."""

    def made(self, subscription: Subscription) -> None:
        """Sets the deadline of a subscription that was created."""
        self._expect(subscription.topic.state, subscription.cursor)

    def joined(self, subscription: Subscription) -> None:
        """Ends the idle time of a subscription: its first consumer joined."""
        cursor = subscription.cursor
        if cursor.is_durable and cursor.idle_since_ms != IN_USE:
            self._core.append_lazily(CursorIdle(cursor.cursor_id, IN_USE))
            self.remove(cursor.cursor_id)

    def left(self, subscription: Subscription) -> None:
        """Begins the idle time of a subscription: its last consumer left."""
        cursor = subscription.cursor
        if cursor.is_durable:
            self._core.append_lazily(CursorIdle(cursor.cursor_id, self._core.wall_ms))
            self._since_ms[cursor.cursor_id] = self._core.now_ms
            self._expect(subscription.topic.state, cursor)

    def check(self, topic: TopicState) -> None:
        """Sets the deadlines of a topic whose policies may be others, or that the broker has just recovered."""
        for cursor in list(topic.cursors.values()):
            self._expect(topic, cursor)

    def remove(self, cursor_id: int) -> None:
        """Drops the deadline of a subscription that is in use, or deleted."""
        self._since_ms.pop(cursor_id, None)
        self._cancel(cursor_id)

    def _cancel(self, cursor_id: int) -> None:
        timer = self._timers.pop(cursor_id, None)
        if timer is not None:
            timer.cancel()

    def _expect(self, topic: TopicState, cursor: Cursor) -> None:
        """Sets the deadline of the subscription; one that has passed is due at once."""
        core = self._core
        self._cancel(cursor.cursor_id)
        used = core.topics.get(topic.name)
        name = TopicName.parse(topic.name) if used is None else used.name
        minutes = core.policies_of(name).subscription_expiration_minutes
        if minutes <= 0 or cursor.name in _KEPT:
            return
        if used is not None and used.subscriptions[cursor.name].consumers:
            return
        stored_ms = core.started_ms if cursor.idle_since_ms == IN_USE else cursor.idle_since_ms
        since_ms = self._since_ms.setdefault(cursor.cursor_id, core.now_ms - core.age_ms(stored_ms))
        due_ms = since_ms + minutes * _MINUTE_MS
        self._timers[cursor.cursor_id] = core.at(due_ms, lambda: self._delete(topic, cursor))

    def _delete(self, state: TopicState, cursor: Cursor) -> None:
        core = self._core
        self.remove(cursor.cursor_id)
        if core.state.cursors.get(cursor.cursor_id) is not cursor:
            return
        topic = registry.find(core, TopicName.parse(state.name))
        assert topic is not None, "a cursor's topic exists"
        subscription = topic.subscriptions[cursor.name]
        if not subscription.consumers:
            subscribing.delete(core, subscription)
