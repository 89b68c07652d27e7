from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.storages import FileWorld, MemoryWorld, World


@pytest.fixture(params=["files", "files-unsynced", "memory"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """An open, empty storage of each kind."""
    if request.param == "memory":
        yield MemoryWorld()
        return
    files = FileWorld(tmp_path, sync_data=request.param == "files")
    yield files
    files.dispose()
