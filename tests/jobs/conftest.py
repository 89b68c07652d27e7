"""One Spark for the jobs of all tests here, but for the few that try spark-submit itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import spark_pulsar
from tests.jobs.one_spark import OneSpark
from tests.jobs.page import ROOT, Shell


@pytest.fixture(scope="session")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneSpark]:
    """Runs jobs: the first one starts Spark."""
    one = OneSpark(tmp_path_factory.mktemp("jobs"))
    yield one
    one.close()


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A user's shell beside a broker and a cluster, for the commands of docs/jobs.md."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("jobs", "conf"):
        (folder / name).symlink_to(ROOT / name)
    with spark_pulsar.broker_process() as broker, spark_pulsar.broker_process() as cluster:
        yield Shell(folder, broker, cluster)
