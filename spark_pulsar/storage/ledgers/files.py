"""Ledger files: the settled entries of one ledger, in blocks, found through a table of blocks.

    block   magic "SPLB", version u16, flags u16 (1: every entry holds one message), ledger id u64, first entry u64,
            entries u32, data length u32, crc32c u32 (of all this and what follows); lengths u32 each; message counts
            u32 each unless flagged; the entries, one after the other
    footer  of a sealed ledger: per block first entry u64, end entry u64 and offset u64; then blocks u32, crc32c u32,
            magic "SPLF" (so that it is read from the end of the file)

Blocks rise; entries missing between them were consumed before they were settled. What lies behind the length that the
checkpoint names was never finished: it is ignored, and overwritten.
"""

from __future__ import annotations

import mmap
import os
import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from spark_pulsar.ledger.entries import EntryRun
from spark_pulsar.ledger.records import i64s_from, i64s_packed, u32s, u32s_from
from spark_pulsar.ledger.storage import StorageDamaged
from spark_pulsar.storage.disk.disk import Buffer, Disk
from spark_pulsar.storage.disk.layout import Layout

BLOCK_MAGIC: Final = b"SPLB"
FOOTER_MAGIC: Final = b"SPLF"
FORMAT_VERSION: Final = 1
BLOCK_DATA_BYTES: Final = 256 * 1024
BLOCK_MAX_ENTRIES: Final = 4096
LARGE_ENTRY_BYTES: Final = 1024
"""Entries of this size on average are not copied."""

_ALL_SINGLE: Final = 1
_BLOCK: Final = Struct("<4sHHQQIII")
_BLOCK_CRC_AT: Final = _BLOCK.size - 4
BLOCK_HEADER_BYTES: Final = _BLOCK.size
_TAIL: Final = Struct("<II4s")
_CACHED_BLOCKS: Final = 16
_CACHED_TABLES: Final = 256


class Extent(NamedTuple):
    """The extent of a ledger's file: its entries, its bytes without the footer, and whether the footer is written."""

    first: int
    end: int
    size: int
    sealed: bool


class BlockTable:
    """First entries, end entries and offsets of a file's blocks, rising. `damaged`: some may be missing."""

    __slots__ = ("damaged", "ends", "firsts", "offsets")

    def __init__(self) -> None:
        self.damaged = False
        self.firsts = array("q")
        self.ends = array("q")
        self.offsets = array("q")

    def add(self, first: int, end: int, offset: int) -> None:
        """Appends a block."""
        self.firsts.append(first)
        self.ends.append(end)
        self.offsets.append(offset)


class BlockHead(NamedTuple):
    """The header of a block; `size` is the size of the whole block."""

    ledger_id: int
    first: int
    end: int
    size: int


def block_parts(
    ledger_id: int, first: int, entries: Sequence[Buffer], message_counts: Sequence[int] | None
) -> list[Buffer]:
    """One block, in buffers that follow one another. Large entries are not copied."""
    lengths = list(map(len, entries))
    size = sum(lengths)
    data: list[Buffer] = [*entries] if size >= LARGE_ENTRY_BYTES * len(entries) else [b"".join(entries)]
    arrays = u32s(lengths)
    flags = _ALL_SINGLE
    if message_counts is not None and message_counts.count(1) != len(message_counts):
        flags = 0
        arrays += u32s(message_counts)
    head = _BLOCK.pack(BLOCK_MAGIC, FORMAT_VERSION, flags, ledger_id, first, len(entries), size, 0)
    head = head[:_BLOCK_CRC_AT]
    # Handing the interpreter over costs more than the checksum of a block.
    crc = crc32c(arrays, crc32c(head), gil_release_mode=0)
    for part in data:
        crc = crc32c(part, crc, gil_release_mode=0)
    return [b"".join((head, crc.to_bytes(4, "little"), arrays)), *data]


def parse_block_head(data: bytes) -> BlockHead | None:
    """Returns the header at the start of `data`, None when there is none. Does not verify the checksum."""
    if len(data) < BLOCK_HEADER_BYTES:
        return None
    magic, version, flags, ledger_id, first, count, length, _ = _BLOCK.unpack_from(data)
    if magic != BLOCK_MAGIC or version != FORMAT_VERSION or flags & ~_ALL_SINGLE or not count:
        return None
    arrays = 4 * count * (1 if flags & _ALL_SINGLE else 2)
    return BlockHead(ledger_id, first, first + count, BLOCK_HEADER_BYTES + arrays + length)


