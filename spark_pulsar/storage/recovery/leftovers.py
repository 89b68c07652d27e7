"""Leftovers: files of ledgers that no checkpoint names (DUR-12). A settling or a trim that was interrupted leaves them,
and they go where that is proven; any other may be the last that is left of its ledger, and is moved to `damaged/`.

Three things prove it. The checkpoint notes the ledgers that it trimmed until their files are gone. The journal deleted
the ledger after the checkpoint. Or the ledger is known and every entry in the file is in the journal too, or dropped:
its settling was never finished, and is done again.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path

from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.storage import RecoveryReport
from spark_pulsar.storage.disk.disk import Disk
from spark_pulsar.storage.disk.layout import Layout
from spark_pulsar.storage.journal.run_index import RunIndex
from spark_pulsar.storage.ledgers.files import BLOCK_HEADER_BYTES, BLOCK_MAGIC, Extent, parse_block_head

Known = tuple[DurableState, Mapping[int, Extent], RunIndex, Set[int]]
"""State after recovery, extents of the checkpoint, entries in the journal, and trimmed ledgers of the checkpoint."""


def clear_leftovers(disk: Disk, layout: Layout, known: Known, report: RecoveryReport) -> None:
    """Removes leftovers that are proven to be superfluous, and moves all others to `damaged/`."""
    has_removed = False
    for path, reason in leftovers(layout, known):
        name = layout.relative(path)
        if reason:
            disk.remove(path)
            report.notes.append(f"{name}: removed, {reason}")
            has_removed = True
            continue
        try:
            aside = layout.aside(path)
            disk.rename(path, aside)
            for directory in (aside.parent, path.parent, layout.root):
                disk.sync_directory(directory)
        except OSError as error:  # it does no harm where it is
            report.set_aside.append(f"{name}: nothing names it, and it could not be moved to damaged/: {error}")
        else:
            report.set_aside.append(f"{name}: nothing names it; moved to {layout.relative(aside)}")
    if has_removed:
        # A file that came back later would not be proven to be superfluous any more.
        disk.sync_directory(layout.ledgers)


def leftovers(layout: Layout, known: Known) -> Iterator[tuple[Path, str]]:
    """Yields the files of ledgers that no extent names, each with the reason to remove it; empty: there is none."""
    state, extents, index, trimmed = known
    for ledger_id, path in layout.ledger_files().items():
        if ledger_id in extents:
            continue
        info = state.ledgers.get(ledger_id)
        if info is not None:
            spans = joined([(0, info.first_entry_id), *_in_journal(index, ledger_id)])
            blocks = joined(found_spans(path, ledger_id))
            is_stored = all(any(first <= low and high <= end for first, end in spans) for low, high in blocks)
            yield path, "its settling was never finished" if is_stored else ""
        elif ledger_id in trimmed or ledger_id in state.dirty_ledgers:
            yield path, "its ledger was deleted"
        else:
            yield path, "" if path.stat().st_size else "it is empty"


def _in_journal(index: RunIndex, ledger_id: int) -> list[tuple[int, int]]:
    """First and end of the entries of a ledger that are in the journal. Runs follow one another unless some are
    lost."""
    runs = index.ledgers.get(ledger_id)
    if runs is None or not runs.words:
        return []
    return runs.spans() if runs.has_lost else [(runs.first, runs.end)]


def joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans, each first and end, with those that touch joined, rising."""
    result: list[tuple[int, int]] = []
    for first, end in sorted(spans):
        if result and first <= result[-1][1]:
            result[-1] = result[-1][0], max(result[-1][1], end)
        else:
            result.append((first, end))
    return result


def found_spans(path: Path, ledger_id: int) -> Iterator[tuple[int, int]]:
    """Yields first and end of each block of the ledger that a file may hold, going by headers alone."""
    if not path.stat().st_size:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = 0
        while at != -1:
            head = parse_block_head(data[at : at + BLOCK_HEADER_BYTES])
            if head is None or head.ledger_id != ledger_id:
                at = data.find(BLOCK_MAGIC, at + 1)
                continue
            yield head.first, head.end
            # One that was cut off, or whose header is damaged, must not hide those behind it.
            at += head.size
            if at == len(data):
                return
            if at > len(data) or data[at : at + len(BLOCK_MAGIC)] != BLOCK_MAGIC:
                at = data.find(BLOCK_MAGIC, at - head.size + 1)
