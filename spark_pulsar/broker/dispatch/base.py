"""Base class of dispatchers: their interface, and sending a part of a run to a consumer. `entry_reading` reads what is
sent (SUB-8)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

from spark_pulsar.broker.dispatch.limits.dispatch_limiter import UNLIMITED
from spark_pulsar.broker.turn.effects import SendMessages
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.entries.chunks import chunks_among

from .entry_reading import EntryReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.ledger.entries import EntryRun

    EntryRange = tuple[int, int, int]


Default = TypeVar("Default")


class Dispatcher(ABC):
    """Sends the entries of a subscription to its consumers. Where these hold nothing and nothing is delayed (Exclusive,
    Failover), the cursor alone knows the entries that were acknowledged, expired or passed, and none is released."""

    def __init__(self, core: Core, subscription: Subscription) -> None:
        self.core = core
        self.subscription = subscription
        self.position = Position(-1, -1)
        """The next entry to send for the first time; `rewind` sets it (RP)."""
        self.turn_messages = self.turn_entries = self.turn_bytes = UNLIMITED
        """Messages, entries and bytes that rates allow in this turn, counted down (SUB-7); messages or entries are
        unlimited."""
        self.stopping = False
        """True when the next entry is lost: the consumers are about to be closed."""
        self.reader = EntryReader(core, subscription)
        self.rewind()

    def _wake(self) -> None:
        self.core.wake(self.subscription)

    def rewind(self) -> None:
        """Moves the read position back behind mark-delete (EX-4)."""
        mark_delete = self.subscription.cursor.mark_delete
        self.position = Position(mark_delete.ledger_id, mark_delete.entry_id + 1)
        self.reader.reset()

    def admit(self, consumer: Consumer) -> None:  # noqa: B027 - most admit all consumers
        """Refuses a consumer that is about to join, by an error; nothing has happened then (KS-7)."""

    @abstractmethod
    def attach(self, consumer: Consumer) -> None:
        """Takes a consumer that joined."""

    @abstractmethod
    def detach(self, consumer: Consumer) -> None:
        """Redelivers the unacknowledged messages of a consumer that left `subscription.consumers` (see
        `redelivery`)."""

    @abstractmethod
    def dispatch(self) -> bool:
        """Sends entries as far as permits and limits allow. True when more could be sent in the next turn."""

    @abstractmethod
    def has_work(self) -> bool:
        """Returns, when a rate forbids to send, whether `dispatch` might send something otherwise (SUB-7)."""

    def begin(self) -> None:  # noqa: B027 - most have nothing to do then
        """Does, while a rate forbids to send, the part of `dispatch` that does not depend on rates (FO-5)."""

    @abstractmethod
    def redeliver(self, consumer: Consumer, ranges: Iterable[EntryRange] | None, epoch: int | None) -> None:
        """Redelivers entries that a consumer requests, or all that it holds (None) (NACK-2, NACK-3)."""

    def acked(self, consumer: Consumer, ranges: Iterable[EntryRange]) -> None:  # noqa: B027
        """Releases whole entries that a consumer acknowledged; the cursor knows already."""

    def batch_acked(self, consumer: Consumer, ledger_id: int, entry_id: int, messages_left: int) -> None:  # noqa: B027
        """Notes that a consumer acknowledged a part of a batch; `messages_left` of its messages are not."""

    def passed(self) -> None:  # noqa: B027
        """Releases entries that mark-delete passed without an ack of a consumer (skip, expiry, quota)."""

    def expired(self, ranges: Iterable[EntryRange]) -> None:  # noqa: B027
        """Releases entries that were acknowledged without a consumer, also behind mark-delete (TTL-1)."""

    def limits_changed(self) -> None:  # noqa: B027
        """Applies changed limits of unacknowledged messages (SH-6)."""

    @property
    def is_blocked(self) -> bool:
        """True while nothing is sent because too many messages are unacknowledged (SH-7)."""
        return False

    @property
    def active_consumer(self) -> Consumer | None:
        """The consumer that gets everything; None when all get a part, or none is connected (FO-1)."""
        return None

    def released(self, ranges: Iterable[EntryRange]) -> None:  # noqa: B027
        """Sends delayed entries whose time has come (DEL-4)."""

    def acks_aborted(self, ranges: Sequence[EntryRange]) -> None:
        """Redelivers entries whose ack was aborted with its transaction; here with all that is unacknowledged
        (TX-12)."""
        self.rewind()
        self._wake()

    @property
    def delayed_count(self) -> int:
        """Entries of the backlog that wait for their time."""
        return 0

    @property
    def replay_count(self) -> int:
        """Entries that wait to be sent again."""
        return 0

    @abstractmethod
    def check(self) -> None:
        """Asserts the dispatcher's invariants between turns; see `invariants`."""

    # For the dispatchers

    def visible_through(self) -> Position:
        """Returns the last entry that may be sent (ML-5, TX-9)."""
        return self.subscription.topic.max_read_position

    def has_to_send(self, entries: int) -> bool:
        """Returns whether at least `entries` unacknowledged entries come from the read position on."""
        ranges = self.subscription.cursor.unacked(self.position, self.visible_through(), entries)
        return sum(end - first for _, first, end in ranges) >= entries

    def is_more_after(self, ranges: list[EntryRange], requested: int, through: Position) -> bool:
        """Returns whether more entries follow `ranges`, the next `requested` ones at most, all of which were sent. If
        not, moves the read position behind the acknowledged ones."""
        if sum(end - first for _, first, end in ranges) >= requested:
            return True
        self.position = Position(through.ledger_id, through.entry_id + 1)
        return False

    def send_part(self, consumer: Consumer, run: EntryRun, low: int, high: int, *, with_counts: bool) -> int:
        """Sends entries `low … high - 1` of a run; returns their number of messages, which cost as many permits
        (A9, C11, A10)."""
        starts, ends = run.starts[low:high], run.ends[low:high]
        counts = run.message_counts
        messages = high - low if counts is None else sum(counts[low:high])
        first = run.first_entry_id + low
        cursor = self.subscription.cursor
        redelivered = cursor.redelivered.get(run.ledger_id) if with_counts else None
        entry_ids = range(first, first + high - low)
        batch_sets = cursor.sets_to_send(run.ledger_id, entry_ids)
        epoch = consumer.epoch
        self.core.effects.append(
            SendMessages(
                consumer.session.session_id,
                consumer.consumer_id,
                run.ledger_id,
                first,
                self.subscription.topic.partition,
                run.buffer,
                starts,
                ends,
                values_of(redelivered, entry_ids, 0),
                values_of(batch_sets, entry_ids, None),
                epoch if not with_counts else None,
            )
        )
        self.count_sent(consumer, high - low, messages, ends[-1] - starts[0])
        self.count_chunks(consumer, run, range(low, high))
        return messages

    def count_chunks(self, consumer: Consumer, run: EntryRun, indexes: Iterable[int]) -> None:
        """Counts the chunks among entries of a run."""
        if self.subscription.topic.state.has_chunks:
            consumer.chunks_out += chunks_among(run.buffer, run.starts, run.ends, indexes)

    def count_sent(self, consumer: Consumer, entries: int, messages: int, size_bytes: int) -> None:
        """Counts sent messages: in permits, in the turn's limits, in statistics."""
        consumer.permits -= messages
        self.turn_messages -= messages
        self.turn_entries -= entries
        self.turn_bytes -= size_bytes
        consumer.entries_out += entries
        consumer.messages_out += messages
        consumer.bytes_out += size_bytes
        self.subscription.entries_out += entries
        self.subscription.messages_out += messages
        self.subscription.bytes_out += size_bytes
        self.core.dispatched_bytes += size_bytes
        consumer.last_sent_ms = self.core.wall_ms
        if not consumer.first_sent_ms:
            consumer.first_sent_ms = consumer.last_sent_ms


def values_of(table: dict[int, int] | None, entry_ids: Sequence[int], default: Default) -> list[int | Default] | None:
    """Looks entries up in a per-entry table; None when it holds none of them."""
    if not table:
        return None
    values = [table.get(entry_id, default) for entry_id in entry_ids]
    return values if any(value != default for value in values) else None


def fit(counts: Sequence[int] | None, ends: Sequence[int], low: int, high: int, messages: int, limit_at: int) -> int:
    """Returns how far entries `low … high - 1` may be sent: while messages are left, up to the offset `limit_at`; at
    least one.

    The entry that exceeds `messages` still goes: permits may drop below zero (SUB-4).
    """
    if high - low > messages:
        high = low + messages
    if counts is not None and sum(counts[low:high]) > messages:
        sums = list(accumulate(counts[low:high]))
        high = low + bisect_right(sums, messages - 1) + 1
    if ends[high - 1] > limit_at:
        high = max(low + 1, bisect_right(ends, limit_at, low, high))
    return high
