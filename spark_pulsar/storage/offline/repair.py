"""`check --repair`: lists the losses exactly, and accepts them.

Nothing intact is touched. Damaged files are copied to `damaged/` first; what the damage leaves of them is salvaged by
opening the directory as a broker does. Files of ledgers that a start set aside because nothing named them come back
where a checkpoint names them. Then the loss is accepted topic by topic, and a checkpoint leaves the damaged
parts of the journal behind. A damaged checkpoint is replaced by its copy (`checkpoint_copy`); when that is damaged too
there is no repair, since the journal has only what came after it: `check` names the entries that are whole
nevertheless.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.compaction import CompactionForgotten
from spark_pulsar.ledger.state.damage import DamageAccepted, TopicDamaged
from spark_pulsar.ledger.state.durable_state import CounterSet, DurableState
from spark_pulsar.ledger.storage import StorageError
from spark_pulsar.storage.checkpoint.checkpoint import Checkpoint, opened_database
from spark_pulsar.storage.disk.directory_lock import lock_for_writing, refuse_unsafe
from spark_pulsar.storage.disk.disk import Disk
from spark_pulsar.storage.disk.layout import Layout, database_files
from spark_pulsar.storage.files import FileStorage
from spark_pulsar.storage.ledgers.files import Extent, footer_bytes, load_table, usable_table

from .check import Examination, Finding, Progress, Severity, examine, is_data_directory
from .set_aside import put_back

REPAIRS: Final = "storage.repairs"
"""The counter of repairs."""

_POLL_S: Final = 0.01


def repair(
    data_dir: str | os.PathLike[str], *, disk: Disk | None = None, progress: Progress | None = None
) -> tuple[list[Finding], list[str]]:
    """Repairs a data directory that no broker uses; returns the findings of `check` before, and the steps done, in
    words.

    Files that are set aside are on disk before anything is built on their absence: a repair that is cut short can be
    run again.

    StorageError when it cannot be repaired, StorageUnsafe when a link or the like stands in it, CannotRead when that is
    not known, StorageLocked when a broker or another repair is at it; then nothing was changed.
    """
    layout = Layout(Path(data_dir))
    disk = disk or Disk()
    examination = Examination()
    if progress is not None:
        examination.progress = progress
    refuse_unsafe(layout)
    lacks_version = _lacks_version(layout)
    if not lacks_version and not is_data_directory(layout, examination):
        raise _beyond_repair(examination)
    with _alone(layout, disk):
        examine(layout, examination)
        if not examination.is_in_order and not examination.is_readable:
            raise _beyond_repair(examination)
        done: list[str] = []
        if lacks_version:
            layout.write_version(disk)
            done.append("VERSION: written again")
        findings = examination.findings
        if examination.aside:
            done += put_back(layout, disk, examination.aside)
            examination = Examination()
            examine(layout, examination)
        if examination.is_in_order:
            return findings, done
        done += _set_aside(layout, disk, examination)
        if examination.needs_copy:
            done += _restore_copy(layout, disk)
    failed: list[Exception] = []
    storage, state = FileStorage.open(data_dir, on_failed=failed.append, disk=disk)
    try:
        # Nothing may be dropped here: the policies that keep consumed entries are the broker's to read.
        state.keeps_consumed = lambda _: True
        done += _accept(storage, state, examination.losses)
        while storage.unwritten_bytes and not failed:
            time.sleep(_POLL_S)
        # The segment that was begun just now is the first that is needed after this.
        storage.checkpoint(state)
        while storage.checkpointing and not failed:
            time.sleep(_POLL_S)
        problem = failed[0] if failed else storage.settle_error
        if problem is not None:
            raise StorageError(f"the repair could not be written: {problem}") from problem
    finally:
        storage.close(state)
    with _alone(layout, disk):
        return findings, done + _write_footers(layout, disk)


@contextmanager
def _alone(layout: Layout, disk: Disk) -> Iterator[None]:
    """Keeps brokers, repairs and checks out of the directory. StorageLocked when one of them has it."""
    with closing(lock_for_writing(layout)) as held:
        disk.hold(held.directories)
        try:
            yield
        finally:
            disk.hold({})


def _lacks_version(layout: Layout) -> bool:
    return not layout.version.exists() and layout.checkpoint.exists() and layout.journal.is_dir()


def _beyond_repair(examination: Examination) -> StorageError:
    worst = next(finding for finding in examination.findings if finding.severity is Severity.ERROR)
    text = f"{worst.file}: {worst.text}. This cannot be repaired: restore a copy of the directory"
    return StorageError(f"{text}. `check` names what is whole")


def _set_aside(layout: Layout, disk: Disk, examination: Examination) -> list[str]:
    done: list[str] = []
    files = {finding.file for finding in examination.findings if finding.severity is Severity.ERROR}
    for name in sorted(files):
        path = layout.root / name
        if path.is_file() and path.parent in (layout.journal, layout.ledgers):
            copy = layout.aside(path)
            shutil.copyfile(path, copy)
            with disk.opened(copy, os.O_RDWR) as fd:
                disk.sync(fd)
            done.append(f"{name}: copied to {layout.relative(copy)}")
            _make_names_durable(layout, disk, copy.parent)
    return done


def _make_names_durable(layout: Layout, disk: Disk, aside: Path) -> None:
    for path in (aside, layout.ledgers, layout.root):
        disk.sync_directory(path)


def _restore_copy(layout: Layout, disk: Disk) -> list[str]:
    """Puts the checkpoint's copy in its place, as the last step. The old checkpoint is kept, and so are ledger files
    that the copy does not name: the broker would remove them."""
    done: list[str] = []
    with closing(Checkpoint(layout, path=layout.checkpoint_copy)) as copy:
        _, mark, extents = copy.load()
        for ledger_id, path in layout.ledger_files().items():
            if ledger_id not in extents:
                aside = layout.aside(path)
                disk.rename(path, aside)
                done.append(f"{layout.relative(path)}: the copy does not name it; moved to {layout.relative(aside)}")
        for path in database_files(layout.checkpoint):
            if path.exists():
                aside = layout.aside(path)
                disk.rename(path, aside)
                done.append(f"{layout.relative(path)}: moved to {layout.relative(aside)}")
        _make_names_durable(layout, disk, layout.aside(layout.checkpoint).parent)
        with closing(opened_database(layout.checkpoint)) as database:
            copy.copy_to(database)
    disk.sync_directory(layout.root)
    done.append(f"{layout.relative(layout.checkpoint)}: its copy is in its place, at group {mark.last_group}")
    return done


def _accept(storage: FileStorage, state: DurableState, losses: list[TopicDamaged]) -> list[str]:
    done: list[str] = []
    records: list[Record] = []

    def write(record: Record) -> None:
        apply(state, record)
        records.append(record)

    for loss in losses:
        if loss.topic_id in state.topics:
            write(loss)
    for topic in list(state.topics.values()):
        left = [damage for damage in topic.damages if not damage.accepted]
        done += [f"{topic.name}: {damage.loss} ({damage.place}: {damage.text})" for damage in left]
        if left:
            write(DamageAccepted(topic.topic_id))
        compaction = topic.compaction
        compacted = None if compaction is None or compaction.ledger is None else compaction.ledger.ledger_id
        if compacted is not None and any(damage.ledger_id == compacted for damage in left):
            write(CompactionForgotten(topic.topic_id))
            done.append(f"{topic.name}: its compacted view is dropped and will be made anew")
    # Also when no topic lost anything: the next checkpoint passes over all segments before this record's.
    write(CounterSet(REPAIRS, state.counters.get(REPAIRS, 0) + 1))
    storage.submit(records)
    return done


def _write_footers(layout: Layout, disk: Disk) -> list[str]:
    """Footers that do not list the blocks that are there are written again. Of a file with damaged blocks the intact
    ones are searched for whenever it is opened: it gets none."""
    with closing(Checkpoint(layout)) as checkpoint:
        _, _, extents = checkpoint.load()
    done: list[str] = []
    for ledger_id, extent in extents.items():
        if extent.sealed and _footer_is_wrong(disk, layout, ledger_id, extent):
            table = usable_table(disk, layout, ledger_id, extent)
            if table.damaged:
                continue
            with disk.opened(layout.ledger(ledger_id), os.O_RDWR) as fd:
                footer = footer_bytes(table)
                disk.truncate(fd, extent.size)
                disk.write_durably(fd, [footer], extent.size)
            done.append(f"{layout.relative(layout.ledger(ledger_id))}: its table of blocks is written again")
    return done


def _footer_is_wrong(disk: Disk, layout: Layout, ledger_id: int, extent: Extent) -> bool:
    try:
        load_table(disk, layout, ledger_id, extent)
    except (StorageError, FileNotFoundError):
        return True
    return False
