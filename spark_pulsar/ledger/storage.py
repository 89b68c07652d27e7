"""The storage promise, on which the shell relies. Files keep it, or memory in tests.

One storage belongs to one `DurableState`. The order of things in a running broker:

1. the core creates records, applies them to the state, and the shell submits them, in the same order;
2. one `submit` is atomic; submits become durable in order, several of them in one group;
3. `on_durable(group)` is called once per submit, in order, from a thread of the storage (perhaps before `submit`
   returned), when the submit's records survive kill -9 and (unless syncing is off) power loss;
4. now and then the shell calls `checkpoint(state)`; all records applied by then must have been submitted.

Opening gives back a state that equals the live one after some whole number of submits, including every durable one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state.durable_state import DurableState

from .entries import EntryRun

OnDurable = Callable[[int], None]
"""Called with the number of the group that made the submit durable; numbers rise by one a group, never repeat."""


class StorageError(Exception):
    """Base of what storage reports. The text names the file."""


class StorageLocked(StorageError):
    """Another process has the data directory open."""


class StorageUnsafe(StorageError):
    """Something else stands in the data directory where a file or directory of the broker's belongs: a link, a file
    with a second name, a pipe, a device. Nothing was written."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path} is {text}")
        self.path = path
        self.text = text


class StorageVersionUnknown(StorageError):
    """The data directory has a layout, or the journal a record, of a newer program."""


class StorageFailed(StorageError):
    """Writing failed. Nothing submitted after the last `on_durable` is known to be on disk; this storage takes no more.

    The shell drops the state and opens the storage again; an fsync is never retried over the same pages.
    """


class StorageDamaged(StorageError):
    """Stored bytes do not match their checksum or form. `lost`: the entries that cannot be read therefore, as
    (ledger id, first, end), as far as that is known."""

    def __init__(self, file: str, offset: int, text: str, lost: Sequence[tuple[int, int, int]] = ()) -> None:
        super().__init__(
            f"{file}: damaged at offset {offset}: {text}. `spark-pulsar check` on the data directory explains"
        )
        self.file = file
        self.offset = offset
        self.text = text
        self.lost = lost


@dataclass(slots=True)
class RecoveryReport:
    """Report of opening: findings and actions.

    | attribute | meaning |
    | --- | --- |
    | `groups`, `records` | replayed after the checkpoint |
    | `checkpoint_group` | the group that the checkpoint stood at |
    | `torn_bytes`, `torn_at` | size and place (`file:offset`) of a last group that was cut off, 0 and "" if none |
    | `damage` | damage of the journal, each with its place, and the claims that are not believed because of it |
    | `set_aside` | files of ledgers that nothing names, and their fate |
    | `strangers` | names in a new directory that are not the broker's |
    | `notes` | everything else that was put right, for the log |
    """

    groups: int = 0
    records: int = 0
    checkpoint_group: int = 0
    torn_bytes: int = 0
    torn_at: str = ""
    damage: list[str] = field(default_factory=list)
    set_aside: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Storage(Protocol):
    """The promise. All methods but `read` and `sizes` are called from one thread (the shell's loop)."""

    def submit(self, records: Sequence[Record], on_durable: OnDurable | None = None, *, at_once: bool = False) -> bool:
        """Makes the records durable, all or none, after everything submitted before.

        True when they are already: then `on_durable` is not called. That happens only with `at_once`, which
        allows this call to wait for the disk when it will be quicker than another thread.

        The records are encoded before this returns, so that later changes of what they refer to do not matter; entry
        buffers are kept alive until written. StorageFailed when a write failed before; the failure itself is reported
        once to the `on_failed` that the storage was opened with, and the waiting `on_durable`s are never called.
        ValueError when the submit is larger than MAX_SUBMIT_BYTES.
        """

    @property
    def is_quick(self) -> bool:
        """Returns whether a small submit `at_once` would be made durable by that call were nothing under way."""

    @property
    def unwritten_bytes(self) -> int:
        """Bytes submitted and not yet durable: the shell stops reading from producers above some bound."""

    def read(self, ledger_id: int, entry_id: int, max_entries: int, max_bytes: int) -> list[EntryRun]:
        """The stored entries of one ledger from `entry_id` on, as consecutive runs; any thread may call, it blocks.

        Gives at least one entry, however large, and no more than either limit after that. When `entry_id` itself was
        consumed by all and dropped, it begins at the next one that is stored. Empty when the ledger holds nothing at or
        after it (consumed, trimmed, never there). Only durable entries are seen. StorageDamaged when bytes fail their
        checksum.
        """

    def read_at_once(self, ledger_id: int, entry_id: int, max_entries: int, max_bytes: int) -> list[EntryRun]:
        """Reads entries from memory, without waiting for the disk, beginning with `entry_id`, no more than either
        limit. Empty when none is in memory, for any reason. Never raises."""

    def sizes(self, ledger_id: int, first: int, end: int) -> list[int]:
        """The size of each of the entries `first … end - 1` of a ledger, without reading them; any thread may
        call, it blocks. 0 for entries that are not stored: consumed and dropped, trimmed, lost, not durable."""

    def needs_checkpoint(self) -> bool:
        """Returns whether enough was written since the last checkpoint began that another is due; cheap, call it every
        turn."""

    def prepare_checkpoint(self, state: DurableState) -> bool:
        """Takes some of what changed, so that the checkpoint that is due will be short; false when it should be called
        again, in a later turn, before the checkpoint begins."""

    def checkpoint(self, state: DurableState) -> None:
        """Begins a checkpoint of the state as it is now; short, the work is done by a thread.

        Everything applied must have been submitted. May apply records of its own to the state (EntriesDropped: a ledger
        that all durable cursors have left is not copied) and submits them. Does nothing while another one runs.
        """

    def close(self, state: DurableState | None = None) -> None:
        """Makes everything submitted durable, stores a last checkpoint if the state is given, and releases the files.
        Blocks. No method may be called afterwards."""


MAX_SUBMIT_BYTES = 256 * 1024 * 1024
"""Upper bound of the encoded records of one submit."""
