"""Expiry: entries that nobody acknowledged in time count as acknowledged (TTL-1 ... TTL-7).

An entry's age is told by its publish time, which its producer's clock wrote (TTL-3). Publish times rise along a topic
as far as clocks agree, so one walk per topic is enough: everything before its position is expired, the entry there says
when to go on. Two kinds of entries do not fit and are noted as *odd ranges* with deadlines of their own:

- from a clock that is ahead: the walk steps over them, so that they hide nothing behind them and are not taken along;
- from a clock that lags behind the entries before them: noted when they are appended, and by a *survey* of the backlog
  after a restart and when a subscription was made or moved back (of a long one its beginning; others of them go when
  the walk comes to them).

Whatever the walk has done so far, `fresh_part` keeps expired entries from being delivered. Expired entries are acked
one by one for every durable subscription: an entry that is not expired is never acked with them (TTL-4). Readers are
not expired: what is stored can be read (TTL-1).

Where the life of delayed entries is counted from their delivery (TTL-6), the walk steps over those that wait, and they
are noted as odd ranges when their time has come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.topic_log.entry_timestamps import delivery_time_in, time_in
from spark_pulsar.ledger.records.cursors import CursorAcked
from spark_pulsar.model.ids import Position

from .ttl_outliers import TtlOutlier, note, note_surely

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.broker.turn.turn import Timer
    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.ledger.records.cursors import EntryRange
    from spark_pulsar.model.names import TopicName

CLOCK_TOLERANCE_MS: Final = 500
"""Publish times that deviate less from the order count as rising: expiry may be late by this much for them."""

_PAUSE_MS: Final = 200
"""Between two walks of a topic, so that a steady stream expires in groups."""
_READ_AGAIN_MS: Final = 1_000
_ENTRIES_A_TURN: Final = 500
_READ_ENTRIES: Final = 2_000
_READ_BYTES: Final = 1024 * 1024
_SURVEYED_ENTRIES: Final = 10_000


class _Scan:
    """A stretch of entries being looked at: from `position` to `end` (exclusive)."""

    __slots__ = ("end", "is_survey", "is_walk", "newest_ms", "position")

    def __init__(self, position: Position, end: Position, *, is_walk: bool = False, is_survey: bool = False) -> None:
        self.position = position
        self.end = end
        self.is_survey = is_survey
        self.newest_ms = 0
        """Of a survey: the highest publish time up to now that our clock does not contradict."""
        self.is_walk = is_walk
        """Whether it is the walk, which ends at the first entry that is not expired; an odd range is seen whole."""


class TtlMonitor:
    """Expires the entries of one topic when they reach an age."""

    def __init__(self, core: Core, topic: Topic, age_ms: int) -> None:
        self._core = core
        self._topic = topic
        self.age_ms = age_ms
        self._from_delivery = core.config.ttl_from_delivery
        self._position = Position(-1, -1)
        self._odd: list[TtlOutlier] = []
        self._must_survey = True
        self._newest_ms = 0
        """Highest publish time in the order of the topic that our clock does not contradict."""
        self._scan: _Scan | None = None
        self._runs: list[EntryRun] = []
        """What was read from storage for the scan."""
        self._is_reading = False
        self._ended = False
        self._timer: Timer | None = None

    def end(self) -> None:
        """Expire nothing any more."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()

    def begin_again(self) -> None:
        """Look at everything that subscriptions want: one of them was made, or moved back."""
        self._leave_scan()
        self._must_survey = True
        self._position = Position(-1, -1)
        self.look()

    def _leave_scan(self) -> None:
        """Stop in the middle; what is left of an odd range is looked at again in a while."""
        scan = self._scan
        if scan is not None and scan.is_survey:
            self._must_survey = True
        elif scan is not None and not scan.is_walk:
            again_ms = self._core.now_ms + _READ_AGAIN_MS
            self._odd.append(TtlOutlier(again_ms, *scan.position, scan.end.entry_id))
        self._scan, self._runs = None, []

    def appended(self, run: EntryRun) -> None:
        """A run was appended: note it if its producer's clock lags, and be there when it expires."""
        first_ms = last_ms = time_in(run, 0)
        if len(run.starts) > 1:
            last_ms = time_in(run, len(run.starts) - 1)
        oldest_ms = min(first_ms, last_ms)
        if oldest_ms < self._newest_ms - CLOCK_TOLERANCE_MS:
            note(self._odd, TtlOutlier(oldest_ms + self.age_ms, run.ledger_id, run.first_entry_id, run.end_entry_id))
        if last_ms <= self._core.now_ms + CLOCK_TOLERANCE_MS:
            self._newest_ms = max(self._newest_ms, last_ms)
        self._arm(oldest_ms + self.age_ms)

    def released(self, ranges: Iterable[EntryRange]) -> None:
        """The delivery of these entries has come."""
        if self._from_delivery:
            deadline_ms = self._core.now_ms + self.age_ms
            for each in ranges:
                note_surely(self._odd, TtlOutlier(deadline_ms, *each))
            self._arm(deadline_ms)

    def has_expired(self, run: EntryRun, index: int, horizon_ms: int) -> bool:
        """Whether the life of an entry began at `horizon_ms` or before."""
        return time_in(run, index) <= horizon_ms and not (
            self._from_delivery and delivery_time_in(run, index) > horizon_ms
        )

    def look(self) -> None:
        """Expire what is due now."""
        self._arm(self._core.now_ms, at_once=True)

    # The walk

    def _arm(self, when_ms: int, *, at_once: bool = False) -> None:
        if self._ended:
            return
        if not at_once:
            when_ms = max(when_ms, self._core.now_ms + _PAUSE_MS)
        timer = self._timer
        if timer is not None:
            if timer.when_ms <= when_ms:
                return
            timer.cancel()
        self._timer = self._core.at(when_ms, self._run)

    def _run(self) -> None:
        self._timer = None
        if self._is_reading or self._ended:
            return
        budget = _ENTRIES_A_TURN
        expired: list[EntryRange] = []
        next_ms: int | None = None
        while budget > 0:
            scan = self._scan = self._scan or self._next_scan()
            position = self._topic.ledger.at_or_after(scan.position)
            if position >= scan.end:
                finished = True
            else:
                run = self._find(position)
                if run is None:
                    break
                seen, finished, next_ms = self._look_into(scan, run, position, expired)
                budget -= seen
            if finished:
                self._scan, self._runs = None, []
                if scan.is_walk:
                    self._finish(expired, next_ms)
                    return
        self._ack(expired)
        if not self._is_reading:
            self._arm(self._core.now_ms + 1, at_once=True)

    def _next_scan(self) -> _Scan:
        """Odd ranges whose time has come go first, then the walk."""
        due = min(self._odd, default=None)
        if due is not None and due.deadline_ms <= self._core.now_ms:
            self._odd.remove(due)
            return _Scan(Position(due.ledger_id, due.first), Position(due.ledger_id, due.end))
        end = self._topic.last_add_confirmed.next_in_ledger
        wanted = min((each.cursor.mark_delete for each in self._subscriptions()), default=None)
        if wanted is None:
            return _Scan(end, end, is_walk=True)
        self._position = max(self._position, wanted.next_in_ledger)
        if self._must_survey:
            self._must_survey = False
            last = min(self._topic.ledger.advance(wanted, _SURVEYED_ENTRIES).next_in_ledger, end)
            # What it sees it notes again.
            self._odd = [odd for odd in self._odd if Position(odd.ledger_id, odd.first) >= last]
            return _Scan(self._position, last, is_survey=True)
        return _Scan(self._position, end, is_walk=True)

    def _find(self, position: Position) -> EntryRun | None:
        """The run with the entry; None when it is being read."""
        core = self._core
        run = core.cache.lookup(*position)
        if run is not None:
            return run
        while self._runs:
            run = self._runs[0]
            if run.ledger_id == position.ledger_id and run.first_entry_id <= position.entry_id < run.end_entry_id:
                return run
            del self._runs[0]

        def done(runs: list[EntryRun] | None) -> None:
            self._is_reading = False
            self._runs = runs or []
            if runs:
                self._arm(core.now_ms, at_once=True)
            else:
                self._leave_scan()
                core.at(core.now_ms + _READ_AGAIN_MS, self._run)

        self._is_reading = True
        core.read(*position, _READ_ENTRIES, _READ_BYTES, done)
        return None

    def _look_into(
        self, scan: _Scan, run: EntryRun, position: Position, expired: list[EntryRange]
    ) -> tuple[int, bool, int | None]:
        """Look at the entries of a run from a position on; those that are expired are added to `expired`. Returns how
        many were seen, whether the scan ends here, and when the entry at which the walk ended expires."""
        horizon_ms = self._core.now_ms - self.age_ms
        ahead_ms = self._core.now_ms + CLOCK_TOLERANCE_MS
        ledger_id, entry_id = position
        end = min(run.end_entry_id, entry_id + _ENTRIES_A_TURN)
        if ledger_id == scan.end.ledger_id:
            end = min(end, scan.end.entry_id)
        first_expired = entry_id
        while entry_id < end:
            time_ms = time_in(run, entry_id - run.first_entry_id)
            if time_ms > horizon_ms or self._lives_on(run, entry_id, horizon_ms):
                if first_expired < entry_id:
                    expired.append((ledger_id, first_expired, entry_id))
                deadline_ms = time_ms + self.age_ms
                if scan.is_survey or time_ms <= horizon_ms:
                    if time_ms > horizon_ms:
                        self._survey(scan, time_ms, TtlOutlier(deadline_ms, ledger_id, entry_id, entry_id + 1))
                    entry_id += 1
                    first_expired = entry_id
                    continue
                is_odd = not scan.is_walk or time_ms > ahead_ms
                if not is_odd or not note(self._odd, TtlOutlier(deadline_ms, ledger_id, entry_id, entry_id + 1)):
                    self._move(scan, Position(ledger_id, entry_id))
                    if not scan.is_walk:
                        self._odd.append(TtlOutlier(deadline_ms, ledger_id, entry_id, scan.end.entry_id))
                    return entry_id + 1 - position.entry_id, True, deadline_ms
                first_expired = entry_id + 1
            entry_id += 1
        if first_expired < entry_id:
            expired.append((ledger_id, first_expired, entry_id))
        self._move(scan, Position(ledger_id, entry_id))
        return entry_id - position.entry_id, False, None

    def _lives_on(self, run: EntryRun, entry_id: int, horizon_ms: int) -> bool:
        """Whether an entry that was published long ago lives from its delivery on."""
        if not self._from_delivery:
            return False
        begins_ms = delivery_time_in(run, entry_id - run.first_entry_id)
        if horizon_ms < begins_ms <= self._core.now_ms:  # a later one is noted when it is released
            note_surely(self._odd, TtlOutlier(begins_ms + self.age_ms, run.ledger_id, entry_id, entry_id + 1))
        return begins_ms > horizon_ms

    def _survey(self, scan: _Scan, time_ms: int, odd: TtlOutlier) -> None:
        if time_ms < scan.newest_ms - CLOCK_TOLERANCE_MS:
            note(self._odd, odd)
        elif time_ms <= self._core.now_ms + CLOCK_TOLERANCE_MS:
            scan.newest_ms = max(scan.newest_ms, time_ms)

    def _move(self, scan: _Scan, position: Position) -> None:
        scan.position = position
        if scan.is_walk:
            self._position = position

    def _finish(self, expired: list[EntryRange], next_ms: int | None) -> None:
        """The walk is where nothing more is expired: come back when something is."""
        self._ack(expired)
        topic = self._topic
        deadlines = [] if next_ms is None else [next_ms]
        if self._odd:
            deadlines.append(min(self._odd).deadline_ms)
        if next_ms is None and self._position <= topic.ledger.last_position and self._subscriptions():
            deadlines.append(self._core.now_ms)  # entries that came meanwhile, or are not on disk yet
        if deadlines:
            self._arm(min(deadlines))

    def _subscriptions(self) -> list[Subscription]:
        """The subscriptions for which entries expire (TTL-7)."""
        return [subscription for subscription in self._topic.subscriptions.values() if subscription.is_durable]

    def _ack(self, expired: list[EntryRange]) -> None:
        if expired:
            for subscription in self._subscriptions():
                ack_expired(self._core, subscription, expired)


