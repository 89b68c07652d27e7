"""Would the simulation notice? Broken rules of transactions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from spark_pulsar.broker.entities.topic import Topic
from spark_pulsar.broker.topic_log import disk_full
from spark_pulsar.broker.transactions import coordinator, ending, entries, pending_acks
from spark_pulsar.broker.transactions.open_transactions import OpenTransactions
from spark_pulsar.ledger.state import transactions as transaction_records
from spark_pulsar.ledger.state.cursors.pending_acks import PendingAcks
from spark_pulsar.model.positions.ids import EARLIEST

from .mutations import Mutation, Mutations, breaks, find

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.ledger.state.transactions import Transaction

mutation = partial(Mutation, features="transactions")
VISIBLE = property(lambda self: self.last_add_confirmed)
MUTATIONS: Mutations = {
    "aborted_entries_are_seen": mutation(transaction_records, "withhold", lambda *_: None),
    "open_transactions_hold_nothing_up": mutation(Topic, "max_read_position", VISIBLE),
    "open_transactions_hold_nothing_up_after_a_restart": mutation(entries, "adopt", lambda *_: None),
    "a_commit_forgets_acks": mutation(transaction_records, "_acknowledge", lambda *_: None),
    "an_abort_frees_no_acks": mutation(pending_acks, "free", lambda *_: None, seed=107),
    "two_transactions_ack_one_entry": mutation(PendingAcks, "first_conflict", lambda *_: None),
    "what_is_acknowledged_is_acked_again": mutation(pending_acks, "_first_acknowledged", lambda *_: None),
    "no_time_is_over": mutation(OpenTransactions, "_end_due", lambda *_: None),
    "no_time_is_over_after_a_restart": mutation(coordinator, "begin", lambda *_: None),
    "an_end_is_told_before_it_is_on_disk": mutation(disk_full, "answer_when_durable", lambda _core, tell, _no: tell()),
}
breaks_in_transactions = partial(breaks, MUTATIONS, features="transactions")


@breaks_in_transactions(ending, "_topics", seed=55)
def an_end_skips_a_topic(real: Any, core: Core, transaction: Transaction) -> Any:
    topics = real(core, transaction)
    return topics[:-1] if len(topics) > 1 else topics


@breaks_in_transactions(transaction_records, "_acknowledge", seed=47)
def a_commit_forgets_parts_of_batches(_real: Any, cursor: Any, acks: Any) -> None:
    if acks.through != EARLIEST:
        cursor.advance_mark_delete(acks.through)
    cursor.acknowledge(acks.ranges)


@breaks_in_transactions(ending, "end_when_durable")
def an_end_is_seen_before_it_is_on_disk(
    _real: Any, core: Core, transaction: Transaction, *, is_committed: bool
) -> None:
    ending.end(core, transaction, is_committed=is_committed)()


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_of_transactions_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers TX-3, TX-6, TX-7, TX-10, TX-11, TX-12, TX-14, TX-15, TX-17
    find(MUTATIONS[name], monkeypatch)
