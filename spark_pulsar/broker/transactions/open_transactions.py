"""Open transactions of the coordinators: their number by coordinator, role and connection, which is limited (TX-24,
TX-28), and their time-outs, of which a turn does some (TX-7). What they hold back from consumers is in `entries`
(TX-9)."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.turn.slices import PAUSE_MS
from spark_pulsar.model.errors import NotAllowed
from spark_pulsar.model.positions.ids import TransactionId

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session
    from spark_pulsar.broker.turn.turn import Timer
    from spark_pulsar.ledger.state.transactions import Transaction

TURN_US: Final = 2_000
"""Estimated microseconds of the time-outs of one turn; one that takes longer has a turn of its own."""
TIME_OUT_US: Final = 30
_TOPIC_US: Final = 60
_SUBSCRIPTION_US: Final = 20
_RANGES_A_US: Final = 1
_FEW: Final = 1_024


class OpenTransactions:
    """Counts of open transactions, and the queue of their time-outs."""

    def __init__(self, core: Core, time_out: Callable[[Transaction], None]) -> None:
        """`time_out` aborts a transaction that no client has ended."""
        self._core = core
        self._time_out = time_out
        self._sessions: dict[TransactionId, Session] = {}
        """Connections over which transactions were opened."""
        self._by_coordinator: Counter[int] = Counter()
        self._by_role: Counter[str] = Counter()
        self._queue: list[tuple[int, TransactionId]] = []
        """Heap of time-outs; those of transactions that have ended are passed over."""
        self._clear_at = _FEW
        self._timer: Timer | None = None

    def count_of(self, most: int) -> int:
        """Returns the number of open transactions of a coordinator."""
        return self._by_coordinator[most]

    def check_room(self, most: int, session: Session) -> None:
        """Refuses, with NotAllowed, one more transaction of a coordinator, role or connection that has as many as it
        may."""
        config, role = self._core.config, session.principal.client_role
        for limit, count, holder, key in (
            (
                config.max_active_transactions,
                self._by_coordinator[most],
                f"Transaction coordinator {most}",
                "maxActiveTransactionsPerCoordinator",
            ),
            (
                config.max_active_transactions_per_role if role else 0,
                self._by_role[role or ""],
                f"Role {role}",
                "maxActiveTransactionsPerRole",
            ),
            (
                config.max_active_transactions_per_connection,
                session.open_transactions,
                "The connection",
                "maxActiveTransactionsPerConnection",
            ),
        ):
            if limit and count >= limit:
                raise NotAllowed(f"{holder} has {count} open transactions ({key}): end some first")

    def add(self, transaction: Transaction, session: Session | None) -> None:
        """Counts a transaction, opened over a connection or before the broker was started, and awaits its time-out."""
        txn_id = transaction.txn_id
        self._by_coordinator[txn_id.most] += 1
        self._by_role[transaction.owner] += 1
        if session is not None:
            session.open_transactions += 1
            self._sessions[txn_id] = session
        if len(self._queue) >= self._clear_at:
            transactions = self._core.state.transactions
            self._queue = [due for due in self._queue if due[1] in transactions]
            heapq.heapify(self._queue)
            self._clear_at = max(_FEW, 2 * len(self._queue))
        ends_ms = self._core.now_ms - self._core.age_ms(transaction.opened_ms) + transaction.timeout_ms
        heapq.heappush(self._queue, (ends_ms, txn_id))
        if self._queue[0][1] == txn_id:
            self._set_timer(ends_ms)

    def remove(self, transaction: Transaction) -> None:
        """Takes a transaction that ends out of the counts."""
        txn_id = transaction.txn_id
        self._by_coordinator[txn_id.most] -= 1
        self._by_role[transaction.owner] -= 1
        if not self._by_role[transaction.owner]:
            del self._by_role[transaction.owner]
        session = self._sessions.pop(txn_id, None)
        if session is not None:
            session.open_transactions -= 1

    def _set_timer(self, when_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._core.at(when_ms, self._end_due)

    def _end_due(self) -> None:
        """Ends transactions whose time-out is over, as many as a turn does, and awaits the next ones."""
        core, queue = self._core, self._queue
        spent_us = 0
        while queue and spent_us < TURN_US:
            transaction = core.state.transactions.get(queue[0][1])
            if transaction is not None:
                if queue[0][0] > core.now_ms:
                    break
                spent_us += _cost_us(core, transaction)
                self._time_out(transaction)
            heapq.heappop(queue)
        self._timer = None
        if queue:
            self._set_timer(max(queue[0][0], core.now_ms + PAUSE_MS))


def _cost_us(core: Core, transaction: Transaction) -> int:
    """Estimates the microseconds that the end of a transaction takes."""
    topics = len(transaction.partitions) + len(transaction.entries)
    acks = transaction.acks.values()
    pieces = sum(cursor_acks.ranges.range_count() + len(cursor_acks.batch_sets) for cursor_acks in acks)
    pieces += sum(ranges.range_count() for ranges in transaction.entries.values())
    names = (core.state.topics[topic_id] for topic_id in transaction.entries)
    subscriptions = sum(len(topic.cursors) for topic in names) + len(acks)
    return TIME_OUT_US + topics * _TOPIC_US + subscriptions * _SUBSCRIPTION_US + pieces // _RANGES_A_US