def ack_expired(core: Core, subscription: Subscription, expired: list[EntryRange]) -> None:
    """Entries count as acked by a durable subscription, whoever holds them (TTL-1, TTL-7)."""
    cursor = subscription.cursor
    mark = cursor.mark_delete
    ranges: list[EntryRange] = []
    for ledger_id, first, end in expired:
        if ledger_id == mark.ledger_id:
            first = max(first, mark.entry_id + 1)
        if ledger_id >= mark.ledger_id and first < end:
            ranges.append((ledger_id, first, end))
    if not ranges:
        return
    before = cursor.backlog()
    core.append_lazily(CursorAcked(cursor.cursor_id, ranges))
    subscription.entries_expired += before - cursor.backlog()
    subscription.last_expired_ms = core.now_ms
    subscription.dispatcher.expired(ranges)
    core.wake(subscription)
    if cursor.mark_delete != mark:
        subscription.mark_delete_moved()


def fresh_part(core: Core, subscription: Subscription, run: EntryRun, low: int, high: int) -> tuple[int, int]:
    """Of entries `low … high - 1` of a run, about to be delivered, the first stretch that is not expired; the expired
    ones before it are acked. Nothing is left when all are expired: both bounds are `high` then."""
    start, end = first_fresh(core, subscription, run, low, high)
    if start > low:
        ack_expired(core, subscription, [(run.ledger_id, run.first_entry_id + low, run.first_entry_id + start)])
    return start, end


