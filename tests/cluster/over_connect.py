"""A program that uses Spark over Spark Connect alone: `python -m tests.cluster.over_connect URL TOPIC DIRECTORY`.

It starts a local Spark Connect server with its session, writes, reads and copies a topic, and prints what it saw as one
line of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

ON_THIS_HOST = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
}


def run(service_url: str, topic: str, directory: str) -> dict[str, Any]:
    """Writes, reads and copies; returns what a test looks at."""
    spark = SparkSession.builder.remote("local[2]").config(map=ON_THIS_HOST).getOrCreate()
    seen: dict[str, Any] = {"session": type(spark).__module__}

    def read(of: str, **more: str) -> DataFrame:
        return spark.read.format("pulsar").options(**{"service.url": service_url, "topic": of}, **more).load()

    def written(frame: DataFrame, to: str) -> None:
        options = {"service.url": service_url, "topic": to}
        frame.write.format("pulsar").mode("append").options(**options).save()

    def values(frame: DataFrame) -> list[str]:
        return sorted(row.v for row in frame.selectExpr("CAST(value AS STRING) v").collect())

    written(spark.createDataFrame([("a", "k1"), ("b", "k2")], "value string, __key string"), topic)
    seen["read"] = values(read(topic))
    seen["key"] = values(read(topic, keys="k2", keysHashingScheme="JavaStringHash"))
    spark.sql(f"CREATE TEMPORARY VIEW v USING pulsar OPTIONS (service.url '{service_url}', topic '{topic}')")
    seen["view"] = values(spark.table("v"))
    try:
        read(topic, topc="x").collect()
    except PySparkException as refused:
        seen["refused"] = "unknown option topc; did you mean topic" in str(refused)

    def stream() -> Any:
        options = {"service.url": service_url, "topic": topic, "startingOffsets": "earliest"}
        frame = spark.readStream.format("pulsar").options(**options).load().select("value")
        return frame.writeStream.trigger(availableNow=True)

    to_topic = stream().format("pulsar").options(**{"service.url": service_url, "topic": f"{topic}-copy"})
    to_topic.option("checkpointLocation", f"{directory}/copy").start().awaitTermination(300)
    seen["copy"] = values(read(f"{topic}-copy"))
    in_batches = stream().foreachBatch(lambda frame, _: written(frame, f"{topic}-batches"))
    in_batches.option("checkpointLocation", f"{directory}/batches").start().awaitTermination(300)
    seen["foreachBatch"] = values(read(f"{topic}-batches"))
    spark.stop()
    return seen


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(*sys.argv[1:])) + "\n")
