"""The compacted view of a topic for its active consumer (CMP-C4): up to the horizon the entries of the compacted
ledger, behind it the topic as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.broker.message_lifetime.ttl import first_fresh
from spark_pulsar.ledger.entries import EntryRun
from spark_pulsar.ledger.state.compaction import SOURCE
from spark_pulsar.model.positions.ids import Position

from .base import fit
from .entry_reading import EntryReader
from .exclusive import ExclusiveDispatcher

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.ledger.state.compaction import Compaction


class CompactedReader(EntryReader):
    """Reads the entries of one compacted ledger."""

    __slots__ = ("end",)

    end: int
    """One past the ledger's last entry."""

    def _read_ahead(self, run: EntryRun) -> None:
        if run.end_entry_id < self.end:
            self._order(Position(run.ledger_id, run.end_entry_id), keep=True)


class CompactedDispatcher(ExclusiveDispatcher):
    """Dispatcher of the compacted view; `position` is one of the topic, also while the compacted ledger is read."""

    def __init__(self, core: Core, subscription: Subscription) -> None:
        self._ledger_id = -1
        """Compacted ledger that `_next` belongs to."""
        self._next = 0
        """Next entry of the compacted ledger; those that lie before `position` are passed over."""
        super().__init__(core, subscription)
        self._compacted_reader = CompactedReader(core, subscription)

    def rewind(self) -> None:
        super().rewind()
        self._ledger_id = -1

    def detach(self, consumer: Consumer) -> None:
        super().detach(consumer)
        self._compacted_reader.reset()

    def dispatch(self) -> bool:
        compaction = self.subscription.topic.state.compaction
        if compaction is None or compaction.ledger is None or self.position > compaction.horizon:
            return super().dispatch()
        consumer = self.receiver()
        if consumer is None:
            return False
        if not consumer.read_compacted:
            return super().dispatch()
        if not self._dispatch_compacted(consumer, compaction):
            return False
        if self._next < compaction.ledger.entries:
            return True
        self.position = Position(compaction.horizon.ledger_id, compaction.horizon.entry_id + 1)
        return super().dispatch()

    def has_work(self) -> bool:
        compaction = self.subscription.topic.state.compaction
        is_compacted = compaction is not None and self.position <= compaction.horizon  # of the topic all may be gone
        return super().has_work() or (is_compacted and self.receiver() is not None)

    def _dispatch_compacted(self, consumer: Consumer, compaction: Compaction) -> bool:
        """Sends from the compacted ledger. False when something must come first: a read, or permits."""
        info = compaction.ledger
        assert info is not None, "the caller has checked"
        reader = self._compacted_reader
        if self._ledger_id != info.ledger_id:
            reader.reset()
            reader.end = info.entries
            self._ledger_id, self._next = info.ledger_id, compaction.entry_before(self.position)
        budget = min(self.core.config.max_dispatch_bytes, self.turn_bytes)
        lost = [damage for damage in self.subscription.topic.state.damages if damage.accepted]
        while self._next < info.entries and budget > 0 and self.turn_entries > 0:
            if lost and any(damage.holds(info.ledger_id, self._next) for damage in lost):
                self._next += 1
                continue
            run = reader.find(info.ledger_id, self._next)
            if run is None:
                return False
            part, following = self._stretch(run)
            self._next = following
            if part is None:
                continue
            # Nothing is acked here: expiry does that with those that the topic itself still has.
            low, end = first_fresh(self.core, self.subscription, part, 0, len(part.starts))
            if low == end:
                continue
            end = min(end, low + self.turn_entries)
            messages = min(consumer.permits, self.turn_messages)
            high = fit(part.message_counts, part.ends, low, end, messages, part.starts[low] + budget)
            self.send_wanted(consumer, part, low, high)
            budget -= part.ends[high - 1] - part.starts[low]
            self._next -= len(part.starts) - high
            self.position = Position(part.ledger_id, part.first_entry_id + high)
            if consumer.permits <= 0 or self.turn_messages <= 0:
                return False
        return True

    def _stretch(self, run: EntryRun) -> tuple[EntryRun | None, int]:
        """Reads the next compacted entries that were neighbours in the topic, as a run of it; also returns the index of
        the compacted entry after them. No run when the next one is behind the read position or acknowledged."""
        cursor, index = self.subscription.cursor, self._next - run.first_entry_id
        source = Position(*SOURCE.unpack_from(run.buffer, run.starts[index]))
        if source < self.position or cursor.is_acked(*source):
            return None, self._next + 1
        end = index + 1
        while end < len(run.starts):
            following = Position(*SOURCE.unpack_from(run.buffer, run.starts[end]))
            if following != (source.ledger_id, source.entry_id + end - index) or cursor.is_acked(*following):
                break
            end += 1
        counts = run.message_counts
        part = EntryRun(
            source.ledger_id,
            source.entry_id,
            run.buffer,
            [start + SOURCE.size for start in run.starts[index:end]],
            run.ends[index:end],
            None if counts is None else counts[index:end],
        )
        return part, run.first_entry_id + end
