"""Watch over a disk that hangs: an operation that does not return fails nowhere, and only a clock notices (DUR-15)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spark_pulsar.storage.disk.pending_operations import Underway

HANGS_AFTER_S: Final = 5.0
"""Time of an operation that receipts wait for after which the disk hangs."""
SLOW_AFTER_S: Final = 60.0
"""Time of any other operation, of a checkpoint for instance, after which the log has a line."""
_PERIOD_S: Final = 1.0
_LOG = logging.getLogger("spark_pulsar.server")


class DiskWatch:
    """A thread that checks the operations of the disk every second."""

    def __init__(self, underway: Underway, on_change: Callable[[str], None], period_s: float = _PERIOD_S) -> None:
        """`on_change` is called by the thread with the reason why the disk takes nothing, empty when it goes on."""
        self._underway = underway
        self._on_change = on_change
        self._hangs_s = self._slow_s = 0.0
        self._period_s = period_s
        self._end = threading.Event()
        threading.Thread(target=self._run, name="disk-watch", daemon=True).start()

    def close(self) -> None:
        """Ends the thread."""
        self._end.set()

    def _run(self) -> None:
        while not self._end.wait(self._period_s):
            self.check()

    def check(self) -> None:
        """Compares the oldest operation with the limits."""
        oldest = self._underway.oldest()
        seconds = oldest.seconds if oldest is not None else 0.0
        if oldest is not None and oldest.holds_receipts and seconds >= HANGS_AFTER_S:
            if not self._hangs_s:
                reason = f"the disk hangs, {oldest.name} takes more than {HANGS_AFTER_S:g} s"
                _LOG.error("%s: receipts and changes wait for it, what is in memory is still served", reason)
                self._on_change(reason)
            self._hangs_s = seconds
        elif self._hangs_s:
            _LOG.warning("the disk goes on, after more than %d s", self._hangs_s)
            self._hangs_s = 0.0
            self._on_change("")
        if oldest is not None and not oldest.holds_receipts and seconds >= SLOW_AFTER_S:
            if not self._slow_s:
                text = "the disk is slow, %s takes more than %d s; receipts do not wait for it"
                _LOG.error(text, oldest.name, seconds)
            self._slow_s = seconds
        elif self._slow_s and not self._hangs_s:
            _LOG.warning("the disk goes on, after more than %d s", self._slow_s)
            self._slow_s = 0.0