def first_fresh(core: Core, subscription: Subscription, run: EntryRun, low: int, high: int) -> tuple[int, int]:
    """The same stretch, and nothing is acked."""
    ttl_monitor = subscription.topic.ttl_monitor
    if ttl_monitor is None or not subscription.is_durable:
        return low, high
    horizon_ms = core.now_ms - ttl_monitor.age_ms
    if run.oldest_publish_ms < 0:
        run.oldest_publish_ms = min(time_in(run, index) for index in range(len(run.starts)))
    if run.oldest_publish_ms > horizon_ms:
        return low, high
    start = low
    while start < high and ttl_monitor.has_expired(run, start, horizon_ms):
        start += 1
    end = start
    while end < high and not ttl_monitor.has_expired(run, end, horizon_ms):
        end += 1
    return start, end


def ttl_of(core: Core, name: TopicName) -> int:
    """The time to live of a topic's entries in ms, 0 when they live for ever."""
    return 0 if name.is_system else core.policies_of(name).message_ttl_s * 1000


def is_on(core: Core, name: TopicName) -> bool:
    """Whether entries of a topic expire."""
    return ttl_of(core, name) > 0


def adopt(core: Core, topic: Topic) -> None:
    """A topic came into use, or its policies are others."""
    age_ms = ttl_of(core, topic.name)
    if topic.ttl_monitor is not None:
        if topic.ttl_monitor.age_ms == age_ms:
            return
        topic.ttl_monitor.end()
        topic.ttl_monitor = None
    if age_ms > 0:
        topic.ttl_monitor = TtlMonitor(core, topic, age_ms)
        topic.ttl_monitor.look()
