"""The checkpoint: the state's rows, the extents of ledger files and the journal position, in one SQLite database.

Every transaction moves it from the state at one journal group to the state at a later one. Column values are plain;
`spark_pulsar.ledger.state.snapshot` gives them their meaning.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from spark_pulsar.ledger.records import RecordDamaged, Table
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.state.snapshot import LATER_TABLES, TABLES, Row, load_rows
from spark_pulsar.ledger.storage import StorageDamaged, StorageError
from spark_pulsar.storage.disk.disk import Disk
from spark_pulsar.storage.disk.layout import Layout
from spark_pulsar.storage.ledgers.files import Extent

from .inventory import (
    Inventory,
    InventoryDamaged,
    Total,
    counted,
    create_inventory,
    row_crc,
    store_inventory,
    stored_inventory,
)

_OWN_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS journal (one INTEGER PRIMARY KEY, last_group INTEGER, first_segment INTEGER, "
    "row_crc INTEGER)",
    "CREATE TABLE IF NOT EXISTS ledger_files (ledger_id INTEGER PRIMARY KEY, first_entry_id INTEGER, "
    "end_entry_id INTEGER, size_bytes INTEGER, sealed INTEGER, row_crc INTEGER)",
)
_BATCH: Final = 64

_EXTENTS: Final = "ledger_files"

_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_FORMAT)
"""SQLite's codes for a damaged database; all others (no space, no permission) are the disk's."""

_NO_SPACE: Final = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN)
"""SQLite's codes for a file beside the database that it cannot make."""

_NOT_WRITTEN: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR_WRITE)
"""Errors of a COMMIT after which the transaction is certainly not there: its last frame was not written."""


class CommitUncertain(OSError):
    """Error of a commit that failed while syncing, so that after a crash a reader may find the transaction or the state
    before it. Nothing may rely on either before the database is opened again."""


@dataclass(frozen=True, slots=True)
class JournalMark:
    """`last_group`: the group that the rows stand at. `first_segment`: the first that is still needed."""

    last_group: int
    first_segment: int


