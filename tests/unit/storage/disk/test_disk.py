"""Reads of the disk from the system's memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_pulsar.storage.disk.disk import Disk
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
