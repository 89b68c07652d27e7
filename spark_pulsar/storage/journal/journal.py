"""The journal: group commit by one thread (DUR-1, DUR-2, DUR-3). What it has written is on disk, or, with
`journalSyncData=false`, with the operating system (DUR-5); answers wait for that in `Turn.when_durable` (DUR-7).

`submit` encodes records and queues them; the thread takes all that is queued as one group, writes it with one durable
write, and calls back. While it writes, the next group gathers. A lone submit waits for nothing but the hand-over and
the disk; where its caller allows that, and the disk is quick and nothing is under way, the caller waits for it, two
milliseconds at most: a disk that was quick may hang. Where a new segment is needed and the disk has no space for one,
the thread waits until there is some; where there are too many (`back_pressure`), until settling has done its part.
After a failed write of a group nothing is written any more: what the file holds then is for recovery to find out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

from spark_pulsar.ledger.entries import Extents
from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.storage import MAX_SUBMIT_BYTES, OnDurable, StorageFailed
from spark_pulsar.storage.disk.disk import TAKES_NO_MORE, Disk
from spark_pulsar.storage.disk.threads import JOURNAL_THREAD, Threads

from .groups import GROUP_HEADER_BYTES, RECORD, RECORD_HEADER_BYTES, group_header_bytes
from .run_index import RunIndex
from .segments import Segment, SegmentFiles, fits

GROUP_TARGET_BYTES: Final = 8 * 1024 * 1024
"""A group takes no further submit once it is this large."""

_FIRST_PAUSE_S: Final = 0.05
_LAST_PAUSE_S: Final = 1.0
_BACK_PRESSURE_S: Final = 0.01
_LARGE_BYTES: Final = 16 * 1024

AT_ONCE_BYTES: Final = 4 * 1024
"""A larger submit is always handed over."""
QUICK_S: Final = 0.001
QUICK_WRITES: Final = 16
"""Number of writes in a row under QUICK_S each that makes a disk quick."""
PATIENCE_S: Final = 0.002
"""Time that a caller waits for a write which was to be quick."""

_EntriesMark = tuple[Extents, int, int]
"""(extents of a record, offset of its body in the submit, length of the body)"""


class Submission:
    """The encoded records of one submit."""

    __slots__ = ("awaited", "count", "entries", "marks", "on_durable", "parts", "size")

    def __init__(self, records: Sequence[Record], on_durable: OnDurable | None) -> None:
        parts: list[bytes] = []
        small: list[bytes] = []
        marks: list[_EntriesMark] = []
        at = entries = 0
        pack = RECORD.pack
        for record in records:
            if isinstance(record, EntriesAppended):
                head, region = record.encode_parts()
                length = len(head) + len(region)
                marks.append((record.entries.extents(), at + RECORD_HEADER_BYTES, length))
                entries += len(record)
                small += (pack(record.TYPE, record.VERSION, length), head)
                if len(region) < _LARGE_BYTES:
                    small.append(region)
                else:
                    parts += (b"".join(small), region)
                    small.clear()
            else:
                body = record.encode()
                length = len(body)
                small += (pack(record.TYPE, record.VERSION, length), body)
            at += RECORD_HEADER_BYTES + length
        if small:
            parts.append(b"".join(small))
        if at > MAX_SUBMIT_BYTES:
            raise ValueError(f"{at} bytes of records in one submit; the limit is {MAX_SUBMIT_BYTES}")
        self.parts = parts
        self.marks = marks
        self.size = at
        self.count = len(records)
        self.entries = entries
        self.on_durable = on_durable
        self.awaited: Awaited | None = None


class Awaited:
    """A submission whose caller waits for it, for a while."""

    __slots__ = ("_ended", "_guard", "_is_durable", "_is_late")

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._ended = threading.Lock()
        self._ended.acquire()  # until the wait ends
        self._is_durable = self._is_late = False

    def wait(self, timeout_s: float) -> bool:
        """Waits; returns whether it is durable. If not, its `on_durable` is called once it is."""
        self._ended.acquire(timeout=timeout_s)
        with self._guard:
            self._is_late = not self._is_durable
            return self._is_durable

    def durable(self) -> bool:
        """Ends the wait; returns whether the caller has waited that long."""
        with self._guard:
            self._is_durable = not self._is_late
        self._ended.release()
        return self._is_durable

    def failed(self) -> None:
        """Ends the wait: it will not be durable."""
        self._ended.release()


class Barrier:
    """A place between two submits: `reached(group)` is called by the journal thread when everything before is durable
    and nothing after is written; `group` is the number of the last group before."""

    __slots__ = ("reached",)

    def __init__(self, reached: Callable[[int], None]) -> None:
        self.reached = reached


_Item = Submission | Barrier | None
_Begun = TypeVar("_Begun", Segment, Segment | None)


@dataclass(frozen=True, slots=True)
class JournalTail:
    """End of the journal that recovery found: the last group's number and the segment after it, None to begin a new
    one. `take_up` runs in the journal's thread before it writes anything, and gives the segment to go on with."""

    last_group: int
    segment: Segment | None
    take_up: Callable[[], Segment | None] | None


