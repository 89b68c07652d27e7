"""Transactions in the account: which are open, what they have stored and acked, and what their end does to all their
topics and subscriptions together (TX-6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .account import Place, Sent, Topic

TxnId = tuple[int, int]
"""(coordinator, number)."""


@dataclass(slots=True)
class Transaction:
    """An open transaction."""

    opened_ms: int
    timeout_ms: int
    partitions: list[str] = field(default_factory=list)
    """Topics that were added to it, as the client wrote them."""
    subscriptions: list[tuple[str, str]] = field(default_factory=list)

    @property
    def ends_ms(self) -> int:
        """Time at which it is aborted (TX-7)."""
        return self.opened_ms + self.timeout_ms

    def copy(self) -> Transaction:
        """Makes an independent copy."""
        return Transaction(self.opened_ms, self.timeout_ms, list(self.partitions), list(self.subscriptions))


@dataclass(slots=True)
class Pending:
    """Acks in one open transaction on one subscription."""

    whole: set[Place] = field(default_factory=set)
    parts: dict[Place, int] = field(default_factory=dict)
    """Batches acked in part: 1 = not acked."""
    through: Place | None = None
    """Everything up to it is acked, cumulatively."""

    def copy(self) -> Pending:
        """Makes an independent copy."""
        return Pending(set(self.whole), dict(self.parts), self.through)


class TransactionPostings:
    """The account's postings about transactions."""

    __slots__ = ()
    topics: dict[str, Topic]
    ledger_topics: dict[int, str]
    transactions: dict[TxnId, Transaction]
    ended: dict[TxnId, bool]

    def transaction_opened(self, txn_id: TxnId, opened_ms: int, timeout_ms: int) -> None:
        self.transactions[txn_id] = Transaction(opened_ms, timeout_ms)

    def partitions_added(self, txn_id: TxnId, names: Iterable[str]) -> None:
        known = self.transactions[txn_id].partitions
        known += [name for name in names if name not in known]

    def subscriptions_added(self, txn_id: TxnId, pairs: Iterable[tuple[str, str]]) -> None:
        known = self.transactions[txn_id].subscriptions
        known += [pair for pair in pairs if pair not in known]

    def stored_in(self, txn_id: TxnId, places: Iterable[Place]) -> None:
        for place in places:
            self.topics[self.ledger_topics[place[0]]].open.setdefault(txn_id, set()).add(place)

    def marker_stored(self, place: Place, sent: Sent) -> None:
        self.topics[sent.topic].add(place, sent)

    def acked_in(self, txn_id: TxnId, key: tuple[str, str], whole: Iterable[Place], parts: dict[Place, int]) -> None:
        """Acks are pending."""
        pending = self.topics[key[0]].subscriptions[key[1]].pending.setdefault(txn_id, Pending())
        pending.whole.update(whole)
        for place, bits in parts.items():
            pending.parts[place] = pending.parts.get(place, bits) & bits

    def acked_through_in(self, txn_id: TxnId, key: tuple[str, str], through: Place) -> None:
        """A cumulative ack is pending."""
        self.topics[key[0]].subscriptions[key[1]].pending.setdefault(txn_id, Pending()).through = through

    def transaction_ended(self, txn_id: TxnId, is_committed: bool, markers: Iterable[Place]) -> None:
        """All of it happens on all topics and subscriptions, or nothing."""
        del self.transactions[txn_id]
        self.ended[txn_id] = is_committed
        for topic_name, topic in self.topics.items():
            places = topic.open.pop(txn_id, set())
            for name, subscription in topic.subscriptions.items():
                pending = subscription.pending.pop(txn_id, None)
                if pending is not None and is_committed:
                    self._acknowledge(topic_name, name, pending)
            if not is_committed:
                self._withhold(topic_name, places)
        for place in markers:
            self._withhold(self.ledger_topics[place[0]], [place])

    def _acknowledge(self, topic_name: str, name: str, pending: Pending) -> None:
        if pending.through is not None:
            self.acked_through(topic_name, name, pending.through)
        self.acked(topic_name, name, pending.whole)
        for place, bits in pending.parts.items():
            self.acked_in_part(topic_name, name, place, bits)

    def _withhold(self, topic_name: str, places: Iterable[Place]) -> None:
        self.topics[topic_name].withheld.update(places)
        for name in self.topics[topic_name].subscriptions:
            self.acked(topic_name, name, places)

    # Postings of the account about subscriptions

    def acked(self, topic_name: str, name: str, places: Iterable[Place]) -> None:
        raise NotImplementedError

    def acked_through(self, topic_name: str, name: str, last: Place) -> None:
        raise NotImplementedError

    def acked_in_part(self, topic_name: str, name: str, place: Place, bits: int) -> None:
        raise NotImplementedError
