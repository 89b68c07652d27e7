"""The storage promise kept in memory, with faults on demand, for tests of everything above storage.

A `MemoryDisk` is what survives: encoded groups and the rows of the last checkpoint. A `MemoryStorage` opened on it can
crash at any moment, and the next one opened on the same disk recovers what was durable, through the same encoding,
`apply` and rows as the real one.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import sub
from typing import Any, Self

from spark_pulsar.ledger.entries import EntryRun
from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import apply, decode_record
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.state.ledgers import EntriesDropped, LedgersTrimmed
from spark_pulsar.ledger.state.snapshot import Row, load_rows, pop_dirty_rows
from spark_pulsar.ledger.storage import OnDurable, RecoveryReport, StorageFailed
from spark_pulsar.storage.journal.groups import records_of
from spark_pulsar.storage.journal.journal import Submission


@dataclass(slots=True)
class MemoryDisk:
    """The bytes that survive a crash. One open storage at a time, as with a data directory."""

    groups: list[bytes] = field(default_factory=list)
    """Payload of each durable group after the checkpoint."""
    rows: dict[tuple[str, tuple[Any, ...]], tuple[Any, ...]] = field(default_factory=dict)
    runs: dict[int, list[EntryRun]] = field(default_factory=dict)
    """Durable entries by ledger."""
    checkpoint_group: int = 0


class MemoryStorage:
    """See `Storage` for the promise. With `auto` each submit is durable at once; without, `sync` makes it so.

    Tests may also `crash()` (what is not durable is lost, nothing more is told) and `fail_next_sync(error)`.
    """

    def __init__(self, disk: MemoryDisk, on_failed: Callable[[StorageFailed], None] | None, auto: bool) -> None:
        self._disk = disk
        self._on_failed = on_failed
        self._auto = auto
        self._pending: list[Submission | list[Row]] = []
        self._group = disk.checkpoint_group + len(disk.groups)
        self._report = RecoveryReport()
        self._error: Exception | None = None
        self._failure: StorageFailed | None = None
        self._crashed = False
        self.checkpoint_wanted = False
        """The answer of `needs_checkpoint`; set it to have the caller make one."""
        self.is_quick = False
        """See `Storage.is_quick`; set it to have the caller wait for what is under way."""

    @classmethod
    def open(
        cls,
        disk: MemoryDisk,
        *,
        on_failed: Callable[[StorageFailed], None] | None = None,
        auto: bool = True,
    ) -> tuple[Self, DurableState]:
        """Recovers what the disk holds."""
        storage = cls(disk, on_failed, auto)
        return storage, storage._recover()

    def _recover(self) -> DurableState:
        disk = self._disk
        tables: dict[str, list[tuple[Any, ...]]] = {}
        for (table, key), values in disk.rows.items():
            tables.setdefault(table, []).append(key + values)
        state = load_rows(tables)
        self._report.checkpoint_group = disk.checkpoint_group
        for payload in disk.groups:
            for record_type, version, at, end in records_of(payload):
                apply(state, decode_record(record_type, version, payload, at, end))
                self._report.records += 1
            self._report.groups += 1
        state.finish_recovery()
        return state

    @property
    def report(self) -> RecoveryReport:
        """The report of opening."""
        return self._report

    @property
    def unwritten_bytes(self) -> int:
        """Bytes submitted and not yet durable."""
        return sum(item.size for item in self._pending if isinstance(item, Submission))

    def submit(self, records: Sequence[Record], on_durable: OnDurable | None = None, *, at_once: bool = False) -> bool:
        """See `Storage.submit`. With `auto`, `on_durable` is called before this returns."""
        del at_once  # it would not be quicker
        if self._failure is not None:
            raise self._failure
        self._pending.append(Submission(records, on_durable))
        if self._auto:
            self.sync()
        return False

    def sync(self, submits: int | None = None) -> None:
        """Makes that many of the waiting submits and checkpoints (all by default) durable as one group, and calls
        back."""
        if self._crashed or self._failure is not None:
            return
        if self._error is not None:
            self._failure = StorageFailed(f"writing the journal failed: {self._error}")
            self._failure.__cause__ = self._error
            if self._on_failed is not None:
                self._on_failed(self._failure)
            return
        taken, self._pending = self._pending[:submits], self._pending[len(self._pending[:submits]) :]
        group: list[Submission] = []
        for item in taken:
            if isinstance(item, Submission):
                group.append(item)
            else:
                # The rows stand at the group before them, as in the real journal.
                self._commit_group(group)
                group = []
                self._commit_rows(item)
        self._commit_group(group)

    def _note(self, payload: bytes) -> None:
        for record_type, version, at, end in records_of(payload):
            record = decode_record(record_type, version, payload, at, end)
            if isinstance(record, EntriesAppended):
                for run in record.entries.runs():
                    self._disk.runs.setdefault(run.ledger_id, []).append(run)
            elif isinstance(record, LedgersTrimmed):
                for ledger_id in record.ledger_ids:
                    self._disk.runs.pop(ledger_id, None)
            elif isinstance(record, EntriesDropped):
                runs = self._disk.runs.get(record.ledger_id, [])
                kept = [run.slice(record.first_entry_id, run.end_entry_id) for run in runs]
                self._disk.runs[record.ledger_id] = [run for run in kept if len(run)]

    def read(self, ledger_id: int, entry_id: int, max_entries: int, max_bytes: int) -> list[EntryRun]:
        """See `Storage.read`."""
        stored = self._disk.runs.get(ledger_id, [])
        index = bisect_right(stored, entry_id, key=lambda run: run.end_entry_id - 1 if len(run) else -1)
        if index and stored[index - 1].end_entry_id > entry_id:
            index -= 1
        runs: list[EntryRun] = []
        for run in stored[index:]:
            piece = run.slice(entry_id, run.end_entry_id)
            if runs and (piece.first_entry_id != entry_id or piece.ends[0] - piece.starts[0] > max_bytes):
                break
            piece = piece.limited(max_entries, max_bytes)
            runs.append(piece)
            entry_id = piece.end_entry_id
            max_entries -= len(piece)
            max_bytes -= piece.size_bytes
            if max_entries <= 0 or max_bytes <= 0:
                break
        return runs

    def read_at_once(self, ledger_id: int, entry_id: int, max_entries: int, max_bytes: int) -> list[EntryRun]:
        """See `Storage.read_at_once`."""
        runs = self.read(ledger_id, entry_id, max_entries, max_bytes)
        return runs if runs and runs[0].first_entry_id == entry_id and runs[0].size_bytes <= max_bytes else []

    def sizes(self, ledger_id: int, first: int, end: int) -> list[int]:
        """See `Storage.sizes`."""
        sizes = dict.fromkeys(range(first, end), 0)
        for stored in self._disk.runs.get(ledger_id, []):
            run = stored.slice(first, end) if first < stored.end_entry_id and stored.first_entry_id < end else None
            if run is not None:
                sizes.update(enumerate(map(sub, run.ends, run.starts), run.first_entry_id))
        return list(sizes.values())

    def needs_checkpoint(self) -> bool:
        """See `Storage.needs_checkpoint`."""
        return self.checkpoint_wanted and self._failure is None

    def prepare_checkpoint(self, _state: DurableState) -> bool:
        """See `Storage.prepare_checkpoint`."""
        return True

    def checkpoint(self, state: DurableState) -> None:
        """See `Storage.checkpoint`. Every ledger is treated as settled; durable with the submits before it."""
        self.checkpoint_wanted = False
        dropped: list[Record] = []
        for ledger_id in sorted(state.ledgers):
            needed_from = state.first_needed_entry(ledger_id)
            info = state.ledgers[ledger_id]
            assert needed_from is not None, "an existing ledger has an answer"
            if needed_from > info.first_entry_id:
                dropped.append(EntriesDropped(info.topic_id, ledger_id, needed_from))
        for record in dropped:
            apply(state, record)
        if dropped:
            self._pending.append(Submission(dropped, None))
        self._pending.append(pop_dirty_rows(state))
        if self._auto:
            self.sync()

    def _commit_group(self, group: list[Submission]) -> None:
        if not group:
            return
        self._group += 1
        payload = b"".join(part for submission in group for part in submission.parts)
        self._disk.groups.append(payload)
        self._note(payload)
        for submission in group:
            if submission.on_durable is not None:
                submission.on_durable(self._group)

    def _commit_rows(self, rows: list[Row]) -> None:
        for table, key, values in rows:
            if values is None:
                self._disk.rows.pop((table, key), None)
            else:
                self._disk.rows[table, key] = values
        self._disk.groups.clear()
        self._disk.checkpoint_group = self._group

    def close(self, state: DurableState | None = None) -> None:
        """See `Storage.close`."""
        if not self._crashed:
            if state is not None:
                self._pending.append(pop_dirty_rows(state))
            self.sync()

    # Faults

    def crash(self) -> None:
        """Loses everything that is not durable. Only opening the disk again makes sense afterwards."""
        self._crashed = True
        self._pending.clear()

    def fail_next_sync(self, error: Exception) -> None:
        """Lets the next sync, and with it everything after, fail."""
        self._error = error
