"""File descriptors: every connection takes one, and connections must leave some to the storage."""

from __future__ import annotations

import contextlib
import logging
import resource
from typing import Final, NamedTuple

_WANTED: Final = (65_536, 10_240)
"""Limits in order: macOS allows no more than the second one (OPEN_MAX), whatever its hard limit says."""
_LOG = logging.getLogger("spark_pulsar.server")


class MostConnections(NamedTuple):
    """Most connections at a time; neither kind can take the place of the other."""

    binary: int
    http: int


def raise_limit() -> int:
    """Raises the limit of open files as far as this process may, within reason, and returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _WANTED[0]
    for most in _WANTED:
        wanted = most if hard == resource.RLIM_INFINITY else min(hard, most)
        if soft >= wanted:
            break
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return soft


def most_connections(open_files: int) -> MostConnections:
    """Divides the open files that a process may have. Half of them are for the storage: its thread that settles
    journals takes up to a quarter, and without one it can store nothing."""
    return MostConnections(binary=open_files * 3 // 8, http=open_files // 8)


class ConnectionLimit:
    """A limit of connections of the binary protocol. Reaching it is logged once, until there is plenty of room again:
    clients that are refused come again and again, and take each place that becomes free."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._was_said = False

    def has_room(self, count: int) -> bool:
        """Returns whether one more connection may be served beside `count`."""
        if count < self._most:
            if count <= self._most * 9 // 10:
                self._was_said = False
            return True
        if not self._was_said:
            self._was_said = True
            _LOG.warning("%d connections: no more are served. `ulimit -n` says how many can be", self._most)
        return False
