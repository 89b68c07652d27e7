"""The checkpoint's copy: a second database with the same rows, so that damage of one loses nothing.

The journal has only what came after the checkpoint, and ledger files do not say whose they are: a checkpoint that
cannot be read would take topics, subscriptions and policies with it. So every transaction is done twice, first in the
checkpoint, then in the copy, and only then are segments recycled and files of trimmed ledgers removed. At any moment
each of the two, together with the journal behind it, says everything; the copy costs one more small commit a
checkpoint, by the thread that settles.

Opening compares where they stand and how many rows they have. A copy that is behind (a crash came between), missing or
damaged is made again from the checkpoint, whose rows have just been verified. A copy that is ahead proves that the
checkpoint lost a transaction that was durable, one with more rows at the same group that it lost rows: the broker does
not open, as with any other damage of it, and `check --repair` puts the copy in its place. A copy that cannot be written
is removed rather than left behind, holds up nothing, and is made again by the next checkpoint. Were one left behind
nevertheless, the journal would begin after it, which is found as a hole is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Set
from contextlib import closing, suppress

from spark_pulsar.ledger.state.snapshot import Row
from spark_pulsar.ledger.storage import StorageDamaged, StorageError
from spark_pulsar.storage.disk.disk import Disk
from spark_pulsar.storage.disk.layout import Layout, database_files
from spark_pulsar.storage.ledgers.files import Extent

from .checkpoint import Checkpoint, JournalMark, opened_database
from .inventory import Inventory


class CheckpointCopy:
    """The copy of an open checkpoint. Used by one thread at a time, the one that uses the checkpoint."""

    def __init__(self, layout: Layout, disk: Disk, checkpoint: Checkpoint, mark: JournalMark) -> None:
        """`mark` is where the checkpoint stands. StorageDamaged when the copy is ahead of it, or has more rows."""
        self._layout = layout
        self._disk = disk
        self._checkpoint = checkpoint
        self._copy: Checkpoint | None = None
        self._open(mark)

    def _open(self, mark: JournalMark) -> None:
        standing = self._standing()
        if standing is not None:
            refuse_lost_rows(self._layout, (mark, self._checkpoint.inventory()), standing)
        if standing is None or standing[0] != mark or not standing[1].is_like(self._checkpoint.inventory()):
            with suppress(OSError):  # the next checkpoint tries again, and reports
                self._make()

    def _standing(self) -> Standing | None:
        """Reads the copy's mark and inventory; None when there is no copy that can be read."""
        if not self._layout.checkpoint_copy.exists():
            return None
        try:
            self._copy = Checkpoint(self._layout, self._disk, self._layout.checkpoint_copy)
            return self._copy.mark(), self._copy.inventory()
        except StorageError:
            return None

    def commit(
        self,
        rows: Iterable[Row],
        mark: JournalMark,
        extents: dict[int, Extent | None],
        trimmed: Set[int],
        on_trouble: Callable[[Exception], None],
    ) -> None:
        """Does what the checkpoint has done, which is what counts. `on_trouble` receives the reason why there is no
        copy if there is none afterwards; the next one makes it anew."""
        try:
            if self._copy is None:
                self._make()
            else:
                self._copy.commit(rows, mark, extents, trimmed)
        except (OSError, StorageError) as error:
            self._drop()
            on_trouble(error)

    def verify(self) -> None:
        """Makes the copy anew if a row of it is missing or fails its checksum. What only stands there may have been
        damaged since; a start is the time to check, in the background."""
        if self._copy is not None:
            try:
                self._copy.verify()
            except StorageError:
                with suppress(OSError):
                    self._make()

    def _make(self) -> None:
        """Copies the whole checkpoint, in one transaction."""
        self._drop()
        try:
            self._disk.refuse_replaced(self._layout.root)
            with closing(opened_database(self._layout.checkpoint_copy)) as target:
                self._checkpoint.copy_to(target)
            self._copy = Checkpoint(self._layout, self._disk, self._layout.checkpoint_copy)
        except (sqlite3.Error, StorageError) as error:
            self._drop()
            raise OSError(f"the checkpoint's copy cannot be made: {error}") from error

    def _drop(self) -> None:
        self.close()
        for path in database_files(self._layout.checkpoint_copy):
            with suppress(OSError):
                self._disk.remove(path)

    def close(self) -> None:
        """Closes the database."""
        if self._copy is not None:
            self._copy.close()
            self._copy = None


Standing = tuple[JournalMark, Inventory]
"""Mark and inventory of a checkpoint, or of its copy."""


def refuse_lost_rows(layout: Layout, checkpoint: Standing, copy: Standing) -> None:
    """StorageDamaged when the copy stands at a later group than the checkpoint, which is always written first, or has
    more rows at the same one: an earlier version kept no inventory that would have shown it."""
    (mark, inventory), (standing, copied) = checkpoint, copy
    text = ""
    if standing.last_group > mark.last_group:
        text = f"it stands at group {mark.last_group}, its copy at {standing.last_group}: the newest state is lost"
    elif standing == mark:
        for table, total in copied.totals.items():
            rows = inventory.totals[table].rows if table in inventory.totals else 0
            if rows < total.rows:
                text = f"table {table} has {rows} rows, in its copy {total.rows}"
    if text:
        raise StorageDamaged(layout.relative(layout.checkpoint), 0, text)
