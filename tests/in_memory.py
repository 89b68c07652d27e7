"""Whether a file system tells what of a file is in memory; tmpfs does not."""

from __future__ import annotations

import os
from pathlib import Path


def can_be_asked_for_memory(directory: Path) -> bool:
    """Whether reads from files there may ask not to wait."""
    path = directory / "asked"
    path.write_bytes(b"x")
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.preadv(fd, [bytearray(1)], 0, os.RWF_NOWAIT) == 1
    except OSError:
        return False
    finally:
        os.close(fd)
        path.unlink()
