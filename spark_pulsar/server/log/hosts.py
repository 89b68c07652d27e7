"""Limits of the lines that strangers cause: a number for each host and minute; the rest is counted (SEC-87).

A record whose `host` is set (`extra=of_host(peer)`) counts against that host; others always pass.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from spark_pulsar.server.sockets import network_of, peer_text

MOST_HOSTS: Final = 10_000
"""Hosts that are counted each; further ones are counted together."""
WINDOW_S: Final = 60.0
_OTHERS: Final = "other hosts"


def of_host(peer: Any) -> dict[str, str]:
    """Returns the `extra` of a record that a client causes, by its address or the text of that (`peer_text`)."""
    text = peer if isinstance(peer, str) else peer_text(peer)
    return {"host": network_of(text.rpartition(":")[0])}


class LinesOfHosts(logging.Filter):
    """Filter that passes a limited number of records of each logger for one host within a minute."""

    def __init__(self, most: int, now_s: Callable[[], float] = time.monotonic) -> None:
        """`most`: 0 is no limit."""
        super().__init__()
        self._most = most
        self._now_s = now_s
        self._lock = threading.Lock()
        self._windows: dict[tuple[str, str], list[float]] = {}
        """[begin, records] by logger and host, in the order of their begin."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Counts a record; returns whether it may be written."""
        host: str | None = getattr(record, "host", None)
        if host is None or not self._most:
            return True
        with self._lock:
            key = (record.name, host)
            if key not in self._windows and len(self._windows) >= MOST_HOSTS:
                key = (record.name, _OTHERS)
            window = self._windows.setdefault(key, [self._now_s(), 0])
            window[1] += 1
            return window[1] <= self._most

    def report(self, is_last: bool = False) -> None:
        """Ends windows that are over, with `is_last` all, and logs of each how many records did not pass."""
        over: list[tuple[str, str, int]] = []
        with self._lock:
            now_s = self._now_s()
            while self._windows:
                (name, host), (begun_s, records) = next(iter(self._windows.items()))
                if now_s - begun_s < WINDOW_S and not is_last:
                    break
                del self._windows[name, host]
                if records > self._most:
                    over.append((name, host, int(records) - self._most))
        for name, host, count in over:
            logging.getLogger(name).warning("%d more lines about %s within a minute were left out", count, host)