class Checkpoint:
    """The database of one data directory. Used by one thread at a time."""

    def __init__(
        self,
        layout: Layout,
        disk: Disk | None = None,
        path: Path | None = None,
        connect: Callable[[Path], sqlite3.Connection] | None = None,
    ) -> None:
        """`path`: of another database than the checkpoint itself. `connect`: another way to open it."""
        path = path or layout.checkpoint
        self._name = layout.relative(path)
        self._disk = disk or Disk()
        self._inventory: Inventory | None = None
        self.is_counted = False
        """True when the inventory was stored with the rows, rather than counted because an earlier version wrote them;
        known after `load` and `verify`."""
        self._has_all_tables = False
        """True when the tables are known to be there that an earlier version may not have made."""
        try:
            self._db = (connect or connected)(path)
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def _explained(self, error: sqlite3.Error) -> StorageError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        if code & 0xFF in _DAMAGE:
            return StorageDamaged(self._name, 0, f"SQLite says: {error}")
        return StorageError(f"{self._name}: SQLite says: {error}")

    def empty_log(self) -> bool:
        """Moves what stands in SQLite's write-ahead log into the database itself, and syncs that; returns whether it
        was done.

        After a crash the log may hold a transaction that is in the system's memory and was never synced. Only rows in
        the database after this may be trusted to survive power loss, and only then may segments be reused.
        """
        try:
            [(busy, _, _)] = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error:
            return False
        return int(busy) == 0

    def create(self) -> None:
        """Makes the tables and the mark of an empty journal. StorageError when the disk takes no more."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for sql in _OWN_TABLES:
                self._db.execute(sql)
            self._make_tables(TABLES)
            self._db.execute("INSERT OR IGNORE INTO journal VALUES (1, 0, 1, ?)", (row_crc((0, 1)),))
            create_inventory(self._db)
            self._disk.commit(self._db)
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def _make_tables(self, tables: Iterable[Table]) -> None:
        """Makes the tables that are not there."""
        for table in tables:
            key = ", ".join(column.split()[0] for column in table.columns[: table.keys])
            self._db.execute(
                f"CREATE TABLE IF NOT EXISTS {table.name} ({', '.join(table.columns)}, row_crc INTEGER, "
                f"PRIMARY KEY ({key})) WITHOUT ROWID"
            )

    def is_unmade(self) -> bool:
        """Returns whether there is not even a table: making the database was cut short."""
        try:
            [(tables,)] = self._db.execute("SELECT COUNT(*) FROM sqlite_master")
        except sqlite3.Error as error:
            raise self._explained(error) from error
        return not tables

    def load(self) -> tuple[DurableState, JournalMark, dict[int, Extent]]:
        """Reads the stored state, the mark and the extents (DUR-11). StorageDamaged when SQLite finds damage, a row
        fails its checksum or form, or the rows are not those that were stored."""
        totals: dict[str, Total] = {}
        try:
            tables = {table.name: list(self._rows(table.name, totals)) for table in TABLES}
            mark = self.mark()
            extents = {row[0]: Extent(row[1], row[2], row[3], bool(row[4])) for row in self._rows(_EXTENTS, totals)}
            self._compare(totals, mark)
            return load_rows(tables), mark, extents
        except sqlite3.Error as error:
            raise self._explained(error) from error
        except RecordDamaged as error:
            raise StorageDamaged(self._name, 0, str(error)) from error

    def _compare(self, totals: dict[str, Total], mark: JournalMark) -> None:
        """StorageDamaged when the rows that were found are not those of the inventory; they are the inventory when an
        earlier version wrote them."""
        stored = self._stored_inventory(mark)
        problem = "" if stored is None else stored.difference(totals)
        if problem:
            raise StorageDamaged(self._name, 0, problem)
        self.is_counted = stored is not None
        self._inventory = stored or Inventory(totals)

    def _stored_inventory(self, mark: JournalMark) -> Inventory | None:
        try:
            return stored_inventory(self._db, (mark.last_group, mark.first_segment))
        except InventoryDamaged as error:
            raise StorageDamaged(self._name, 0, str(error)) from error

    def inventory(self) -> Inventory:
        """Totals of the rows, as stored or, where an earlier version wrote them, counted now. StorageDamaged like
        `load`; what `load` and `verify` found is not read again."""
        if self._inventory is None:
            mark = self.mark()
            try:
                stored = self._stored_inventory(mark)
                names = (table.name for table in TABLES if table.name not in LATER_TABLES or self._has(table.name))
                self._inventory = stored or counted(self._db, (*names, _EXTENTS))
            except sqlite3.Error as error:
                raise self._explained(error) from error
        return self._inventory

    def mark(self) -> JournalMark:
        """Reads the mark. StorageDamaged like `load`."""
        try:
            marks = [row[1:] for row in self._db.execute("SELECT * FROM journal")]
        except sqlite3.Error as error:
            raise self._explained(error) from error
        if len(marks) != 1 or row_crc(marks[0][:-1]) != marks[0][-1]:
            raise StorageDamaged(self._name, 0, "the journal's position is missing or fails its checksum")
        return JournalMark(*marks[0][:-1])

    def verify(self) -> None:
        """Reads every row. StorageDamaged like `load`."""
        totals: dict[str, Total] = {}
        try:
            for table in (*(table.name for table in TABLES), _EXTENTS):
                for _ in self._rows(table, totals):
                    pass
            self._compare(totals, self.mark())
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def copy_to(self, target: sqlite3.Connection) -> None:
        """Makes another database the same as this one, all or nothing, durable on return. Raises sqlite3.Error."""
        self._disk.copy_database(self._db, target)

    def _rows(self, table: str, totals: dict[str, Total]) -> Iterator[tuple[Any, ...]]:
        """The rows of a table; when all are read, its total is noted. A table that is not there, because an earlier
        version made the checkpoint, has none."""
        count = crcs = 0
        if table in LATER_TABLES and not self._has(table):
            totals[table] = Total(0, 0)
            return
        for row in self._db.execute(f"SELECT * FROM {table}"):
            crc = row[-1]
            if row_crc(row[:-1]) != crc:
                raise StorageDamaged(self._name, 0, f"a row of table {table} fails its checksum: {str(row)[:200]}")
            count += 1
            crcs += crc
            yield row[:-1]
        totals[table] = Total(count, crcs)

    def _has(self, table: str) -> bool:
        [(count,)] = self._db.execute("SELECT COUNT(*) FROM sqlite_master WHERE name = ?", (table,))
        return bool(count)

    def commit(
        self,
        rows: Iterable[Row],
        mark: JournalMark,
        extents: dict[int, Extent | None],
        trimmed: Set[int] = frozenset(),
    ) -> None:
        """Stores rows and extents (None deletes) and the mark, all or nothing, durable on return. `trimmed`: ledgers
        whose files may be there although nothing needs them. OSError when it could not be done and everything is as it
        was; CommitUncertain when that is not known; StorageDamaged when the stored inventory is needed and damaged."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            inventory = self._write(rows, mark, extents, trimmed)
        except sqlite3.Error as error:
            self._roll_back()
            raise OSError(f"{self._name}: SQLite says: {error}") from error
        except BaseException:
            self._roll_back()
            raise
        try:
            self._disk.commit(self._db)
        except sqlite3.Error as error:
            self._roll_back()
            kind = OSError if getattr(error, "sqlite_errorcode", 0) in _NOT_WRITTEN else CommitUncertain
            raise kind(f"{self._name}: SQLite says: {error}") from error
        except OSError as error:
            self._roll_back()
            raise CommitUncertain(f"{self._name}: {error}") from error
        self._inventory, self.is_counted, self._has_all_tables = inventory, True, True

    def _write(
        self, rows: Iterable[Row], mark: JournalMark, extents: dict[int, Extent | None], trimmed: Set[int]
    ) -> Inventory:
        totals = dict(self.inventory().totals)
        if not self._has_all_tables:
            self._make_tables(table for table in TABLES if table.name in LATER_TABLES)
        files = (
            Row(_EXTENTS, (ledger_id,), None if extent is None else (*extent[:3], int(extent.sealed)))
            for ledger_id, extent in extents.items()
        )
        for table, sql, batch in _batches(chain(rows, files)):
            totals[table] = self._changed(table, totals.get(table, Total(0, 0)), batch)
            self._db.executemany(sql, batch.values())
        position = (mark.last_group, mark.first_segment)
        self._db.execute(
            "UPDATE journal SET last_group = ?, first_segment = ?, row_crc = ?", (*position, row_crc(position))
        )
        inventory = Inventory(totals, frozenset(trimmed))
        store_inventory(self._db, position, inventory, is_first=not self.is_counted)
        return inventory

    def _changed(self, table: str, total: Total, batch: dict[tuple[Any, ...], tuple[Any, ...]]) -> Total:
        """The total of a table after a batch took the place of the rows with its keys."""
        rows, crcs = total
        sql = _SQL[table].crc
        for key, values in batch.items():
            for (crc,) in self._db.execute(sql, key):
                rows -= 1
                crcs -= crc
            if values is not key:
                rows += 1
                crcs += values[-1]
        return Total(rows, crcs)

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # the error that led here says more
                self._db.execute("ROLLBACK")

    def integrity(self) -> list[str]:
        """Returns the damage that SQLite itself finds; empty when all is well. StorageError when a disk hinders it."""
        try:
            answers = [str(row[0]) for row in self._db.execute("PRAGMA integrity_check")]
        except sqlite3.DatabaseError as error:
            explained = self._explained(error)
            if isinstance(explained, StorageDamaged):
                return [str(error)]
            raise explained from error
        return [] if answers == ["ok"] else answers

    def close(self) -> None:
        """Closes the database."""
        self._db.close()


