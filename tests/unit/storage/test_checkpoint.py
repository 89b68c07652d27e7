from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from spark_pulsar.ledger.snapshot import TABLES, take_dirty_rows
from spark_pulsar.ledger.state import DurableState
from spark_pulsar.ledger.storage import StorageDamaged
from spark_pulsar.storage.checkpoint import Checkpoint, JournalMark
from spark_pulsar.storage.layout import Layout
from spark_pulsar.storage.ledger_files import Extent
from tests.contract.histories import History, picture


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path)
    made.create()
    return made


def filled(layout: Layout) -> DurableState:
    history = History(DurableState(), 5)
    for _ in range(60):
        history.submit(4)
    checkpoint = Checkpoint(layout)
    checkpoint.create()
    checkpoint.commit(take_dirty_rows(history.state), JournalMark(17, 3), {4: Extent(0, 9, 1000, True)})
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
