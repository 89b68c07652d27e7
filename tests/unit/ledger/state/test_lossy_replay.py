"""Transactions after a hole in the journal: what may be missing is told."""

from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state import transactions as txn
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.cursors.records import CursorCreated
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.state.ledgers import LedgerOpened
from spark_pulsar.ledger.state.lossy_replay import Loss, LossyReplay
from spark_pulsar.ledger.state.topics import TopicCreated
from tests.entry_runs import run_of


def state_with(*records: Record) -> DurableState:
    """Topics 1 and 2 with a ledger of two entries each, and a cursor on the second."""
    state = DurableState()
    for topic_id in (1, 2):
        apply(state, TopicCreated(topic_id, f"persistent://public/default/{topic_id}", 1, {}))
        apply(state, LedgerOpened(topic_id, topic_id, 1))
        apply(state, EntriesAppended(run_of(topic_id, 0, [b"a", b"b"])))
    apply(state, CursorCreated(1, 2, "s", 2, -1, 1, {}))
    for record in records:
        apply(state, record)
    return state


OPENED = txn.TransactionOpened(0, 0, 1, 60_000, "")


def test_topics_of_transactions_whose_end_may_be_lost_are_told() -> None:
    # covers TX-17, DUR-7
    state = state_with(OPENED, txn.TransactionEntries(0, 0, 1, 0, 1), txn.TransactionAcked(0, 0, 1, [(2, 0, 1)]))
    lossy = LossyReplay(state)
    lossy.lose_open_transactions()
    assert {loss.topic_id for loss in lossy.losses} == {1, 2}


def test_records_of_a_transaction_that_was_lost_are_told() -> None:
    # covers DUR-7
    lossy = LossyReplay(state_with())
    assert not lossy.apply(txn.TransactionAcked(0, 0, 1, [(2, 0, 1)]))
    assert Loss(2, -1, 0, 0) in lossy.losses
    assert not lossy.apply(txn.TransactionEnded(0, 0, 1, (), ()))
    assert len(lossy.strays) == 1


def test_acks_in_a_group_that_is_damaged_are_not_believed() -> None:
    # covers DUR-7
    lossy = LossyReplay(state_with(OPENED))
    assert lossy.believed(txn.TransactionAcked(0, 0, 1, [(2, 0, 1)])) is None
    assert lossy.believed(txn.TransactionAckedThrough(0, 0, 1, 2, 0)) is None
    ended = txn.TransactionEnded(0, 0, 1, (), ())
    assert lossy.believed(ended) is ended, "else it would be aborted later, whatever it was"
