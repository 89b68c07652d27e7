"""A recording read back: `recorder` tells what its records are."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Record = tuple[Any, ...]

FILE_KINDS = frozenset(("write", "truncate", "extend", "sync", "rename", "remove", "mkdir"))


def read_recording(path: Path) -> list[Record]:
    """All records; the last one may be cut, as the process was killed."""
    records: list[Record] = []
    with path.open("rb") as file:
        while True:
            try:
                records.append(pickle.load(file))
            except (EOFError, pickle.UnpicklingError):
                return records


def interesting(records: list[Record]) -> dict[str, list[int]]:
    """Places where a cut tells most: before and after each sync, durable write, rename, removal, truncation and new
    directory, by kind and by the folder or file that it concerns. A cut at a place comes before the record that stands
    there."""
    found: dict[str, list[int]] = {}
    labels: dict[int, str] = {}
    for at, (record, label) in enumerate(_labelled(records)):
        if label and (record[0] != "write" or record[5]):
            labels[record[1]] = label
            found.setdefault(label, []).append(at)
        elif record[0] in ("done", "failed") and record[1] in labels:
            found[labels[record[1]]].append(at)
    return found


def without_syncs(records: list[Record], unsynced: str) -> list[Record]:
    """The recording of a broker that does not sync: without the syncs, or durable writes, that have this label."""
    kept: list[Record] = []
    for record, label in _labelled(records):
        if label != unsynced:
            kept.append(record)
        elif record[0] == "write":
            kept.append((*record[:5], False))
    return kept


def _labelled(records: list[Record]) -> Iterator[tuple[Record, str]]:
    """Records, each with its kind and the folder, or the file at the top, that it concerns; empty where it is not about
    files."""
    paths: dict[int, str] = {}
    for record in records:
        label = ""
        if record[0] == "open":
            paths[record[1]] = record[2]
        elif record[0] in FILE_KINDS:
            path = record[2] if isinstance(record[2], str) else paths[record[2]]
            folder, _, name = path.rpartition("/")
            label = f"{record[0]} {folder or name}"
        yield record, label