def connected(path: Path) -> sqlite3.Connection:
    """A database, to be read and written. Raises sqlite3.Error."""
    try:
        return _connect(path, "NORMAL")
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _NO_SPACE:
            raise
        # The index of the log is a file too, unless other processes are locked out: then it is in memory, and reading
        # needs no space at all.
        return _connect(path, "EXCLUSIVE")


def opened_database(path: Path) -> sqlite3.Connection:
    """Opens or makes a database, before anything is written to it. sqlite3.Error, also where SQLite followed a link to
    another file."""
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        [(_, _, name)] = database.execute("PRAGMA database_list")
        opened = Path(name)
        if opened.name != path.name or not opened.parent.samefile(path.parent):
            raise sqlite3.OperationalError(f"a link led to {opened}")
    except (sqlite3.Error, OSError):
        database.close()
        raise
    return database


def _connect(path: Path, locking: str) -> sqlite3.Connection:
    database = opened_database(path)
    try:
        database.execute(f"PRAGMA locking_mode={locking}")
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        for sync in ("fullfsync", "checkpoint_fullfsync"):  # of macOS, where fsync does not reach the disk
            database.execute(f"PRAGMA {sync}=1")
        database.execute("PRAGMA busy_timeout=2000")
        database.execute("PRAGMA schema_version").fetchone()  # reads, which takes what reading needs
    except sqlite3.Error:
        database.close()
        raise
    return database


class _Statements(NamedTuple):
    """Statements of a table: one stores a row, one deletes that of a key, one reads its checksum."""

    store: str
    delete: str
    crc: str


def _statements(table: str, keys: Sequence[str], columns: int) -> _Statements:
    of_key = " AND ".join(f"{column.split()[0]} = ?" for column in keys)
    return _Statements(
        f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * (columns + 1))})",
        f"DELETE FROM {table} WHERE {of_key}",
        f"SELECT row_crc FROM {table} WHERE {of_key}",
    )


_SQL: Final = {
    _EXTENTS: _statements(_EXTENTS, ["ledger_id"], 5),
    **{table.name: _statements(table.name, table.columns[: table.keys], len(table.columns)) for table in TABLES},
}


def _batches(rows: Iterable[Row]) -> Iterator[tuple[str, str, dict[tuple[Any, ...], tuple[Any, ...]]]]:
    """Consecutive rows that need the same statement, a few at a time: table, statement, and its values by key. To
    delete a row they are the key itself."""
    current = table = ""
    batch: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for row in rows:
        sql = _SQL[row.table]
        statement = sql.delete if row.values is None else sql.store
        if statement != current or len(batch) >= _BATCH:
            if batch:
                yield table, current, batch
            table, current, batch = row.table, statement, {}
        if row.values is None:
            batch.setdefault(row.key, row.key)  # twice the same key stays one object
        else:
            columns = row.key + row.values
            batch[row.key] = (*columns, row_crc(columns))
    if batch:
        yield table, current, batch
