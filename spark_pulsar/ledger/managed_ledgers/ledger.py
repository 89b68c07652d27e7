"""Ledgers: the facts of one, marks of the sizes inside it, and when one that takes entries is full (ML-2, ML-1)."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from spark_pulsar.model.column_store import Counter, HasCounters

MARK_BYTES: Final = 64 * 1024
"""Bytes appended between two marks, about."""

_SEALED_MARKS: Final = 32

LEDGER_ID, ENTRIES, SIZE_BYTES, MESSAGES, NEXT_MARK_BYTES, OPENED_MS = range(6)
"""Columns of the numbers of a ledger. The two that never change are among them so that they are read together."""
WIDTH: Final = 6

_MINUTE_MS = 60_000


class Bounds(NamedTuple):
    """Known sizes next to a number of entries of a ledger, at or below it and at or above it: numbers of first entries,
    and the bytes that these take."""

    low: int
    low_bytes: int
    high: int
    high_bytes: int


class SizeSpan(NamedTuple):
    """Entries `first … end - 1` of a ledger, whose sizes are requested; its first `end` entries take `end_bytes`."""

    ledger_id: int
    first: int
    end: int
    end_bytes: int


@dataclass(slots=True, eq=False)
class SizeMarks:
    """Bytes that the first entries of one ledger take, for some numbers of entries, rising."""

    entries: array[int] = field(default_factory=lambda: array("q"))
    sizes: array[int] = field(default_factory=lambda: array("q"))

    def add(self, entries: int, size_bytes: int) -> None:
        """The ledger's end is worth remembering."""
        self.entries.append(entries)
        self.sizes.append(size_bytes)

    def learn(self, entries: int, size_bytes: int) -> None:
        """A mark that was found later."""
        at = bisect_left(self.entries, entries)
        if at == len(self.entries) or self.entries[at] != entries:
            self.entries.insert(at, entries)
            self.sizes.insert(at, size_bytes)

    def thin(self, total_entries: int) -> None:
        """Keeps a few, evenly: the ledger is sealed."""
        apart = total_entries // _SEALED_MARKS
        last, kept, self.sizes, sizes = 0, array("q"), array("q"), self.sizes
        for entries, size_bytes in zip(self.entries, sizes, strict=True):
            if entries - last >= apart:
                kept.append(entries)
                self.sizes.append(size_bytes)
                last = entries
        self.entries = kept

    def around_entries(self, entries: int, end: int, end_bytes: int) -> Bounds:
        """Returns the marks next to a number of entries; the ledger's end is one."""
        at = bisect_left(self.entries, entries)
        if at < len(self.entries) and self.entries[at] == entries:
            return Bounds(entries, self.sizes[at], entries, self.sizes[at])
        return self._around(at, end, end_bytes)

    def around_size(self, size_bytes: int, end: int, end_bytes: int) -> Bounds:
        """The last mark below a size, and the first one at or above it."""
        return self._around(bisect_left(self.sizes, size_bytes), end, end_bytes)

    def _around(self, at: int, end: int, end_bytes: int) -> Bounds:
        """The marks before and at an index; behind the last one the ledger's end."""
        if at < len(self.entries):
            end, end_bytes = self.entries[at], self.sizes[at]
        return Bounds(self.entries[at - 1], self.sizes[at - 1], end, end_bytes) if at else Bounds(0, 0, end, end_bytes)


@dataclass(frozen=True, slots=True)
class RollLimits:
    """Limits of a ledger (ML-2): it is full when entries, size or age are reached and it is older than the minimum age
    (which 0 switches off)."""

    max_entries: int = 50_000
    max_size_bytes: int = 2048 * 1024 * 1024
    max_age_ms: int = 240 * _MINUTE_MS
    min_age_ms: int = 10 * _MINUTE_MS


