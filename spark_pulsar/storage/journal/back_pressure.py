"""Back-pressure of settling on the journal: no new segment while settling cannot keep up.

Producers may write faster than the disk takes the same bytes a second time. Without a bound full segments would fill
the disk, and opening after a crash would have to read them all. So before a new segment is begun the journal's thread
waits for the copying that is under way, if there are MOST_SEGMENTS already. Receipts only come later; what waits for
the disk is bounded by the shell, which reads no more from its producers then.

It waits for nothing but copying. A checkpoint that was requested and stands behind submits in the journal's queue needs
the journal to go on, so the journal does; the submits before it are bounded. Copying that fails ends like copying that
succeeds: what happens then is decided where the reason is known, for instance a disk without space (DUR-10: `Journal`).
"""

from __future__ import annotations

from typing import Final

MOST_SEGMENTS: Final = 48
"""Full segments from which on the journal waits for settling: 3 GiB, four times what makes settling stop resting.
Opening reads them in some ten seconds; docs/broker.md says that the journal may take that much."""


class BackPressure:
    """Decides whether the journal waits. The journal's thread calls it, and reports when copying begins; the settling
    thread reports when it ends."""

    def __init__(self) -> None:
        self.is_copying = False
        """True while a checkpoint copies entries: every submit that it waited for is written."""
        self.is_waiting = False
        """True if the journal had to wait at its last call."""

    def must_wait(self, full_segments: int) -> bool:
        """Returns whether the journal must wait before it begins another segment beside that many full ones."""
        self.is_waiting = self.is_copying and full_segments >= MOST_SEGMENTS
        return self.is_waiting
