"""A Spark program that does everything that could show a secret: `spark-submit tests/security/showing.py FILE`, a JSON
file of what to do.

Plans, progress and errors go to standard output, logs of all processes to standard error, events to `events/` and
checkpoints to `checkpoints/` of the directory named there.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def session(directory: Path, conf: Mapping[str, str]) -> SparkSession:
    """A session that logs everything and keeps its events."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    (directory / "events").mkdir()
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (directory / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        **conf,
    }
    builder = SparkSession.builder.master("local[2]").appName("secrets")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def failing(what: str, work: Callable[[], Any]) -> None:
    """Prints the error that `work` ends with, whole."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 - all of it is looked at
        print(f"{what}: {error}\n{error!r}")
        traceback.print_exc(file=sys.stdout)
    else:
        print(f"{what} did not fail")
        sys.exit(3)


def show(spark: SparkSession, name: str, options: dict[str, str], directory: Path) -> None:
    """Reads and writes in all ways with the same options, and prints what Spark prints of it."""
    topic = options.pop("topic")
    rows = spark.range(10).selectExpr("CONCAT('m', id) AS value")
    rows.write.format("pulsar").options(**options, topic=topic).mode("append").save()
    batch = spark.read.format("pulsar").options(**options, topic=topic).load()
    batch.explain(mode="extended")
    batch.explain(mode="formatted")
    print(batch, repr(batch), batch.count())
    batch.createOrReplaceTempView("topic")
    spark.sql("DESCRIBE EXTENDED topic").show(truncate=False)
    stream = spark.readStream.format("pulsar").options(**options, topic=topic, startingOffsets="earliest").load()
    writer = stream.selectExpr("value").writeStream.format("pulsar").queryName(f"copy_{name}")
    checkpoint = str(directory / "checkpoints" / name)
    writer = writer.options(**options, topic=f"{topic}-copy", checkpointLocation=checkpoint)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(180)
    query.explain(True)
    print(query.lastProgress, query.recentProgress, query.status)
    assert sum(progress["numInputRows"] for progress in query.recentProgress) == 10


def show_failures(spark: SparkSession, options: dict[str, str], directory: Path) -> None:
    """Fails in all ways with the same options, and prints the errors."""
    topic = options.pop("topic")
    missing = options | {"topic": f"{topic}-missing"}
    failing("missing topic", lambda: spark.read.format("pulsar").options(**missing).load().count())
    lost = spark.readStream.format("pulsar").options(**missing).load().writeStream.format("noop")
    started = lost.option("checkpointLocation", str(directory / "checkpoints" / "lost")).start
    failing("failed query", lambda: started().processAllAvailable())
    for name, value in {"compressionTipe": "x", "pulsar.client.useTls": "maybe"}.items():
        wrong = options | {"topic": topic, name: value}
        failing(name, lambda given=wrong: spark.read.format("pulsar").options(**given).load())


def main() -> None:
    """Does what the file says, for each set of options."""
    todo = json.loads(Path(sys.argv[1]).read_text())
    directory = Path(todo["directory"])
    spark = session(directory, todo["conf"])
    for name, options in todo["options"].items():
        show(spark, name, dict(options), directory)
    show_failures(spark, dict(todo["options"]["token"]), directory)
    for name, options in todo["refused"].items():
        failing(name, lambda given=options: spark.read.format("pulsar").options(**given).load().count())
    spark.stop()
    print("shown everything")


if __name__ == "__main__":
    main()
