"""Finds the groups of a journal after a crash or damage: where it ends, and where it has holes (DUR-4).

The journal ends where its last segment stops making sense. If the bytes there are the remains of one group, that group
was being written when the process died: it is cut and reported. If a valid group follows after that place, bytes were
damaged that had been durable: a hole. Every segment names the first group it holds, so that the end of the segment
before it is known and a missing file is noticed. In segments that were written without syncing, groups may have reached
the disk in any order: there the first bad place is the end, and the discarded groups are reported.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from spark_pulsar.ledger.storage import RecoveryReport, StorageDamaged
from spark_pulsar.storage.checkpoint.checkpoint import JournalMark
from spark_pulsar.storage.disk.layout import Layout

from .groups import (
    GROUP_HEADER_BYTES,
    SALT_BYTES,
    SEGMENT_HEADER_BYTES,
    Group,
    SegmentHeader,
    find_later_group,
    may_be_group,
    parse_group,
    parse_segment_header,
)

_SALT_AT = 16


@dataclass(slots=True)
class ReplayedSegment:
    """A segment in use as replay found it; `end` is the offset after its last valid group."""

    path: Path
    header: SegmentHeader
    end: int = SEGMENT_HEADER_BYTES
    group_offsets: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Hole:
    """Groups `first_group … last_group` were durable and are damaged or missing; none when only a header is. Their
    bytes stand, if anywhere, in the segment's file from `at` to `end`. `is_open`: it is unknown how many there were."""

    file: str
    at: int
    end: int
    first_group: int
    last_group: int
    text: str
    segment: ReplayedSegment | None = None
    is_open: bool = False

    @property
    def is_one_group(self) -> bool:
        """Returns whether the bytes are those of exactly one group."""
        return self.first_group == self.last_group and self.end - self.at >= GROUP_HEADER_BYTES


GroupSink = Callable[[Group, ReplayedSegment], None]
"""Takes a group and its segment."""

HoleSink = Callable[[Hole], None]
"""Takes a hole, between the groups around it. An exception ends the walk."""


@dataclass(slots=True)
class JournalEnd:
    """The end of a segment's groups; `torn_bytes` is the size of the group that was cut there, `expected` the number of
    the next group."""

    at: int
    expected: int
    torn_bytes: int = 0


@dataclass(slots=True)
class Replay:
    """Result of walking the journal.

    `segments` rise; `cut` says that something was cut off, so that nothing may be written after it in the same
    segment.
    """

    segments: list[ReplayedSegment] = field(default_factory=list)
    last_group: int = 0
    cut: bool = False
    has_holes: bool = False


def refuse(hole: Hole) -> None:
    """Refuses a hole: the sink of a walk that cannot go on after one."""
    raise StorageDamaged(hole.file, hole.at, hole.text)


def walk_journal(
    layout: Layout, mark: JournalMark, report: RecoveryReport, sink: GroupSink, on_hole: HoleSink = refuse
) -> Replay:
    """Finds every group of the segments in use, verifies it, and hands it to the sink; holes go to theirs."""
    replay = Replay()
    headers = _headers(layout, mark, on_hole)
    missing = _missing_first(layout, mark, headers)
    if missing is not None:
        on_hole(missing)
    expected: int | None = None
    for position, (path, header) in enumerate(headers):
        name = layout.relative(path)
        following = headers[position + 1][1] if position + 1 < len(headers) else None
        needed = mark.last_group + 1 if expected is None else expected
        if header.first_group > needed or (expected is not None and header.first_group < needed):
            what = "needed" if expected is None else "next"
            text = f"the segment begins with group {header.first_group}, but {needed} is {what}"
            on_hole(Hole(name, 0, 0, needed, header.first_group - 1, text))
        segment = ReplayedSegment(path, header)
        replay.segments.append(segment)
        end = _walk_segment(name, segment, following, sink, on_hole)
        expected = end.expected
        if following is None and end.torn_bytes:
            replay.cut = True
            report.torn_bytes, report.torn_at = end.torn_bytes, f"{name}:{end.at}"
    replay.last_group = mark.last_group if expected is None else expected - 1
    if replay.last_group < mark.last_group:
        last = replay.segments[-1] if replay.segments else None
        text = f"group {mark.last_group} was durable, but the journal ends with group {replay.last_group}"
        at, size = (last.end, last.path.stat().st_size) if last is not None else (0, 0)
        file = layout.relative(last.path) if last is not None else "journal"
        on_hole(Hole(file, at, size, replay.last_group + 1, mark.last_group, text, last))
        replay.last_group, replay.cut = mark.last_group, True
    return replay


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


