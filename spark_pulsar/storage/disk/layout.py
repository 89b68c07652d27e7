"""The data directory: names and version.

VERSION                  one line, written last when the directory is made
LOCK                     locked (flock), as the directory itself, while a broker runs; holds its process id for
                         people
checkpoint.sqlite        the checkpoint (with SQLite's own -wal and -shm beside it)
checkpoint.copy          its copy, another database (likewise)
journal/N.journal        segments in use, by rising number
journal/spare-N.journal  segments whose content is of no use any more, to be recycled
ledgers/N.ledger         settled entries of ledger N
damaged/…                files set aside because something in them was damaged or nothing named them; no broker reads or
                         removes them
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from spark_pulsar.ledger.storage import StorageDamaged, StorageVersionUnknown

from .disk import Disk

LAYOUT: Final = 3
_VERSION_LINE: Final = "spark-pulsar data directory, layout "
VERSION_TEXT: Final = f"{_VERSION_LINE}{LAYOUT}\n"
_OF_FILE_SYSTEMS: Final = "lost+found"
_MOST_NAMED: Final = 3
JOURNAL_SUFFIX: Final = ".journal"
LEDGER_SUFFIX: Final = ".ledger"
COPY_SUFFIX: Final = ".copy"
SPARE_PREFIX: Final = "spare-"
OWNER_ONLY_DIRECTORY: Final = 0o700


class Layout:
    """Paths inside one data directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.version = root / "VERSION"
        self.new_version = root / "VERSION.new"
        self.lock = root / "LOCK"
        self.checkpoint = root / "checkpoint.sqlite"
        self.checkpoint_copy = root / f"checkpoint{COPY_SUFFIX}"
        self.journal = root / "journal"
        self.ledgers = root / "ledgers"
        self.damaged = root / "damaged"

    def segment(self, number: int) -> Path:
        """The file of a segment in use."""
        return self.journal / f"{number:012d}{JOURNAL_SUFFIX}"

    def spare(self, number: int) -> Path:
        """The file of a spare segment; the number only keeps names apart."""
        return self.journal / f"{SPARE_PREFIX}{number:012d}{JOURNAL_SUFFIX}"

    def ledger(self, ledger_id: int) -> Path:
        """The file of a ledger's settled entries."""
        return self.ledgers / f"{ledger_id:012d}{LEDGER_SUFFIX}"

    def aside(self, path: Path) -> Path:
        """Returns a path in `damaged/` for a damaged file; no file has it yet."""
        self.damaged.mkdir(mode=OWNER_ONLY_DIRECTORY, exist_ok=True)
        names = (self.damaged / (path.name if number == 1 else f"{path.name}.{number}") for number in count(1))
        return next(name for name in names if not name.exists())

    def segments(self) -> dict[int, Path]:
        """Live segment files by number, rising."""
        return _numbered(self.journal, "", JOURNAL_SUFFIX)

    def spares(self) -> dict[int, Path]:
        """Spare segment files by number, rising."""
        return _numbered(self.journal, SPARE_PREFIX, JOURNAL_SUFFIX)

    def ledger_files(self) -> dict[int, Path]:
        """Ledger files by ledger id, rising."""
        return _numbered(self.ledgers, "", LEDGER_SUFFIX)

    def relative(self, path: Path) -> str:
        """The path as messages show it."""
        return str(path.relative_to(self.root))

    def read_version(self) -> bool:
        """Returns whether this is a data directory; False when it is new (missing, empty, or its making was
        interrupted). StorageVersionUnknown or StorageDamaged when it is something else."""
        try:
            text = self.version.read_bytes().decode("utf-8", "replace")
        except FileNotFoundError:
            if self.journal.is_dir() and self.segments():
                raise StorageDamaged("VERSION", 0, "the file is missing, but there is a journal") from None
            return False
        if text != VERSION_TEXT:
            raise StorageVersionUnknown(f"{self.version}: {_of_version(text)}")
        return True

    def strangers(self) -> list[str]:
        """Returns names of files that are not the broker's, a few of them; a new directory has none as a rule. Hidden
        files, and that which file systems make themselves, are left out."""
        own = {path.name for path in (*self.directories(), *self.files(), self.lock)} | {_OF_FILE_SYSTEMS}
        names = sorted(name for name in os.listdir(self.root) if name not in own and not name.startswith("."))
        return names[:_MOST_NAMED] + ["…"] * (len(names) > _MOST_NAMED)

    def directories(self) -> list[Path]:
        """The sub-directories, whether they are there or not."""
        return [self.journal, self.ledgers, self.damaged]

    def files(self) -> list[Path]:
        """The files beside the sub-directories, whether they are there or not; LOCK is apart."""
        databases = (self.checkpoint, self.checkpoint_copy)
        return [self.version, self.new_version, *(file for path in databases for file in database_files(path))]

    def own_files(self) -> Iterator[Path]:
        """Yields the path of each file that is the broker's, in the sub-directories those that are there (DUR-13). What
        others have beside them is theirs."""
        yield self.lock
        yield from self.files()
        for directory in self.directories():
            for name in sorted(os.listdir(directory)) if directory.is_dir() else ():
                if JOURNAL_SUFFIX in name or LEDGER_SUFFIX in name:
                    yield directory / name

    def write_version(self, disk: Disk) -> None:
        """Marks the directory as complete and durable."""
        with disk.opened(self.new_version, os.O_CREAT | os.O_WRONLY | os.O_TRUNC) as fd:
            disk.write_durably(fd, [VERSION_TEXT.encode()], 0)
        disk.rename(self.new_version, self.version)
        self.make_names_durable(disk)

    def make_names_durable(self, disk: Disk) -> None:
        """Makes the names of all files survive power loss (DUR-9). Needed at every opening: a process may have been
        killed between naming a file and syncing its directory, and writes to that file are promised from now on."""
        for path in (self.journal, self.ledgers, self.root):
            disk.sync_directory(path)
        with suppress(PermissionError):  # they need not be ours
            for path in self.root.absolute().parents:  # which `create` may have made too
                disk.sync_directory(path)


def _of_version(text: str) -> str:
    """Returns the sentence about a VERSION that is not ours."""
    number = text.removeprefix(_VERSION_LINE).removesuffix("\n")
    if text == f"{_VERSION_LINE}{number}\n" and number.isascii() and number.isdigit():
        age = "a later" if int(number[:9]) > LAYOUT else "an earlier"
        return (
            f"layout {number[:9]} is of {age} version of spark-pulsar, and this one reads layout {LAYOUT}: start that "
            "version, or name another directory"
        )
    return f"{text[:80]!r} is no layout that this program knows: name another directory"


def _numbered(directory: Path, prefix: str, suffix: str) -> dict[int, Path]:
    paths: dict[int, Path] = {}
    for entry in os.scandir(directory):
        name = entry.name
        digits = name[len(prefix) : -len(suffix)]
        if name.startswith(prefix) and name.endswith(suffix) and digits.isascii() and digits.isdigit():
            paths[int(digits)] = directory / name
    return dict(sorted(paths.items()))


def database_files(path: Path) -> list[Path]:
    """The files that SQLite keeps for a database."""
    return [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm", "-journal")]
