"""Takes over the files that recovery found: segments to go on with, and files to use again."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from spark_pulsar.ledger.state.damage import TopicDamaged
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.storage.checkpoint.checkpoint import JournalMark
from spark_pulsar.storage.disk.disk import TAKES_NO_MORE, Disk
from spark_pulsar.storage.disk.layout import Layout
from spark_pulsar.storage.journal.group_search import Replay, ReplayedSegment, mapped
from spark_pulsar.storage.journal.groups import GROUP_HEADER_BYTES, group_header_bytes, read_group, records_of
from spark_pulsar.storage.journal.run_index import RunIndex
from spark_pulsar.storage.journal.segments import Segment, SegmentFiles
from spark_pulsar.storage.ledgers.files import Extent, gaps, usable_table

_COPIED_BYTES: Final = 1024 * 1024


def open_segments(
    disk: Disk, layout: Layout, files: SegmentFiles, mark: JournalMark, replay: Replay, *, may_reuse: bool
) -> Segment | None:
    """Opens the segments that replay found; returns the one to go on writing to, None when a new one must be begun.

    `may_reuse`: the checkpoint, which says that older segments are not needed, is known to survive power loss; they are
    left alone otherwise, for the next opening.
    """
    for unsure in _never_synced(mark, replay):
        _make_durable(disk, layout, unsure)
    old = {number: path for number, path in layout.segments().items() if number < mark.first_segment}
    numbers = [*layout.segments()]
    spares = dict(layout.spares())
    for number, path in old.items() if may_reuse else ():
        spares[number] = layout.spare(number)
        disk.rename(path, spares[number])
    for replayed in replay.segments:
        path, header = replayed.path, replayed.header
        fd = disk.open(path, os.O_RDWR)
        segment = Segment(path, fd, header.size, header.number, header.salt, replayed.end)
        segment.write_at = replayed.end
        segment.group_offsets.extend(replayed.group_offsets)
        segment.set_aside = replay.has_holes
        files.in_use[header.number] = segment
    # A segment with a lower number than the checkpoint's first would count as old.
    files.adopt(spares, [*numbers, mark.first_segment - 1])
    if not replay.segments or replay.cut:
        return None
    last = replay.segments[-1].header
    return files.in_use[last.number] if last.synced == files.synced else None


def _never_synced(mark: JournalMark, replay: Replay) -> list[ReplayedSegment]:
    """Segments that were written without syncing and hold groups of which the checkpoint does not know."""
    return [
        replayed
        for replayed in replay.segments
        if not replayed.header.synced
        and not replay.has_holes
        and replayed.header.first_group + len(replayed.group_offsets) > mark.last_group + 1
    ]


def _make_durable(disk: Disk, layout: Layout, replayed: ReplayedSegment) -> None:
    """Writes the groups of a segment once more; where they stand when there is no space. A disk that is full and copies
    overwritten blocks takes neither: the segment is left as it is."""
    for write in (_write_anew, _write_over):
        try:
            write(disk, layout, replayed)
            return
        except OSError as error:
            if error.errno not in TAKES_NO_MORE:
                raise


def _write_anew(disk: Disk, layout: Layout, replayed: ReplayedSegment) -> None:
    """Writes a segment once more, to a file of its own that takes its place, durable on return.

    The bytes that were read may not be on disk: the process may have been killed before it synced, or its sync may
    have failed, and a second sync of the same pages proves nothing. The next segment and the next checkpoint rest on
    this one.
    """
    spare = layout.spare(replayed.header.number)
    with disk.opened(spare, os.O_CREAT | os.O_TRUNC | os.O_RDWR) as fd:
        try:
            disk.preallocate(fd, replayed.header.size)
            with mapped(replayed.path) as data:
                for at in range(0, replayed.end, _COPIED_BYTES):
                    disk.write(fd, [bytes(data[at : min(at + _COPIED_BYTES, replayed.end)])], at)
            disk.sync(fd)
        except OSError:
            with suppress(OSError):
                disk.remove(spare)
            raise
    disk.rename(spare, replayed.path)
    disk.sync_directory(replayed.path.parent)


def _write_over(disk: Disk, layout: Layout, replayed: ReplayedSegment) -> None:
    """Writes a segment where it stands, durable on return: its space is reserved. A new write makes the pages dirty
    again, which a second sync of them would not; being torn between equal bytes costs nothing."""
    disk.sync_directory(layout.journal)
    with disk.opened(replayed.path, os.O_RDWR) as fd:
        for at in range(0, replayed.end, _COPIED_BYTES):
            data = disk.read(fd, min(_COPIED_BYTES, replayed.end - at), at)
            disk.write_durably(fd, [data], at)


def write_last_group_again(
    files: SegmentFiles, index: RunIndex, mark: JournalMark, replay: Replay, lock: threading.Lock
) -> Segment | None:
    """Writes the journal's last group once more, to a segment of its own; None when that is not needed.

    It may never have been synced: the process may have been killed before, or its sync may have failed, and
    the bytes that were read were in the system's memory alone. Groups written behind it would be durable and it would
    not, and a second sync of the same pages proves nothing. All groups before it were synced before it was written. The
    new segment says that it begins with this group, which cuts it off where it stood.
    """
    last = replay.segments[-1] if replay.segments else None
    if last is None or not last.header.synced or replay.last_group <= mark.last_group:
        return None
    old = files.in_use[last.header.number]
    if not old.group_offsets:
        return None
    at = old.group_offsets[-1]
    payload = _payload_again(files, old, at)
    records = sum(1 for _ in records_of(payload))

    def group(segment: Segment) -> list[bytes]:
        return [group_header_bytes(segment.number, segment.salt, replay.last_group, records, [payload]), payload]

    size = GROUP_HEADER_BYTES + len(payload)
    segment = files.begin(replay.last_group, size, group)
    segment.group_offsets.append(segment.write_at)
    with lock:
        index.move_from(old.number, at, segment.number, segment.write_at)
        segment.write_at += size
        old.group_offsets.pop()
        old.write_at = at
    return segment


def _payload_again(files: SegmentFiles, old: Segment, at: int) -> bytes:
    payload = read_group(files.disk, old.fd, at, old.number, old.salt)
    if payload is None:
        raise OSError(f"{files.layout.relative(old.path)}: the last group cannot be read a second time")
    return payload


def _write_in_place(files: SegmentFiles, replay: Replay) -> None:
    """Writes the last group where it stands, durable on return: its space is reserved, so that a full disk takes it. A
    new write makes the pages dirty again, which a second sync of them would not; being torn costs nothing that was
    promised."""
    # A new segment that could not be begun was removed: it must not come back, since it would end the old one there.
    files.disk.sync_directory(files.layout.journal)
    old = files.in_use[replay.segments[-1].header.number]
    at = old.group_offsets[-1]
    size = GROUP_HEADER_BYTES + len(_payload_again(files, old, at))
    files.disk.write_durably(old.fd, [files.disk.read(old.fd, size, at)], at)


def restore_last_group(
    lock: threading.Lock, files: SegmentFiles, index: RunIndex, mark: JournalMark, replay: Replay
) -> tuple[Segment | None, Callable[[], Segment | None] | None]:
    """`write_last_group_again`; in place, when the disk takes no new segment now. Where it does not take that either
    (one that copies overwritten blocks), returns the call that does it later, before anything else is written: until
    then the broker serves the state it has."""

    def write() -> Segment | None:
        return write_last_group_again(files, index, mark, replay, lock)

    try:
        return write(), None
    except OSError as error:
        if error.errno not in TAKES_NO_MORE:
            raise
    try:
        _write_in_place(files, replay)
    except OSError as error:
        if error.errno not in TAKES_NO_MORE:
            raise
        return None, write
    return None, None


def find_short_files(
    disk: Disk, layout: Layout, state: DurableState, extents: Mapping[int, Extent]
) -> list[TopicDamaged]:
    """Finds entries newly lost because files of ledgers are missing or shorter than they were."""
    damages: list[TopicDamaged] = []
    paths = layout.ledger_files()
    for ledger_id, extent in extents.items():
        path = layout.ledger(ledger_id)
        size = path.stat().st_size if ledger_id in paths else 0
        info = state.ledgers.get(ledger_id)
        if info is None or size >= extent.size:
            continue
        table = usable_table(disk, layout, ledger_id, extent)
        text = f"{extent.size} bytes of settled entries were durable, {size} are there"
        known = {damage[:3] for damage in state.topics[info.topic_id].damages}
        stops = [*table.offsets[1:], extent.size][: len(table.offsets)]
        blocks = zip(table.firsts, table.ends, stops, strict=True)
        complete = [(first, end) for first, end, stop in blocks if table.damaged or stop <= size]
        for first, end in gaps(complete, max(info.first_entry_id, extent.first), extent.end):
            if (ledger_id, first, end) not in known:
                place = f"{layout.relative(path)}:{size}"
                damages.append(TopicDamaged(info.topic_id, ledger_id, first, end, place, text))
    return damages