def parse_block(data: bytes, ledger_id: int) -> EntryRun | None:
    """The run of a whole block, None when its checksum or form is wrong."""
    head = parse_block_head(data)
    if head is None or head.ledger_id != ledger_id or head.size != len(data):
        return None
    view = memoryview(data)
    crc = crc32c(view[BLOCK_HEADER_BYTES:], crc32c(view[:_BLOCK_CRC_AT]))
    if crc != int.from_bytes(view[_BLOCK_CRC_AT:BLOCK_HEADER_BYTES], "little"):
        return None
    _, _, flags, _, first, count, length, _ = _BLOCK.unpack_from(data)
    at = BLOCK_HEADER_BYTES + 4 * count
    lengths = u32s_from(data[BLOCK_HEADER_BYTES:at])
    counts = None
    if not flags & _ALL_SINGLE:
        counts = u32s_from(data[at : at + 4 * count])
        at += 4 * count
    bounds = list(accumulate(lengths, initial=at))
    if bounds[-1] != at + length:
        return None
    return EntryRun(ledger_id, first, data, bounds[:-1], bounds[1:], counts)


def footer_bytes(table: BlockTable) -> bytes:
    """The footer that lists these blocks."""
    body = i64s_packed([*table.firsts, *table.ends, *table.offsets])
    count = len(table.firsts).to_bytes(4, "little")
    crc = crc32c(count, crc32c(body))
    return body + _TAIL.pack(len(table.firsts), crc, FOOTER_MAGIC)


def parse_footer(data: bytes) -> BlockTable | None:
    """The table in a footer, None when it is damaged."""
    if len(data) < _TAIL.size:
        return None
    count, crc, magic = _TAIL.unpack_from(data, len(data) - _TAIL.size)
    body = data[: -_TAIL.size]
    if magic != FOOTER_MAGIC or len(body) != 24 * count:
        return None
    if crc32c(count.to_bytes(4, "little"), crc32c(body)) != crc:
        return None
    numbers = i64s_from(body)
    table = BlockTable()
    table.firsts, table.ends, table.offsets = numbers[:count], numbers[count : 2 * count], numbers[2 * count :]
    return table


class LedgerFiles:
    """Reads entries from ledger files. Extents are what the checkpoint says; they are changed under the storage's
    lock, by recovery and by settling. Reading needs no lock: what an extent covers never changes."""

    def __init__(self, disk: Disk, layout: Layout) -> None:
        self._disk = disk
        self._layout = layout
        self.extents: dict[int, Extent] = {}
        self._tables: OrderedDict[tuple[int, int], BlockTable] = OrderedDict()
        self._blocks: OrderedDict[tuple[int, int], EntryRun] = OrderedDict()
        self._cache_lock = threading.Lock()

    def read(self, ledger_id: int, extent: Extent, entry_id: int) -> EntryRun | None:
        """The rest of the block that holds the entry, from the entry on, or the first block after it. None when the
        extent has nothing there. StorageDamaged, with the lost entries, when a checksum fails or a damaged file has no
        block there; FileNotFoundError when the ledger was trimmed meanwhile."""
        table = self.table(ledger_id, extent)
        index = bisect_right(table.ends, entry_id)
        is_last = index == len(table.firsts)
        if table.damaged and (is_last or table.firsts[index] > entry_id):
            name = self._layout.relative(self._layout.ledger(ledger_id))
            lost = [(ledger_id, entry_id, extent.end if is_last else table.firsts[index])]
            raise StorageDamaged(name, table.offsets[index - 1] if index else 0, "the block after this is lost", lost)
        if is_last:
            return None
        run = self._cached_block(ledger_id, table.offsets[index])
        if run is None:
            run = self._read_block(ledger_id, extent, table, index)
            with self._cache_lock:
                self._blocks[ledger_id, table.offsets[index]] = run
                if len(self._blocks) > _CACHED_BLOCKS:
                    self._blocks.popitem(last=False)
        return run.slice(entry_id, run.end_entry_id)

    def sizes(self, ledger_id: int, extent: Extent, entry_id: int) -> tuple[int, list[int]] | None:
        """The first entry and the sizes of all entries of the block that holds the entry, or of the first block after
        it; None when the extent has nothing there. What stands in the file is not verified."""
        table = self.table(ledger_id, extent)
        index = bisect_right(table.ends, entry_id)
        if index == len(table.firsts):
            return None
        first, end = table.firsts[index], table.ends[index]
        with self._disk.opened(self._layout.ledger(ledger_id), os.O_RDONLY) as fd:
            lengths = self._disk.read(fd, 4 * (end - first), table.offsets[index] + BLOCK_HEADER_BYTES)
        return first, list(u32s_from(lengths))

    def _read_block(self, ledger_id: int, extent: Extent, table: BlockTable, index: int) -> EntryRun:
        path, offset = self._layout.ledger(ledger_id), table.offsets[index]
        with self._disk.opened(path, os.O_RDONLY) as fd:
            size = (table.offsets[index + 1] if index + 1 < len(table.offsets) else extent.size) - offset
            if table.damaged:
                head = parse_block_head(self._disk.read(fd, BLOCK_HEADER_BYTES, offset))
                size = 0 if head is None else head.size
            run = parse_block(self._disk.read(fd, size, offset), ledger_id)
        first, end = table.firsts[index], table.ends[index]
        if run is None or run.first_entry_id != first or run.end_entry_id != end:
            text = "a block of entries fails its checksum"
            raise StorageDamaged(self._layout.relative(path), offset, text, [(ledger_id, first, end)])
        return run

    def table(self, ledger_id: int, extent: Extent) -> BlockTable:
        """The blocks of a ledger's file, from its footer or, without one, from the blocks' headers."""
        key = (ledger_id, extent.size)
        with self._cache_lock:
            known = self._tables.get(key)
            if known is not None:
                self._tables.move_to_end(key)
                return known
        table = usable_table(self._disk, self._layout, ledger_id, extent)
        # Checked afterwards: the ledger may be trimmed while this reads. Its extent goes before its file does.
        if table.damaged and ledger_id not in self.extents and not self._layout.ledger(ledger_id).exists():
            raise FileNotFoundError(self._layout.ledger(ledger_id))
        with self._cache_lock:
            self._tables[key] = table
            if len(self._tables) > _CACHED_TABLES:
                self._tables.popitem(last=False)
        return table

    def discard(self, ledger_id: int) -> None:
        """Discards the cached blocks of a deleted ledger."""
        with self._cache_lock:
            for cache in (self._tables, self._blocks):
                for key in [known for known in cache if known[0] == ledger_id]:
                    del cache[key]

    def _cached_block(self, ledger_id: int, offset: int) -> EntryRun | None:
        with self._cache_lock:
            run = self._blocks.get((ledger_id, offset))
            if run is not None:
                self._blocks.move_to_end((ledger_id, offset))
            return run


