"""Consumers: permits, and what one of them holds unacked (sections 7 and 9 of the rules).

No object per entry: what was delivered and is not acked is a set of ranges. Only entries of more than one message have
an item of their own, their messages still unacked, because unacked limits count messages (SH-6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.model.entry_sets import EntrySet
from spark_pulsar.model.ranges import RangeSet

from .meters import Meter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .session import Session
    from .subscription import Subscription

_BEYOND: Final = 1 << 62
"""Past every entry id."""


class Consumer:
    """One consumer of a subscription, held by a session."""

    __slots__ = (
        "auto_consume",
        "batch_messages",
        "blocked",
        "bytes_out",
        "chunks_out",
        "connected_ms",
        "consumer_id",
        "entries_out",
        "epoch",
        "hash_ranges",
        "last_acked_ms",
        "last_flow_ms",
        "last_sent_ms",
        "messages_acked",
        "messages_out",
        "messages_redelivered",
        "meter",
        "name",
        "pending",
        "permits",
        "permits_granted",
        "priority",
        "properties",
        "read_compacted",
        "ready",
        "session",
        "subscription",
        "unacked",
    )

    def __init__(
        self,
        session: Session,
        subscription: Subscription,
        consumer_id: int,
        name: str,
        priority: int,
        epoch: int | None,
        properties: dict[str, str],
        connected_ms: int,
        *,
        read_compacted: bool = False,
        hash_ranges: tuple[tuple[int, int], ...] = (),
    ) -> None:
        self.session = session
        self.subscription = subscription
        self.consumer_id = consumer_id
        self.name = name
        self.priority = priority
        self.epoch = epoch
        """Echoed in MESSAGE once the client sent one; Exclusive and Failover only (wire-protocol 5.8)."""
        self.properties = properties
        self.connected_ms = connected_ms
        self.read_compacted = read_compacted
        """Whether it wants the compacted view (CMP-C4)."""
        self.auto_consume = False
        """Whether it takes whatever schema a message has (SC-8)."""
        self.hash_ranges = hash_ranges
        """Slots that it wants, from … to, both inclusive; Key_Shared in mode STICKY only (KS-7)."""
        self.ready = False
        """Whether SUCCESS went out; nothing may be sent before."""
        self.permits = 0
        """Messages it may still get; below zero after a batch that was larger than what was left (SUB-4)."""
        self.permits_granted = 0
        """All permits ever granted: `permits` plus all messages ever sent."""
        self.pending: RangeSet | EntrySet = RangeSet()
        """Entries sent and not acked; kept by Shared and Key_Shared subscriptions only."""
        self.batch_messages: dict[int, dict[int, int]] = {}
        """Ledger id → entry id → messages not acked, of pending entries with more than one."""
        self.unacked = 0
        """Messages in `pending` that are not acked."""
        self.blocked = False
        """Whether it reached the unacked limit and is parked until half of it is acked (SH-6)."""
        self.entries_out = 0
        self.messages_out = 0
        self.bytes_out = 0
        self.chunks_out = 0
        self.messages_redelivered = 0
        self.messages_acked = 0
        self.last_sent_ms = 0
        self.last_acked_ms = 0
        self.last_flow_ms = 0
        self.meter = Meter(connected_ms)

    @property
    def can_receive(self) -> bool:
        """Whether something may be sent to it now."""
        return self.permits > 0 and self.ready and not self.blocked and self.session.writable and self.session.open

    def raise_epoch(self, epoch: int | None) -> None:
        """The client has a new epoch, if it is one, and drops what it gets with an older one (wire-protocol 5.8)."""
        if epoch is not None:
            self.epoch = epoch if self.epoch is None else max(self.epoch, epoch)

    def hold(self, ledger_id: int, first: int, counts: Sequence[int] | None, entries: int, messages: int) -> None:
        """Entries were sent: hold them until they are acked. `counts` are messages per entry, None = one each."""
        self.pending.add(ledger_id, first, first + entries)
        self.unacked += messages
        if counts is not None and messages != entries:
            batches = self.batch_messages.setdefault(ledger_id, {})
            batches.update(zip(range(first, first + entries), counts, strict=True))

    def let_go(self, ledger_id: int, first: int, end: int) -> int:
        """Hold these entries no more, as far as it did; returns how many it held."""
        entries = self.pending.remove(ledger_id, first, end)
        if not entries:
            return 0
        messages = entries
        batches = self.batch_messages.get(ledger_id)
        if batches:
            for entry_id in range(first, end) if end - first < len(batches) else list(batches):
                if first <= entry_id < end and entry_id in batches:
                    messages += batches.pop(entry_id) - 1
            if not batches:
                del self.batch_messages[ledger_id]
        self.unacked -= messages
        return entries

    def let_go_each(self, ledger_id: int, entry_ids: list[int]) -> int:
        """Hold these entries, which rise, no more, as far as it did; returns how many it held."""
        pending = self.pending
        assert isinstance(pending, EntrySet), "ranges are let go as such"
        entries = messages = pending.remove_each(ledger_id, entry_ids)
        batches = self.batch_messages.get(ledger_id)
        if batches and entries:
            messages += sum([batches.pop(entry_id) - 1 for entry_id in entry_ids if entry_id in batches])
            if not batches:
                del self.batch_messages[ledger_id]
        self.unacked -= messages
        return entries

    def let_go_through(self, ledger_id: int, entry_id: int) -> None:
        """Hold nothing any more at or before a position."""
        for held in self.pending.ledgers():
            if held < ledger_id:
                self.let_go(held, 0, _BEYOND)
        self.let_go(ledger_id, 0, entry_id + 1)

    def let_go_of_all(self) -> None:
        """Hold nothing."""
        self.pending.clear()
        self.batch_messages.clear()
        self.unacked = 0

    def keep_of_batch(self, ledger_id: int, entry_id: int, messages_left: int) -> None:
        """A part of a batch was acked: so many of its messages are still held, if it holds any."""
        batches = self.batch_messages.get(ledger_id)
        if batches is not None and entry_id in batches:
            left = max(1, min(messages_left, batches[entry_id]))
            self.unacked -= batches[entry_id] - left
            batches[entry_id] = left
