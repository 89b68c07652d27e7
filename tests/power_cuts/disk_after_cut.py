"""A disk as a power cut may leave it: a directory, a recording of what was done to it, and a cut.

What was synced is there. Of the rest anything may be, as file systems and disks allow:

- Each page (4096 bytes), or each sector of it (512), holds what one of the writes since left there, or nothing of them:
  the system writes pages back at any time and in any order, and a disk may tear them.
- A file's size is one of those that it has had since. Where it grew and no data arrived there are zeros, or what the
  blocks held before; where its space was reserved there are zeros.
- Data behind a cut (truncate) that was not stored is not there either: it stands in blocks that the file never got.
- Names made, given or taken in a directory that was not synced are stored in their order (as journaling file systems
  do) up to any of them, or, harsher, any of them without the others. A sync of a file does not store its name.
- SQLite's index of its log (`-shm`) holds anything, or is not there.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from .recording import Record

PAGE_BYTES: Final = 4096
SECTOR_BYTES: Final = 512
_KINDS: Final = ("nothing", "all", "pages", "pages", "sectors", "sectors")
_STALE: Final = 0.3
"""Share of files that show what their blocks held before."""

Name = tuple[str, str]
"""Directory and name."""


@dataclass(slots=True)
class _Change:
    """A write (`size` is None), or a change of the size, that is not known to be stored. `is_done`: the call has
    returned."""

    offset: int
    data: bytes | int
    size: int | None = None
    grows_only: bool = False
    is_done: bool = False

    @property
    def end(self) -> int:
        return self.offset + (self.data if isinstance(self.data, int) else len(self.data))

    def bytes(self) -> bytes:
        return bytes(self.data)

    def size_after(self, size: int) -> int:
        if self.size is None:
            return max(size, self.end)
        return max(size, self.size) if self.grows_only else self.size


@dataclass(slots=True)
class _File:
    """Stored bytes, and the changes since in their order."""

    stored: bytearray = field(default_factory=bytearray)
    pending: list[_Change] = field(default_factory=list)

    def store(self, changes: Iterable[_Change]) -> None:
        """Applies changes for good."""
        chosen = {id(change) for change in changes}
        for change in self.pending:
            if id(change) in chosen:
                _apply(self.stored, change)
        self.pending = [change for change in self.pending if id(change) not in chosen]

    def store_write(self, write: _Change) -> None:
        """Stores a durable write: its pages go to the disk with what else was written to them, and the size with
        it."""
        low, high = write.offset // PAGE_BYTES * PAGE_BYTES, -(-write.end // PAGE_BYTES) * PAGE_BYTES
        before = self.pending[: self.pending.index(write)]
        cuts = [at for at, each in enumerate(before) if each.size is not None]
        upto = cuts[-1] + 1 if cuts else 0
        with_it = before[:upto] + [each for each in before[upto:] if each.offset < high and each.end > low]
        self.store([*(each for each in with_it if each.is_done), write])

    def after_cut(self, choices: random.Random, kinds: Sequence[str]) -> bytes:
        """The file's bytes as a power cut may leave them; `kinds`: what may have become of them."""
        pending = self.pending
        if not pending:
            return bytes(self.stored)
        kind = choices.choice(kinds)
        sizes = {"nothing": 0, "all": len(pending)}.get(kind, choices.randint(0, len(pending)))
        chosen = _Chosen(choices, kind, pending)
        data, limit = bytearray(self.stored), 1 << 62
        size = len(data)
        for number, change in enumerate(pending):
            if number < sizes:
                size = change.size_after(size)
            if change.size is None:
                chosen.write(data, number, change, limit)
            elif change.grows_only:
                if number < sizes:
                    data.extend(bytes(max(0, change.size - len(data))))
            elif number < sizes:
                del data[change.size :]
            else:
                limit = min(limit, change.size)
        del data[size:]
        chosen.grow(data, size)
        return bytes(data)


