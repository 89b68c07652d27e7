"""The machine that the figures are of."""

import os
import platform
import statistics
import time
from pathlib import Path


def description(data: Path) -> str:
    """The machine, the file system of `data` and the time that one fdatasync takes on it."""
    return f"{name()}; data on {_file_system(data)}, fdatasync of 4 KB p50 {fdatasync_ms(data):.2f} ms"


def name() -> str:
    """Processor, cores, memory, kernel, Python."""
    model = "unknown processor"
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (
        f"{model}, {os.cpu_count()} cores, {memory_gb:.0f} GB; "
        f"Linux {platform.release()}, Python {platform.python_version()}"
    )


def written_bytes(path: Path) -> int:
    """Bytes ever written to the disk that `path` is on, by all processes: sectors, as the device counts them.

    `write_bytes` of a process counts every page of a large folio of the page cache when one byte of it changes: with
    groups of 20 KB thirty times what the device is given (Linux 6.18, ext4).
    """
    device = os.stat(path).st_dev
    fields = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat").read_text().split()
    return int(fields[6]) * 512


def stolen_s() -> float:
    """Processor time, of all cores together, that the host gave to others while this machine had work; 0 where the
    system does not report it."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    return int(stat.read_text().split(maxsplit=9)[8]) / os.sysconf("SC_CLK_TCK")


def tree_processor_s(pid: int) -> float:
    """Processor time used so far by a process, those that it started, and those of them that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = [int(each) for task in Path(f"/proc/{pid}/task").iterdir() for each in _children(task)]
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    own = sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    return own + sum(tree_processor_s(child) for child in children)


def _children(task: Path) -> list[str]:
    try:
        return (task / "children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _file_system(path: Path) -> str:
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    path = path.resolve()
    found = [mount for mount in mounts if path.is_relative_to(mount[1])]
    return max(found, key=lambda mount: len(mount[1]))[2] if found else "unknown file system"


def fdatasync_ms(directory: Path, count: int = 100) -> float:
    """Median over `count` writes into a preallocated file, as a journal does."""
    name = directory / "fdatasync-probe"
    file = os.open(name, os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(file, bytes(4096 * count), 0)
        os.fsync(file)
        times = []
        for index in range(count):
            started = time.perf_counter()
            os.pwrite(file, b"x" * 4096, index * 4096)
            os.fdatasync(file)
            times.append(time.perf_counter() - started)
        return statistics.median(times) * 1000
    finally:
        os.close(file)
        name.unlink()
