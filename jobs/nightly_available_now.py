"""Catch up once a night: read what has come since the last run, in bounded micro-batches, into Parquet files, and end.

    spark-submit jobs/nightly_available_now.py --output /data/flights --checkpoint /data/flights.checkpoint

The checkpoint knows how far the job has come, and so does the durable subscription --subscription on the broker, which
keeps what was not read yet from being removed. Prints a line a micro-batch, and the backlog that is left: none, however
much came while the job ran, counts only up to the moment it began.
"""

import argparse
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import spark_pulsar


def main() -> int:
    """The program of the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--service-url", default="pulsar://127.0.0.1:6650")
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--subscription", default="nightly")
    parser.add_argument("--output", required=True, help="directory for the Parquet files, one folder a day")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--max-per-trigger", type=int, default=100_000)
    args = parser.parse_args()

    spark = SparkSession.builder.appName("nightly").getOrCreate()
    try:
        query = (
            spark.readStream.format("pulsar")
            .option("service.url", args.service_url)
            .option("topic", args.topic)
            .option("subscriptionName", args.subscription)
            .option("startingOffsets", "earliest")
            .option("maxMessagesPerTrigger", args.max_per_trigger)
            .load()
            .withColumn("day", F.to_date("__eventTime"))
            .writeStream.format("parquet")
            .option("path", args.output)
            .option("checkpointLocation", args.checkpoint)
            .partitionBy("day")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        for progress in query.recentProgress:
            print(f"micro-batch {progress.batchId}: {progress.numInputRows:,} rows")
        print(spark_pulsar.explain(query))
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
