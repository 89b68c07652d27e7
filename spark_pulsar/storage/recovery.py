"""Opening a data directory: the checkpoint, then the journal's groups after it, through the same `apply` as live.

The journal ends where its last segment stops making sense. If what stands there is what is left of one group, that
group was being written when the process died: it is cut and reported. If a valid group follows after that place, bytes
were damaged that had been durable: nothing is skipped, opening is refused with file and offset. Every segment names the
first group it holds, so that the end of the segment before it is known and a missing file is noticed. In segments that
were written without syncing, groups may have reached the disk in any order: there the first bad place is the end, and
what is given up is reported.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from spark_pulsar.ledger.record_codec import RecordDamaged
from spark_pulsar.ledger.record_types import decode_record
from spark_pulsar.ledger.records import EntriesAppended, LedgersTrimmed, UnknownRecord
from spark_pulsar.ledger.scattered import EntriesScattered
from spark_pulsar.ledger.state import DurableState, InvalidRecord
from spark_pulsar.ledger.storage import RecoveryReport, StorageDamaged, StorageVersionUnknown

from .checkpoint import JournalMark
from .groups import (
    SEGMENT_HEADER_BYTES,
    Group,
    SegmentHeader,
    find_later_group,
    looks_like_group,
    parse_group,
    parse_segment_header,
    records_of,
)
from .layout import Layout
from .run_index import RunIndex


@dataclass(slots=True)
class ReplayedSegment:
    """A live segment as replay found it; `end` is where its last valid group ends."""

    path: Path
    header: SegmentHeader
    end: int = SEGMENT_HEADER_BYTES
    group_offsets: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Replay:
    """What replaying found.

    `segments` rise; `cut` says that something was cut off, so that nothing may be written after it in the same
    segment.
    """

    segments: list[ReplayedSegment] = field(default_factory=list)
    last_group: int = 0
    cut: bool = False


@dataclass(slots=True)
class JournalEnd:
    """Why a segment's groups stop: `damage` is the reason if it is not simply the end; `torn_bytes` what was cut."""

    at: int
    torn_bytes: int = 0
    damage: str = ""


GroupSink = Callable[[Group, ReplayedSegment], None]
"""Called with a group and the segment it is in."""


def replay(layout: Layout, mark: JournalMark, state: DurableState, index: RunIndex, report: RecoveryReport) -> Replay:
    """Apply the groups after the checkpoint to the state, and index the entries of all groups in live segments.

    StorageDamaged for damage, StorageVersionUnknown for records of a newer program.
    """
    report.checkpoint_group = mark.last_group

    entries_type, scattered_type = EntriesAppended.TYPE, EntriesScattered.TYPE
    ledgers, apply = state.ledgers, state.apply

    def existing(payload: bytes, body_at: int) -> tuple[list[int], list[int]]:
        columns = EntriesScattered.decode_columns(payload, body_at, EntriesScattered.head_of(payload, body_at))
        pairs = zip(columns.ledger_ids, columns.entry_ids, strict=True)
        kept = [(ledger_id, entry_id) for ledger_id, entry_id in pairs if ledger_id in ledgers]
        return [ledger_id for ledger_id, _ in kept], [entry_id for _, entry_id in kept]

    def sink(group: Group, segment: ReplayedSegment) -> None:
        base, payload, number = group.payload_at, group.payload, segment.header.number
        after_checkpoint = group.number > mark.last_group
        body_at = 0
        try:
            for record_type, version, body_at, end in records_of(payload):
                length = end - body_at
                if after_checkpoint:
                    record = decode_record(record_type, version, payload, body_at, end)
                    apply(record)
                    if type(record) is EntriesAppended:
                        run = record.run
                        first, stop = run.first_entry_id, run.end_entry_id
                        index.add(run.ledger_id, first, stop, number, base + body_at, length)
                    elif type(record) is EntriesScattered:
                        ids = (record.ledger_ids, record.entry_ids)
                        index.add_scattered(*ids, number, base + body_at, length)
                    elif type(record) is LedgersTrimmed:
                        for ledger_id in record.ledger_ids:
                            index.drop_ledger(ledger_id)
                    report.records += 1
                elif record_type == entries_type:
                    ledger_id, first, stop = EntriesAppended.place_of(payload, body_at)
                    if ledger_id in ledgers:
                        index.add(ledger_id, first, stop, number, base + body_at, length)
                elif record_type == scattered_type:
                    index.add_scattered(*existing(payload, body_at), number, base + body_at, length)
        except UnknownRecord as error:
            name = layout.relative(segment.path)
            raise StorageVersionUnknown(f"{name}, offset {base + body_at}: {error}") from error
        except (RecordDamaged, InvalidRecord) as error:
            raise StorageDamaged(layout.relative(segment.path), base + body_at, str(error)) from error
        report.groups += after_checkpoint

    found = walk_journal(layout, mark, report, sink)
    state.finish_recovery()
    return found


