"""One turn of the broker.

1. Its events are handled in order: records are appended, effects ordered, subscriptions woken.
2. Timers that are due run.
3. Each subscription that was woken sends the messages that its consumers may have.
4. The records of the turn leave as one group.

`append` applies a record at once, so that memory runs ahead of the disk. Answers and receipts that rest on it are
handed to `when_durable`, and go out when the shell reports the group, in the order they were handed over.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from spark_pulsar.ledger.state.apply import apply

from .effects import AppendRecords, Effect, ReadEntries, ReadSizes

if TYPE_CHECKING:
    from spark_pulsar.broker.configuration.broker_config import BrokerConfig
    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.ledger.records import Record
    from spark_pulsar.ledger.state.durable_state import DurableState

_FEW_TIMERS: Final = 1_024
_CORRECTED_A_TURN: Final = 50
"""Calls at wall-clock times that come in one turn after a correction of the clock."""

Due = Callable[[], None]
ReadDone = Callable[["list[EntryRun] | None"], None]
"""Takes the runs that were read, or None when the read failed."""
SizesDone = Callable[["list[int] | None"], None]
"""Takes sizes in the same way."""


class Timer:
    """A call that happens at a time, unless it is cancelled before."""

    __slots__ = ("call", "is_wall", "when_ms")

    def __init__(self, when_ms: int, call: Due, *, is_wall: bool = False) -> None:
        self.when_ms = when_ms
        """Time as the caller of `at` or `at_wall` gave it."""
        self.call: Due | None = call
        self.is_wall = is_wall

    def cancel(self) -> None:
        """Cancels the call."""
        self.call = None


class Dispatching(Protocol):
    """A subscription, as a turn sees it."""

    def dispatch(self) -> bool:
        """Sends entries as far as permits and limits allow. True when more could be sent in the next turn."""


class Interval(Protocol):
    """Rounds whose interval the configuration gives."""

    def set_interval(self) -> None:
        """Takes up another interval, if it changed."""


class Turn:
    """Records, effects, reads and timers of a turn, and those that wait for later turns. `entities.core.Core` is
    one."""

    def __init__(self, state: DurableState, config: BrokerConfig) -> None:
        self.state = state
        self.config = config
        self.now_ms = 0
        """Time of this turn, which never goes back and never leaps: intervals and time-outs count by it."""
        self.wall_ahead_ms = 0
        """Milliseconds that the wall clock is ahead of `now_ms`."""
        self.started_ms = self.wall_since_ms = 0
        """Wall-clock times of the start, and of the start or the last correction that set the clock back."""
        self.effects: list[Effect] = []
        self.dispatched_bytes = 0
        """Bytes of entries sent in this turn."""
        self.made_bytes = 0
        """Bytes of the records of partitioned topics that this turn creates."""
        self.sliced_cost = 0
        """Cost of the slices of requests that this turn did (`entities.sliced_requests`)."""
        self._records: list[Record] = []
        self._lazy_since_ms: int | None = None
        self._dues: list[Due] = []
        self._group = self._durable_group = self._last_read = self._timers_made = 0
        self._in_flight: deque[tuple[int, list[Due]]] = deque()
        self._reads: dict[int, Callable[[Any], None]] = {}
        self._timers: list[tuple[int, int, Timer]] = []
        self._clear_timers_at = _FEW_TIMERS
        """Number of timers at which cancelled ones are removed: their times may be far away."""
        self._awake: dict[Dispatching, None] = {}
        self.rounds: list[Interval] = []
        """Rounds over many things (`slices.every`)."""

    def start_clock(self, now_ms: int, wall_ahead_ms: int) -> None:
        """Sets the times of the start."""
        self.now_ms, self.wall_ahead_ms = now_ms, wall_ahead_ms
        self.started_ms = self.wall_since_ms = self.wall_ms

    # One turn

    def begin_turn(self, now_ms: int) -> None:
        """Begins a turn; time never goes back."""
        self.now_ms = max(now_ms, self.now_ms)
        self.made_bytes = self.sliced_cost = 0

    def end_turn(self) -> list[Effect]:
        """Ends a turn after its events: timers, dispatch, group. Returns its effects in order."""
        self.run_timers()
        self.dispatch()
        self.finish_group()
        effects, self.effects = self.effects, []
        return effects

    # Durability

    def append(self, record: Record) -> None:
        """Applies a record now and writes it with the group of this turn."""
        apply(self.state, record)
        self._records.append(record)
        self._lazy_since_ms = None

    def append_lazily(self, record: Record) -> None:
        """Applies a record now and writes it with the next group, in at most `lazy_record_delay_ms` (CUR-4, CUR-7,
        DUR-6)."""
        apply(self.state, record)
        if not self._records:
            self._lazy_since_ms = self.now_ms
        self._records.append(record)

    def when_durable(self, due: Due) -> None:
        """Calls `due` when all that was appended up to now is on disk; at once when it is already (DUR-1, DUR-7,
        ACK-4)."""
        if self._records:
            self._lazy_since_ms = None
            self._dues.append(due)
        elif self._in_flight:
            self._in_flight[-1][1].append(due)
        else:
            due()

    @property
    def waiting_records(self) -> int:
        """Count of records appended and not yet ordered to be written."""
        return len(self._records)

    def waiting_for_disk(self) -> list[Due]:
        """Lists the calls that wait for the disk."""
        return [due for _, dues in self._in_flight for due in dues] + self._dues

    @property
    def group_of_now(self) -> int:
        """Group that all records of this turn up to now are durable with; 0 without records."""
        return self._group + 1 if self._records else 0

    def is_awaited(self, group: int) -> bool:
        """Returns whether a group (see `group_of_now`), or one before it, waits for the disk."""
        return group > self._group or (bool(self._in_flight) and group >= self._in_flight[0][0])

    def when_group_durable(self, group: int, due: Due) -> None:
        """Calls `due` when a group (see `group_of_now`) is on disk, perhaps later; at once when it is already. So it
        waits for no records that it does not rest on."""
        if group > self._durable_group:
            self.when_durable(due)
        else:
            due()

    def finish_group(self) -> None:
        """Orders the write of the turn's records, unless all are lazy and may wait."""
        if not self._records:
            return
        if self._lazy_since_ms is not None:
            if self.now_ms < self._lazy_since_ms + self.config.lazy_record_delay_ms:
                return
            self._lazy_since_ms = None
        self._group += 1
        self._in_flight.append((self._group, self._dues))
        self.effects.append(AppendRecords(self._group, self._records))
        self._records, self._dues = [], []

    def on_durable(self, group: int) -> None:
        """Makes the calls that waited for groups up to this one, which are on disk."""
        self._durable_group = max(self._durable_group, group)
        in_flight = self._in_flight
        while in_flight and in_flight[0][0] <= group:
            for due in in_flight[0][1]:  # what one of them waits for comes behind the others, by growing the list
                due()
            in_flight.popleft()

    def force_lazy_records(self) -> None:
        """Writes lazy records with this turn (shutdown)."""
        self._lazy_since_ms = None

    # Reading

    def read(self, ledger_id: int, entry_id: int, max_entries: int, max_bytes: int, done: ReadDone) -> None:
        """Orders entries from storage; `done` gets them, or None, in a later turn."""
        self._last_read += 1
        self._reads[self._last_read] = done
        self.effects.append(ReadEntries(self._last_read, ledger_id, entry_id, max_entries, max_bytes))

    def on_read(self, token: int, answer: Any) -> None:
        """Takes the answer of a read, None when it failed."""
        self._reads.pop(token)(answer)

    def read_sizes(self, ledger_id: int, first: int, end: int, done: SizesDone) -> None:
        """Orders the sizes of entries `first … end - 1` from storage, which must be on disk; `done` gets them, or None,
        in a later turn."""
        self._last_read += 1
        self._reads[self._last_read] = done
        self.effects.append(ReadSizes(self._last_read, ledger_id, first, end))

    # Time

    @property
    def wall_ms(self) -> int:
        """Wall-clock time of this turn, as clients have theirs: it is stored and shown, and compared with times of
        publishing and delivery and ends of credentials. It leaps when the machine's clock is corrected (CLK-1)."""
        return self.now_ms + self.wall_ahead_ms

    def age_ms(self, stored_ms: int) -> int:
        """Returns the milliseconds since a stored wall-clock time. One that lies in the future is of a clock that went
        back since: it counts from then on (CLK-3)."""
        wall_ms = self.wall_ms
        return wall_ms - (stored_ms if stored_ms <= wall_ms else self.wall_since_ms)

    def correct_clock(self, wall_ahead_ms: int) -> None:
        """Takes up a correction of the wall clock: calls of `at_wall` come now, some in each turn, and check the time
        again (CLK-2)."""
        is_back = wall_ahead_ms < self.wall_ahead_ms
        self.wall_ahead_ms = wall_ahead_ms
        if is_back:
            self.wall_since_ms = self.wall_ms
        corrected, timers = 0, []
        for when_ms, number, timer in self._timers:
            if timer.call is not None:
                if timer.is_wall:
                    when_ms = self.now_ms + corrected // _CORRECTED_A_TURN
                    corrected += 1
                timers.append((when_ms, number, timer))
        heapq.heapify(timers)
        self._timers = timers

    def at_wall(self, when_ms: int, call: Due) -> Timer:
        """Calls at a wall-clock time; earlier, too, when the clock is corrected: the call checks the time."""
        return self._set_timer(when_ms - self.wall_ahead_ms, Timer(when_ms, call, is_wall=True))

    def at(self, when_ms: int, call: Due) -> Timer:
        """Calls at a time, in a turn of its own or the first one after it (CLK-4)."""
        return self._set_timer(when_ms, Timer(when_ms, call))

    def _set_timer(self, due_ms: int, timer: Timer) -> Timer:
        self._timers_made += 1
        if len(self._timers) >= self._clear_timers_at:
            self._timers[:] = [queued for queued in self._timers if queued[2].call is not None]
            heapq.heapify(self._timers)
            self._clear_timers_at = max(_FEW_TIMERS, 2 * len(self._timers))
        heapq.heappush(self._timers, (due_ms, self._timers_made, timer))
        return timer

    def run_timers(self) -> None:
        """Runs the timers that are due."""
        while self._timers and self._timers[0][0] <= self.now_ms:
            call = heapq.heappop(self._timers)[2].call
            if call is not None:
                call()

    def next_deadline(self) -> int | None:
        """Returns the time of the next turn when no event comes, in the core's milliseconds; None = never."""
        if self._awake:
            return self.now_ms
        first = self._timers[0][0] if self._timers else None
        if self._lazy_since_ms is None or not self._records:
            return first
        lazy = self._lazy_since_ms + self.config.lazy_record_delay_ms
        return lazy if first is None else min(first, lazy)

    # Dispatching

    def wake(self, subscription: Dispatching) -> None:
        """Wakes a subscription: it sends at the end of this turn."""
        self._awake[subscription] = None

    def is_awake(self, subscription: Dispatching) -> bool:
        """Returns whether a subscription sends in the next turn."""
        return subscription in self._awake

    def dispatch(self) -> None:
        """Lets every subscription that was woken send, up to the bytes of one turn. Those that have more to send, or
        did not get their turn, stay awake for the next one; the latter go first then."""
        if not self._awake:
            return
        awake, self._awake = self._awake, {}
        self.dispatched_bytes = 0
        unfinished: list[Dispatching] = []
        for subscription in awake:
            if self.dispatched_bytes >= self.config.max_turn_bytes:
                self._awake[subscription] = None
            elif subscription.dispatch():
                unfinished.append(subscription)
        for subscription in unfinished:
            self._awake[subscription] = None
