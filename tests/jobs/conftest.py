"""One Spark for the jobs of all tests here, but for the few that try spark-submit itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.jobs.one_spark import OneSpark


@pytest.fixture(scope="session")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneSpark]:
    """Runs jobs: the first one starts Spark."""
    one = OneSpark(tmp_path_factory.mktemp("jobs"))
    yield one
    one.close()
