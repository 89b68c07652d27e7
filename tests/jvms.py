"""JVMs of tests, which live too briefly for what pays in a long life.

`python -m tests.jvms` makes the archive of Spark's classes (`.ci/setup java` does so): loaded from there, a session
takes half the time to its first rows. Without it, or with one of another Java or Spark, classes come from the jars.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ARCHIVE = Path(sys.prefix) / "spark.jsa"
"""Classes of Spark as the JVM has them in memory."""

# Without the optimizing compiler a job takes a quarter less time. The names of both are those of the programs.
_SPARK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_PULSAR = "-XX:TieredStopAtLevel=1"
# An archive that does not fit is left alone, without a word.
_FROM_ARCHIVE = f"-XX:SharedArchiveFile={ARCHIVE} -Xlog:disable"


def settings() -> Mapping[str, str]:
    """Variables of the environment for JVMs that start quickly."""
    spark = f"{_SPARK} {_FROM_ARCHIVE}" if ARCHIVE.exists() else _SPARK
    return {"SPARK_SUBMIT_OPTS": spark, "PULSAR_EXTRA_OPTS": _PULSAR}


def spark_home() -> Path:
    """A home of Spark whose Python workers import PySpark from where it is installed, made when it is missing.

    In the installed one lies `pyspark.zip` for clusters, and Spark has its workers import from there: each compiles
    PySpark anew, and until Python 3.12 each start of a query reads the archive's directory twenty times. That is half
    a second of a processor for each.
    """
    import pyspark

    installed, home = Path(pyspark.__file__).parent, Path(sys.prefix) / "spark-home"
    for name in ("bin", "jars"):
        link = home / name
        if not link.exists():
            home.mkdir(exist_ok=True)
            fresh = Path(tempfile.mkdtemp(dir=home)) / name  # another process may do the same
            fresh.symlink_to(os.path.relpath(installed / name, home))
            fresh.replace(link)
            fresh.parent.rmdir()
    return home


def _make_archive() -> None:
    """Writes a batch and reads it as a stream, as most tests do; the JVM keeps its classes when it ends."""
    ARCHIVE.unlink(missing_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = f"{_SPARK} -XX:ArchiveClassesAtExit={ARCHIVE} -Xlog:disable"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from spark_pulsar import broker_process

    # As a session of the tests; an archive is good for the same jars whatever home they are found in.
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    jvm = spark.sparkContext._gateway.proc
    with broker_process() as broker, tempfile.TemporaryDirectory() as checkpoints:
        service = {"service.url": broker.service_url}
        rows = spark.createDataFrame([("k", 1)], "a string, b int").selectExpr("struct(*) AS value")
        rows.write.format("pulsar").mode("append").options(**service, topic="a").save()
        stream = spark.readStream.format("pulsar").options(**service, topic="a", startingOffsets="earliest").load()
        counts = stream.groupBy("__key").count().writeStream.outputMode("update")
        for number, writer in enumerate(
            (
                stream.select("value").writeStream.format("pulsar").options(**service, topic="b"),
                counts.foreachBatch(lambda batch, _: batch.collect()),
            )
        ):
            writer = writer.option("checkpointLocation", f"{checkpoints}/{number}").trigger(availableNow=True)
            writer.start().awaitTermination()
    spark.stop()
    jvm.stdin.close()
    jvm.wait()


if __name__ == "__main__":
    _make_archive()
