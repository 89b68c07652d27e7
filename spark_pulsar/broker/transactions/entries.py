"""Entries of transactions: stored and receipted at once, seen by consumers after the commit, by none after an abort
(TX-8 ... TX-11). They are ordinary entries of batches, chunks or any form (TX-18), trimmed and expired like others
(TX-20), of an open transaction too (TX-26)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.entities.topic import OpenTransactions
from spark_pulsar.broker.topic_log import rollover
from spark_pulsar.ledger.entries import EntryRun
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.transactions import TransactionEntries
from spark_pulsar.model.errors import NotAllowed
from spark_pulsar.model.positions.ids import EARLIEST, Position, TransactionId
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic

COMMIT_MARKER: Final = 21
ABORT_MARKER: Final = 22
"""`marker_type` of the entries that a transaction ends with on each topic, as Apache Pulsar numbers them."""

_MARKERS_PRODUCER: Final = "pulsar.txn.marker"


def check_open(core: Core, topic: Topic, txn_id: TransactionId) -> None:
    """Refuses, with NotAllowed, a SEND in a transaction that nothing will end any more (TX-8, TX-1)."""
    if not core.config.transactions_enabled:
        raise NotAllowed("Transactions are not enabled.")
    if topic.non_persistent is not None:
        raise NotAllowed(f"{topic.name} is non-persistent: it stores nothing, and takes no messages in transactions")
    if txn_id not in core.state.transactions:
        raise NotAllowed(
            f"Transaction {txn_id} is not open: it was ended, or aborted at its time-out. Begin another one"
        )


def note(core: Core, topic: Topic, txn_id: TransactionId, run: EntryRun) -> None:
    """Notes a run, appended just before, as entries of an open transaction: consumers do not get past them."""
    core.append(TransactionEntries(*txn_id, run.ledger_id, run.first_entry_id, run.end_entry_id))
    if topic.transactions is None:
        topic.transactions = OpenTransactions()
    topic.transactions.firsts.setdefault(txn_id, Position(run.ledger_id, run.first_entry_id))


def adopt(core: Core, topic: Topic) -> None:
    """Takes over the open transactions of a topic that is taken into use."""
    if topic.state.open_transactions:
        topic.transactions = OpenTransactions()
        opened = topic.state.open_transactions.items()
        firsts = ((Position(*(ranges.first() or EARLIEST)), txn_id) for txn_id, ranges in opened)
        topic.transactions.firsts.update({txn_id: first for first, txn_id in sorted(firsts)})


def append_marker(core: Core, topic: Topic, txn_id: TransactionId, *, is_committed: bool) -> EntryRun | None:
    """Appends the entry that ends a transaction on a topic (TX-10); none on a topic that takes no more entries."""
    if topic.state.is_terminated or topic.state.damage is not None:
        return None
    info = topic.ledger.open_ledger
    if info is None or topic.must_roll(core):
        info = rollover.open_ledger(core, topic)
    metadata = MessageMetadata(
        producer_name=_MARKERS_PRODUCER,
        sequence_id=0,
        publish_time=core.wall_ms,
        marker_type=COMMIT_MARKER if is_committed else ABORT_MARKER,
        txnid_least_bits=txn_id.least,
        txnid_most_bits=txn_id.most,
    )
    entry = build_entry(metadata, b"")
    run = EntryRun(info.ledger_id, info.entries, entry, (0,), (len(entry),))
    core.append(EntriesAppended(run))
    if topic.subscriptions:
        core.cache.insert(run)
    core.monitors.appended(topic, run)  # the marker lies in the backlog of subscriptions that are behind (BQ-1)
    return run


def ended(core: Core, topic: Topic, txn_id: TransactionId, marker: EntryRun | None, *, is_committed: bool) -> None:
    """Makes the entries that a transaction held back visible to consumers, once its end is on disk."""
    transactions = topic.transactions
    if transactions is None:
        transactions = topic.transactions = OpenTransactions()
    transactions.firsts.pop(txn_id, None)
    if is_committed:
        transactions.committed += 1
    else:
        transactions.aborted += 1
    if marker is not None:
        topic.confirm_entries(core, marker)
    topic.wake_subscriptions(core)
