"""The machine as a broker finds it: open files, and the time that its disk takes to have something for good."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Final

from spark_pulsar.cli.doctor.findings import Finding, State
from spark_pulsar.storage.disk.disk import Disk

_FEW_FILES: Final = 4_096
_WRITES: Final = 100
_LONGEST_S: Final = 2.0
_BLOCK: Final = bytes(4_096)
_SLOW_MS: Final = 20.0
_SLOW_P99_MS: Final = 200.0
_NO_DISK_MS: Final = 0.02
"""Less than any disk needs: then only memory has it."""


def check_machine(data_dir: Path) -> Iterator[Finding]:
    """Checks the limit of open files, and measures synced writes where the data directory is, or would be."""
    yield _open_files()
    yield _disk(data_dir)


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = f"{_limit(soft)}, up to {_limit(hard)}"  # a broker raises it by itself
    if 0 <= hard < _FEW_FILES:
        advice = "a broker serves 3 connections for every 8 open files: raise the hard limit (ulimit -Hn, LimitNOFILE)"
        return Finding("open files", State.WARN, limits, advice)
    return Finding("open files", State.OK, limits)


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def _disk(data_dir: Path) -> Finding:
    check = "disk sync"
    folder = next(folder for folder in (data_dir.absolute(), *data_dir.absolute().parents) if folder.is_dir())
    try:
        times_ms = _synced_writes(folder)
    except OSError as error:
        advice = f"give a directory of yours by --data-dir, or make {folder} writable"
        return Finding(check, State.FAIL, f"{folder}: {error.strerror or error}", advice)
    p50_ms, p99_ms = times_ms[len(times_ms) // 2], times_ms[len(times_ms) * 99 // 100]
    times = f"{folder}: p50 {p50_ms:.2f} ms, p99 {p99_ms:.2f} ms"
    if p50_ms < _NO_DISK_MS:
        return Finding(check, State.WARN, times, "memory, or a disk that promises too much: a power cut may lose data")
    if p50_ms > _SLOW_MS or p99_ms > _SLOW_P99_MS:
        advice = "every receipt waits for one sync: a local SSD takes a millisecond or less"
        return Finding(check, State.WARN, times, advice)
    return Finding(check, State.OK, times)


def _synced_writes(folder: Path) -> list[float]:
    """Returns the times of synced writes into a file without a name, shortest first."""
    disk, times_ms = Disk(), []
    with tempfile.TemporaryFile(dir=folder) as file:
        fd, began = file.fileno(), perf_counter()
        disk.preallocate(fd, _WRITES * len(_BLOCK))
        disk.sync(fd)
        for number in range(_WRITES):
            before = perf_counter()
            disk.write_durably(fd, [_BLOCK], number * len(_BLOCK))
            times_ms.append((perf_counter() - before) * 1000)
            if perf_counter() - began > _LONGEST_S:
                break
        os.ftruncate(fd, 0)
    return sorted(times_ms)