class _Chosen:
    """Chooses for each page or sector up to which change it is stored."""

    def __init__(self, choices: random.Random, kind: str, pending: list[_Change]) -> None:
        self._choices = choices
        self._unit = SECTOR_BYTES if kind == "sectors" else PAGE_BYTES
        self._all = {"nothing": -1, "all": len(pending)}.get(kind)
        self._pending = pending
        self._upto: dict[int, int] = {}
        self._share = choices.random()
        self._is_stale = choices.random() < _STALE

    def grow(self, data: bytearray, size: int) -> None:
        """Makes a file larger that was not written there: zeros, or what its blocks held before."""
        missing = max(0, size - len(data))
        data.extend(self._choices.randbytes(missing) if self._is_stale else bytes(missing))

    def _last(self, unit: int) -> int:
        """The last change that the unit holds; -1: none."""
        if self._all is not None:
            return self._all
        if unit not in self._upto:
            low, high = unit * self._unit, (unit + 1) * self._unit
            touching = [
                at
                for at, change in enumerate(self._pending)
                if change.size is None and change.offset < high and change.end > low
            ]
            keeps_last = self._choices.random() < self._share
            self._upto[unit] = touching[-1] if keeps_last else self._choices.choice([-1, *touching[:-1]])
        return self._upto[unit]

    def write(self, data: bytearray, number: int, change: _Change, limit: int) -> None:
        """Puts what was stored of a write into the file's bytes."""
        content, unit = change.bytes(), self._unit
        for at in range(change.offset // unit, -(-change.end // unit)):
            low, high = max(change.offset, at * unit), min(change.end, (at + 1) * unit, limit)
            if low < high and number <= self._last(at):
                self.grow(data, high)
                data[low:high] = content[low - change.offset : high - change.offset]


def _apply(data: bytearray, change: _Change) -> None:
    if change.size is not None:
        size = change.size_after(len(data))
        del data[size:]
        data.extend(bytes(size - len(data)))
        return
    if len(data) < change.end:
        data.extend(bytes(change.end - len(data)))
    data[change.offset : change.end] = change.bytes()


@dataclass(slots=True)
class _NameChange:
    """Names that go and come together, each with the file it then stands for (None: a directory)."""

    gone: list[Name]
    come: list[tuple[Name, _File | None]]
    is_done: bool = False

    def directories(self) -> set[str]:
        return {name[0] for name in self.gone} | {name[0] for name, _ in self.come}


class DiskAfterCut:
    """The disk under a recording, taken record by record; at any place it can be asked what a cut there leaves."""

    def __init__(self, before: Path) -> None:
        """`before`: the directory as it was, all of it stored, when the recording began."""
        self._stored: dict[Name, _File | None] = {}
        for path in sorted(before.rglob("*")):
            name = _name(str(path.relative_to(before)))
            self._stored[name] = None if path.is_dir() else _File(bytearray(path.read_bytes()))
        self._now = dict(self._stored)
        self._names: list[_NameChange] = []
        self._open: dict[int, _File | str] = {}
        self._under_way: dict[int, Any] = {}

    def take(self, record: Record) -> None:
        """Takes the next record."""
        kind = record[0]
        if kind in ("done", "failed"):
            end = self._under_way.pop(record[1], None)
            if end is not None and kind == "done":
                end()
        elif kind in ("open", "close"):
            self._open_or_close(*record)
        elif kind in ("write", "truncate", "extend"):
            self._change(*record)
        elif kind == "sync":
            self._sync(record[1], record[2])
        elif kind in ("rename", "remove", "mkdir"):
            self._rename(*record)

    def _open_or_close(self, kind: str, fd: int, path: str = "", flags: int = 0) -> None:
        if kind == "close":
            self._open.pop(fd, None)
            return
        name = _name(path)
        if path == "." or (name in self._now and self._now[name] is None):
            self._open[fd] = path
            return
        file = self._now.get(name)
        if file is None:
            assert flags & os.O_CREAT, f"{path} was opened but never made"
            file = self._now[name] = _File()
            self._names.append(_NameChange([], [(name, file)], is_done=True))
        elif flags & os.O_TRUNC:
            file.pending.append(_Change(0, 0, 0, is_done=True))
        self._open[fd] = file

    def _change(
        self, kind: str, number: int, fd: int, at: int, data: bytes | int = 0, is_durable: bool = False
    ) -> None:
        file = self._open[fd]
        assert isinstance(file, _File)
        change = _Change(at, data) if kind == "write" else _Change(0, 0, at, kind == "extend")
        file.pending.append(change)

        def done() -> None:
            change.is_done = True
            if is_durable:
                file.store_write(change)

        self._under_way[number] = done

    def _sync(self, number: int, what: int | str) -> None:
        file = what if isinstance(what, str) else self._open[what]
        if isinstance(file, _File):
            changes = [change for change in file.pending if change.is_done]
            self._under_way[number] = lambda: file.store(changes)
        else:
            names = [change for change in self._names if change.is_done and file in change.directories()]
            self._under_way[number] = lambda: self._store_names(names)

    def _store_names(self, changes: list[_NameChange]) -> None:
        for change in changes:
            if any(change is each for each in self._names):
                _rename(self._stored, change)
        self._names = [each for each in self._names if not any(each is change for change in changes)]

    def _rename(self, kind: str, number: int, path: str, new: str = "") -> None:
        name = _name(path)
        if path == "." or (kind == "mkdir") == (name in self._now):
            return  # it fails
        change = _NameChange([], [(name, None)]) if kind == "mkdir" else _NameChange([name], [])
        if kind == "rename":
            change.come.append((_name(new), self._now[name]))
        _rename(self._now, change)
        self._names.append(change)

        def done() -> None:
            change.is_done = True

        self._under_way[number] = done

    def cut(self, target: Path, choices: random.Random) -> None:
        """Makes the directory as a cut at this place may leave it."""
        names = dict(self._stored)
        if choices.random() < 0.5:
            kept = self._names[: choices.randint(0, len(self._names))]
        else:
            share = choices.random()
            kept = [change for change in self._names if choices.random() < share]
        for change in kept:
            _rename(names, change)
        kinds = choices.choice((_KINDS, _KINDS, _KINDS, ("nothing",), ("all",), ("sectors",)))
        target.mkdir(mode=0o700)
        for (directory, name), file in sorted(names.items(), key=lambda each: each[0]):
            path = target / directory / name
            if not path.parent.is_dir():
                continue  # whose own name was not stored
            if file is None:
                path.mkdir(mode=0o700)
            else:
                path.write_bytes(file.after_cut(choices, kinds))
        for database in target.glob("checkpoint.*"):
            if database.suffix in (".sqlite", ".copy") and choices.random() < 0.5:
                database.with_name(f"{database.name}-shm").write_bytes(choices.randbytes(32768))


def _rename(names: dict[Name, _File | None], change: _NameChange) -> None:
    for name in change.gone:
        names.pop(name, None)
    names.update(change.come)


def _name(path: str) -> Name:
    directory, _, name = path.rpartition("/")
    return directory or ".", name
