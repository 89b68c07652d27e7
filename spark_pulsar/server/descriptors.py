"""File descriptors: every connection takes one, and what clients do must leave some to the storage."""

from __future__ import annotations

import logging
import resource
from typing import Final, NamedTuple

_WANTED: Final = 65_536
_LOG = logging.getLogger("spark_pulsar.server")


class MostConnections(NamedTuple):
    """How many connections are served at once; neither kind can take the place of the other."""

    binary: int
    http: int


def raise_limit() -> int:
    """Let this process have as many open files as it may, within reason; how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _WANTED
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(hard, _WANTED)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


def most_connections(open_files: int) -> MostConnections:
    """How many there may be when a process may have so many open files. Half of those are for the storage: its thread
    that settles journals takes up to a quarter, and without one it can store nothing."""
    return MostConnections(binary=open_files * 3 // 8, http=open_files // 8)


class Room:
    """For so many connections of the binary protocol. That there is none is said once, until there is plenty again:
    clients that are refused come again and again, and take each place that becomes free."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._was_said = False

    def is_left(self, count: int) -> bool:
        """Whether one more may be served beside so many."""
        if count < self._most:
            if count <= self._most * 9 // 10:
                self._was_said = False
            return True
        if not self._was_said:
            self._was_said = True
            _LOG.warning("%d connections: no more are served. `ulimit -n` says how many can be", self._most)
        return False
