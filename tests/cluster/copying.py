"""A Spark program that copies a topic until it is told to end: `spark-submit copying.py SERVICE_URL SOURCE TARGET
DIRECTORY ROWS_OF_A_MICRO_BATCH`. The file `end` in the directory ends it, when all that is there has been copied."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

service_url, source, target, directory, most_rows = sys.argv[1:]
spark = SparkSession.builder.appName("copying").getOrCreate()
pulsar = {"service.url": service_url}
# Tasks on executors read it all: nothing travels with the plan.
options = {"startingOffsets": "earliest", "maxMessagesPerTrigger": most_rows, "smallBatchMaxMessages": 0}
rows = spark.readStream.format("pulsar").options(topic=source, **options, **pulsar).load().select("value", "__key")
writer = rows.writeStream.format("pulsar").options(topic=target, **pulsar)
query = writer.option("checkpointLocation", str(Path(directory) / "checkpoint")).start()
while not (Path(directory) / "end").exists():
    query.awaitTermination(1)  # raises what ended it
query.processAllAvailable()
query.stop()
spark.stop()
