"""Reads of the disk from the system's memory; writes past the page cache leave what writes through it leave."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from spark_pulsar.storage.disk.direct_writes import DIRECT_BYTES, PAGE_BYTES, DirectWriter
from spark_pulsar.storage.disk.disk import Buffer, Disk
from tests.in_memory import can_be_asked_for_memory


def test_what_was_just_written_is_read_from_memory(tmp_path: Path) -> None:
    if not can_be_asked_for_memory(tmp_path):
        pytest.skip("this file system does not tell what is in memory")
    disk = Disk()
    fd = disk.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        data = os.urandom(100_000)
        disk.write(fd, [data], 0)
        assert disk.read_from_memory(fd, len(data), 0) == data
        assert disk.read_from_memory(fd, 1, 99_999) == data[-1:]
        assert disk.read_from_memory(fd, 10, 99_995) is None, "behind the end"
    finally:
        os.close(fd)
    assert disk.read_from_memory(fd, 10, 0) is None, "an error is for who reads and waits"


@pytest.mark.parametrize("at", [0, 900_000])
def test_what_is_on_the_disk_alone_is_not_waited_for(tmp_path: Path, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    fd = disk.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)

    def gone(fd: int, buffers: list[bytearray], offset: int, flags: int) -> int:
        """Answers like a file system that keeps everything in memory, so that nothing can be dropped."""
        assert flags == os.RWF_NOWAIT
        if at <= offset < at + 100_000:
            raise BlockingIOError
        return 1

    monkeypatch.setattr(os, "preadv", gone)
    try:
        disk.write(fd, [bytes(1_000_000)], 0)
        assert disk.read_from_memory(fd, 1_000_000, 0) is None
        assert disk.read_from_memory(fd, 1000, 500_000) == bytes(1000)
    finally:
        os.close(fd)


MIB = 1024 * 1024


class Watched(Disk):
    """Counts how files are opened; `refuses` is what it says to direct ones."""

    def __init__(self, refuses: int | None = None) -> None:
        self.direct_opens = 0
        self.refuses = refuses

    def open(self, path: Path, flags: int) -> int:
        if flags & os.O_DIRECT:
            self.direct_opens += 1
            if self.refuses is not None:
                raise OSError(self.refuses, os.strerror(self.refuses))
        return super().open(path, flags)


def written(path: Path, disk: Disk, before: bytes, buffers: list[bytes], offset: int) -> bytes:
    """Content of the file after the buffers were written over `before`."""
    path.write_bytes(before)
    fd = os.open(path, os.O_RDWR)
    try:
        end = DirectWriter(disk).write(path, fd, buffers, offset)
    finally:
        os.close(fd)
    assert end == offset + sum(map(len, buffers))
    return path.read_bytes()


@pytest.mark.parametrize("seed", range(40))
def test_every_byte_stands_where_it_belongs(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    before = random.randbytes(random.choice([0, 1, 100, PAGE_BYTES, 3 * PAGE_BYTES + 5]))
    sizes = [random.choice([0, 1, 511, PAGE_BYTES, 70_000, MIB, MIB + 1]) for _ in range(random.randint(1, 9))]
    buffers = [random.randbytes(size) for size in sizes]
    disk = Watched()
    expected = before + b"".join(buffers)
    assert written(tmp_path / "file", disk, before, buffers, len(before)) == expected
    assert disk.direct_opens == (sum(sizes) >= DIRECT_BYTES)


def test_what_stands_behind_is_left_alone(tmp_path: Path) -> None:
    before = b"x" * (3 * MIB)
    data = Random(1).randbytes(MIB + 17)
    after = written(tmp_path / "file", Disk(), before, [data], 1001)
    assert after == before[:1001] + data + before[1001 + len(data) :]


@pytest.mark.parametrize(("size", "direct"), [(DIRECT_BYTES - 1, 0), (DIRECT_BYTES, 1)])
def test_little_goes_through_the_cache(tmp_path: Path, size: int, direct: int) -> None:
    disk = Watched()
    assert written(tmp_path / "file", disk, b"", [bytes(size)], 0) == bytes(size)
    assert disk.direct_opens == direct


def test_a_file_system_without_direct_writes_is_written_through_the_cache(tmp_path: Path) -> None:
    data = Random(2).randbytes(2 * MIB)
    assert written(tmp_path / "file", Watched(errno.EINVAL), b"", [data], 0) == data
    with pytest.raises(OSError, match="Input/output error"):
        written(tmp_path / "file", Watched(errno.EIO), b"", [data], 0)


class Particular(Disk):
    """Opens files for direct writes, and then takes a part of one and refuses the rest."""

    def __init__(self, refuses: int) -> None:
        self.refuses = refuses
        self._direct = -1
        self.refused = 0

    def open(self, path: Path, flags: int) -> int:
        fd = super().open(path, flags)
        if flags & os.O_DIRECT:
            self._direct = fd
        return fd

    def write(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        if fd == self._direct:
            self.refused += 1
            super().write(fd, [memoryview(buffers[0])[:PAGE_BYTES]], offset)
            raise OSError(self.refuses, os.strerror(self.refuses))
        return super().write(fd, buffers, offset)


def test_what_a_direct_write_refuses_goes_through_the_cache(tmp_path: Path) -> None:
    before, data = b"x" * 1001, Random(3).randbytes(2 * MIB + 5)
    disk = Particular(errno.EINVAL)
    assert written(tmp_path / "file", disk, before, [data], len(before)) == before + data
    assert disk.refused == 2  # what is left for the third is less than a page
    with pytest.raises(OSError, match="No space left"):
        written(tmp_path / "full", Particular(errno.ENOSPC), before, [data], len(before))
