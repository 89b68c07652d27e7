"""JVMs of tests, which live too briefly for what pays in a long life.

`python -m tests.jvms spark` makes an archive of Spark's classes, `python -m tests.jvms pulsar` one of Apache Pulsar's
(`.ci/setup java` and `.ci/setup maven` do so). With them a session takes half the time to its first rows, and a broker
two thirds of it until it serves. Without them, or with those of another Java or of other jars, classes come from
the jars.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.apache_pulsar.start import apache_pulsar, class_path_file

SPARK_CLASSES = Path(sys.prefix) / "spark.jsa"
"""Classes of Spark as the JVM has them in memory."""

# Without the optimizing compiler a job takes a quarter less time. The names of both are those of the programs.
_SPARK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_PULSAR = "-XX:TieredStopAtLevel=1"


def pulsar_classes() -> Path:
    """Returns the file of the classes of the chosen Apache Pulsar, beside its class path."""
    return class_path_file().with_suffix(".jsa")


def _from(archive: Path) -> str:
    """An option for an archive that is there; one that does not fit is left alone, without a word."""
    return f" -XX:SharedArchiveFile={archive} -Xlog:disable" if archive.exists() else ""


def _into(archive: Path) -> str:
    archive.unlink(missing_ok=True)
    return f" -XX:ArchiveClassesAtExit={archive} -Xlog:disable"


def settings() -> Mapping[str, str]:
    """Variables of the environment for JVMs that start quickly."""
    return {
        "SPARK_SUBMIT_OPTS": _SPARK + _from(SPARK_CLASSES),
        "PULSAR_EXTRA_OPTS": _PULSAR + _from(pulsar_classes()),
    }


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


def _run_spark() -> None:
    """Writes a batch and reads it as a stream, as most tests do; the JVM keeps its classes when it ends."""
    os.environ["SPARK_SUBMIT_OPTS"] = _SPARK + _into(SPARK_CLASSES)
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


def _run_pulsar() -> None:
    """Starts a broker and ends it."""
    os.environ["PULSAR_EXTRA_OPTS"] = _PULSAR + _into(pulsar_classes())
    with tempfile.TemporaryDirectory() as data:
        broker = apache_pulsar(Path(data))
        os.kill(broker.pid, signal.SIGTERM)
        broker.wait()


if __name__ == "__main__":
    {"spark": _run_spark, "pulsar": _run_pulsar}[sys.argv[1]]()
