"""The clusters of this folder: Apache Pulsar with two brokers, and the local Spark session that reads and writes it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cluster.pulsar_cluster import PulsarCluster, pulsar_cluster
from tests.cluster.spark_cluster import configure, environment, make_python, standalone
from tests.spark.conftest import spark  # noqa: F401 - the session of the Spark suite, as a fixture
from tests.spark.flows import Flows


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Servers that start, and Maven in a fresh machine, are not in the time of the test that needs them first."""
    for item in items:
        item.add_marker(pytest.mark.timeout(600, func_only=True))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarCluster]:
    """Two brokers, both running at the begin of each test that starts again what it kills."""
    directory = tmp_path_factory.mktemp("pulsar")
    with pulsar_cluster(directory / "cluster") as ready:
        yield ready
    shutil.rmtree(directory / "cluster" / "bookkeeper", ignore_errors=True)


@pytest.fixture
def flows(spark: SparkSession, cluster: PulsarCluster, tmp_path: Path) -> Iterator[Flows]:  # noqa: F811
    """Readers, writers and queries on the session and on the cluster by all its addresses."""
    broker = cluster.broker()
    with Flows(spark, broker, tmp_path) as ready:
        yield ready
    broker.close_since(0)


@pytest.fixture(scope="session")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a standalone master with two workers, in whose environment there is nothing but Spark."""
    directory = tmp_path_factory.mktemp("standalone")
    configure(directory / "conf")
    python = make_python(directory / "python", "spark")
    with standalone(directory, environment(python, directory / "conf")) as url:
        yield url
