"""Consumers: their permits and unacknowledged messages (SUB-4, SH-6).

Unacknowledged entries are a set of ranges, without an object per entry. Only entries of more than one message have an
item of their own, because limits count messages (SH-6).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Final

from spark_pulsar.model.positions.entry_sets import EntrySet
from spark_pulsar.model.positions.ranges import RangeSet

from .meters import Meter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .session import Session
    from .subscription import Subscription

_BEYOND: Final = 1 << 62
"""Past every entry id."""


@dataclass(slots=True, eq=False, repr=False)
class Consumer:
    """One consumer of a subscription, held by a session."""

    session: Session
    subscription: Subscription
    consumer_id: int
    name: str
    priority: int
    epoch: int | None
    """Echoed in MESSAGE once the client sent one; Exclusive and Failover only (A19)."""
    properties: dict[str, str]
    connected_ms: int
    _: KW_ONLY
    read_compacted: bool = False
    """True when the consumer reads the compacted view (CMP-C4)."""
    auto_consume: bool = False
    """True when the consumer takes any schema (SC-8)."""
    hash_ranges: tuple[tuple[int, int], ...] = ()
    """Sticky hashes that the consumer names, from … to, both inclusive: on Key_Shared in mode STICKY (KS-7), on
    Exclusive to get only these (RD-6)."""
    ready: bool = False
    """True when SUCCESS went out; nothing may be sent before."""
    permits: int = 0
    """Messages that the consumer may still be sent; below zero after a batch larger than its permits (SUB-4, A9)."""
    permits_granted: int = 0
    """All permits ever granted: `permits` plus all messages ever sent."""
    pending: RangeSet | EntrySet = field(default_factory=RangeSet)
    """Entries sent and not acknowledged; kept on Shared and Key_Shared subscriptions only."""
    batch_messages: dict[int, dict[int, int]] = field(default_factory=dict)
    """Ledger id → entry id → unacknowledged messages, of pending entries with more than one."""
    unacked: int = 0
    """Unacknowledged messages of `pending`."""
    blocked: bool = False
    """True from the limit of unacknowledged messages on, until half of them are acknowledged (SH-6)."""
    entries_out: int = 0
    messages_out: int = 0
    bytes_out: int = 0
    chunks_out: int = 0
    messages_redelivered: int = 0
    messages_acked: int = 0
    last_sent_ms: int = 0
    last_acked_ms: int = 0
    last_flow_ms: int = 0
    first_sent_ms: int = 0
    first_flow_ms: int = 0
    meter: Meter = field(init=False)

    def __post_init__(self) -> None:
        self.meter = Meter(self.subscription.core.now_ms)

    @property
    def can_receive(self) -> bool:
        """True when the consumer may be sent messages now."""
        return self.permits > 0 and self.ready and not self.blocked and self.session.writable and self.session.open

    def raise_epoch(self, epoch: int | None) -> None:
        """Takes a new epoch of the client, which drops messages of an older one (A19)."""
        if epoch is not None:
            self.epoch = epoch if self.epoch is None else max(self.epoch, epoch)

    def hold(self, ledger_id: int, first: int, counts: Sequence[int] | None, entries: int, messages: int) -> None:
        """Holds entries that were sent until they are acknowledged (SUB-9, ST-2). `counts`: messages per entry, None =
        one each."""
        self.pending.add(ledger_id, first, first + entries)
        self.unacked += messages
        if counts is not None and messages != entries:
            batches = self.batch_messages.setdefault(ledger_id, {})
            batches.update(zip(range(first, first + entries), counts, strict=True))

    def release(self, ledger_id: int, first: int, end: int) -> int:
        """Releases entries, as far as the consumer holds them; returns their number."""
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

    def release_each(self, ledger_id: int, entry_ids: list[int]) -> int:
        """Releases rising entries, as far as the consumer holds them; returns their number."""
        pending = self.pending
        assert isinstance(pending, EntrySet), "ranges are released by `release`"
        entries = messages = pending.remove_each(ledger_id, entry_ids)
        batches = self.batch_messages.get(ledger_id)
        if batches and entries:
            messages += sum([batches.pop(entry_id) - 1 for entry_id in entry_ids if entry_id in batches])
            if not batches:
                del self.batch_messages[ledger_id]
        self.unacked -= messages
        return entries

    def release_through(self, ledger_id: int, entry_id: int) -> None:
        """Releases all entries at or before a position."""
        for held in self.pending.ledgers():
            if held < ledger_id:
                self.release(held, 0, _BEYOND)
        self.release(ledger_id, 0, entry_id + 1)

    def release_all(self) -> None:
        """Releases all entries."""
        self.pending.clear()
        self.batch_messages.clear()
        self.unacked = 0

    def keep_of_batch(self, ledger_id: int, entry_id: int, messages_left: int) -> None:
        """Notes that a part of a batch was acknowledged: `messages_left` of its messages are not."""
        batches = self.batch_messages.get(ledger_id)
        if batches is not None and entry_id in batches:
            left = max(1, min(messages_left, batches[entry_id]))
            self.unacked -= batches[entry_id] - left
            batches[entry_id] = left
