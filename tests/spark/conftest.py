"""One real Spark session for all tests here, and short ways to say "read this topic"."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.brokers import Broker
from tests.conftest import started
from tests.jvms import spark_home
from tests.spark.flows import Flows
from tests.spark.versions import FILE_MANAGER, SPARK

KEEPING_ENTRY_METADATA: dict[str, object] = {
    "brokerEntryMetadataInterceptors": ",".join(
        f"org.apache.pulsar.common.intercept.{name}MetadataInterceptor"
        for name in ("AppendIndex", "AppendBrokerTimestamp")
    ),
    "exposingBrokerEntryMetadataToClientEnabled": True,
}
"""An Apache Pulsar that keeps its own time and an index with each entry, and tells them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark 4.0 and 4.1 close no socket by which they collect rows."""
    if SPARK < (4, 2):
        for item in items:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """`local[2]`, no UI, UTC; the checkpoint file manager that saves 50 ms a micro-batch on a local disk."""
    os.environ["SPARK_HOME"] = str(spark_home())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("spark-pulsar tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.sql.streaming.checkpointFileManagerClass", FILE_MANAGER)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def flows(spark: SparkSession, broker: Broker, tmp_path: Path) -> Iterator[Flows]:
    """Readers, writers and queries on the session and the broker under test; queries are stopped at the end."""
    with Flows(spark, broker, tmp_path) as ready:
        yield ready


@pytest.fixture
def rolling(spark: SparkSession, rolling_broker: Broker, tmp_path: Path) -> Iterator[Flows]:
    """Flows on a broker whose ledgers have ten entries, and whose trimming runs each second."""
    with Flows(spark, rolling_broker, tmp_path) as ready:
        yield ready


@pytest.fixture
def keeping(
    spark: SparkSession, broker_kind: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Flows]:
    """Flows on a broker of its own, which keeps metadata of entries if it is one that can: see
    `KEEPING_ENTRY_METADATA`. It looks at its own time where others look at the publish time."""
    conf = None if broker_kind == "ours" else KEEPING_ENTRY_METADATA
    with (
        started(broker_kind, tmp_path_factory.mktemp("keeping-broker"), conf) as keeping,
        Flows(spark, keeping, tmp_path) as ready,
    ):
        yield ready
        keeping.close_since(0)
