"""Do flights wait for the wind? Joins two topics as streams: each flight with the weather of its airport and hour.

    spark-submit jobs/flight_replay.py --weather-topic weather
    spark-submit jobs/flights_weather.py

Both topics have schemas, so their rows have columns. The join waits for the later side, within the watermark of
--watermark-hours; what it has matched is added up in the driver and printed by wind speed. The job reads what the
topics hold when it starts, in micro-batches of --max-per-trigger messages, and ends. Ends with status 1 when
--expect flights did not find their weather.
"""

import argparse
import sys
import tempfile
from collections import defaultdict

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich import box
from rich.console import Console
from rich.table import Table

STEP_MPH = 10
SHUFFLE_PARTITIONS = 2


def read_topic(spark: SparkSession, args: argparse.Namespace, topic: str, columns: list[str]) -> DataFrame:
    """Columns of a topic with a schema, and the event time as `hour`, with a watermark."""
    return (
        spark.readStream.format("pulsar")
        .option("service.url", args.service_url)
        .option("topic", topic)
        .option("startingOffsets", "earliest")
        .option("maxMessagesPerTrigger", args.max_per_trigger)
        .load()
        .select(*columns, F.col("__eventTime").alias("hour"))
        .withWatermark("hour", f"{args.watermark_hours} hours")
    )


def joined(spark: SparkSession, args: argparse.Namespace) -> DataFrame:
    """Departed flights with the wind at their airport in their scheduled hour."""
    flights = read_topic(spark, args, args.topic, ["origin", "dep_delay"]).where("dep_delay IS NOT NULL")
    weather = read_topic(spark, args, args.weather_topic, ["origin", "wind_mph"]).where("wind_mph IS NOT NULL")
    return flights.join(weather, ["origin", "hour"]).select("origin", "dep_delay", "wind_mph")


class Winds:
    """Flights and their delay by steps of wind speed, in the driver."""

    def __init__(self) -> None:
        self.flights: dict[int, int] = defaultdict(int)
        self.delay_min: dict[int, int] = defaultdict(int)

    def add(self, batch: DataFrame, _batch_id: int) -> None:
        """Takes the flights that one micro-batch has matched; each comes once."""
        step = F.floor(F.col("wind_mph") / STEP_MPH).alias("step")
        for row in batch.groupBy(step).agg(F.count("*").alias("flights"), F.sum("dep_delay").alias("delay")).collect():
            self.flights[row.step] += row.flights
            self.delay_min[row.step] += row.delay

    def table(self) -> Table:
        """One row a step of wind speed."""
        table = Table("wind, miles/h", title="Departure delay and wind, New York City 2013", box=box.SIMPLE)
        table.add_column("flights", justify="right")
        table.add_column("mean delay", justify="right")
        for step, flights in sorted(self.flights.items()):
            delay = f"{self.delay_min[step] / flights:.1f} min"
            table.add_row(f"{step * STEP_MPH} to {(step + 1) * STEP_MPH}", f"{flights:,}", delay)
        return table


def main() -> int:
    """The program of the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--service-url", default="pulsar://127.0.0.1:6650")
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--weather-topic", default="weather")
    parser.add_argument("--watermark-hours", type=int, default=48)
    parser.add_argument("--max-per-trigger", type=int, default=120_000)
    parser.add_argument("--expect", type=int, help="flights that find their weather")
    args = parser.parse_args()

    spark = SparkSession.builder.appName("flights and weather").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", SHUFFLE_PARTITIONS)  # each keeps four stores of its own
    winds = Winds()
    try:
        with tempfile.TemporaryDirectory(prefix="flights-weather-") as checkpoint:
            query = joined(spark, args).writeStream.foreachBatch(winds.add).option("checkpointLocation", checkpoint)
            query.trigger(availableNow=True).start().awaitTermination()
    finally:
        spark.stop()
    found = sum(winds.flights.values())
    console = Console(highlight=False)
    console.print(winds.table())
    console.print(f"{found:,} flights with their weather")
    return 1 if args.expect is not None and found != args.expect else 0


if __name__ == "__main__":
    sys.exit(main())
