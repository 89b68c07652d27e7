"""Tests that run a second time as in an environment without NumPy: those of modules that name the fixture."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_pulsar.model import array_library


@pytest.fixture(scope="module", params=["numpy", "without"], autouse=True)
def both_ways(request: pytest.FixtureRequest) -> Iterator[None]:
    """Takes the ways with NumPy, then those without it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(array_library, "HAS_NUMPY", request.param == "numpy")
        yield
