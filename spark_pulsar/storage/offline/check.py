"""`check`: verify a data directory offline, every checksum and every promise between its files.

Nothing in it is changed, or need be writable.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.damage import TopicDamaged
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.storage import RecoveryReport, StorageDamaged, StorageError
from spark_pulsar.storage.checkpoint.checkpoint import JournalMark
from spark_pulsar.storage.checkpoint.copy import refuse_lost_rows
from spark_pulsar.storage.checkpoint.inventory import Inventory
from spark_pulsar.storage.checkpoint.read_only import CannotRead, unchanged
from spark_pulsar.storage.disk.directory_lock import lock_for_reading, unsafe
from spark_pulsar.storage.disk.disk import Disk
from spark_pulsar.storage.disk.layout import Layout
from spark_pulsar.storage.journal.group_search import Hole, mapped
from spark_pulsar.storage.journal.groups import SEGMENT_HEADER_BYTES, parse_segment_header, whole_groups
from spark_pulsar.storage.journal.run_index import RunIndex
from spark_pulsar.storage.ledgers.files import BlockTable, Extent, gaps, load_table, parse_block, usable_table
from spark_pulsar.storage.ledgers.lost_entries import LostEntries
from spark_pulsar.storage.recovery.leftovers import leftovers
from spark_pulsar.storage.recovery.replay import Recovered, recover
from spark_pulsar.storage.recovery.take_over import find_short_files
from spark_pulsar.storage.recovery.without_checkpoint import survey

from .set_aside import find_aside, strangers

Progress = Callable[[int, int], None]


def _unreported(_done: int, _total: int) -> None:
    """Discards the progress."""


class Severity(StrEnum):
    """Severity of a finding."""

    ERROR = "error"
    """Durable data is damaged or missing; the topics concerned are read-only, or the broker refuses to open."""
    WARNING = "warning"
    """Disorder that affects nothing durable; the broker puts it right."""
    INFO = "info"
    """A fact worth knowing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding: severity, file (relative to the data directory), place, and meaning."""

    severity: Severity
    file: str
    offset: int
    text: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.file} at {self.offset}: {self.text}"


@dataclass(slots=True)
class Examination:
    """Result of an examination: findings, and records of newly found losses."""

    findings: list[Finding] = field(default_factory=list)
    losses: list[TopicDamaged] = field(default_factory=list)
    is_readable: bool = False
    """True if a broker would open the directory, with the checkpoint's copy in its place if that is needed."""
    needs_copy: bool = False
    """True if the checkpoint is damaged and its copy is whole."""
    progress: Progress = _unreported
    """Receives the bytes of ledger files that are verified, and of all."""
    aside: dict[int, Path] = field(default_factory=dict)
    """Files in `damaged/` that hold what files of ledgers lack, by ledger."""

    def add(self, severity: Severity, file: str, offset: int, text: str) -> None:
        """Appends a finding."""
        self.findings.append(Finding(severity, file, offset, text))

    @property
    def is_in_order(self) -> bool:
        """Returns whether no durable data is damaged, apart from accepted losses."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)


def check(data_dir: str | os.PathLike[str], progress: Progress | None = None) -> list[Finding]:
    """Verifies a data directory that no broker uses. Empty when everything is as it should be; findings of severity
    INFO and WARNING need no action. CannotRead when there is no room for a copy: then nothing is known."""
    examination = Examination()
    if progress is not None:
        examination.progress = progress
    layout = Layout(Path(data_dir))
    if not is_data_directory(layout, examination):
        return examination.findings
    try:
        held = lock_for_reading(layout)
    except StorageError as error:
        examination.add(Severity.ERROR, "LOCK", 0, str(error))
        return examination.findings
    with closing(held):
        examine(layout, examination)
    return examination.findings


def is_data_directory(layout: Layout, examination: Examination) -> bool:
    """Returns whether this is a data directory of a known layout; a finding says why not."""
    if not layout.root.is_dir():
        examination.add(Severity.ERROR, ".", 0, f"{layout.root} is no directory")
        return False
    for path, text in unsafe(layout):
        examination.add(Severity.ERROR, layout.relative(path), 0, f"{text}. A broker does not open this directory")
    if examination.findings:
        return False
    try:
        is_versioned = layout.read_version()
    except StorageError as error:
        examination.add(Severity.ERROR, "VERSION", 0, _text(error))
        return False
    if not is_versioned:
        examination.add(Severity.ERROR, "VERSION", 0, "missing: this is no data directory, or was never used")
    return is_versioned


def examine(layout: Layout, examination: Examination) -> None:
    """Examines everything but VERSION; the caller holds the lock. CannotRead as `check` says."""
    stored = _check_checkpoints(layout, examination)
    nothing: _Stored = DurableState(), JournalMark(0, min(layout.segments(), default=1)), {}, Inventory({})
    state, mark, extents, inventory = stored or nothing
    index = RunIndex()
    recovered: Recovered | None = None
    if stored is not None:
        recovered = _check_journal(layout, (mark, state, extents, index), examination)
        examination.is_readable = recovered is not None
    if recovered is None or recovered.holes:
        examination.findings += _survey_journal(layout, mark)
    tables: dict[int, BlockTable] = {}
    lost = LostEntries()
    lost.learn(state)
    _check_ledger_files(layout, state, extents, tables, lost, examination)
    for damage in examination.losses:
        lost.note(damage)
    if recovered is not None:
        examination.findings += _check_coverage(layout, state, index, tables, lost)
    _report_damages(state, examination)
    if stored is None:
        examination.findings += [Finding(Severity.INFO, *place_and_text) for place_and_text in survey(layout)]
    else:
        examination.findings += _check_leftovers(layout, mark)
        examination.aside = find_aside(layout, extents)
        examination.findings += _check_aside(layout, extents, examination.aside)
    if recovered is not None:
        for path, reason in leftovers(layout, (state, extents, index, inventory.trimmed)):
            fate = f"will be removed: {reason}" if reason else "nothing names it; will be moved to damaged/"
            examination.add(Severity.INFO, layout.relative(path), 0, fate)


def _check_journal(
    layout: Layout, at: tuple[JournalMark, DurableState, dict[int, Extent], RunIndex], examination: Examination
) -> Recovered | None:
    mark, state, extents, index = at
    report = RecoveryReport()
    try:
        recovered = recover(layout, mark, state, extents, index, report)
    except StorageError as error:
        file, offset = (error.file, error.offset) if isinstance(error, StorageDamaged) else ("journal", 0)
        examination.add(Severity.ERROR, file, offset, f"{_text(error)}. The broker refuses to open")
        return None
    for hole in recovered.holes:
        examination.add(Severity.ERROR, hole.file, hole.at, hole.text + _meaning(hole, mark))
    examination.losses += recovered.damages
    if recovered.holes:
        for note in report.damage[len(recovered.holes) :]:
            examination.add(Severity.INFO, "journal", 0, note)
    if report.torn_bytes:
        file, _, place = report.torn_at.rpartition(":")
        text = (
            f"{report.torn_bytes} bytes of a group that was being written when the broker died; it was never "
            "confirmed to any client and will be cut off"
        )
        examination.add(Severity.WARNING, file, int(place), text)
    return recovered


def _meaning(hole: Hole, mark: JournalMark) -> str:
    """Reports the losses of a hole beside entries, which are reported topic by topic."""
    if hole.last_group < hole.first_group:
        return ""
    if hole.last_group <= mark.last_group:
        return ". What it said of topics, subscriptions and policies is in the checkpoint"
    return ". What it said of topics, subscriptions and policies is lost unless it can be read and does no harm"


def _report_damages(state: DurableState, examination: Examination) -> None:
    """Reports the losses, topic by topic."""
    for loss in examination.losses:
        apply(state, loss)
    for topic in state.topics.values():
        for damage in topic.damages:
            file, _, offset = damage.place.rpartition(":")
            if damage.accepted:
                examination.add(Severity.INFO, file, int(offset), f"{topic.name}: {damage.loss}: accepted")
            else:
                text = f"{topic.name} is read-only: {damage.loss}. `check --repair` goes on without them"
                examination.add(Severity.ERROR, file, int(offset), text)


_Stored = tuple[DurableState, JournalMark, dict[int, Extent], Inventory]
"""State, mark, extents and inventory of a checkpoint."""


def _check_checkpoints(layout: Layout, examination: Examination) -> _Stored | None:
    """Reads the checkpoint, or its copy when it is damaged; None when both are."""
    original, copy = layout.checkpoint, layout.checkpoint_copy
    stored, problems = _check_database(layout, original)
    copied, copy_problems = _check_database(layout, copy)
    if stored is not None and copied is not None:
        try:
            refuse_lost_rows(layout, (stored[1], stored[3]), (copied[1], copied[3]))
        except StorageDamaged as error:
            stored, problems = None, [error.text]
        else:
            if copied[1] != stored[1]:
                text = f"the checkpoint's copy is behind, at group {copied[1].last_group}; the broker makes it anew"
                examination.add(Severity.INFO, layout.relative(copy), 0, text)
    for problem in problems:
        examination.add(Severity.ERROR, layout.relative(original), 0, problem)
    if stored is None and copied is not None:
        examination.needs_copy = True
        text = (
            f"this copy of the checkpoint is whole, at group {copied[1].last_group}: `check --repair` goes on with it"
        )
        examination.add(Severity.INFO, layout.relative(copy), 0, text)
    elif stored is not None and copied is None and _is_unmade(layout, copy):
        text = "the checkpoint's copy was never finished; the broker makes it anew"
        examination.add(Severity.INFO, layout.relative(copy), 0, text)
    elif copied is None and copy.exists():
        what = "damaged too" if stored is None else "damaged; the broker makes it anew"
        examination.add(
            Severity.WARNING, layout.relative(copy), 0, f"the checkpoint's copy is {what}: {copy_problems[0]}"
        )
    return stored or copied


def _check_database(layout: Layout, path: Path) -> tuple[_Stored | None, list[str]]:
    """Reads a database; None when it is damaged, and its fault. CannotRead when neither is known."""
    if not path.exists():
        return None, ["the checkpoint is missing"]
    try:
        with unchanged(layout, path) as checkpoint:
            problems = [f"SQLite finds: {text}" for text in checkpoint.integrity()]
            return (None, problems) if problems else ((*checkpoint.load(), checkpoint.inventory()), [])
    except CannotRead:
        raise
    except StorageError as error:
        return None, [_text(error)]


def _is_unmade(layout: Layout, path: Path) -> bool:
    """Returns whether making a database was cut short, which loses nothing of it."""
    if not path.exists():
        return False
    try:
        with unchanged(layout, path) as checkpoint:
            return checkpoint.is_unmade()
    except StorageError:
        return False


def _text(error: StorageError) -> str:
    return error.text if isinstance(error, StorageDamaged) else str(error)


def _survey_journal(layout: Layout, mark: JournalMark) -> Iterator[Finding]:
    """Lists the whole groups of each segment, for a journal that cannot be replayed."""
    for number, path in layout.segments().items():
        if number < mark.first_segment:
            continue
        name = layout.relative(path)
        with mapped(path) as data:
            header = parse_segment_header(bytes(data[:SEGMENT_HEADER_BYTES]))
            salt = None if header is None or header.number != number else header.salt
            groups = [group.number for group in whole_groups(data, number, salt)]
        text = f"{len(groups)} whole groups"
        if groups:
            text += f", {groups[0]} to {groups[-1]}"
            missing = groups[-1] - groups[0] + 1 - len(groups)
            text += f", {missing} between them damaged" if missing else ""
        if salt is None:
            text += "; the segment's header is damaged"
        yield Finding(Severity.INFO, name, 0, text)


def _check_ledger_files(
    layout: Layout,
    state: DurableState,
    extents: dict[int, Extent],
    tables: dict[int, BlockTable],
    lost: LostEntries,
    examination: Examination,
) -> None:
    disk = Disk()
    examination.losses += find_short_files(disk, layout, state, extents)
    done, total = 0, sum(extent.size for extent in extents.values())
    for ledger_id, extent in extents.items():
        path = layout.ledger(ledger_id)
        name = layout.relative(path)
        size = path.stat().st_size if path.exists() else 0
        table = tables[ledger_id] = usable_table(disk, layout, ledger_id, extent)
        problem = _problem_of_table(disk, layout, ledger_id, extent)
        info = state.ledgers.get(ledger_id)
        blocks = zip(table.firsts, table.ends, strict=True)
        missing = [] if info is None else list(gaps(blocks, max(info.first_entry_id, extent.first), extent.end))
        severity = Severity.ERROR
        if missing and all(lost.covers(ledger_id, *gap) for gap in missing):
            severity = Severity.INFO  # known
        if size < extent.size:
            text = f"{extent.size} bytes of settled entries were durable, {size} are there"
            examination.add(severity, name, size, text)
        elif problem is not None:
            examination.add(severity, name, problem.offset, problem.text)
            if info is not None and severity is Severity.ERROR:
                place = f"{name}:{problem.offset}"
                examination.losses += [
                    TopicDamaged(info.topic_id, ledger_id, *gap, place, problem.text) for gap in missing
                ]
        for index, (offset, end) in enumerate(_block_bounds(table, extent) if size else ()):
            examination.progress(done + offset, total)
            with mapped(path) as data:
                is_whole = parse_block(bytes(data[offset:end]), ledger_id) is not None
            span = (table.firsts[index], table.ends[index])
            if not is_whole and end <= size and not lost.covers(ledger_id, *span):
                text = f"entries {span[0]} to {span[1] - 1} fail their checksum"
                examination.add(Severity.ERROR, name, offset, text)
                if info is not None and span[1] > info.first_entry_id:
                    examination.losses.append(TopicDamaged(info.topic_id, ledger_id, *span, f"{name}:{offset}", text))
        done += extent.size
        if not extent.sealed and size > extent.size:
            text = f"{size - extent.size} bytes after the last settled entry, of a settling that was never finished"
            examination.add(Severity.INFO, name, extent.size, text)


def _problem_of_table(disk: Disk, layout: Layout, ledger_id: int, extent: Extent) -> StorageDamaged | None:
    """Finds damage in the headers of a file's blocks and in its footer."""
    try:
        table = load_table(disk, layout, ledger_id, extent._replace(sealed=False))
        if extent.sealed:
            footer = load_table(disk, layout, ledger_id, extent)
            if (footer.firsts, footer.ends, footer.offsets) != (table.firsts, table.ends, table.offsets):
                name = layout.relative(layout.ledger(ledger_id))
                return StorageDamaged(name, extent.size, "the footer does not list the file's blocks")
    except StorageDamaged as error:
        return error
    except FileNotFoundError:
        return None
    return None


