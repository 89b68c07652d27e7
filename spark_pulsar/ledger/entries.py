"""Entries in groups: one buffer with arrays of offsets, so that a thousand entries cost a handful of Python objects.

Entry `i` is `buffer[starts[i]:ends[i]]`, the bytes from the checksum magic (or the metadata size) to the end of the
payload, exactly as the producer sent them. Between the entries the buffer may hold other bytes (frame headers).

An `EntryRun` holds consecutive entries of one ledger: it is appended, stored, cached, read and delivered.
`EntryColumns` hold the entries of many ledgers that one connection sent in turn: a run per entry would be a handful of
objects per entry. One record appends either; both have `extents` and can be taken apart into `runs`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_COMPACT_RATIO: Final = 2

Extents = tuple[Sequence[int], Sequence[int], int]
"""Ledger ids, first entry ids, number of entries: one extent of all the entries, or one extent an entry."""

EntryRange = tuple[int, int, int]
"""`(ledger_id, first_entry_id, end_entry_id)`, end exclusive, of one ledger."""

BatchSet = tuple[int, int, int]
"""`(ledger_id, entry_id, bits)`: bit i = 1 means index i of the batch is still unacked (CUR-3)."""


def spans_of(extents: Extents) -> Iterator[tuple[int, int, int]]:
    """Yields ledger id, first entry and end entry of each extent."""
    ledger_ids, firsts, entries = extents
    count = entries // len(ledger_ids)
    return ((ledger_id, first, first + count) for ledger_id, first in zip(ledger_ids, firsts, strict=True))


def first_entries(extents: Extents) -> dict[int, int]:
    """The first entry of each ledger, by ledger id."""
    ledger_ids, firsts, _ = extents
    # The first extent of a ledger comes last here, and stays.
    return dict(zip(reversed(ledger_ids), reversed(firsts), strict=True))


@dataclass(slots=True, eq=False, repr=False)
class EntryRun:
    """Consecutive entries `first_entry_id … last_entry_id` of one ledger. Treat as immutable once made.

    | attribute | meaning |
    | --- | --- |
    | `ledger_id`, `first_entry_id` | where the run begins |
    | `buffer` | immutable bytes that hold all entries in rising order, without overlap |
    | `starts`, `ends` | offsets into `buffer`, one each per entry (list of ints or `array('I')`) |
    | `message_counts` | messages in each entry (more than 1 in a batch), same length; None when each holds one |
    | `oldest_publish_ms` | lowest publish time of its entries, -1 until it is read (for the TTL) |
    """

    ledger_id: int
    first_entry_id: int
    buffer: bytes
    starts: Sequence[int]
    ends: Sequence[int]
    message_counts: Sequence[int] | None = None
    oldest_publish_ms: int = field(default=-1, init=False)

    def __len__(self) -> int:
        return len(self.starts)

    def __repr__(self) -> str:
        return f"EntryRun({self.ledger_id}:{self.first_entry_id}..{self.last_entry_id}, {self.size_bytes} bytes)"

    def extents(self) -> Extents:
        """The extent of the run."""
        return (self.ledger_id,), (self.first_entry_id,), len(self.starts)

    def runs(self) -> tuple[EntryRun]:
        """The run itself."""
        return (self,)

    @property
    def last_entry_id(self) -> int:
        """The id of the last entry."""
        return self.first_entry_id + len(self.starts) - 1

    @property
    def end_entry_id(self) -> int:
        """One past the id of the last entry."""
        return self.first_entry_id + len(self.starts)

    @property
    def size_bytes(self) -> int:
        """Bytes of all entries together, without what lies between them."""
        return sum(self.ends) - sum(self.starts)

    @property
    def messages(self) -> int:
        """Messages of all entries together."""
        return len(self.starts) if self.message_counts is None else sum(self.message_counts)

    def entry(self, entry_id: int) -> bytes:
        """A copy of the bytes of one entry; IndexError when it is not in the run."""
        index = entry_id - self.first_entry_id
        if not 0 <= index < len(self.starts):
            raise IndexError(f"entry {entry_id} is not in {self!r}")
        return self.buffer[self.starts[index] : self.ends[index]]

    def slice(self, first_entry_id: int, end_entry_id: int) -> EntryRun:
        """The part `first_entry_id … end_entry_id - 1` (cut to the entries here) over the same buffer."""
        low = max(0, first_entry_id - self.first_entry_id)
        high = min(len(self.starts), end_entry_id - self.first_entry_id)
        if low == 0 and high == len(self.starts):
            return self
        return EntryRun(
            self.ledger_id,
            self.first_entry_id + low,
            self.buffer,
            self.starts[low:high],
            self.ends[low:high],
            None if self.message_counts is None else self.message_counts[low:high],
        )

    def compact(self) -> EntryRun:
        """Copies the run out of a buffer more than twice its size; returns itself when its buffer is smaller."""
        low, high = self.starts[0], self.ends[-1]
        if len(self.buffer) <= _COMPACT_RATIO * (high - low):
            return self
        return EntryRun(
            self.ledger_id,
            self.first_entry_id,
            self.buffer[low:high],
            [start - low for start in self.starts],
            [end - low for end in self.ends],
            self.message_counts,
        )

    def limited(self, max_entries: int, max_bytes: int) -> EntryRun:
        """The leading entries within both limits, at least one."""
        count = min(len(self.starts), max(1, max_entries))
        base = self.starts[0]
        if self.ends[count - 1] - base > max_bytes:
            count = max(1, bisect_right(self.ends, base + max_bytes, 0, count))
        return self if count == len(self.starts) else self.slice(self.first_entry_id, self.first_entry_id + count)


@dataclass(slots=True, eq=False, repr=False)
class EntryColumns:
    """Entries of many ledgers over one buffer, each the next one of its ledger; a ledger may come several times.

    | attribute | meaning |
    | --- | --- |
    | `buffer`, `starts`, `ends`, `message_counts` | as in an `EntryRun` |
    | `ledger_ids`, `entry_ids` | one each per entry |
    | `rows` | rows of the ledgers in `DurableState.open_ledgers`, None when they are not known; not stored |
    """

    buffer: bytes
    ledger_ids: Sequence[int]
    entry_ids: Sequence[int]
    starts: Sequence[int]
    ends: Sequence[int]
    message_counts: Sequence[int] | None = None
    rows: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def __repr__(self) -> str:
        return f"EntryColumns({len(self)} entries of {len(set(self.ledger_ids))} ledgers)"

    def extents(self) -> Extents:
        """The extents, one an entry."""
        return self.ledger_ids, self.entry_ids, len(self.starts)

    def run(self, index: int) -> EntryRun:
        """Entry `index` as a run of one."""
        counts = None if self.message_counts is None else (self.message_counts[index],)
        return EntryRun(
            self.ledger_ids[index],
            self.entry_ids[index],
            self.buffer,
            (self.starts[index],),
            (self.ends[index],),
            counts,
        )

    def runs(self) -> Iterator[EntryRun]:
        """Yields every entry as a run of one."""
        return map(self.run, range(len(self.starts)))

    def sizes(self) -> npt.NDArray[np.int64]:
        """The bytes of each entry."""
        import numpy as np

        return np.subtract(self.ends, self.starts, dtype=np.int64)

    def compact(self) -> EntryColumns:
        """Copies the entries out of a buffer more than twice their size; returns itself when their buffer is
        smaller."""
        low, high = self.starts[0], self.ends[-1]
        if len(self.buffer) <= _COMPACT_RATIO * (high - low):
            return self
        return EntryColumns(
            self.buffer[low:high],
            self.ledger_ids,
            self.entry_ids,
            [start - low for start in self.starts],
            [end - low for end in self.ends],
            self.message_counts,
        )