class LedgerInfo(HasCounters):
    """One ledger of a topic.

    | attribute | meaning |
    | --- | --- |
    | `base` | ordinal before its entry 0: entries the topic took before this ledger |
    | `entries` | entries it took; the next one gets this id |
    | `first_entry_id` | lowest id that can still be read (what lies before was consumed and dropped) |
    | `size_bytes`, `messages` | of all entries it took |
    | `opened_ms`, `sealed_ms` | wall clock; `sealed_ms` is None while it is open |
    | `base_bytes` | of the ledgers before it in the chain; only differences mean something, and it is not stored |
    | `marks`, `next_mark_bytes` | sizes inside it (see `entry_sizes`), and at what size the next is noted; not stored |

    The numbers that change with every entry stand in `DurableState.open_ledgers` while the ledger takes entries.
    """

    __slots__ = ("base", "base_bytes", "first_entry_id", "ledger_id", "marks", "opened_ms", "sealed_ms", "topic_id")

    def __init__(
        self,
        ledger_id: int,
        topic_id: int,
        base: int,
        opened_ms: int,
        entries: int = 0,
        first_entry_id: int = 0,
        size_bytes: int = 0,
        messages: int = 0,
        sealed_ms: int | None = None,
    ) -> None:
        super().__init__((ledger_id, entries, size_bytes, messages, MARK_BYTES, opened_ms))
        self.ledger_id = ledger_id
        self.topic_id = topic_id
        self.opened_ms = opened_ms
        self.base = base
        self.first_entry_id = first_entry_id
        self.sealed_ms = sealed_ms
        self.base_bytes = 0
        self.marks: SizeMarks | None = None

    entries = Counter(ENTRIES)
    size_bytes = Counter(SIZE_BYTES)
    messages = Counter(MESSAGES)
    next_mark_bytes = Counter(NEXT_MARK_BYTES)

    def row(self) -> tuple[int | None, ...]:
        """Everything that is stored of it, as `LedgerInfo` takes it."""
        return (
            self.ledger_id,
            self.topic_id,
            self.base,
            self.opened_ms,
            self.entries,
            self.first_entry_id,
            self.size_bytes,
            self.messages,
            self.sealed_ms,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LedgerInfo) and self.row() == other.row()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"LedgerInfo{self.row()}"

    def mark(self) -> None:
        """`size_bytes` has reached `next_mark_bytes`: remember what the entries up to now take."""
        if self.marks is None:
            self.marks = SizeMarks()
        self.marks.add(self.entries, self.size_bytes)
        self.next_mark_bytes = self.size_bytes + MARK_BYTES


# The rule of a full ledger (ML-2), for one ledger and for columns of many (`state.columns`)


def may_roll(opened_ms: Any, now_ms: int, limits: RollLimits) -> Any:
    """Returns whether an open ledger is older than the minimum age, or was opened before the clock went back."""
    return (limits.min_age_ms <= 0) | (now_ms - opened_ms > limits.min_age_ms) | (opened_ms > now_ms)


def reaches_limit(entries: Any, size_bytes: Any, opened_ms: Any, now_ms: int, limits: RollLimits) -> Any:
    """Returns whether an open ledger has reached a maximum; it is full if it `may_roll`, too."""
    return (
        (entries >= limits.max_entries)
        | (size_bytes >= limits.max_size_bytes)
        | (now_ms - opened_ms >= limits.max_age_ms)
    )


def is_full(info: LedgerInfo, now_ms: int, limits: RollLimits) -> bool:
    """Returns whether an open ledger must be followed by a new one before the next append (ML-2)."""
    opened_ms = info.opened_ms
    return bool(
        may_roll(opened_ms, now_ms, limits) and reaches_limit(info.entries, info.size_bytes, opened_ms, now_ms, limits)
    )


def fitting(info: LedgerInfo, now_ms: int, limits: RollLimits, starts: Sequence[int], ends: Sequence[int]) -> int:
    """Counts the entries of a run that an open ledger takes until it is full (ML-2): at least one, it is not full yet.
    Index i of `starts` and `ends` is where the i-th of them stands in a buffer."""
    entries = len(ends)
    if not may_roll(info.opened_ms, now_ms, limits):
        return entries
    room = limits.max_entries - info.entries
    if entries > room:
        entries = max(1, room)
    room_bytes = limits.max_size_bytes - info.size_bytes
    if ends[entries - 1] - starts[0] > room_bytes:
        entries = min(entries, 1 + bisect_left(ends, starts[0] + room_bytes, 0, entries))
    return entries
