"""Entries of many ledgers in one record: what a connection brings that publishes to many topics at once.

A run per ledger would be a handful of objects per entry then. Here every column is one list: entry i is
`buffer[starts[i]:ends[i]]`, the entry `ledger_ids[i]:entry_ids[i]`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_pulsar.ledger.entries import EntryRun
from spark_pulsar.model.column_store import column_of

from .base import Record
from .codec import RecordDamaged, i64s_from, i64s_packed, u32s, u32s_from

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_HEAD: Final = Struct("<IIIB")
_ALL_SINGLE: Final = 1
_COMPACT_RATIO: Final = 2


class ScatterHead(NamedTuple):
    """What the record's head says: how many entries, where the region begins in the offsets' buffer, its size, how
    long head and columns are together, and whether every entry holds one message."""

    entries: int
    base: int
    size: int
    columns_end: int
    single: bool


class EntriesScattered(Record):
    """Entries became the ends of their ledgers, each the next one of its own; a ledger may come several times.

    Body: number of entries, where the stored region begins in the offsets' buffer, the region's length, flags (1: every
    entry holds one message); ledger ids and entry ids as i64 each; starts, ends and, without the flag, message counts
    as u32 each; then the region.
    """

    __slots__ = ("buffer", "ends", "entry_ids", "ledger_ids", "message_counts", "rows", "starts")
    TYPE = 3

    def __init__(
        self,
        buffer: bytes,
        ledger_ids: Sequence[int],
        entry_ids: Sequence[int],
        starts: Sequence[int],
        ends: Sequence[int],
        message_counts: Sequence[int] | None = None,
        rows: Sequence[int] | None = None,
    ) -> None:
        """`rows`: where the numbers of the open ledgers stand (`DurableState.tails`), if that is known. Not stored."""
        self.buffer = buffer
        self.ledger_ids = ledger_ids
        self.entry_ids = entry_ids
        self.starts = starts
        self.ends = ends
        self.message_counts = message_counts
        self.rows = rows

    def __len__(self) -> int:
        return len(self.starts)

    def __repr__(self) -> str:
        return f"EntriesScattered({len(self)} entries of {len(set(self.ledger_ids))} ledgers)"

    def sizes(self) -> npt.NDArray[np.int64]:
        """The bytes of each entry."""
        import numpy as np

        return np.subtract(self.ends, self.starts, dtype=np.int64)

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

    def compact(self) -> EntriesScattered:
        """The same over a buffer of its own when it pins a buffer more than twice its size, else itself."""
        low, high = self.starts[0], self.ends[-1]
        if len(self.buffer) <= _COMPACT_RATIO * (high - low):
            return self
        return EntriesScattered(
            self.buffer[low:high],
            self.ledger_ids,
            self.entry_ids,
            [start - low for start in self.starts],
            [end - low for end in self.ends],
            self.message_counts,
        )

    def encode_parts(self) -> tuple[bytes, bytes]:
        """The body as two buffers: everything before the region, and the region."""
        starts, ends, counts = self.starts, self.ends, self.message_counts
        low, high = starts[0], ends[-1]
        region = self.buffer
        if len(region) != high - low:
            region = region[low:high]
        single = counts is None or counts.count(1) == len(counts)
        columns = (
            _HEAD.pack(len(starts), low, high - low, _ALL_SINGLE if single else 0),
            i64s_packed(self.ledger_ids),
            i64s_packed(self.entry_ids),
            u32s(starts),
            u32s(ends),
            b"" if single or counts is None else u32s(counts),
        )
        return b"".join(columns), region

    def encode(self) -> bytes:
        return b"".join(self.encode_parts())

    @staticmethod
    def head_of(body: bytes, at: int) -> ScatterHead:
        """The head of the encoded record at `body[at:]`."""
        try:
            count, base, size, flags = _HEAD.unpack_from(body, at)
        except StructError as error:
            raise RecordDamaged("scattered entries: head is cut") from error
        single = bool(flags & _ALL_SINGLE)
        return ScatterHead(count, base, size, _HEAD.size + count * (24 if single else 28), single)

    @classmethod
    def decode_columns(cls, body: bytes, at: int, head: ScatterHead) -> EntriesScattered:
        """The columns, without the region: the buffer is empty and the offsets are the stored ones."""
        count = head.entries
        at += _HEAD.size
        ledger_ids = i64s_from(body[at : at + 8 * count])
        entry_ids = i64s_from(body[at + 8 * count : at + 16 * count])
        at += 16 * count
        starts = u32s_from(body[at : at + 4 * count])
        ends = u32s_from(body[at + 4 * count : at + 8 * count])
        counts = None if head.single else u32s_from(body[at + 8 * count : at + 12 * count])
        return cls(b"", ledger_ids, entry_ids, starts, ends, counts)

    @classmethod
    def decode(cls, body: bytes, at: int, end: int) -> EntriesScattered:
        head = cls.head_of(body, at)
        region_at = at + head.columns_end
        if head.entries == 0 or region_at + head.size != end or end > len(body):
            raise RecordDamaged(f"scattered entries: {head.entries} entries do not fill a body of {end - at} bytes")
        columns = cls.decode_columns(body, at, head)
        if columns.starts[0] < head.base or columns.ends[-1] > head.base + head.size:
            raise RecordDamaged("scattered entries: offsets point outside the region")
        shift = region_at - head.base
        columns.buffer = body
        columns.starts = _moved(columns.starts, shift)
        columns.ends = _moved(columns.ends, shift)
        return columns


def _moved(offsets: Sequence[int], by: int) -> array[int]:
    import numpy as np

    return column_of(np.asarray(offsets, np.int64) + by)
