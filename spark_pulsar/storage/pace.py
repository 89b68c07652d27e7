"""When full segments are settled, and how fast: at once in a calm broker, later and gently under load.

Settling writes what the journal has written already, to the same disk. While much is published it is put off: the disk
is left to the receipts, and what consumers finish meanwhile is never written a second time. It is put off up to a
bound, because opening after a crash reads every segment that is not settled.
"""

from __future__ import annotations

from typing import Final

MANY_SEGMENTS: Final = 12
"""Full segments from which on they are settled under load, too: half of the time, so that half of the disk is left."""

TOO_MANY_SEGMENTS: Final = 24
"""Full segments from which on settling does not rest: 1.5 GiB to be read again after a crash."""

CALM_BYTES_PER_S: Final = 32 * 1024 * 1024
_SAMPLE_S: Final = 0.5


class SettlingPace:
    """Watches how much is submitted. `is_due` is called by the shell's thread alone."""

    def __init__(self) -> None:
        self._sampled_at = 0.0
        self._sampled_bytes = 0
        self.is_calm = True
        """Whether little was submitted lately."""

    def is_due(self, full_segments: int, submitted_bytes: int, now_s: float) -> bool:
        """Whether to settle now. `submitted_bytes` counts from opening, `now_s` is a monotonic clock."""
        elapsed_s = now_s - self._sampled_at
        if elapsed_s >= _SAMPLE_S:
            self.is_calm = submitted_bytes - self._sampled_bytes <= CALM_BYTES_PER_S * elapsed_s
            self._sampled_at, self._sampled_bytes = now_s, submitted_bytes
        return full_segments >= (1 if self.is_calm else MANY_SEGMENTS)

    def rest_s(self, full_segments: int, worked_s: float) -> float:
        """How long settling rests after it worked so long."""
        return 0.0 if self.is_calm or full_segments >= TOO_MANY_SEGMENTS else worked_s
