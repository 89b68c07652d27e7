"""`spark_pulsar.register`: the connector made known to a session that can run it (READ-37). Workers get a Python that
has the package from `worker_python` (READ-36)."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from spark_pulsar.connector.shipped_package import shipped_archive
from spark_pulsar.connector.worker_python import check, check_own_versions, check_spark
from spark_pulsar.model.arguments import naming_arguments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@naming_arguments()
def register(spark: SparkSession) -> None:
    """Makes the formats `pulsar` and `pulsar-py` known to this session, where Spark has not discovered them by itself;
    one of Spark Connect, too (READ-45).

    Needed with `spark-submit --py-files`, or when another `pyspark_*` module on the path fails to import. `pulsar-py`
    stays ours where a JVM connector of the name `pulsar` is on the class path, which Spark prefers. Raises
    RequirementError where Spark is older than 4.0, or its workers' Python lacks this package, numpy or pyarrow, or has
    them older than they may be.
    """
    if not isinstance(getattr(spark, "version", None), str):
        name = spark.__name__ if isinstance(spark, type) else type(spark).__name__
        raise TypeError(f"register() makes formats known to a SparkSession, not to {name}: make one by getOrCreate()")
    check(spark, is_shipped=shipped_archive() is not None)
    from spark_pulsar.connector.source import register_sources

    register_sources(spark)


def check_installed_spark() -> None:
    """Raises RequirementError where the Spark of this Python, or what it needs, is too old for the connector to be
    imported at all (READ-37)."""
    check_own_versions()
    try:
        installed = version("pyspark")
    except PackageNotFoundError:
        return  # a Spark that brings its own
    check_spark(installed)
