"""The inventory of a checkpoint: the rows of each table, counted and summed, and the trimmed ledgers whose files may
still be there (DUR-11).

Each row has a checksum, but a row that is gone has none that could fail: a flipped bit in a page of SQLite's may hide
one without a word. The inventory is stored in the transaction that changes the rows, out of its value before and the
checksums of the rows that go and come, so that a checkpoint reads no others. It names the journal position that it was
made at: one behind the checkpoint's own was left by a version that knew no inventory and wrote since then.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS inventory (one INTEGER PRIMARY KEY, last_group INTEGER, first_segment INTEGER, "
    "tables TEXT, trimmed TEXT, row_crc INTEGER)"
)
_HAS_INVENTORY: Final = "PRAGMA user_version = 1"
"""A mark in the database's header, so that an inventory that is gone is noticed as well."""

Position = tuple[int, int]
"""The journal's last group and first segment."""


class Total(NamedTuple):
    """Number of rows of a table, and the sum of their checksums, which no order of them changes."""

    rows: int
    sum: int


class Inventory(NamedTuple):
    """Totals by table, and ids of the trimmed ledgers whose files may still be there."""

    totals: dict[str, Total]
    trimmed: frozenset[int] = frozenset()

    def difference(self, totals: Mapping[str, Total]) -> str:
        """Says in which table other rows were found than are listed here; empty when in none."""
        for table, total in totals.items():
            listed = self.totals.get(table, Total(0, 0))
            if listed.rows != total.rows:
                return f"table {table} has {total.rows} rows, but {listed.rows} were stored"
            if listed != total:
                return f"table {table} has other rows than were stored"
        return ""

    def is_like(self, other: Inventory) -> bool:
        """Returns whether both list the same rows."""
        return not self.difference(other.totals) and not other.difference(self.totals)


class InventoryDamaged(Exception):
    """The stored inventory is missing, fails its checksum or form, or is ahead of the checkpoint."""


def row_crc(values: tuple[Any, ...]) -> int:
    """A checksum of a row's values as they come back from SQLite."""
    return zlib.crc32(repr(values).encode())


def create_inventory(database: sqlite3.Connection) -> None:
    """Makes the inventory of tables without rows, in the transaction that makes those, unless there is one."""
    database.execute(_TABLE)
    database.execute("INSERT OR IGNORE INTO inventory VALUES (1, ?, ?, ?, ?, ?)", _row((0, 1), Inventory({})))
    database.execute(_HAS_INVENTORY)


def store_inventory(database: sqlite3.Connection, position: Position, inventory: Inventory, *, is_first: bool) -> None:
    """Replaces the stored inventory, in the transaction that changes the rows. `is_first`: there may be none yet."""
    if is_first:
        database.execute(_TABLE)
        database.execute(_HAS_INVENTORY)
    database.execute("INSERT OR REPLACE INTO inventory VALUES (1, ?, ?, ?, ?, ?)", _row(position, inventory))


def _row(position: Position, inventory: Inventory) -> tuple[Any, ...]:
    values = (*position, json.dumps(inventory.totals, sort_keys=True), json.dumps(sorted(inventory.trimmed)))
    return (*values, row_crc(values))


def stored_inventory(database: sqlite3.Connection, position: Position) -> Inventory | None:
    """Reads the inventory of the checkpoint that stands at a position; None when an earlier version wrote it last.
    InventoryDamaged, or sqlite3.Error."""
    [(has_inventory,)] = database.execute("PRAGMA user_version")
    [(tables,)] = database.execute("SELECT COUNT(*) FROM sqlite_master WHERE name = 'inventory'")
    rows = list(database.execute("SELECT * FROM inventory")) if tables else []
    if not rows and not has_inventory:
        return None
    if len(rows) != 1 or row_crc(rows[0][1:-1]) != rows[0][-1]:
        raise InventoryDamaged("the inventory of its rows is missing or fails its checksum")
    _, last_group, first_segment, totals, trimmed, _ = rows[0]
    if (last_group, first_segment) != position:
        if last_group > position[0]:
            text = f"the inventory of its rows stands at group {last_group}, the rows at {position[0]}"
            raise InventoryDamaged(text)
        return None
    known = {table: Total(*total) for table, total in json.loads(totals).items()}
    return Inventory(known, frozenset(json.loads(trimmed)))


def counted(database: sqlite3.Connection, tables: Iterable[str]) -> Inventory:
    """Counts and sums the rows of the tables. sqlite3.Error when SQLite finds damage."""
    totals: dict[str, Total] = {}
    for table in tables:
        [row] = database.execute(f"SELECT COUNT(*), COALESCE(SUM(row_crc), 0) FROM {table}")
        totals[table] = Total(*row)
    return Inventory(totals)