@dataclass(frozen=True, slots=True)
class JournalCallbacks:
    """Calls from the journal's thread.

    | attribute | meaning |
    | --- | --- |
    | `failed` | a group could not be written: nothing is, from now on |
    | `wants_work` | a segment is in use, so that the next one should be made ready |
    | `stalled` | the disk takes no further segment, for this reason; None once it does |
    | `must_wait` | returns whether settling has to catch up before the next segment |
    """

    failed: Callable[[StorageFailed], None]
    wants_work: Callable[[Segment], None]
    stalled: Callable[[OSError | None], None]
    must_wait: Callable[[], bool]


class Journal:
    """Writes groups to segments. `submit`, `barrier` and `close` are called by one thread."""

    def __init__(
        self,
        disk: Disk,
        files: SegmentFiles,
        index: RunIndex,
        lock: threading.Lock,
        tail: JournalTail,
        callbacks: JournalCallbacks,
        threads: Threads,
    ) -> None:
        self._disk = disk
        self._files = files
        self._index = index
        self._lock = lock
        self._last_group = tail.last_group
        self._current = tail.segment
        self._first = tail.take_up
        self._callbacks = callbacks
        self._ending = threads.ending()
        self._write = disk.write_durably if files.synced else disk.write
        self._queue: SimpleQueue[_Item] = SimpleQueue()
        self.submitted_records = 0
        """Records submitted since opening."""
        self.submitted_bytes = 0
        """Bytes submitted since opening."""
        self.submitted_entries = 0
        """Entries submitted since opening."""
        self._written_bytes = 0
        self._threads = threads
        self._quick_writes = 0
        self._handed_over = 0 if tail.take_up is None else 1
        self._handled = 0
        """Items handed over that the thread has dealt with."""
        self.failure: StorageFailed | None = None
        self._thread = threads.start(self._run, JOURNAL_THREAD)

    @property
    def unwritten_bytes(self) -> int:
        """Bytes submitted and not yet durable."""
        return self.submitted_bytes - self._written_bytes

    @property
    def current_number(self) -> int:
        """The number of the segment that is written to; segments with lower numbers are full. 0 before the first."""
        current = self._current
        return 0 if current is None else current.number

    def submit(self, records: Sequence[Record], on_durable: OnDurable | None, *, at_once: bool = False) -> bool:
        """See `Storage.submit`."""
        if self.failure is not None:
            raise StorageFailed(str(self.failure)) from self.failure
        submission = Submission(records, on_durable)
        self.submitted_bytes += submission.size
        self.submitted_records += submission.count
        self.submitted_entries += submission.entries
        if at_once and self._is_quick_for(submission.size):
            submission.awaited = Awaited()
            self._hand_over(submission)
            return submission.awaited.wait(PATIENCE_S)
        self._hand_over(submission)
        return False

    @property
    def is_quick(self) -> bool:
        """Returns whether a small write is quick: neither the disk nor the segment is about to make it long."""
        segment = self._current
        return (
            self._quick_writes >= QUICK_WRITES
            and segment is not None
            and segment.write_at + GROUP_HEADER_BYTES + AT_ONCE_BYTES <= segment.filled_to
        )

    def _is_quick_for(self, size: int) -> bool:
        """Returns whether the caller may wait: the thread is at rest, and the write is quick."""
        return self._handed_over == self._handled and size <= AT_ONCE_BYTES and self.is_quick

    def _hand_over(self, item: _Item) -> None:
        self._handed_over += 1
        self._queue.put(item)

    def barrier(self, reached: Callable[[int], None]) -> None:
        """See `Barrier`. Never reached when a write before it fails."""
        self._hand_over(Barrier(reached))

    def close(self) -> None:
        """Writes the submitted groups, if the disk accepts them, and ends the thread."""
        self._ending.set()
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        get, get_nowait = self._queue.get, self._queue.get_nowait
        if self._first is not None:
            try:
                self._current = self._insist(self._first)
            except Exception as error:  # noqa: BLE001 - nothing may be written after a group that may not be there
                self._fail(error)
                return
            self._handled += 1
        item: _Item = get()
        while True:
            if isinstance(item, Submission):
                group, item = self._gather(item, get_nowait)
                if not self._try_to_commit(group):
                    return
                if item is None:
                    item = get()
            elif isinstance(item, Barrier):
                item.reached(self._last_group)
                self._handled += 1
                item = get()
            else:
                return

    def _gather(self, first: Submission, get_nowait: Callable[[], _Item]) -> tuple[list[Submission], _Item]:
        """All submissions that are queued now, up to the size of a group or a barrier; and the item after them."""
        group = [first]
        size = first.size
        while size < GROUP_TARGET_BYTES:
            try:
                item = get_nowait()
            except Empty:
                return group, None
            if not isinstance(item, Submission):
                if item is None:
                    # The end: put it back, it is the last item there is.
                    self._queue.put(None)
                return group, item
            group.append(item)
            size += item.size
        return group, None

    def _try_to_commit(self, group: list[Submission]) -> bool:
        try:
            self._commit(group)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, nothing may be written after it
            self._fail(error)
            for submission in group:
                if submission.awaited is not None:
                    submission.awaited.failed()
            return False
        return True

    def _commit(self, group: list[Submission]) -> None:
        payload, size = _joined(group)
        records = sum([submission.count for submission in group])
        number = self._last_group + 1
        segment = self._current
        if segment is None or not fits(segment, size):
            if segment is not None and not self._files.synced:
                # A segment that has a successor is complete, also when groups are not synced one by one.
                self._disk.sync(segment.fd)
            while self._callbacks.must_wait() and not self._ending.is_set():
                self._ending.wait(_BACK_PRESSURE_S)
            begin, needed = self._files.begin, GROUP_HEADER_BYTES + size
            segment = self._current = self._insist(lambda: begin(number, needed))
        at = segment.write_at
        buffers = [group_header_bytes(segment.number, segment.salt, number, records, payload), *payload]
        end = at + GROUP_HEADER_BYTES + size
        segment.claim(end)
        began_s = self._threads.now_s()
        self._write(segment.fd, buffers, at)
        self._quick_writes = self._quick_writes + 1 if self._threads.now_s() - began_s < QUICK_S else 0
        self._note(segment, group, at)
        segment.write_at = end
        self._last_group = number
        self._handled += len(group)
        for submission in group:
            self._written_bytes += submission.size
            if submission.awaited is not None and submission.awaited.durable():
                continue
            if submission.on_durable is not None:
                submission.on_durable(number)
        if segment.wants_work():
            self._callbacks.wants_work(segment)

    def _insist(self, begin: Callable[[], _Begun]) -> _Begun:
        """A new segment. Nothing was written yet, so the request may be repeated again and again: the disk has no
        space, or gives no permission (DUR-10). `on_stalled` hears why, and None when it is over."""
        pause_s = _FIRST_PAUSE_S
        stalled = False
        while True:
            try:
                segment = begin()
            except OSError as error:
                if self._ending.is_set() or error.errno not in TAKES_NO_MORE:
                    raise
                stalled = True
                self._callbacks.stalled(error)
                self._ending.wait(pause_s)
                pause_s = min(2 * pause_s, _LAST_PAUSE_S)
            else:
                if stalled:
                    self._callbacks.stalled(None)
                return segment

    def _note(self, segment: Segment, group: list[Submission], at: int) -> None:
        """Indexes the runs of a group that is durable now."""
        number = segment.number
        base = at + GROUP_HEADER_BYTES
        index = self._index
        with self._lock:
            segment.group_offsets.append(at)
            for submission in group:
                for extents, offset, length in submission.marks:
                    index.add(extents, number, base + offset, length)
                base += submission.size

    def _fail(self, error: Exception) -> None:
        self.failure = StorageFailed(f"writing the journal failed: {error}")
        self.failure.__cause__ = error
        self._callbacks.failed(self.failure)


def _joined(group: list[Submission]) -> tuple[list[bytes], int]:
    """The buffers of a group and their size: small ones joined, large ones as they are."""
    if len(group) == 1:
        return group[0].parts, group[0].size
    buffers: list[bytes] = []
    small: list[bytes] = []
    size = 0
    for submission in group:
        size += submission.size
        for part in submission.parts:
            if len(part) < _LARGE_BYTES:
                small.append(part)
            else:
                if small:
                    buffers.append(b"".join(small))
                    small = []
                buffers.append(part)
    if small:
        buffers.append(b"".join(small))
    return buffers, size
