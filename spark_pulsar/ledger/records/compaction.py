"""Records of compaction (CMP-C1 … CMP-C4): a ledger beside a topic's chain that holds the last message of each key.

An entry of a compacted ledger is 16 bytes that name its origin, then the entry itself, perhaps with fewer
messages. It takes entries as any other ledger does, by `EntriesAppended`. While it is written it is not read; one
record lets it replace the one before it, or a crash leaves it unfinished and it is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .base import DeclaredRecord


@dataclass(frozen=True, slots=True)
class CompactionPrepared(DeclaredRecord):
    """The topic is to be compacted some time: from now on what lies after the horizon is kept for it."""

    topic_id: int
    ledger_id: int
    entry_id: int
    TYPE: ClassVar[int] = 80


@dataclass(frozen=True, slots=True)
class CompactionBegun(DeclaredRecord):
    """A compacted ledger, empty, is written from now on. The topic was prepared."""

    topic_id: int
    ledger_id: int
    begun_ms: int
    TYPE: ClassVar[int] = 81


@dataclass(frozen=True, slots=True)
class CompactionFinished(DeclaredRecord):
    """The ledger that was written is the compacted one, and the one before it is gone. See `Compaction`."""

    topic_id: int
    ledger_id: int
    horizon_ledger_id: int
    horizon_entry_id: int
    finished_ms: int
    removed: int
    last: tuple[int, ...]
    index: tuple[int, ...]
    TYPE: ClassVar[int] = 82


@dataclass(frozen=True, slots=True)
class CompactionAbandoned(DeclaredRecord):
    """The ledger that was written is gone; everything is as it was before it."""

    topic_id: int
    TYPE: ClassVar[int] = 83


@dataclass(frozen=True, slots=True)
class CompactionForgotten(DeclaredRecord):
    """Nothing of the topic is compacted any more, and nothing is kept for it: the topic is about to go."""

    topic_id: int
    TYPE: ClassVar[int] = 84
