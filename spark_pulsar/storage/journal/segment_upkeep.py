"""Tending the journal's segments in a thread of its own: zeros ahead of the writer, the next segment in time, spares
kept while much is written and given back afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spark_pulsar.storage.disk.background import Background
from spark_pulsar.storage.disk.space import Space
from spark_pulsar.storage.disk.threads import Threads

from .segments import MAX_SPARES, MIN_SPARES, PREPARE_AT, Segment, SegmentFiles

_SPACE_RETRY_S: Final = 1.0


class SegmentUpkeep:
    """What it does is asked for by the journal's thread and the shell's. `is_closing` ends it early."""

    def __init__(self, segments: SegmentFiles, space: Space, is_closing: Callable[[], bool], threads: Threads) -> None:
        self._segments = segments
        self._space = space
        self._is_closing = is_closing
        self._threads = threads
        self._is_burst = False
        self.background = Background("segments", threads)

    def tend(self, segment: Segment) -> None:
        """The journal writes to that segment, and wants work done for it."""

        def work() -> None:
            if self._is_closing():
                return
            if not self._is_burst and segment.number in self._segments.live:
                segment.fill_ahead(self._segments.disk)
            if segment.write_at > segment.size // PREPARE_AT:
                self._prepare()

        self.background.put(work)

    def note_load(self, *, is_burst: bool) -> None:
        """While much is written, segments that are not needed any more are kept for the journal, and new ones get no
        zeros."""
        self._is_burst = is_burst
        wanted = MAX_SPARES if is_burst else MIN_SPARES
        if wanted != self._segments.wanted_spares:
            self._segments.wanted_spares = wanted
            self.background.put(self._segments.release)

    def _prepare(self) -> None:
        """Have a spare segment at hand; without space for one producers are to stop while there is room for the rest.
        Asked again until there is."""
        if self._is_closing():
            return
        try:
            self._segments.prepare_spare(fill=not self._is_burst)
        except OSError as error:
            self._space.short(error)
            self._threads.later(_SPACE_RETRY_S, lambda: self.background.put(self._prepare))
        else:
            self._space.enough()