def _headers(layout: Layout, mark: JournalMark, on_hole: HoleSink) -> list[tuple[Path, SegmentHeader]]:
    """Files and headers of the segments in use, rising. A damaged header is made again from its groups."""
    headers: list[tuple[Path, SegmentHeader]] = []
    segments = layout.segments()
    for number, path in segments.items():
        if number < mark.first_segment:
            continue
        name, is_last = layout.relative(path), number == max(segments)
        with mapped(path) as data:
            header = parse_segment_header(bytes(data[:SEGMENT_HEADER_BYTES]))
            size = len(data)
            if header is None or header.number != number:
                header = _header_of_groups(data, number)
                is_open = header is None and is_last
                on_hole(Hole(name, 0, 0, 0, -1, "the segment's header is damaged", is_open=is_open))
        if header is not None and size != header.size:
            text = f"the segment is {size} bytes long, but was made with {header.size}"
            is_open = is_last and size < header.size
            on_hole(Hole(name, min(size, header.size), size, 0, -1, text, is_open=is_open))
        if header is not None:
            headers.append((path, header))
    return headers


def _missing_first(layout: Layout, mark: JournalMark, headers: list[tuple[Path, SegmentHeader]]) -> Hole | None:
    """The hole that is there when the checkpoint's first segment is not: a checkpoint names one that exists, or says 1
    as it did before there was any."""
    numbers = [number for number in layout.segments() if number >= mark.first_segment]
    if not mark.last_group or mark.first_segment in numbers:
        return None
    text = f"segment {mark.first_segment} is missing"
    if not numbers:
        text += f", and there is none after it: it is not known what came after group {mark.last_group}"
        return Hole("journal", 0, 0, mark.last_group + 1, mark.last_group, text, is_open=True)
    path = layout.segment(numbers[0])
    if mark.first_segment == 1 and any(other == path and header.first_group == 1 for other, header in headers):
        return None
    return Hole(layout.relative(path), 0, 0, 1, mark.last_group, f"{text}, this one is the first")


def _header_of_groups(data: memoryview, number: int) -> SegmentHeader | None:
    """The header that a segment's first whole group implies, None when it has none."""
    at = find_later_group(data, SEGMENT_HEADER_BYTES, number, None)
    if at is None:
        return None
    salt = bytes(data[at + _SALT_AT : at + _SALT_AT + SALT_BYTES])
    group = parse_group(data, at, number, salt)
    assert group is not None, "it was just found"
    return SegmentHeader(number, salt, group.number, len(data), True)


def _walk_segment(
    name: str, segment: ReplayedSegment, following: SegmentHeader | None, sink: GroupSink, on_hole: HoleSink
) -> JournalEnd:
    header = segment.header
    expected, stop = header.first_group, None if following is None else following.first_group
    with mapped(segment.path) as data:
        at = SEGMENT_HEADER_BYTES
        while True:
            while stop is None or expected < stop:
                group = parse_group(data, at, header.number, header.salt)
                if group is None or group.number != expected:
                    break
                sink(group, segment)
                segment.group_offsets.append(at)
                segment.end = at = group.end
                expected += 1
            if expected == stop:
                return JournalEnd(at, expected)
            later = find_later_group(data, at, header.number, header.salt)
            if stop is None and (later is None or not header.synced):
                torn = later is not None or may_be_group(data, at, header.number, header.salt, expected)
                return JournalEnd(at, expected, _torn_bytes(data, at, later) if torn else 0)
            later_group = None if later is None else parse_group(data, later, header.number, header.salt)
            if later is None or later_group is None or (stop is not None and later_group.number >= stop):
                assert stop is not None, "the end of the last segment is no hole"
                text = f"group {expected} is missing or damaged, but later ones were written"
                on_hole(Hole(name, at, len(data), expected, stop - 1, text, segment))
                return JournalEnd(at, stop)
            text = f"group {expected} is damaged, but a later group stands at {later}"
            on_hole(Hole(name, at, later, expected, later_group.number - 1, text, segment))
            expected, at = later_group.number, later


def _torn_bytes(data: memoryview, at: int, later: int | None) -> int:
    """Estimates the bytes that were cut: those of the torn group's header, or up to the last byte that is not zero."""
    promised = int.from_bytes(bytes(data[at + 32 : at + 36]), "little")
    if later is None and 0 < promised <= len(data) - at:
        return min(promised + GROUP_HEADER_BYTES, len(data) - at)
    rest = bytes(data[at:]).rstrip(b"\0")
    return max(1, len(rest))
