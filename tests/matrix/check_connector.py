"""Writes to a broker, reads and copies as a stream, in the environment that runs this file."""

from __future__ import annotations

import os
import sys
import tempfile

os.environ["PYSPARK_PYTHON"] = sys.executable

from pyspark.sql import SparkSession

ROWS = 100


def main(service_url: str) -> None:
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    url = {"service.url": service_url}
    rows = spark.range(ROWS).selectExpr("CONCAT('n', id) AS value", "STRING(id % 3) AS __key")
    rows.write.format("pulsar").options(**url, topic="numbers", compressionType="LZ4").mode("append").save()
    assert spark.read.format("pulsar").options(**url, topic="numbers").load().count() == ROWS
    stream = spark.readStream.format("pulsar").options(**url, topic="numbers", startingOffsets="earliest").load()
    sink = stream.select("value", "__key").writeStream.format("pulsar").options(**url, topic="copy")
    with tempfile.TemporaryDirectory() as checkpoint:
        query = sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
    found = spark.read.format("pulsar").options(**url, topic="copy").load().selectExpr("STRING(value) AS value")
    assert {row.value for row in found.collect()} == {f"n{number}" for number in range(ROWS)}
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
