"""Message TTL: entries that no consumer acknowledged in time count as acknowledged (TTL-1 ... TTL-7).

An entry's age follows from its publish time, which its producer's clock wrote (TTL-3). Publish times rise along a topic
as far as clocks agree, so one *search* per topic is enough: everything before its position is expired, the entry there
determines when the search goes on. Two kinds of entries do not fit and are noted as *outliers*, ranges with deadlines
of their own:

- from a clock that is ahead: the search steps over them, so that they hide nothing behind them and are not taken along;
- from a clock that lags behind the entries before them: noted when they are appended, and by a *survey* of the backlog
  after a restart and when a subscription was made or moved back (of a long one its beginning; others of them expire
  when the search comes to them).

Whatever the search has done so far, `fresh_part` keeps expired entries from being delivered. Expired entries are acked
one by one for every durable subscription: an entry that is not expired is never acked with them (TTL-4). Readers are
not expired: stored entries can be read (TTL-1).

Where the life of delayed entries is counted from their delivery (TTL-6), the search steps over those that wait, and
they are noted as outliers when their time has come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from spark_pulsar.broker.topic_log.entry_timestamps import delivery_time_in, time_in
from spark_pulsar.broker.topic_log.entry_walk import EntryWalk
from spark_pulsar.ledger.state.cursors.records import CursorAcked
from spark_pulsar.model.positions.ids import EARLIEST, Position

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.broker.turn.turn import Timer
    from spark_pulsar.ledger.entries import EntryRange, EntryRun
    from spark_pulsar.model.names import TopicName

CLOCK_TOLERANCE_MS: Final = 500
"""Publish times that deviate less from the order count as rising: they may expire late by this much."""

MAX_OUTLIERS: Final = 1_000
"""Bound of memory for one topic."""

_PAUSE_MS: Final = 200
"""Time between two searches of a topic, so that a steady stream expires in groups."""
_READ_AGAIN_MS: Final = 1_000
_ENTRIES_A_TURN: Final = 500
_SURVEYED_ENTRIES: Final = 10_000


class TtlOutlier(NamedTuple):
    """Entries `first … end - 1` of a ledger, none of which expires before `deadline_ms`."""

    deadline_ms: int
    ledger_id: int
    first: int
    end: int


class _Scan(EntryWalk):
    """A search, a survey, or the visit of an outlier whose time has come."""

    __slots__ = ("is_search", "is_survey", "newest_ms", "next_ms")

    def __init__(
        self,
        monitor: TtlMonitor,
        position: Position,
        end: Position,
        *,
        is_search: bool = False,
        is_survey: bool = False,
    ) -> None:
        super().__init__(monitor.core, monitor.topic, position, end, monitor.visit, monitor.resume)
        self.is_survey = is_survey
        self.newest_ms = 0
        """Highest publish time that a survey saw and our clock does not contradict."""
        self.is_search = is_search
        """True when the first entry that is not expired ends it; an outlier is visited whole."""
        self.next_ms: int | None = None
        """Time at which the entry expires at which it ended."""


class TtlMonitor:
    """Expires the entries of one topic when they reach an age."""

    def __init__(self, core: Core, topic: Topic, age_ms: int) -> None:
        self.core = core
        self.topic = topic
        self.age_ms = age_ms
        self._from_delivery = core.config.ttl_from_delivery
        self._position = EARLIEST
        """Position of the search: all before it is expired, but for outliers."""
        self._outliers: list[TtlOutlier] = []
        self._must_survey = True
        self._newest_ms = 0
        """Highest publish time in the order of the topic that our clock does not contradict."""
        self._scan: _Scan | None = None
        self._expired: list[EntryRange] = []
        """Entries that were found in this turn."""
        self._is_reading = False
        self._ended = False
        self._timer: Timer | None = None

    def end(self) -> None:
        """Stops expiring."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()

    def begin_again(self) -> None:
        """Searches everything that subscriptions want: one of them was made, or moved back."""
        self._leave_scan()
        self._must_survey = True
        self._position = EARLIEST
        self.expire_due()

    def expire_due(self) -> None:
        """Expires in this turn the entries that are due."""
        self._arm(self.core.wall_ms, at_once=True)

    def appended(self, run: EntryRun) -> None:
        """Notes a run that was appended if its producer's clock lags, and searches again when it expires."""
        first_ms = last_ms = time_in(run, 0)
        if len(run.starts) > 1:
            last_ms = time_in(run, len(run.starts) - 1)
        oldest_ms = min(first_ms, last_ms)
        if oldest_ms < self._newest_ms - CLOCK_TOLERANCE_MS:
            self._note(TtlOutlier(oldest_ms + self.age_ms, run.ledger_id, run.first_entry_id, run.end_entry_id))
        if last_ms <= self.core.wall_ms + CLOCK_TOLERANCE_MS:
            self._newest_ms = max(self._newest_ms, last_ms)
        self._arm(oldest_ms + self.age_ms)

    def released(self, ranges: Iterable[EntryRange]) -> None:
        """Counts the life of delayed entries from now on, where TTL begins at the delivery (TTL-6, DEL-6)."""
        if self._from_delivery:
            deadline_ms = self.core.wall_ms + self.age_ms
            for entry_range in ranges:
                self._note_surely(TtlOutlier(deadline_ms, *entry_range))
            self._arm(deadline_ms)

    def has_expired(self, run: EntryRun, index: int, horizon_ms: int) -> bool:
        """Returns whether the life of an entry began at `horizon_ms` or before."""
        return time_in(run, index) <= horizon_ms and not (
            self._from_delivery and delivery_time_in(run, index) > horizon_ms
        )

    # Scans

    def _arm(self, when_ms: int, *, at_once: bool = False) -> None:
        if self._ended:
            return
        if not at_once:
            when_ms = max(when_ms, self.core.wall_ms + _PAUSE_MS)
        timer = self._timer
        if timer is not None:
            if timer.when_ms <= when_ms:
                return
            timer.cancel()
        self._timer = self.core.at_wall(when_ms, self._run)

    def _run(self) -> None:
        self._timer = None
        if self._is_reading or self._ended:
            return
        budget = _ENTRIES_A_TURN
        while budget > 0 and not self._is_reading:
            scan = self._scan = self._scan or self._next_scan()
            budget = scan.walk(budget)
            self._is_reading = scan.is_reading
            if scan.is_search:
                self._position = scan.position
            if scan.is_over:
                self._scan = None
                if scan.is_search:
                    self._ack()
                    self._arm_for_next(scan.next_ms)
                    return
        self._ack()
        if not self._is_reading:
            self._arm(self.core.wall_ms + 1, at_once=True)

    def resume(self) -> None:
        """Goes on with entries that were read, or tries again in a while."""
        self._is_reading = False
        if self._scan is not None and self._scan.has_failed:
            self._leave_scan()
            self._arm(self.core.wall_ms + _READ_AGAIN_MS)
        else:
            self._arm(self.core.wall_ms, at_once=True)

    def _leave_scan(self) -> None:
        """Ends a scan in its middle; the rest of an outlier is visited in a while."""
        scan = self._scan
        if scan is not None and scan.is_survey:
            self._must_survey = True
        elif scan is not None and not scan.is_search:
            again_ms = self.core.wall_ms + _READ_AGAIN_MS
            self._outliers.append(TtlOutlier(again_ms, *scan.position, scan.end.entry_id))
        self._scan = None

    def _next_scan(self) -> _Scan:
        """Begins the next scan: an outlier whose time has come, else a survey that is due, else the search."""
        due = min(self._outliers, default=None)
        if due is not None and due.deadline_ms <= self.core.wall_ms:
            self._outliers.remove(due)
            return _Scan(self, Position(due.ledger_id, due.first), Position(due.ledger_id, due.end))
        end = self.topic.last_add_confirmed.next_in_ledger
        wanted = min((subscription.cursor.mark_delete for subscription in self._subscriptions()), default=None)
        if wanted is None:
            return _Scan(self, end, end, is_search=True)
        self._position = max(self._position, wanted.next_in_ledger)
        if self._must_survey:
            self._must_survey = False
            last = min(self.topic.ledger.advance(wanted, _SURVEYED_ENTRIES).next_in_ledger, end)
            # The survey notes again the outliers that it finds.
            self._outliers = [
                outlier for outlier in self._outliers if Position(outlier.ledger_id, outlier.first) >= last
            ]
            return _Scan(self, self._position, last, is_survey=True)
        return _Scan(self, self._position, end, is_search=True)

    def visit(self, run: EntryRun, first: int, end: int) -> int:
        """Finds the expired entries among `first … end - 1` of a run for the scan; a search ends at one that is not."""
        scan = self._scan
        assert scan is not None, "it visits"
        horizon_ms = self.core.wall_ms - self.age_ms
        ledger_id, first_expired = run.ledger_id, first
        for entry_id in range(first, end):
            time_ms = time_in(run, entry_id - run.first_entry_id)
            has_passed = time_ms <= horizon_ms
            if has_passed and not self._lives_on(run, entry_id, horizon_ms):
                continue
            if first_expired < entry_id:
                self._expired.append((ledger_id, first_expired, entry_id))
            first_expired = entry_id + 1
            if has_passed:
                continue
            outlier = TtlOutlier(time_ms + self.age_ms, ledger_id, entry_id, entry_id + 1)
            if scan.is_survey:
                self._survey(scan, time_ms, outlier)
            elif (scan.is_search and not self._is_ahead(time_ms)) or not self._note(outlier):
                scan.next_ms = outlier.deadline_ms
                if not scan.is_search:
                    self._outliers.append(outlier._replace(end=scan.end.entry_id))
                return entry_id
        if first_expired < end:
            self._expired.append((ledger_id, first_expired, end))
        return end

    def _lives_on(self, run: EntryRun, entry_id: int, horizon_ms: int) -> bool:
        """Returns whether an entry that was published long ago lives from its delivery on (TTL-6)."""
        if not self._from_delivery:
            return False
        begins_ms = delivery_time_in(run, entry_id - run.first_entry_id)
        if horizon_ms < begins_ms <= self.core.wall_ms:  # a later one is noted when it is released
            self._note_surely(TtlOutlier(begins_ms + self.age_ms, run.ledger_id, entry_id, entry_id + 1))
        return begins_ms > horizon_ms

    def _is_ahead(self, time_ms: int) -> bool:
        return time_ms > self.core.wall_ms + CLOCK_TOLERANCE_MS

    def _survey(self, scan: _Scan, time_ms: int, outlier: TtlOutlier) -> None:
        if time_ms < scan.newest_ms - CLOCK_TOLERANCE_MS:
            self._note(outlier)
        elif not self._is_ahead(time_ms):
            scan.newest_ms = max(scan.newest_ms, time_ms)

    def _arm_for_next(self, next_ms: int | None) -> None:
        """Searches again when the next entry expires: the one at which the search ended, or an outlier."""
        deadlines = [] if next_ms is None else [next_ms]
        if self._outliers:
            deadlines.append(min(self._outliers).deadline_ms)
        if next_ms is None and self._position <= self.topic.ledger.last_position and self._subscriptions():
            deadlines.append(self.core.wall_ms)  # entries that came meanwhile, or are not on disk yet
        if deadlines:
            self._arm(min(deadlines))

    def _note(self, outlier: TtlOutlier) -> bool:
        """Adds an outlier; False when there are too many: entries of lagging clocks wait for the search then, and the
        search stops at entries of clocks that are ahead."""
        outliers = self._outliers
        last = outliers[-1] if outliers else None
        if last is not None and (last.ledger_id, last.end) == (outlier.ledger_id, outlier.first):
            outliers[-1] = outlier._replace(deadline_ms=min(last.deadline_ms, outlier.deadline_ms), first=last.first)
        elif len(outliers) >= MAX_OUTLIERS:
            return False
        else:
            outliers.append(outlier)
        return True

    def _note_surely(self, outlier: TtlOutlier) -> None:
        """Adds an outlier; when there are too many, one of them takes it in with all that is between."""
        if self._note(outlier):
            return
        for index, known in enumerate(self._outliers):
            if known.ledger_id == outlier.ledger_id:
                first, end = min(known.first, outlier.first), max(known.end, outlier.end)
                self._outliers[index] = TtlOutlier(
                    min(known.deadline_ms, outlier.deadline_ms), outlier.ledger_id, first, end
                )
                return
        self._outliers.append(outlier)  # at most one for each ledger

    def _subscriptions(self) -> list[Subscription]:
        """Returns the subscriptions for which entries expire (TTL-7, TTL-5)."""
        return [subscription for subscription in self.topic.subscriptions.values() if subscription.is_durable]

    def _ack(self) -> None:
        expired, self._expired = self._expired, []
        if expired:
            for subscription in self._subscriptions():
                ack_expired(self.core, subscription, expired)