def walk_journal(layout: Layout, mark: JournalMark, report: RecoveryReport, sink: GroupSink) -> Replay:
    """Find every group of the live segments, verify it, and hand it to the sink. StorageDamaged as `replay` says."""
    found = Replay()
    headers = _headers(layout, mark)
    expected: int | None = None
    for position, (path, header) in enumerate(headers):
        name = layout.relative(path)
        following = headers[position + 1][1] if position + 1 < len(headers) else None
        if expected is None:
            if header.first_group > mark.last_group + 1:
                text = f"the segment begins with group {header.first_group}, but {mark.last_group + 1} is needed"
                raise StorageDamaged(name, 0, text)
            expected = header.first_group
        elif header.first_group != expected:
            text = f"the segment begins with group {header.first_group}, but {expected} is next"
            raise StorageDamaged(name, 0, text)
        segment = ReplayedSegment(path, header)
        end = _walk_segment(segment, expected, following, sink)
        if end.damage:
            raise StorageDamaged(name, end.at, end.damage)
        expected += len(segment.group_offsets)
        found.segments.append(segment)
        if following is None and end.torn_bytes:
            found.cut = True
            report.torn_bytes, report.torn_at = end.torn_bytes, f"{name}:{end.at}"
    found.last_group = mark.last_group if expected is None else expected - 1
    if found.last_group < mark.last_group:
        name = layout.relative(found.segments[-1].path) if found.segments else "journal"
        at = found.segments[-1].end if found.segments else 0
        text = f"group {mark.last_group} was durable, but the journal ends with group {found.last_group}"
        raise StorageDamaged(name, at, text)
    return found


@contextmanager
def mapped(path: Path) -> Iterator[memoryview]:
    """The bytes of a file, without reading it all into memory."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_size == 0:
            yield memoryview(b"")
            return
        with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as data:
            data.madvise(mmap.MADV_SEQUENTIAL)
            view = memoryview(data)
            try:
                yield view
            finally:
                view.release()
    finally:
        os.close(fd)


def _headers(layout: Layout, mark: JournalMark) -> list[tuple[Path, SegmentHeader]]:
    """Files and headers of the live segments, rising."""
    headers: list[tuple[Path, SegmentHeader]] = []
    for number, path in layout.segments().items():
        if number >= mark.first_segment:
            with mapped(path) as data:
                header = parse_segment_header(bytes(data[:SEGMENT_HEADER_BYTES]))
                size = len(data)
            if header is None or header.number != number:
                raise StorageDamaged(layout.relative(path), 0, "the segment's header is damaged")
            if size != header.size:
                text = f"the segment is {size} bytes long, but was made with {header.size}"
                raise StorageDamaged(layout.relative(path), min(size, header.size), text)
            headers.append((path, header))
    return headers


def _walk_segment(
    segment: ReplayedSegment, expected: int, following: SegmentHeader | None, sink: GroupSink
) -> JournalEnd:
    header = segment.header
    with mapped(segment.path) as data:
        at = SEGMENT_HEADER_BYTES
        while following is None or expected < following.first_group:
            group = parse_group(data, at, header.number, header.salt)
            if group is None or group.number != expected:
                break
            sink(group, segment)
            segment.group_offsets.append(at)
            segment.end = at = group.end
            expected += 1
        if following is not None:
            if expected == following.first_group:
                return JournalEnd(at)
            return JournalEnd(at, damage=f"group {expected} is missing or damaged, but later ones were written")
        later = find_later_group(data, at, header.number, header.salt)
        if later is not None and header.synced:
            return JournalEnd(at, damage=f"group {expected} is damaged, but a later group stands at {later}")
        if later is None and not looks_like_group(data, at, header.number, header.salt, expected):
            return JournalEnd(at)
        return JournalEnd(at, torn_bytes=_torn_bytes(data, at, later))


def _torn_bytes(data: memoryview, at: int, later: int | None) -> int:
    """About how much was cut: what the torn group's header promises, or up to the last byte that is not zero."""
    promised = int.from_bytes(bytes(data[at + 32 : at + 36]), "little")
    if later is None and 0 < promised <= len(data) - at:
        return min(promised + 44, len(data) - at)
    rest = bytes(data[at:]).rstrip(b"\0")
    return max(1, len(rest))
