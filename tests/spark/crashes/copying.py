"""A Spark application that copies topics as it is told, so that a test may kill it.

It prints `@ready` when its session is there. Each line of its input is JSON: `read` and `write` are options,
`checkpoint` a directory, `columns` expressions; all that there is is copied, and the answer is `@done`, or `@failed`
and the reason. It ends with its input.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.spark.crashes.application import COPY_TIMEOUT_S
from tests.spark.flows import run_to_end
from tests.spark.versions import FILE_MANAGER

ATTEMPTS = 4
"""Attempts of each task before its micro-batch fails."""


def session() -> SparkSession:
    """Two cores, no UI."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(f"local[2,{ATTEMPTS}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.streaming.checkpointFileManagerClass", FILE_MANAGER)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def copy(spark: SparkSession, order: dict[str, Any]) -> str:
    """Copy as ordered; the answer."""
    frame = spark.readStream.format("pulsar").options(**order["read"]).load()
    writer = frame.selectExpr(*order["columns"]).writeStream.format("pulsar").options(**order["write"])
    try:
        run_to_end(writer, order["checkpoint"], timeout_s=COPY_TIMEOUT_S)
    except StreamingQueryException as error:
        return f"@failed {json.dumps(str(error))}"
    return "@done"


def main() -> None:
    """Copy until the input ends."""
    spark = session()
    sys.stdout.write("@ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(copy(spark, json.loads(line)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