def ack_expired(core: Core, subscription: Subscription, expired: list[EntryRange]) -> None:
    """Acks expired entries for a durable subscription, whichever consumer holds them (TTL-1, TTL-7)."""
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
    subscription.note_expired(before - cursor.backlog(), core.wall_ms)
    subscription.dispatcher.expired(ranges)
    core.wake(subscription)
    if cursor.mark_delete != mark:
        subscription.mark_delete_moved()


def fresh_part(core: Core, subscription: Subscription, run: EntryRun, low: int, high: int) -> tuple[int, int]:
    """Returns the first stretch that is not expired of entries `low … high - 1` of a run, which are about to be
    delivered, and acks the expired ones before it (TTL-2). When all are expired both bounds are `high`."""
    start, end = first_fresh(core, subscription, run, low, high)
    if start > low:
        ack_expired(core, subscription, [(run.ledger_id, run.first_entry_id + low, run.first_entry_id + start)])
    return start, end


def first_fresh(core: Core, subscription: Subscription, run: EntryRun, low: int, high: int) -> tuple[int, int]:
    """Returns the stretch of `fresh_part` and acks nothing."""
    ttl_monitor = subscription.topic.ttl_monitor
    if ttl_monitor is None or not subscription.is_durable:
        return low, high
    horizon_ms = core.wall_ms - ttl_monitor.age_ms
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
    """Returns the TTL of a topic in ms, 0 for none."""
    return 0 if name.is_system else core.policies_of(name).message_ttl_s * 1000


def is_on(core: Core, name: TopicName) -> bool:
    """Returns whether entries of a topic expire."""
    return ttl_of(core, name) > 0


def adopt(core: Core, topic: Topic) -> None:
    """Sets up the TTL of a topic that comes into use, or has other policies."""
    age_ms = ttl_of(core, topic.name)
    if topic.ttl_monitor is not None:
        if topic.ttl_monitor.age_ms == age_ms:
            return
        topic.ttl_monitor.end()
        topic.ttl_monitor = None
    if age_ms > 0:
        topic.ttl_monitor = TtlMonitor(core, topic, age_ms)
        topic.ttl_monitor.expire_due()
