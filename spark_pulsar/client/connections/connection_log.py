"""Warnings of connections that are lost or cannot be made: at once, and once in a while as long as it goes on
(READ-35)."""

from __future__ import annotations

import logging
import threading
from typing import Final

from spark_pulsar.client.clock import monotonic_ms
from spark_pulsar.client.errors import ConnectionLost
from spark_pulsar.model.errors import PulsarError

LOG: Final = logging.getLogger("spark_pulsar")
AGAIN_AFTER_MS: Final = 10_000
"""Time between two warnings of one text in one process."""
_MOST_TEXTS: Final = 100

_lock = threading.Lock()
_logged_ms: dict[str, int] = {}
"""Texts with the time of their last warning, the oldest first."""


def warn_of_lost(error: PulsarError) -> None:
    """Warns of a connection that was lost while something used it."""
    _warn(f"{error}; connecting again")


def warn_of_retry(cause: PulsarError, left_ms: int) -> None:
    """Warns of a connection that could not be made and is tried again for `left_ms`; silent about other errors."""
    if isinstance(cause, ConnectionLost):
        _warn(f"{cause}; trying again", f" for {max(1, left_ms // 1000)} s")


def _warn(text: str, more: str = "") -> None:
    now_ms = monotonic_ms()
    with _lock:
        last_ms = _logged_ms.get(text)
        if last_ms is not None and now_ms - last_ms < AGAIN_AFTER_MS:
            return
        _logged_ms.pop(text, None)
        _logged_ms[text] = now_ms
        if len(_logged_ms) > _MOST_TEXTS:
            del _logged_ms[next(iter(_logged_ms))]
    LOG.warning("%s%s", text, more)
