"""What tests of brokers on a faulty disk share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file whose word is the fault of a `FaultyBroker`'s disk."""
    path = tmp_path / "faults"
    monkeypatch.setenv("FAULTS", str(path))
    return path
