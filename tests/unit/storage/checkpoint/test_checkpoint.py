import sqlite3

import pytest

from spark_pulsar.ledger.state import transactions as txn
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.cursors.records import CursorCreated
from spark_pulsar.ledger.state.damage import TopicDamaged
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.state.ledgers import LedgerOpened
from spark_pulsar.ledger.state.snapshot import TABLES, Row, pop_dirty_rows
from spark_pulsar.ledger.state.topics import PartitionedTopicSet, TopicCreated
from spark_pulsar.ledger.storage import StorageDamaged, StorageError
from spark_pulsar.model.positions.ids import TransactionId
from spark_pulsar.storage.checkpoint.checkpoint import Checkpoint, CommitUncertain, JournalMark
from spark_pulsar.storage.disk.disk import Disk
from spark_pulsar.storage.disk.layout import Layout
from spark_pulsar.storage.ledgers.files import Extent
from tests.contract.histories import History, picture
from tests.entry_runs import run_of


def in_transaction(state: DurableState) -> None:
    """An open transaction with an entry and an ack of its own, and a marker of one that ended."""
    topic_id, cursor_id, ledger_id = state.next_topic_id, state.next_cursor_id, state.next_ledger_id
    apply(state, TopicCreated(topic_id, "persistent://public/default/in-transaction", 1, {}))
    apply(state, LedgerOpened(topic_id, ledger_id, 1))
    apply(state, EntriesAppended(run_of(ledger_id, 0, [b"a", b"b", b"c"])))
    apply(state, CursorCreated(cursor_id, topic_id, "s", ledger_id, -1, 1, {}))
    ended, opened = state.next_transaction_id(7), TransactionId(7, state.next_transaction_id(7).least + 1)
    for txn_id in (ended, opened):
        apply(state, txn.TransactionOpened(*txn_id, 1, 2, "role"))
    apply(state, txn.TransactionEnded(*ended, 1, (ledger_id,), (1,)))
    apply(state, txn.TransactionEntries(*opened, ledger_id, 2, 3))
    apply(state, txn.TransactionAcked(*opened, cursor_id, [(ledger_id, 0, 1)]))


def filled(layout: Layout) -> DurableState:
    history = History(DurableState(), 5)
    for _ in range(200):
        history.submit(4)
    apply(history.state, PartitionedTopicSet("one of each", 3, {}))
    in_transaction(history.state)
    apply(history.state, TopicDamaged(next(iter(history.state.topics)), -1, 0, 0, "journal/1:2", "text"))
    checkpoint = Checkpoint(layout)
    checkpoint.create()
    checkpoint.commit(pop_dirty_rows(history.state), JournalMark(17, 3), {4: Extent(0, 9, 1000, True)})
    checkpoint.close()
    return history.state


def test_what_was_committed_is_loaded(layout: Layout) -> None:
    state = filled(layout)
    checkpoint = Checkpoint(layout)
    checkpoint.create()
    loaded, mark, extents = checkpoint.load()
    assert picture(loaded) == picture(state)
    assert (mark, extents) == (JournalMark(17, 3), {4: Extent(0, 9, 1000, True)})
    assert checkpoint.integrity() == []
    checkpoint.commit([], JournalMark(18, 3), {4: None})
    checkpoint.close()
    checkpoint = Checkpoint(layout)
    assert checkpoint.load()[1:] == (JournalMark(18, 3), {})
    checkpoint.close()


def test_a_changed_value_fails_its_rows_checksum(layout: Layout) -> None:
    filled(layout)
    changes = [(table.name, table.columns[-1].split()[0]) for table in TABLES]
    changes += [("journal", "last_group"), ("ledger_files", "size_bytes")]
    for table, column in changes:
        db = sqlite3.connect(layout.checkpoint)
        [before] = db.execute(f"SELECT {column} FROM {table} LIMIT 1").fetchone()
        db.execute(f"UPDATE {table} SET {column} = 12345 WHERE {column} IS ?", (before,))
        db.commit()
        checkpoint = Checkpoint(layout)
        with pytest.raises(StorageDamaged, match="fails its checksum"):
            checkpoint.load()
        checkpoint.close()
        db.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = 12345", (before,))
        db.commit()
        db.close()


def test_no_database_at_all(layout: Layout) -> None:
    layout.checkpoint.write_bytes(b"this is no database" * 100)
    with pytest.raises(StorageDamaged, match="SQLite says"):
        Checkpoint(layout)


class FailingCommit(Disk):
    """Commits fail as often as there are errors."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    def commit(self, database: sqlite3.Connection) -> None:
        if self.errors:
            raise self.errors.pop()
        super().commit(database)


def sqlite_error(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("made up")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "is_certain"),
    [
        (sqlite_error(sqlite3.SQLITE_FULL), True),
        (sqlite_error(sqlite3.SQLITE_IOERR_WRITE), True),
        (sqlite_error(sqlite3.SQLITE_IOERR_FSYNC), False),
        (OSError(5, "made up"), False),
    ],
)
def test_a_commit_that_fails_says_whether_it_may_have_happened(
    layout: Layout, error: Exception, is_certain: bool
) -> None:
    Checkpoint(layout).create()
    disk = FailingCommit(error)
    checkpoint = Checkpoint(layout, disk)
    with pytest.raises(OSError) as raised:
        checkpoint.commit([], JournalMark(1, 1), {})
    assert isinstance(raised.value, CommitUncertain) is not is_certain
    # Nothing is left of it: the next one starts afresh.
    checkpoint.commit([], JournalMark(2, 1), {})
    assert checkpoint.load()[1] == JournalMark(2, 1)


def test_rows_that_cannot_be_stored_leave_no_transaction_open(layout: Layout) -> None:
    checkpoint = Checkpoint(layout)
    checkpoint.create()
    for value in (2**70, "\ud800"):
        with pytest.raises((OverflowError, UnicodeEncodeError)):
            checkpoint.commit([Row("counters", ("n",), (value,))], JournalMark(1, 1), {})
    checkpoint.commit([], JournalMark(2, 1), {})
    assert checkpoint.load()[1] == JournalMark(2, 1)


def test_a_database_that_cannot_be_opened_is_not_called_damaged(layout: Layout) -> None:
    layout.checkpoint.mkdir()
    with pytest.raises(StorageError, match="unable to open") as raised:
        Checkpoint(layout)
    assert not isinstance(raised.value, StorageDamaged)


def test_the_log_is_emptied_into_the_database(layout: Layout) -> None:
    checkpoint = Checkpoint(layout)
    checkpoint.create()
    checkpoint.commit([], JournalMark(5, 1), {})
    assert checkpoint.empty_log()
    assert layout.checkpoint.with_name(layout.checkpoint.name + "-wal").stat().st_size == 0
