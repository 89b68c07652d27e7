"""The simulated disk itself: what was synced is kept, the rest may be anything that a disk may leave."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from .disk_after_cut import DiskAfterCut
from .recording import Record

RUNS = 60
DATA = b"a" * 4096 + b"b" * 4096


def _images(before: Path, records: list[Record], tmp_path: Path) -> Iterator[dict[str, bytes]]:
    """The files that many cuts behind the records leave."""
    for seed in range(RUNS):
        disk, target = DiskAfterCut(before), tmp_path / f"image-{seed}"
        for record in records:
            disk.take(record)
        disk.cut(target, random.Random(seed))
        yield {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """A directory with one file, all of it stored."""
    folder = tmp_path / "before"
    folder.mkdir()
    (folder / "old").write_bytes(DATA)
    return folder


def test_what_is_synced_is_kept(before: Path, tmp_path: Path) -> None:
    made = ("open", 3, "new", os.O_CREAT | os.O_RDWR)
    written = [("write", 1, 3, 0, DATA, False), ("done", 1), ("sync", 2, 3), ("done", 2)]
    named = [("open", 4, ".", 0), ("sync", 3, 4), ("done", 3)]
    assert all(image["new"] == DATA for image in _images(before, [made, *written, *named], tmp_path))


def test_a_durable_write_is_kept_once_it_has_returned(before: Path, tmp_path: Path) -> None:
    begun = [("open", 3, "old", os.O_RDWR), ("write", 1, 3, 4096, b"c" * 4096, True)]
    found = {image["old"] for image in _images(before, begun, tmp_path)}
    assert {DATA, DATA[:4096] + b"c" * 4096} < found, "some are torn"
    (tmp_path / "done").mkdir()
    done = [*begun, ("done", 1)]
    assert {image["old"] for image in _images(before, done, tmp_path / "done")} == {DATA[:4096] + b"c" * 4096}


def test_what_is_not_synced_may_be_there_in_part_and_out_of_order(before: Path, tmp_path: Path) -> None:
    records: list[Record] = [("open", 3, "old", os.O_RDWR)]
    for number, letter in enumerate((b"c", b"d")):
        records += [("write", number, 3, 4096 * number, letter * 4096, False), ("done", number)]
    found = {(image["old"][:1], image["old"][4096:4097]) for image in _images(before, records, tmp_path)}
    assert found == {(b"a", b"b"), (b"c", b"b"), (b"a", b"d"), (b"c", b"d")}


def test_a_file_may_have_grown_without_its_data(before: Path, tmp_path: Path) -> None:
    records = [("open", 3, "old", os.O_RDWR), ("write", 1, 3, 8192, b"c" * 4096, False), ("done", 1)]
    ends = {image["old"][8192:] for image in _images(before, records, tmp_path)}
    assert {b"", bytes(4096), b"c" * 4096} < ends, "some show what their blocks held before"


def test_reserved_space_holds_zeros(before: Path, tmp_path: Path) -> None:
    records = [("open", 3, "old", os.O_RDWR), ("extend", 1, 3, 12288), ("done", 1)]
    assert {image["old"][8192:] for image in _images(before, records, tmp_path)} == {b"", bytes(4096)}


def test_data_behind_a_cut_needs_the_cut(before: Path, tmp_path: Path) -> None:
    records = [("open", 3, "old", os.O_RDWR), ("truncate", 1, 3, 0), ("done", 1)]
    records += [("write", 2, 3, 0, b"c" * 100, False), ("done", 2)]
    for image in _images(before, records, tmp_path):
        assert image["old"] in (DATA, b"", b"c" * 100) or len(image["old"]) == 100


def test_names_without_a_sync_of_their_directory_may_be_either(before: Path, tmp_path: Path) -> None:
    renamed = [("rename", 1, "old", "new"), ("done", 1)]
    assert {tuple(image) for image in _images(before, renamed, tmp_path)} == {("old",), ("new",)}
    (tmp_path / "synced").mkdir()
    synced = [*renamed, ("open", 3, ".", 0), ("sync", 2, 3), ("done", 2)]
    assert {tuple(image) for image in _images(before, synced, tmp_path / "synced")} == {("new",)}


def test_a_removed_file_may_come_back(before: Path, tmp_path: Path) -> None:
    removed = [("remove", 1, "old"), ("done", 1)]
    assert {tuple(image) for image in _images(before, removed, tmp_path)} == {("old",), ()}


def test_names_without_order_may_be_any_of_them(before: Path, tmp_path: Path) -> None:
    made = [("open", number, name, os.O_CREAT | os.O_RDWR) for number, name in enumerate("xy")]
    found = {frozenset(image) - {"old"} for image in _images(before, made, tmp_path)}
    assert found == {frozenset(), frozenset("x"), frozenset("y"), frozenset("xy")}
