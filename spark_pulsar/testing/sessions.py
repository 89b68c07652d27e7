"""The Spark session of a test session: small, quiet, with the Python of the tests in its workers."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PYTHONS: Final = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
_CONF: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # Tests are over before the JVM's optimizing compiler pays.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}


@contextmanager
def spark_session(directory: Callable[[], Path]) -> Iterator[SparkSession]:
    """Takes the session that is active, whose owner stops it, else starts one and stops it at the end.

    `directory` makes one for the tables of the session.
    """
    try:
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyspark":
            raise
        raise pytest.fail.Exception(
            "the fixture spark_pulsar_session: PySpark is not installed: pip install 'spark-pulsar[spark]'",
            pytrace=False,
        ) from None
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    _check_java()
    mine = [name for name in _PYTHONS if name not in os.environ]
    os.environ.update(dict.fromkeys(mine, sys.executable))
    builder = SparkSession.builder.master("local[2]").appName("pytest")
    for key, value in (_CONF | {"spark.sql.warehouse.dir": str(directory())}).items():
        builder = builder.config(key, value)
    try:
        try:
            session = builder.getOrCreate()
        except PySparkRuntimeError as error:
            raise pytest.fail.Exception(
                f"the fixture spark_pulsar_session: Spark did not start: {error}", pytrace=False
            ) from None
        yield session
        session.stop()
    finally:
        for name in mine:
            os.environ.pop(name, None)


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if "SPARK_REMOTE" in os.environ or shutil.which(str(Path(home, "bin", "java")) if home else "java"):
        return
    where = f"JAVA_HOME={home} has no bin/java" if home else "there is no java on the path"
    pytest.fail(f"the fixture spark_pulsar_session: Spark needs Java 17 or newer: {where}", pytrace=False)
