"""New positions of copied entries, as ranges, in a file that a crash cannot spoil (MOVE-3)."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import BinaryIO, Final, NamedTuple

from crc32c import crc32c

from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.positions.ids import Position

_MAGIC: Final = b"spark-pulsar positions 1\n"
_RECORD: Final = Struct(">qqqqq")
_CHECKSUM: Final = Struct(">I")
_RECORD_BYTES: Final = _RECORD.size + _CHECKSUM.size
_SPARE_RECORDS: Final = 4_096
"""Records beyond twice the ranges with which a file is written anew when it is opened."""


class PositionsUnusable(PulsarError, ValueError):
    """A file of positions that is none, or that is of another copy."""


class Range(NamedTuple):
    """Consecutive entries of one ledger of the source that became consecutive entries of one ledger of the target."""

    source: Position
    target: Position
    entries: int

    @property
    def last_source(self) -> Position:
        """The last entry in the source."""
        return Position(self.source.ledger_id, self.source.entry_id + self.entries - 1)

    @property
    def last_target(self) -> Position:
        """The last entry in the target."""
        return Position(self.target.ledger_id, self.target.entry_id + self.entries - 1)

    def continues(self, source: Position, target: Position) -> bool:
        """Returns whether an entry and its copy come right after the range."""
        return self.last_source.next_in_ledger == source and self.last_target.next_in_ledger == target


class PositionMap:
    """Positions of the entries of one partition in the source and in the target, in order.

    A file begins with the names of both, and has a record for entries that were added together, each with its checksum;
    a torn last one is cut off when the file is opened. Nothing is lost with the end of a file but time: a copy compares
    the target with the source from its last position on. Use it as a context manager, or `close` it.
    """

    def __init__(self, path: Path, source: str, target: str) -> None:
        """Opens or creates the file. Raises PositionsUnusable, OSError."""
        self.path = path
        self._head = _MAGIC + f"{source}\n{target}\n".encode()
        self._ranges: list[Range] = []
        self._starts: list[Position] = []
        self._before: list[int] = []
        """Entries before each range."""
        path.parent.mkdir(parents=True, exist_ok=True)
        stored = path.read_bytes() if path.exists() else b""
        records, end = self._read(stored)
        if records > 2 * len(self._ranges) + _SPARE_RECORDS or not stored.startswith(self._head):
            self._write_anew()
            end = path.stat().st_size
        self._file: BinaryIO = path.open("r+b")
        self._file.truncate(end)
        self._file.seek(end)

    def __len__(self) -> int:
        """Number of ranges."""
        return len(self._ranges)

    @property
    def entries(self) -> int:
        """Number of entries."""
        return self._before[-1] + self._ranges[-1].entries if self._ranges else 0

    @property
    def last(self) -> Range | None:
        """The last range, None when no entry was copied."""
        return self._ranges[-1] if self._ranges else None

    def add(self, sources: list[Position], targets: list[Position]) -> None:
        """Adds entries after all others, with their copies; they are in the file at once, on disk after `sync`."""
        added: list[Range] = []
        for source, target in zip(sources, targets, strict=True):
            if added and added[-1].continues(source, target):
                added[-1] = added[-1]._replace(entries=added[-1].entries + 1)
            else:
                added.append(Range(source, target, 1))
        for one in added:
            self._append(one)
        self._file.write(b"".join(map(_record, added)))
        self._file.flush()

    def target_of(self, source: Position) -> Position | None:
        """Returns the new position of an entry; None when it has none."""
        one = self._range_at(source)
        if one is None or source > one.last_source:
            return None
        return Position(one.target.ledger_id, one.target.entry_id + source.entry_id - one.source.entry_id)

    def last_target_until(self, source: Position) -> Position | None:
        """Returns the new position of the last copied entry that is not after `source`; None when there is none."""
        one = self._range_at(source)
        return None if one is None else self.target_of(min(source, one.last_source))

    def count_until(self, source: Position) -> int:
        """Counts the entries that are not after `source`."""
        return self._count_until(bisect_right(self._starts, source) - 1, source, lambda one: one.source)

    def count_until_target(self, target: Position) -> int:
        """Counts the entries whose copies are not after `target`."""
        at = bisect_right(self._ranges, target, key=lambda one: one.target) - 1
        return self._count_until(at, target, lambda one: one.target)

    def _count_until(self, at: int, position: Position, first_of: Callable[[Range], Position]) -> int:
        if at < 0:
            return 0
        one = self._ranges[at]
        first = first_of(one)
        inside = position.entry_id - first.entry_id + 1 if position.ledger_id == first.ledger_id else one.entries
        return self._before[at] + min(inside, one.entries)

    def nth(self, number: int) -> tuple[Position, Position]:
        """Returns an entry and its copy by the number of entries before it. Raises IndexError."""
        if not 0 <= number < self.entries:
            raise IndexError(number)
        at = bisect_right(self._before, number) - 1
        one, inside = self._ranges[at], number - self._before[at]
        return (
            Position(one.source.ledger_id, one.source.entry_id + inside),
            Position(one.target.ledger_id, one.target.entry_id + inside),
        )

    def sync(self) -> None:
        """Returns when the file is on disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Writes the file to disk and closes it. Idempotent."""
        if not self._file.closed:
            self.sync()
            self._file.close()

    def __enter__(self) -> PositionMap:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _range_at(self, source: Position) -> Range | None:
        """Returns the last range that begins at or before an entry."""
        at = bisect_right(self._starts, source) - 1
        return self._ranges[at] if at >= 0 else None

    def _append(self, added: Range) -> None:
        if self._ranges and self._ranges[-1].continues(added.source, added.target):
            before = self._ranges[-1]
            self._ranges[-1] = before._replace(entries=before.entries + added.entries)
        else:
            self._ranges.append(added)
            self._starts.append(added.source)
            self._before.append(0 if len(self._ranges) == 1 else self._before[-1] + self._ranges[-2].entries)

    def _read(self, stored: bytes) -> tuple[int, int]:
        """Reads the records of a file; returns their number and where the last good one ends."""
        if not stored or (len(stored) < len(self._head) and self._head.startswith(stored)):
            return 0, 0
        if not stored.startswith(self._head):
            other = stored[len(_MAGIC) : len(_MAGIC) + 1_000].split(b"\n")[:2] if stored.startswith(_MAGIC) else []
            named = " to ".join(name.decode(errors="replace") for name in other)
            held = f"of the copy of {named}" if named else "no file of positions"
            raise PositionsUnusable(f"{self.path} is {held}: name another directory")
        records, at = 0, len(self._head)
        while at + _RECORD_BYTES <= len(stored):
            body = stored[at : at + _RECORD.size]
            if _CHECKSUM.unpack_from(stored, at + _RECORD.size)[0] != crc32c(body):
                break
            source_ledger, source_entry, target_ledger, target_entry, entries = _RECORD.unpack(body)
            self._append(Range(Position(source_ledger, source_entry), Position(target_ledger, target_entry), entries))
            records, at = records + 1, at + _RECORD_BYTES
        return records, at

    def _write_anew(self) -> None:
        """Writes the file with a record for each range, in the place of the old one at once."""
        new = self.path.with_name(f"{self.path.name}.new")
        with new.open("wb") as file:
            file.write(self._head + b"".join(map(_record, self._ranges)))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)


def _record(added: Range) -> bytes:
    body = _RECORD.pack(*added.source, *added.target, added.entries)
    return body + _CHECKSUM.pack(crc32c(body))
