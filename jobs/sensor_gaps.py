"""Watch sensors that never sleep: hours without a reading, jumps of temperature and winds that cannot be.

    spark-submit jobs/flight_replay.py --weather-topic weather
    spark-submit jobs/sensor_gaps.py --checkpoint /data/sensors

Each weather station is a sensor. The stateful operator keeps its last reading between micro-batches and compares each
new one with it; what is odd goes to the topic `sensor-alerts` as JSON with a schema, the station as key. The job reads
what the topic holds when it starts, and ends. Started again with the same --checkpoint it goes on where it was.
"""

import argparse
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

HOUR_MS = 3_600_000
JUMP_F = 30.0
WIND_LIMIT_MPH = 100.0
ALERT = "origin string, hour_ms long, kind string, amount double"
LAST = "hour_ms long, temp_f double"


class Finding(NamedTuple):
    """One oddity in the readings of one station."""

    origin: str
    hour_ms: int
    kind: str
    """`gap`, `jump` or `wind`."""
    amount: float
    """Hours that are missing, degrees Fahrenheit from the last reading, or miles an hour."""


def odd(
    origin: str, last_ms: int | None, last_f: float | None, hour_ms: int, temp_f: float | None, wind_mph: float | None
) -> Iterator[Finding]:
    """Compares one reading with the one before it."""
    if last_ms is not None and hour_ms - last_ms > HOUR_MS:
        yield Finding(origin, hour_ms, "gap", (hour_ms - last_ms) / HOUR_MS - 1)
    if last_f is not None and temp_f is not None and abs(temp_f - last_f) > JUMP_F:
        yield Finding(origin, hour_ms, "jump", round(temp_f - last_f, 2))
    if wind_mph is not None and wind_mph > WIND_LIMIT_MPH:
        yield Finding(origin, hour_ms, "wind", round(wind_mph, 2))


def compare(key: tuple[Any, ...], readings: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Compares the new readings of one station, in their order, with the last one."""
    last_ms, last_f = state.get if state.exists else (None, None)
    found: list[Finding] = []
    rows = pd.concat(list(readings)).sort_values("hour_ms")
    for hour_ms, temp_f, wind_mph in zip(rows.hour_ms, rows.temp_f, rows.wind_mph, strict=True):
        temp, wind = _known(temp_f), _known(wind_mph)
        found += odd(key[0], last_ms, last_f, int(hour_ms), temp, wind)
        last_ms, last_f = int(hour_ms), temp
    state.update((last_ms, last_f))
    yield pd.DataFrame(found, columns=list(Finding._fields))


def _known(value: float) -> float | None:
    return None if pd.isna(value) else float(value)


def main() -> int:
    """The program of the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--service-url", default="pulsar://127.0.0.1:6650")
    parser.add_argument("--topic", default="weather")
    parser.add_argument("--alerts-topic", default="sensor-alerts")
    parser.add_argument("--max-per-trigger", type=int, default=10_000)
    parser.add_argument("--checkpoint", required=True, help="directory that keeps how far the job has come")
    args = parser.parse_args()

    spark = SparkSession.builder.appName("sensor gaps").getOrCreate()
    pulsar = {"service.url": args.service_url}
    try:
        readings = (
            spark.readStream.format("pulsar")
            .options(topic=args.topic, startingOffsets="earliest", maxMessagesPerTrigger=args.max_per_trigger, **pulsar)
            .load()
            .select("origin", "temp_f", "wind_mph", F.unix_millis("__eventTime").alias("hour_ms"))
        )
        alerts = readings.groupBy("origin").applyInPandasWithState(
            compare, ALERT, LAST, "append", GroupStateTimeout.NoTimeout
        )
        query = (
            alerts.select("*", F.col("origin").alias("__key"), F.timestamp_millis("hour_ms").alias("__eventTime"))
            .writeStream.format("pulsar")
            .options(topic=args.alerts_topic, schemaType="JSON", checkpointLocation=args.checkpoint, **pulsar)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        rows = sum(progress.numInputRows for progress in query.recentProgress)
        print(f"{rows:,} readings in {len(query.recentProgress)} micro-batches")
        found = spark.read.format("pulsar").options(topic=args.alerts_topic, **pulsar).load()
        for row in found.groupBy("kind").count().orderBy("kind").collect():
            print(f"{row['kind']:5} {row['count']:,}")
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
