"""Delayed delivery (DEL-1 ... DEL-13): Shared and Key_Shared subscriptions get an entry at its time (X2).

When entries are appended, those with a time that is still to come go into the topic's durable index
(`ledger.state.delays`). Dispatch passes over the entries that the index holds; an entry that is due leaves the
index, and subscriptions that passed over it get it like an entry that is redelivered. Nothing is kept per subscription.

No entry is delivered before its time, and a due one waits a few milliseconds at most, whatever tick and strict mode are
configured (DEL-3). Time to live ends their lives even before (TTL-6: `ttl`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.ledger.state.delays import Delays, DelaysElapsed, EntriesDelayed
from spark_pulsar.model.errors import NotAllowed
from spark_pulsar.wire.entries.delivery_times import delays_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.broker.turn.turn import Timer
    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.model.errors import PulsarError
    from spark_pulsar.model.positions.ranges import RangeSet
    from spark_pulsar.wire.sends.send_runs import SendRun

PAUSE_MS: Final = 10
"""Time between two releases of a topic, so that many times that are close together cost little."""
_BLOCKS_A_TURN: Final = 8
"""Blocks of 4,096 entries that one turn releases, ..."""
_RANGES_A_TURN: Final = 1_000
"""... fewer when they hold this number of ranges."""


class DelayWatch:
    """Timer of a topic's delayed entries."""

    __slots__ = ("_core", "_timer", "_topic", "delays")

    def __init__(self, core: Core, topic: Topic, delays: Delays) -> None:
        self._core = core
        self._topic = topic
        self._timer: Timer | None = None
        self.delays = delays

    @property
    def held(self) -> RangeSet | None:
        """Entries that are not to be delivered yet; None without any, or when the policy is off."""
        held = self.delays.held
        return held if held and self._core.policies_of(self._topic.name).delayed_delivery.active else None

    def arm(self, not_before_ms: int = 0) -> None:
        """Sets the timer to the time of the earliest entry (CLK-2)."""
        following = self.delays.next_block()
        timer = self._timer
        if following is None:
            return
        when_ms = max(following[0], not_before_ms)
        if timer is None or timer.when_ms > when_ms:
            if timer is not None:
                timer.cancel()
            self._timer = self._core.at_wall(when_ms, self._release)

    def _release(self) -> None:
        core, topic, delays = self._core, self._topic, self.delays
        self._timer = None
        if core.topics.get(topic.full_name) is not topic:
            return
        due: list[tuple[int, int, int]] = []
        pause_ms = 1
        for _ in range(_BLOCKS_A_TURN):
            following = delays.next_block()
            if following is None or following[0] > core.wall_ms:
                pause_ms = PAUSE_MS
                break
            key = following[1]
            due += delays.due(key, core.wall_ms)
            core.append_lazily(DelaysElapsed(*key, core.wall_ms))
            if len(due) >= _RANGES_A_TURN:
                break
        self.free(due)
        if topic.ttl_monitor is not None:
            topic.ttl_monitor.released(due)
        self.arm(core.wall_ms + pause_ms)

    def check(self) -> None:
        """Asserts what must hold between turns; see `invariants`."""
        delays = self.delays
        assert len(delays) == sum(map(len, delays.blocks.values())), "each held entry has a time"
        assert not delays or (self._timer is not None and self._timer.call is not None), "the next time is waited for"

    def free(self, ranges: Sequence[tuple[int, int, int]]) -> None:
        """Lets subscriptions send these entries."""
        for subscription in self._topic.subscriptions.values():
            if subscription.consumers:
                subscription.dispatcher.released(ranges)


def policies_changed(core: Core, topic: Topic) -> None:
    """Delivers the entries that wait, where delayed delivery is switched off."""
    watch = topic.delays
    if watch is not None and watch.delays and not core.policies_of(topic.name).delayed_delivery.active:
        watch.free(list(watch.delays.held))


def adopt(core: Core, topic: Topic) -> None:
    """Sets the timer of a topic that comes into use: entries that are due since are released at once."""
    if topic.state.delays is not None:
        topic.delays = DelayWatch(core, topic, topic.state.delays)
        topic.delays.arm()


def note(core: Core, topic: Topic, run: EntryRun) -> None:
    """Puts the entries of an appended run that are to be delivered later into the index."""
    counts = run.message_counts
    if counts is not None and 1 not in counts:  # messages with a time are never batched (DEL-1)
        return
    delays = delays_in(run.buffer, run.starts, run.ends)
    later = [delay for delay in delays if delay.deliver_at_ms > core.wall_ms]
    if not later:
        return
    entry_ids = [run.first_entry_id + delay.number for delay in later]
    core.append(EntriesDelayed(run.ledger_id, entry_ids, [delay.deliver_at_ms for delay in later]))
    if topic.delays is None:
        adopt(core, topic)
    elif topic.delays is not None:
        topic.delays.arm()


def allowed_parts(sends: SendRun, max_delay_ms: int) -> Iterator[tuple[SendRun, PulsarError | None]]:
    """Yields a run in parts, in order: those that may be stored, and single entries with too long a delay (DEL-9). It
    counts from the time of publishing that the message itself states."""
    done = 0
    for delay in delays_in(sends.buffer, sends.starts, sends.ends):
        if delay.deliver_at_ms - delay.publish_time_ms > max_delay_ms:
            if delay.number > done:
                yield sends.slice(done, delay.number), None
            done = delay.number + 1
            text = f"Exceeds max allowed delivery delay of {max_delay_ms} milliseconds"
            yield sends.slice(delay.number, done), NotAllowed(text)
    if done < len(sends.ends):
        yield (sends.slice(done, len(sends.ends)) if done else sends), None


def held_back(subscription: Subscription) -> RangeSet | None:
    """Returns the entries that a subscription which honours times must not send yet; None without any (DEL-12)."""
    watch = subscription.topic.delays
    return None if watch is None else watch.held


def count(subscription: Subscription) -> int:
    """Counts the entries of a backlog that wait for their time (DEL-5)."""
    held = held_back(subscription)
    if held is None:
        return 0
    cursor = subscription.cursor
    waiting = held.count_after(*cursor.mark_delete)
    fewer, more = sorted((held, cursor.acked), key=lambda ranges: ranges.range_count())
    return waiting - sum(more.count_between(*entry_range) for entry_range in fewer)


def index_bytes(topic: Topic) -> int:
    """Returns the memory that the index of a topic takes, about."""
    delays = topic.state.delays
    return 0 if delays is None else 10 * len(delays) + 16 * delays.held.range_count()
