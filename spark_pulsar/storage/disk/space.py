"""Whether the disk has space for more of the journal, as the shell is told: once when it has not, once when it has."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Space:
    """Told by two threads: the journal's, which waits when there is none, and the one that prepares segments ahead."""

    def __init__(self, tell: Callable[[str, bool], None] | None) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._is_short = False
        self._is_stalled = False

    def short(self, error: OSError) -> None:
        """There is no space for the segment after the present one."""
        self._change(str(error), is_stalled=self._is_stalled)

    def stalled(self, error: OSError | None) -> None:
        """The journal waits for space; None: it has got what it waited for."""
        if error is not None:
            self._change(str(error), is_stalled=True)
        else:
            self._change("", is_stalled=False)

    def enough(self) -> None:
        """The next segment is at hand."""
        if not self._is_stalled:
            self._change("", is_stalled=False)

    def _change(self, reason: str, *, is_stalled: bool) -> None:
        with self._lock:
            if (bool(reason), is_stalled) == (self._is_short, self._is_stalled):
                return
            self._is_short, self._is_stalled = bool(reason), is_stalled
            if self._tell is not None:
                self._tell(reason, is_stalled)
