"""The storage promise kept with files: opening, and the parts behind each method."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.compaction import CompactionAbandoned, CompactionFinished, CompactionForgotten
from spark_pulsar.ledger.state.cursors.records import CursorAcked
from spark_pulsar.ledger.state.damage import TopicDamaged
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.state.ledgers import LedgersTrimmed
from spark_pulsar.ledger.state.snapshot import Row, pop_dirty_rows, pop_some_dirty_rows
from spark_pulsar.ledger.storage import OnDurable, RecoveryReport, StorageError, StorageFailed
from spark_pulsar.storage.checkpoint.checkpoint import Checkpoint, CommitUncertain, JournalMark
from spark_pulsar.storage.checkpoint.copy import CheckpointCopy
from spark_pulsar.storage.disk.directory_lock import HeldDirectory, Identity, lock_for_writing
from spark_pulsar.storage.disk.disk import Disk
from spark_pulsar.storage.disk.layout import Layout
from spark_pulsar.storage.disk.pending_operations import Underway, WatchedDisk
from spark_pulsar.storage.disk.threads import Background, Threads
from spark_pulsar.storage.journal.back_pressure import BackPressure
from spark_pulsar.storage.journal.entry_reader import JournalReader
from spark_pulsar.storage.journal.journal import Journal, JournalCallbacks, JournalTail
from spark_pulsar.storage.journal.run_index import RunIndex
from spark_pulsar.storage.journal.segment_upkeep import SegmentUpkeep, Space
from spark_pulsar.storage.journal.segments import SEGMENT_BYTES, Segment, SegmentFiles
from spark_pulsar.storage.ledgers.files import Extent, LedgerFiles
from spark_pulsar.storage.ledgers.lost_entries import LostEntries
from spark_pulsar.storage.recovery.leftovers import clear_leftovers
from spark_pulsar.storage.recovery.replay import recover
from spark_pulsar.storage.recovery.take_over import find_short_files, open_segments, restore_last_group
from spark_pulsar.storage.settling.pace import SettlingPace, work
from spark_pulsar.storage.settling.settler import SettlePlan, Settler, SettlingStopped, entries_left_out, plan_ledgers

from .entry_reading import EntryReading

TRIM_CHECKPOINT_INTERVAL_S: Final = 1.0
"""Trimmed ledgers give their space back at a checkpoint; one is due for them at most this often."""

REPLAY_RECORDS: Final = 100_000
"""Records after which a checkpoint is due although no segment is full: opening must not have to replay many more."""

RANGES_A_RECORD: Final = 4
"""Acked ranges that take as long to replay as one record: a million strewn acks may be in a few thousand records."""

_FREEING: Final = (LedgersTrimmed, CompactionFinished, CompactionAbandoned, CompactionForgotten)
"""Records that free ledgers."""

_KEPT_COLUMNS: Final = 64
_RETRY_S: Final = 5.0
_ROWS_A_TURN: Final = 512
"""Rows that are taken at once for a checkpoint: some milliseconds."""


class FileStorage:
    """One open data directory. See `spark_pulsar.ledger.storage.Storage` for what each method promises."""

    def __init__(
        self,
        layout: Layout,
        disk: Disk,
        held: HeldDirectory,
        on_failed: Callable[[StorageFailed], None] | None,
        on_trouble: Callable[[Exception], None] | None,
        on_disk_full: Callable[[str, bool], None] | None,
        threads: Threads,
    ) -> None:
        self._layout = layout
        self._disk = disk
        self._opened = ExitStack()
        self._opened.callback(held.close)
        self._opened.callback(disk.hold, {})
        disk.hold(held.directories)
        self.identity = held.identity
        """Identity of the data directory, for `open` to find the same one again."""
        self._fail: Callable[[StorageFailed], None] = on_failed or _drop
        self._trouble: Callable[[Exception], None] = on_trouble or _drop
        self._space = Space(on_disk_full)
        self._lock = threading.Lock()
        self._index = RunIndex()
        self._files = LedgerFiles(disk, layout)
        self._lost = LostEntries()
        journal = JournalReader(disk, layout, _KEPT_COLUMNS)
        self._reading = EntryReading(self._lock, self._index, self._files, journal, self._lost, self._recycle_later)
        self.read = self._reading.read
        self.read_at_once = self._reading.read_at_once
        self.sizes = self._reading.sizes
        self._checkpoint: Checkpoint
        self._copy: CheckpointCopy
        self._journal: Journal
        self._segments: SegmentFiles
        self._mark = JournalMark(0, 1)
        self.report = RecoveryReport()
        """The report of opening."""
        self._rows: dict[tuple[str, tuple[object, ...]], Row] = {}
        self._prepared_rows = 0
        """Rows taken for the next checkpoint before it begins."""
        self.checkpointing = False
        """True while a checkpoint is being made."""
        self._trimmed = False
        self._threads = threads
        self._closing = threads.ending()
        self._to_remove: set[int] = set()
        """Trimmed ledgers whose files may still be there."""
        self._begun: set[int] = set()
        """Ledgers whose file was begun by a settling that failed: no checkpoint names it."""
        self._records_at_checkpoint = 0
        self._acked_ranges = 0
        """Ranges of the acks submitted since the last checkpoint."""
        self._not_before = self._no_trims_before = 0.0
        self._back_pressure = BackPressure()
        self._pace = SettlingPace()
        self.settle_error: Exception | None = None
        """Why the last checkpoint failed, None when it did not. It is tried again later; nothing is lost meanwhile."""

    @classmethod
    def open(
        cls,
        data_dir: str | os.PathLike[str],
        *,
        on_failed: Callable[[StorageFailed], None] | None = None,
        on_trouble: Callable[[Exception], None] | None = None,
        on_disk_full: Callable[[str, bool], None] | None = None,
        sync_data: bool = True,
        segment_bytes: int = SEGMENT_BYTES,
        disk: Disk | None = None,
        threads: Threads | None = None,
        expected: Identity | None = None,
        underway: Underway | None = None,
    ) -> tuple[Self, DurableState]:
        """Opens a data directory, making it if it does not exist, and recovers its state.

        `on_failed` is called once when writing fails. `on_trouble` receives from a thread the reason why a checkpoint
        failed: it is tried again later. Of the lost entries of a StorageDamaged the shell should make TopicDamaged
        records, so that the next one passes over them. `on_disk_full` receives from threads the reason why there is no
        space for more of the journal, and whether that holds up submits; with an empty text when there is space again.
        `underway` counts the operations of the disk.

        With `sync_data=False` (Pulsar's journalSyncData) records count as durable when the system has them: kill -9
        loses nothing, power loss loses the newest.

        `expected` is the identity of the directory that this process had open before: another one is refused.

        Damage is noted in the topics it concerns (`TopicState.damages`), which are read-only until it is accepted.
        Raises StorageLocked, StorageVersionUnknown, StorageUnsafe when something in it is a link or the like,
        StorageDamaged when the checkpoint itself is damaged, or StorageError when the directory cannot be used.
        """
        layout = Layout(Path(data_dir))
        disk = disk or Disk()
        if underway is not None:
            disk = WatchedDisk(disk, underway)
        held = lock_for_writing(layout, expected)
        storage = cls(layout, disk, held, on_failed, on_trouble, on_disk_full, threads or Threads())
        try:
            state = storage._recover(sync_data, segment_bytes)
        except BaseException as error:
            storage._opened.close()
            if isinstance(error, OSError):
                raise StorageError(f"{layout.root}: the data directory cannot be opened: {error}") from error
            raise
        return storage, state

    def _recover(self, sync_data: bool, segment_bytes: int) -> DurableState:
        layout, disk = self._layout, self._disk
        is_new = not layout.read_version()
        self._checkpoint = Checkpoint(layout, disk)
        self._opened.callback(self._checkpoint.close)
        if is_new:
            self.report.strangers = layout.strangers()
            self._checkpoint.create()
            layout.write_version(disk)
        else:
            layout.make_names_durable(disk)
        may_reuse = self._checkpoint.empty_log()
        state, self._mark, self._files.extents = self._checkpoint.load()
        self._copy = CheckpointCopy(layout, disk, self._checkpoint, self._mark)
        self._opened.callback(self._copy.close)
        recovered = recover(layout, self._mark, state, self._files.extents, self._index, self.report)
        damages = recovered.damages + find_short_files(disk, layout, state, self._files.extents)
        trimmed = self._checkpoint.inventory().trimmed
        clear_leftovers(disk, layout, (state, self._files.extents, self._index, trimmed), self.report)
        # The next checkpoint removes the files of ledgers trimmed since the last one.
        self._trimmed = not state.ledgers.keys() >= self._files.extents.keys()
        self._segments = SegmentFiles(disk, layout, segment_bytes, sync_data)
        self._opened.callback(self._segments.close)
        self._reading.segments = self._segments.in_use
        replay = recovered.replay
        current = open_segments(disk, layout, self._segments, self._mark, replay, may_reuse=may_reuse)
        again, first = restore_last_group(self._lock, self._segments, self._index, self._mark, replay)
        self._background = Background("settler", self._threads)
        self._background.put(self._copy.verify)
        if not self._checkpoint.is_counted:
            self._background.put(self._store_inventory)
        # Apart, because the journal slows down when it must write to a file that was not prepared.
        self._upkeep = SegmentUpkeep(self._segments, self._space, self._closing.is_set, self._threads)
        self._journal = Journal(
            disk,
            self._segments,
            self._index,
            self._lock,
            JournalTail(replay.last_group, again or current, first),
            JournalCallbacks(
                self._fail,
                self._upkeep.maintain,
                self._space.stalled,
                lambda: self._back_pressure.must_wait(len(self._segments.in_use)),
            ),
            self._threads,
        )
        self._lost.learn(state)
        if damages:
            for damage in damages:
                apply(state, damage)
            self.submit(damages)
        return state

    def _store_inventory(self) -> None:
        """Stores the inventory of a checkpoint that an earlier version wrote. Where that fails, the next one does."""
        try:
            self._checkpoint.commit((), self._mark, {})
            self._copy.commit((), self._mark, {}, frozenset(), self._trouble)
        except CommitUncertain as error:
            self._fail_checkpoint(error)
        except OSError as error:
            self._trouble(error)

    @property
    def unwritten_bytes(self) -> int:
        """Bytes submitted and not yet durable."""
        return self._journal.unwritten_bytes

    def submit(self, records: Sequence[Record], on_durable: OnDurable | None = None, *, at_once: bool = False) -> bool:
        """See `Storage.submit`."""
        for record in records:
            if type(record) in _FREEING:
                self._trimmed = True
            elif type(record) is CursorAcked:
                self._acked_ranges += len(record.ranges)
            elif type(record) is TopicDamaged:
                self._lost.note(record)
        return self._journal.submit(records, on_durable, at_once=at_once)

    @property
    def is_quick(self) -> bool:
        """See `Storage.is_quick`."""
        return self._journal.is_quick

    def needs_checkpoint(self) -> bool:
        """See `Storage.needs_checkpoint`."""
        if self.checkpointing or self._journal.failure is not None:
            return False
        now_s = self._note_load()
        records = self._journal.submitted_records - self._records_at_checkpoint + self._acked_ranges // RANGES_A_RECORD
        due = self._pace.is_due(len(self._segments.in_use) - 1) or records > REPLAY_RECORDS
        return (due or (self._trimmed and now_s >= self._no_trims_before)) and now_s >= self._not_before

    def _note_load(self) -> float:
        """Samples how much is written and read; returns the time."""
        now_s = self._threads.now_s()
        written = work(self._journal.submitted_bytes, self._journal.submitted_entries)
        self._pace.note(written, work(self._reading.read_bytes, self._reading.read_entries), now_s)
        self._upkeep.note_load(is_burst=self._pace.is_burst)
        return now_s

    def prepare_checkpoint(self, state: DurableState) -> bool:
        """See `Storage.prepare_checkpoint`."""
        rows = pop_some_dirty_rows(state, _ROWS_A_TURN)
        self._note_rows(rows)
        self._prepared_rows += len(rows)
        # Rows that change all the time are taken again and again: not for ever.
        is_enough = len(rows) < _ROWS_A_TURN or self._prepared_rows > 2 * len(self._rows) + 4 * _ROWS_A_TURN
        if is_enough:
            self._prepared_rows = 0
        return is_enough

    def checkpoint(self, state: DurableState) -> None:
        """See `Storage.checkpoint`."""
        if self.checkpointing or self._closing.is_set() or self._journal.failure is not None:
            return
        self.checkpointing = True
        self._trimmed = False
        self._records_at_checkpoint = self._journal.submitted_records
        self._acked_ranges = 0
        kept_from = self._segments.settled_before(self._journal.current_number, self._mark.first_segment)
        plan = SettlePlan([], kept_from)
        with self._lock:
            plan_ledgers(state, self._index, self._files.extents, plan)
        dropped = entries_left_out(state, plan)
        if dropped:
            for record in dropped:
                apply(state, record)
            self._journal.submit(dropped, None)
        self._note_rows(pop_dirty_rows(state))
        plan.rows.extend(self._rows.values())
        self._journal.barrier(lambda group: self._settle_later(plan, group))

    def _note_rows(self, rows: Sequence[Row]) -> None:
        # Rows of a checkpoint that failed stay here and go with the next one.
        for row in rows:
            self._rows[row.table, row.key] = row

    def _settle_later(self, plan: SettlePlan, group: int) -> None:
        plan.last_group = group
        self._back_pressure.is_copying = True
        self._background.put(lambda: self._settle(plan))

    def _settle(self, plan: SettlePlan) -> None:
        """Copies the needed entries, commits, switches readers over and recycles segments, in the background."""
        segments = list(self._segments.in_use.values())
        extents = self._files.extents
        settler = Settler(
            self._disk, self._layout, segments, extents, self._lost, self._closing.is_set, self._rest, self._threads
        )
        begun = (ledger_id for ledger_id, ledger in plan.ledgers.items() if ledger.needed_from < ledger.end)
        self._begun.update(ledger_id for ledger_id in begun if ledger_id not in extents)
        try:
            self._commit(plan, settler.settle(plan))
            self.settle_error = None
        except SettlingStopped:
            pass
        except CommitUncertain as error:
            self._fail_checkpoint(error)
        except Exception as error:  # noqa: BLE001 - whatever it was, the journal still has everything
            self.settle_error = error
            self._not_before = self._threads.now_s() + _RETRY_S
            self._trimmed = True  # a checkpoint is due then
            self._upkeep.give_back()  # spares may be what the disk has no space beside
            self._trouble(error)
        finally:
            self.checkpointing = False
            self._back_pressure.is_copying = False

    def _rest(self, worked_s: float) -> None:
        """Between two pieces of settling; ends early when the storage closes."""
        self._note_load()
        if rest_s := self._pace.rest_s(len(self._segments.in_use) - 1, worked_s):
            self._closing.wait(rest_s)

    def _commit(self, plan: SettlePlan, extents: dict[int, Extent]) -> None:
        if not self._segments.synced:
            # The checkpoint must not be ahead of the journal after power loss.
            for segment in list(self._segments.in_use.values()):
                try:
                    self._disk.sync(segment.fd)
                except OSError as error:
                    # The next sync of these pages would succeed and prove nothing: opening again writes them anew.
                    raise CommitUncertain(f"{self._layout.relative(segment.path)}: {error}") from error
        gone = [row.key[0] for row in plan.rows if row.table == "ledgers" and row.values is None]
        removed: dict[int, Extent | None] = {
            ledger_id: None for ledger_id in gone if ledger_id in self._files.extents or ledger_id in self._begun
        }
        mark = JournalMark(plan.last_group, plan.first_segment)
        trimmed = self._to_remove | removed.keys()
        self._checkpoint.commit(plan.rows, mark, {**extents, **removed}, trimmed)
        self._copy.commit(plan.rows, mark, {**extents, **removed}, trimmed, self._trouble)
        self._begun -= extents.keys() | removed.keys()
        with self._lock:
            self._mark = mark
            self._files.extents.update(extents)
            for ledger_id in plan.ledgers:
                self._index.drop_before_segment(ledger_id, plan.first_segment)
            for ledger_id in gone:
                self._index.drop_ledger(ledger_id)
                self._files.extents.pop(ledger_id, None)
            retired = [
                segment for segment in list(self._segments.in_use.values()) if segment.number < plan.first_segment
            ]
            for segment in retired:
                segment.retired = True
            free = [segment for segment in retired if segment.readers == 0]
            for row in plan.rows:
                if self._rows.get((row.table, row.key)) is row:
                    del self._rows[row.table, row.key]
        if removed:
            self._no_trims_before = self._threads.now_s() + TRIM_CHECKPOINT_INTERVAL_S
        self._to_remove |= removed.keys()
        for segment in free:
            self._recycle(segment)
        self._remove_files()

    def _remove_files(self) -> None:
        """Removes the files of trimmed ledgers, durably: the next checkpoint does not note them any more."""
        if self._to_remove:
            for ledger_id in sorted(self._to_remove):
                self._files.discard(ledger_id)
                self._disk.remove(self._layout.ledger(ledger_id))
            self._disk.sync_directory(self._layout.ledgers)
            self._to_remove.clear()

    def _recycle_later(self, segment: Segment) -> None:
        self._background.put(lambda: self._recycle(segment))

    def _recycle(self, segment: Segment) -> None:
        with self._lock:
            known = self._segments.in_use.get(segment.number) is segment
        if known:
            self._segments.recycle(segment)

    def _fail_checkpoint(self, error: OSError) -> None:
        """Fails the storage: the checkpoint's content is unknown until it is opened again."""
        failure = StorageFailed(f"storing the checkpoint failed: {error}")
        failure.__cause__ = error
        self._journal.failure = failure
        self._fail(failure)

    def close(self, state: DurableState | None = None) -> None:
        """See `Storage.close`."""
        self._closing.set()
        final: list[int] = []
        if state is not None and self._journal.failure is None:
            self._journal.barrier(final.append)
        self._journal.close()
        self._upkeep.background.close()
        self._background.close()
        try:
            if state is not None and final and self._journal.failure is None:  # what ended just now may have failed
                self._note_rows(pop_dirty_rows(state))
                plan = SettlePlan(list(self._rows.values()), self._mark.first_segment, last_group=final[0])
                self._commit(plan, {})
        except OSError as error:
            # Nothing is lost: the journal has the records that the checkpoint lacks.
            raise StorageError(f"{self._layout.root}: the last checkpoint failed: {error}") from error
        finally:
            self._opened.close()


def _drop(error: Exception) -> None:
    """Drops an error without a receiver."""
