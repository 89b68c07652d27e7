"""Files of ledgers in `damaged/`: a file that a start moved there because nothing named it (DUR-12:
`recovery.leftovers`) may be named after all, by the checkpoint's copy once that is in its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from spark_pulsar.storage.disk.disk import Disk
from spark_pulsar.storage.disk.layout import LEDGER_SUFFIX, Layout
from spark_pulsar.storage.ledgers.files import BLOCK_HEADER_BYTES, Extent, parse_block_head, whole_blocks
from spark_pulsar.storage.recovery.leftovers import joined


def find_aside(layout: Layout, extents: Mapping[int, Extent]) -> dict[int, Path]:
    """Finds the files in `damaged/` that hold all of an extent whose own file is missing or short, by ledger."""
    aside = _files_aside(layout)
    by_ledger: dict[int, Path] = {}
    for ledger_id, extent in extents.items() if aside else ():
        path = layout.ledger(ledger_id)
        if path.exists() and path.stat().st_size >= extent.size:
            continue
        complete = [file for file in aside.get(ledger_id, ()) if _holds(file, ledger_id, extent)]
        if complete:
            by_ledger[ledger_id] = complete[0]
    return by_ledger


def put_back(layout: Layout, disk: Disk, aside: Mapping[int, Path]) -> list[str]:
    """Moves files from `damaged/` to their ledgers, durable on return; says so."""
    done: list[str] = []
    for ledger_id, file in aside.items():
        path = layout.ledger(ledger_id)
        if path.exists():
            short = layout.aside(path)
            disk.rename(path, short)
            done.append(f"{layout.relative(path)}: moved to {layout.relative(short)}")
        disk.rename(file, path)
        done.append(f"{layout.relative(file)}: put back as {layout.relative(path)}")
        for directory in (path.parent, file.parent):
            disk.sync_directory(directory)
    return done


def strangers(layout: Layout, extents: Mapping[int, Extent]) -> Iterator[tuple[Path, str]]:
    """Yields the files in `damaged/` of ledgers that no extent names, and which entries they hold."""
    for ledger_id, files in _files_aside(layout).items():
        for file in files if ledger_id not in extents else ():
            table = whole_blocks(file, ledger_id, file.stat().st_size)
            spans = joined(zip(table.firsts, table.ends, strict=True))
            if spans:
                stretches = ", ".join(f"{first} to {end - 1}" for first, end in spans[:20])
                yield file, f"whole: entries {stretches} of ledger {ledger_id}, which nothing names"


def _files_aside(layout: Layout) -> dict[int, list[Path]]:
    """Files of ledgers in `damaged/`, the newest first."""
    by_ledger: dict[int, list[Path]] = {}
    directory = layout.damaged
    for path in sorted(directory.iterdir(), key=_age, reverse=True) if directory.is_dir() else ():
        digits, _, rest = path.name.partition(".")
        if digits.isascii() and digits.isdigit() and f".{rest}".startswith(LEDGER_SUFFIX) and path.is_file():
            by_ledger.setdefault(int(digits), []).append(path)
    return by_ledger


def _age(path: Path) -> int:
    """The number that `Layout.aside` gave a file."""
    number = path.suffix[1:]
    return int(number) if number.isascii() and number.isdigit() else 1


def _holds(file: Path, ledger_id: int, extent: Extent) -> bool:
    """Returns whether a file begins with the whole blocks of an extent, every checksum verified."""
    if file.stat().st_size < extent.size:
        return False
    table = whole_blocks(file, ledger_id, extent.size)
    at = 0
    with file.open("rb") as opened:
        for offset in table.offsets:
            opened.seek(offset)
            head = parse_block_head(opened.read(BLOCK_HEADER_BYTES))
            if head is None or offset != at:
                return False
            at += head.size
    return 0 < at == extent.size and table.firsts[0] >= extent.first and table.ends[-1] <= extent.end
