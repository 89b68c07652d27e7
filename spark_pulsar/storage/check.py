"""`check`: verify a data directory offline, every checksum and every promise between its files, changing nothing."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from spark_pulsar.ledger.state import DurableState
from spark_pulsar.ledger.storage import RecoveryReport, StorageDamaged, StorageError, StorageLocked

from .checkpoint import Checkpoint, JournalMark
from .disk import Disk
from .groups import SEGMENT_HEADER_BYTES, find_later_group, parse_group, parse_segment_header
from .layout import Layout, take_lock
from .ledger_files import BlockTable, Extent, load_table, parse_block
from .recovery import mapped, replay
from .run_index import RunIndex


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """Durable data is damaged or missing; the broker refuses to open, or will fail to read it."""
    WARNING = "warning"
    """Not in order, but nothing durable is affected; the broker puts it right."""
    INFO = "info"
    """Worth knowing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found: how bad, in which file (relative to the data directory), where, and what it means."""

    severity: Severity
    file: str
    offset: int
    text: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.file} at {self.offset}: {self.text}"


def check(data_dir: str | os.PathLike[str]) -> list[Finding]:
    """Verify a data directory that no broker uses. Empty when everything is as it should be; findings of severity
    INFO and WARNING need no action."""
    layout = Layout(Path(data_dir))
    if not layout.root.is_dir():
        return [Finding(Severity.ERROR, ".", 0, f"{layout.root} is no directory")]
    try:
        is_data_directory = layout.read_version()
    except StorageError as error:
        return [Finding(Severity.ERROR, "VERSION", 0, str(error))]
    if not is_data_directory:
        return [Finding(Severity.ERROR, "VERSION", 0, "missing: this is no data directory, or was never used")]
    try:
        lock_fd = take_lock(layout)
    except (StorageLocked, StorageError) as error:
        return [Finding(Severity.ERROR, "LOCK", 0, str(error))]
    try:
        return [*_check_all(layout)]
    finally:
        os.close(lock_fd)


def _check_all(layout: Layout) -> Iterator[Finding]:
    state, mark, extents, findings = _check_checkpoint(layout)
    yield from findings
    index = RunIndex()
    report = RecoveryReport()
    complete = not findings
    if complete:
        try:
            replay(layout, mark, state, index, report)
        except StorageDamaged as error:
            complete = False
            text = f"{error.text}. The broker refuses to open, so that nothing is skipped"
            yield Finding(Severity.ERROR, error.file, error.offset, text)
        except StorageError as error:
            complete = False
            yield Finding(Severity.ERROR, "journal", 0, str(error))
        if report.torn_bytes:
            file, _, offset = report.torn_at.rpartition(":")
            text = (
                f"{report.torn_bytes} bytes of a group that was being written when the broker died; it was never "
                "confirmed to anybody and will be cut off"
            )
            yield Finding(Severity.WARNING, file, int(offset), text)
    if not complete:
        yield from _survey_journal(layout, mark)
    tables: dict[int, BlockTable] = {}
    yield from _check_ledger_files(layout, extents, tables)
    if complete:
        yield from _check_coverage(layout, state, index, tables, extents.keys() - tables.keys())
    yield from _check_leftovers(layout, mark, extents)


def _check_checkpoint(layout: Layout) -> tuple[DurableState, JournalMark, dict[int, Extent], list[Finding]]:
    name = layout.relative(layout.checkpoint)
    nothing = DurableState(), JournalMark(0, min(layout.segments(), default=1)), dict[int, Extent]()
    if not layout.checkpoint.exists():
        return *nothing, [Finding(Severity.ERROR, name, 0, "the checkpoint is missing")]
    try:
        checkpoint = Checkpoint(layout)
    except StorageError as error:
        return *nothing, [Finding(Severity.ERROR, name, 0, _text(error))]
    try:
        findings = [Finding(Severity.ERROR, name, 0, f"SQLite finds: {text}") for text in checkpoint.integrity()]
        if not findings:
            return *checkpoint.load(), findings
    except StorageError as error:
        findings = [Finding(Severity.ERROR, name, 0, _text(error))]
    finally:
        checkpoint.close()
    return *nothing, findings


def _text(error: StorageError) -> str:
    return error.text if isinstance(error, StorageDamaged) else str(error)


def _survey_journal(layout: Layout, mark: JournalMark) -> Iterator[Finding]:
    """When the journal cannot be replayed: which groups of which segments are whole nevertheless."""
    for number, path in layout.segments().items():
        if number < mark.first_segment:
            continue
        name = layout.relative(path)
        with mapped(path) as data:
            header = parse_segment_header(bytes(data[:SEGMENT_HEADER_BYTES]))
            salt = None if header is None or header.number != number else header.salt
            groups: list[int] = []
            at = find_later_group(data, SEGMENT_HEADER_BYTES, number, salt)
            while at is not None:
                group = parse_group(data, at, number, bytes(data[at + 16 : at + 24]))
                assert group is not None, "find_later_group verified it"
                groups.append(group.number)
                at = find_later_group(data, group.end, number, salt)
        text = f"{len(groups)} whole groups"
        if groups:
            text += f", {groups[0]} to {groups[-1]}"
            missing = groups[-1] - groups[0] + 1 - len(groups)
            text += f", {missing} between them damaged" if missing else ""
        if salt is None:
            text += "; the segment's header is damaged"
        yield Finding(Severity.INFO, name, 0, text)


def _check_ledger_files(layout: Layout, extents: dict[int, Extent], tables: dict[int, BlockTable]) -> Iterator[Finding]:
    disk = Disk()
    for ledger_id, extent in extents.items():
        path = layout.ledger(ledger_id)
        name = layout.relative(path)
        size = path.stat().st_size if path.exists() else 0
        if size < extent.size:
            text = f"{extent.size} bytes of settled entries were durable, {size} are there"
            yield Finding(Severity.ERROR, name, size, text)
            continue
        try:
            # The headers are walked even when there is a footer, so that both are verified.
            table = load_table(disk, layout, ledger_id, extent._replace(sealed=False))
            if extent.sealed:
                footer = load_table(disk, layout, ledger_id, extent)
                if (footer.firsts, footer.ends, footer.offsets) != (table.firsts, table.ends, table.offsets):
                    yield Finding(Severity.ERROR, name, extent.size, "the footer does not list the file's blocks")
        except StorageDamaged as error:
            yield Finding(Severity.ERROR, name, error.offset, error.text)
            continue
        tables[ledger_id] = table
        with mapped(path) as data:
            for index, offset in enumerate(table.offsets):
                end = table.offsets[index + 1] if index + 1 < len(table.offsets) else extent.size
                if parse_block(bytes(data[offset:end]), ledger_id) is None:
                    text = f"entries {table.firsts[index]} to {table.ends[index] - 1} fail their checksum"
                    yield Finding(Severity.ERROR, name, offset, text)
        if not extent.sealed and size > extent.size:
            text = f"{size - extent.size} bytes after the last settled entry, of a settling that was never finished"
            yield Finding(Severity.INFO, name, extent.size, text)


def _check_coverage(
    layout: Layout, state: DurableState, index: RunIndex, tables: dict[int, BlockTable], unreadable: set[int]
) -> Iterator[Finding]:
    """Every entry that somebody may still want stands in the journal or in the ledger's file. Ledgers whose file is
    unreadable were reported already."""
    for ledger_id in sorted(state.ledger_ids() - unreadable):
        managed = state.managed_ledger_of(ledger_id)
        wanted = state.first_needed_entry(ledger_id)
        assert managed is not None, "only existing ledgers are listed"
        assert wanted is not None, "an existing ledger has an answer"
        end = state.ledgers[ledger_id].entries
        spans: list[tuple[int, int]] = []
        if ledger_id in tables:
            table = tables[ledger_id]
            start = bisect_right(table.ends, wanted)
            spans += zip(table.firsts[start:], table.ends[start:], strict=True)
        runs = index.ledgers.get(ledger_id)
        if runs is not None:
            spans.append((runs.firsts[0], runs.end))
        for first, stop in [*spans, (end, end)]:
            if first > wanted:
                topic = state.topics[managed.topic_id].name
                text = f"entries {wanted} to {first - 1} of ledger {ledger_id} ({topic}) are nowhere"
                yield Finding(Severity.ERROR, layout.relative(layout.ledger(ledger_id)), 0, text)
            wanted = max(wanted, stop)


def _check_leftovers(layout: Layout, mark: JournalMark, extents: dict[int, Extent]) -> Iterator[Finding]:
    for number, path in layout.segments().items():
        if number < mark.first_segment:
            yield Finding(Severity.INFO, layout.relative(path), 0, "no longer needed; will be recycled")
    for ledger_id, path in layout.ledger_files().items():
        if ledger_id not in extents:
            text = "no checkpoint names it: left by a settling or trim that was interrupted; will be removed"
            yield Finding(Severity.INFO, layout.relative(path), 0, text)
    known = {*layout.segments().values(), *layout.spares().values(), *layout.ledger_files().values()}
    for directory in (layout.journal, layout.ledgers):
        for path in sorted(directory.iterdir()):
            if path not in known:
                yield Finding(Severity.WARNING, layout.relative(path), 0, "no file of a data directory")
