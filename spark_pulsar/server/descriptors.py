"""File descriptors: every connection takes one, and what clients do must leave some to the storage."""

from __future__ import annotations

import resource
from typing import Final, NamedTuple

_WANTED: Final = 65_536


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
