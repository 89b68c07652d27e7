"""Decides when full segments are settled, and how fast: at once in a calm broker, later and gently under load.

Settling writes what the journal has written already, to the same disk. While much is published it is put off: the disk
is left to the receipts, and what consumers finish meanwhile is never written a second time. While much is read it is
put off longer, since the readers are about to finish it. It is put off up to a bound, because opening after a crash
reads every segment that is not settled; and not for long, because a segment that is free can be written again where it
is, while a new one costs memory and disk."""

from __future__ import annotations

from collections import deque
from typing import Final

MANY_SEGMENTS: Final = 6
"""Full segments from which on they are settled while much is written: a quarter of the time, and more when there are
more."""

TOO_MANY_SEGMENTS: Final = 12
"""Full segments from which on settling does not rest: 0.75 GiB to be read again after a crash."""

CALM_WORK_PER_S: Final = 32 * 1024 * 1024
ENTRY_WORK: Final = 1024
_WRITTEN_S: Final = 0.5
_READ_S, _READ_SAMPLE_S = 0.3, 0.05
"""Seconds over which the load is averaged. A consumer that catches up may be done soon, so that reads are sampled
often."""

_MOST_REST: Final = 3.0
"""Longest rest of settling, in times its work."""

_MOST_REST_PUT_OFF: Final = 15.0
"""Times as long as it works while much is read, since it takes the interpreter and the disk's cache from consumers that
catch up, and for settling that began in a calm, or for another reason than many segments."""

_LONGEST_REST_S: Final = 0.5
"""Longest rest before the load is sampled again."""


def work(size_bytes: int, entries: int) -> int:
    """Cost of entries in bytes: a small one costs the processor as much as a kilobyte costs the disk."""
    return size_bytes + ENTRY_WORK * entries


class _Rate:
    """The rate of a rising sum: high or not."""

    def __init__(self, mean_s: float, every_s: float) -> None:
        self._mean_s, self._every_s = mean_s, every_s
        self._sampled_at = 0.0
        self._sampled = 0
        self._rises: deque[tuple[float, int]] = deque()
        """Times of the latest samples, and how much the sum had risen."""
        self.is_high = False

    def sample(self, total: int, now_s: float) -> None:
        """Takes another sample, if it is time."""
        elapsed_s = now_s - self._sampled_at
        if elapsed_s < self._every_s:
            return
        rises = self._rises
        while rises and rises[0][0] <= now_s - self._mean_s:
            rises.popleft()
        rises.append((now_s, total - self._sampled))
        self._sampled_at, self._sampled = now_s, total
        self.is_high = sum(rise for _, rise in rises) > CALM_WORK_PER_S * max(self._mean_s, elapsed_s)


class SettlingPace:
    """Watches how much is written and read. One thread at a time calls: the settling one while something is settled,
    else the shell's."""

    def __init__(self) -> None:
        self._written = _Rate(_WRITTEN_S, _WRITTEN_S)
        self._read = _Rate(_READ_S, _READ_SAMPLE_S)

    @property
    def is_calm(self) -> bool:
        """Returns whether little was written and read lately."""
        return not (self._written.is_high or self._read.is_high)

    @property
    def is_burst(self) -> bool:
        """Returns whether much was written lately."""
        return self._written.is_high

    def note(self, written: int, read: int, now_s: float) -> None:
        """Samples the load, if it is time: `written` and `read` are `work` since opening, `now_s` is a monotonic
        clock."""
        self._written.sample(written, now_s)
        self._read.sample(read, now_s)

    def is_due(self, full_segments: int) -> bool:
        """Returns whether to settle now."""
        if self._read.is_high:
            return full_segments >= TOO_MANY_SEGMENTS
        return full_segments >= (MANY_SEGMENTS if self._written.is_high else 1)

    def rest_s(self, full_segments: int, worked_s: float) -> float:
        """Seconds that settling rests after it worked so long: the less, the more there is to settle."""
        if self.is_calm:
            return 0.0
        waiting = max(0, full_segments - MANY_SEGMENTS) / (TOO_MANY_SEGMENTS - MANY_SEGMENTS)
        most = _MOST_REST_PUT_OFF if self._read.is_high or full_segments < MANY_SEGMENTS else _MOST_REST
        return min(_LONGEST_REST_S, worked_s * most * max(0.0, 1.0 - waiting))
