"""Tends the journal's segments in a thread of its own: zeros ahead of the writer, the next segment in time, spare
segments kept while much is written and given back a while afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from spark_pulsar.storage.disk.threads import Background, Threads

from .segments import MAX_SPARES, MIN_SPARES, PREPARE_AT, Segment, SegmentFiles

_SPACE_RETRY_S: Final = 1.0

KEEP_SPARES_S: Final = 60.0
"""Time that spare segments outlast a burst: load comes and goes, and a new segment, whose pages and blocks the system
has to find first, takes the journal up to four times as long to write."""


class Space:
    """Notifies the shell once when the disk has no space for more of the journal, and once when it has again.

    Two threads report: the journal's, which waits for space, and the one that prepares segments ahead."""

    def __init__(self, notify: Callable[[str, bool], None] | None) -> None:
        self._notify = notify
        self._lock = threading.Lock()
        self._is_short = False
        self._is_stalled = False

    def short(self, error: OSError) -> None:
        """There is no space for the segment after the present one."""
        self._change(str(error), is_stalled=self._is_stalled)

    def stalled(self, error: OSError | None) -> None:
        """Reports that the journal waits for space; None: it has got the space."""
        if error is not None:
            self._change(str(error), is_stalled=True)
        else:
            self._change("", is_stalled=False)

    def enough(self) -> None:
        """True when the next segment is ready."""
        if not self._is_stalled:
            self._change("", is_stalled=False)

    def _change(self, reason: str, *, is_stalled: bool) -> None:
        with self._lock:
            if (bool(reason), is_stalled) == (self._is_short, self._is_stalled):
                return
            self._is_short, self._is_stalled = bool(reason), is_stalled
            if self._notify is not None:
                self._notify(reason, is_stalled)


class SegmentUpkeep:
    """Keeps segments ready. The journal's thread and the shell's request work; `is_closing` ends it early."""

    def __init__(self, segments: SegmentFiles, space: Space, is_closing: Callable[[], bool], threads: Threads) -> None:
        self._segments = segments
        self._space = space
        self._is_closing = is_closing
        self._threads = threads
        self._is_burst = False
        self._burst_at_s = 0.0
        self.background = Background("segments", threads)

    def maintain(self, segment: Segment) -> None:
        """Queues the work for the segment that the journal writes to."""

        def work() -> None:
            if self._is_closing():
                return
            if not self._is_burst and segment.number in self._segments.in_use:
                segment.fill_ahead(self._segments.disk)
            if segment.write_at > segment.size // PREPARE_AT:
                self._prepare()

        self.background.put(work)

    def note_load(self, *, is_burst: bool) -> None:
        """Keeps segments that are not needed any more as spares while much is written and for a while after it; new
        segments get no zeros in a burst."""
        self._is_burst = is_burst
        if is_burst:
            self._burst_at_s = self._threads.now_s()
            if self._segments.wanted_spares != MAX_SPARES:
                self._segments.wanted_spares = MAX_SPARES
                self._threads.later(KEEP_SPARES_S, self._end_burst)

    def give_back(self) -> None:
        """Removes all spares but a few: the burst is over, or the disk is needed for something else."""
        self._segments.wanted_spares = MIN_SPARES
        self.background.put(self._segments.release)

    def _end_burst(self) -> None:
        """Gives spares back once little was written for long enough; a broker at rest has no other occasion."""
        if self._is_closing() or self._segments.wanted_spares != MAX_SPARES:
            return
        left_s = self._burst_at_s + KEEP_SPARES_S - self._threads.now_s()
        if left_s > 0:
            self._threads.later(left_s, self._end_burst)
        else:
            self.give_back()

    def _prepare(self) -> None:
        """Keeps a spare segment ready; without space for one producers are to stop while there is room for the rest.
        Requested again until there is."""
        if self._is_closing():
            return
        try:
            self._segments.prepare_spare(fill=not self._is_burst)
        except OSError as error:
            self._space.short(error)
            self._threads.later(_SPACE_RETRY_S, lambda: self.background.put(self._prepare))
        else:
            self._space.enough()