def load_table(disk: Disk, layout: Layout, ledger_id: int, extent: Extent) -> BlockTable:
    """Reads the table of a ledger's file. StorageDamaged when footer or headers do not fit the extent."""
    path = layout.ledger(ledger_id)
    with disk.opened(path, os.O_RDONLY) as fd:
        if extent.sealed:
            size = os.fstat(fd).st_size - extent.size
            table = parse_footer(disk.read(fd, size, extent.size)) if size > 0 else None
            if table is None or not _fits(table, extent):
                raise StorageDamaged(layout.relative(path), extent.size, "the footer fails its checksum")
            return table
        return _scan(disk, fd, layout.relative(path), ledger_id, extent)


def usable_table(disk: Disk, layout: Layout, ledger_id: int, extent: Extent) -> BlockTable:
    """The blocks of a ledger's file that can be found, however damaged footer or headers are. Without a footer and
    neighbours to trust, blocks are verified (`whole_blocks`)."""
    for claimed in (extent, extent._replace(sealed=False)):  # the footer only repeats what the headers say
        try:
            return load_table(disk, layout, ledger_id, claimed)
        except (StorageDamaged, FileNotFoundError):
            continue
    return whole_blocks(layout.ledger(ledger_id), ledger_id, extent.size)


def whole_blocks(path: Path, ledger_id: int, size: int) -> BlockTable:
    """The blocks of a ledger that are verified, wherever they begin in the first `size` bytes of a file. The table is
    marked as damaged, since some may be missing."""
    table = BlockTable()
    table.damaged = True
    if not path.exists() or path.stat().st_size == 0:
        return table
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = data.find(BLOCK_MAGIC)
        while at != -1:
            head = parse_block_head(data[at : at + BLOCK_HEADER_BYTES])
            if head is not None and parse_block(data[at : at + head.size], ledger_id) is not None:
                table.add(head.first, head.end, at)
                at += head.size - 1
            at = data.find(BLOCK_MAGIC, at + 1, size)
    return table


def gaps(spans: Iterable[tuple[int, int]], wanted: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields first and end of the entries from `wanted` up to `end` that lie in none of the spans, which rise."""
    for first, stop in (*spans, (end, end)):
        if first > wanted:
            yield wanted, first
        wanted = max(wanted, stop)


def _fits(table: BlockTable, extent: Extent) -> bool:
    return bool(table.firsts) and table.firsts[0] >= extent.first and table.ends[-1] <= extent.end


def _scan(disk: Disk, fd: int, name: str, ledger_id: int, extent: Extent) -> BlockTable:
    table = BlockTable()
    offset = 0
    end = extent.first
    while offset < extent.size:
        head = parse_block_head(disk.read(fd, BLOCK_HEADER_BYTES, offset))
        fits = head is not None and head.ledger_id == ledger_id and end <= head.first and head.end <= extent.end
        if head is None or not fits or offset + head.size > extent.size:
            raise StorageDamaged(name, offset, "no block of this ledger stands here")
        table.add(head.first, head.end, offset)
        offset += head.size
        end = head.end
    return table
