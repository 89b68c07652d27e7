"""Would the simulation notice? Broken rules of transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spark_pulsar.broker.entities.topic import Topic
from spark_pulsar.broker.topic_log import disk_full
from spark_pulsar.broker.transactions import coordinator, ending, entries, pending_acks
from spark_pulsar.broker.transactions.open_transactions import OpenTransactions
from spark_pulsar.ledger.state import transactions as transaction_records
from spark_pulsar.ledger.state.cursors.pending_acks import PendingAcks
from spark_pulsar.model.positions.ids import EARLIEST

from .profile import NEWEST
from .test_mutations import Patch, find_mutation

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.ledger.state.transactions import Transaction


def aborted_entries_are_seen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transaction_records, "withhold", lambda *_: None)


def open_transactions_hold_nothing_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Topic, "max_read_position", property(lambda self: self.last_add_confirmed))


def open_transactions_hold_nothing_up_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(entries, "adopt", lambda _core, _topic: None)


def an_end_skips_a_topic(patch: pytest.MonkeyPatch) -> None:
    real = ending._topics

    def topics(core: Core, transaction: Transaction) -> Any:
        found = real(core, transaction)
        return found[:-1] if len(found) > 1 else found

    patch.setattr(ending, "_topics", topics)


def a_commit_forgets_acks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transaction_records, "_acknowledge", lambda _cursor, _acks: None)


def a_commit_forgets_parts_of_batches(patch: pytest.MonkeyPatch) -> None:
    def acknowledge(cursor: Any, acks: Any) -> None:
        if acks.through != EARLIEST:
            cursor.advance_mark_delete(acks.through)
        cursor.acknowledge(acks.ranges)

    patch.setattr(transaction_records, "_acknowledge", acknowledge)


def an_abort_frees_no_acks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pending_acks, "free", lambda _subscription, _acks: None)


def two_transactions_ack_one_entry(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingAcks, "first_conflict", lambda _self, _whole, _sets: None)


def what_is_acknowledged_is_acked_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pending_acks, "_first_acknowledged", lambda _cursor, _whole, _sets: None)


def no_time_is_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OpenTransactions, "_end_due", lambda _self: None)


def no_time_is_over_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(coordinator, "begin", lambda _core: None)


def an_end_is_told_before_it_is_on_disk(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(disk_full, "answer_when_durable", lambda _core, tell, _refuse: tell())


def an_end_is_seen_before_it_is_on_disk(patch: pytest.MonkeyPatch) -> None:
    def end_when_durable(core: Core, transaction: Transaction, *, is_committed: bool) -> None:
        ending.end(core, transaction, is_committed=is_committed)()

    patch.setattr(ending, "end_when_durable", end_when_durable)


MUTATIONS = [
    aborted_entries_are_seen,
    open_transactions_hold_nothing_up,
    open_transactions_hold_nothing_up_after_a_restart,
    an_end_skips_a_topic,
    a_commit_forgets_acks,
    a_commit_forgets_parts_of_batches,
    an_abort_frees_no_acks,
    two_transactions_ack_one_entry,
    what_is_acknowledged_is_acked_again,
    no_time_is_over,
    no_time_is_over_after_a_restart,
    an_end_is_told_before_it_is_on_disk,
    an_end_is_seen_before_it_is_on_disk,
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.__name__)
def test_a_broken_rule_of_transactions_is_found(mutation: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers TX-3, TX-6, TX-7, TX-10, TX-11, TX-12, TX-14, TX-15, TX-17
    mutation(monkeypatch)
    without = NEWEST - {"transactions"}
    find_mutation(mutation, None, lambda profile: "transactions" in profile.features, without)