def _block_bounds(table: BlockTable, extent: Extent) -> list[tuple[int, int]]:
    """Offsets of each block's beginning and end; blocks of a damaged table were verified when they were found."""
    if table.damaged:
        return []
    return list(zip(table.offsets, [*table.offsets[1:], extent.size], strict=True))


def _check_coverage(
    layout: Layout, state: DurableState, index: RunIndex, tables: dict[int, BlockTable], lost: LostEntries
) -> Iterator[Finding]:
    """Verifies that every needed entry stands in the journal or in the ledger's file, or is known to be lost."""
    for ledger_id in sorted(state.ledgers):
        info = state.ledgers[ledger_id]
        wanted = state.first_needed_entry(ledger_id)
        assert wanted is not None, "an existing ledger has an answer"
        spans: list[tuple[int, int]] = []
        if ledger_id in tables:
            table = tables[ledger_id]
            start = bisect_right(table.ends, wanted)
            spans += zip(table.firsts[start:], table.ends[start:], strict=True)
        runs = index.ledgers.get(ledger_id)
        if runs is not None:
            spans += runs.spans()
        for first, end in gaps(spans, wanted, info.entries):
            if not lost.covers(ledger_id, first, end):
                topic = state.topics[info.topic_id].name
                text = f"entries {first} to {end - 1} of ledger {ledger_id} ({topic}) are nowhere"
                yield Finding(Severity.ERROR, layout.relative(layout.ledger(ledger_id)), 0, text)


def _check_aside(layout: Layout, extents: dict[int, Extent], aside: dict[int, Path]) -> Iterator[Finding]:
    for ledger_id, path in aside.items():
        text = f"holds what {layout.relative(layout.ledger(ledger_id))} lacks: `check --repair` puts it back"
        yield Finding(Severity.INFO, layout.relative(path), 0, text)
    for path, text in strangers(layout, extents):
        yield Finding(Severity.INFO, layout.relative(path), 0, text)


def _check_leftovers(layout: Layout, mark: JournalMark) -> Iterator[Finding]:
    for number, path in layout.segments().items():
        if number < mark.first_segment:
            yield Finding(Severity.INFO, layout.relative(path), 0, "no longer needed; will be recycled")
    known = {*layout.segments().values(), *layout.spares().values(), *layout.ledger_files().values()}
    for directory in (layout.journal, layout.ledgers):
        for path in sorted(directory.iterdir()):
            if path not in known:
                yield Finding(Severity.WARNING, layout.relative(path), 0, "no file of a data directory")
