"""Publish a year of real flights: key = carrier, event time = scheduled hour, value = JSON or AVRO with a schema.

    spark-submit jobs/flight_replay.py --service-url pulsar://127.0.0.1:6650 --admin-url http://127.0.0.1:8080

Flights go out in the order of their scheduled hour. With --speed-up they go out as time goes by, an hour of the year in
3600 / speed-up seconds; without, all at once. With --weather-topic the hourly weather of the three airports goes to a
second topic first. With --admin-url the topics are made before, with --partitions partitions, unless they exist. The
other jobs read what this one writes. A flight that is not stored ends the job with an error.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict

import pyarrow as pa
import pyarrow.compute as pc
from flights import FLIGHT_COUNT, VALUE_FIELDS, Flight, read_flights
from partitioned_topics import create_topic
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from weather import Reading, read_weather

TICK_S = 1.0
EVENT_TIME = pa.timestamp("us", tz="UTC")


def flight_rows(flights: list[Flight]) -> pa.Table:
    """Rows of the sink: the fields of the value, and key and event time of the message."""
    columns = {name: [getattr(flight, name) for flight in flights] for name in VALUE_FIELDS}
    return pa.table(
        {
            **{name: pa.array(column, _type_of(name)) for name, column in columns.items()},
            "__key": pa.array(columns["carrier"]),
            "__eventTime": _times([flight.scheduled_ms for flight in flights]),
        }
    )


def weather_rows(readings: list[Reading]) -> pa.Table:
    """Rows of the sink, as those of flights; the station is the key."""
    rows = pa.Table.from_pylist([asdict(reading) for reading in readings])
    hours = _times(rows["hour_ms"].to_pylist())
    return rows.drop_columns(["hour_ms"]).append_column("__key", rows["origin"]).append_column("__eventTime", hours)


def _type_of(name: str) -> pa.DataType:
    return pa.string() if name in ("carrier", "tailnum", "origin", "dest") else pa.int32()


def _times(milliseconds: list[int]) -> pa.Array:
    return pa.array([value * 1000 for value in milliseconds], pa.int64()).cast(EVENT_TIME)


def portions(rows: pa.Table, speed_up: float) -> Iterator[pa.Table]:
    """Yields rows when their hour has come: all at once if `speed_up` is 0."""
    if speed_up <= 0 or rows.num_rows == 0:
        yield rows
        return
    at_us = rows["__eventTime"].combine_chunks().cast(pa.int64())
    begun, first_us, done = time.monotonic(), at_us[0].as_py(), 0
    while done < rows.num_rows:
        now_us = first_us + int((time.monotonic() - begun) * speed_up * 1_000_000)
        due = pc.sum(pc.less_equal(at_us, now_us)).as_py()
        if due > done:
            yield rows.slice(done, due - done)
            done = due
        time.sleep(TICK_S if done < rows.num_rows else 0)


def publish(spark: SparkSession, rows: pa.Table, topic: str, args: argparse.Namespace, progress: Progress) -> None:
    """Writes all rows to a topic, in their order."""
    bar = progress.add_task(f"published to {topic}", total=rows.num_rows)
    for portion in portions(rows, args.speed_up):
        # One task writes them all: two would each write half of the year at the same time.
        writer = spark.createDataFrame(portion).coalesce(1).write.format("pulsar").mode("append")
        writer.options(topic=topic, schemaType=args.schema, **{"service.url": args.service_url}).save()
        progress.advance(bar, portion.num_rows)


def main() -> int:
    """The program of the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--service-url", default="pulsar://127.0.0.1:6650")
    parser.add_argument("--admin-url", help="make the topics first, through this REST API")
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--weather-topic", help="publish the weather too")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--schema", choices=["JSON", "AVRO"], default="JSON")
    parser.add_argument("--speed-up", type=float, default=0, help="3600: an hour of the year a second; 0: all at once")
    parser.add_argument("--limit", type=int, default=FLIGHT_COUNT, help="only so many flights")
    args = parser.parse_args()

    flights = read_flights(args.limit)
    works = [(args.topic, flight_rows(flights))]
    if args.weather_topic and flights:
        weather = [reading for reading in read_weather() if reading.hour_ms <= flights[-1].scheduled_ms]
        works.insert(0, (args.weather_topic, weather_rows(weather)))
    if args.admin_url:
        for topic, _ in works:
            create_topic(args.admin_url, topic, args.partitions)
    columns = (TextColumn("{task.description:<22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    spark = SparkSession.builder.appName("flight replay").getOrCreate()
    try:
        with Progress(*columns, console=Console()) as progress:
            for topic, rows in works:
                publish(spark, rows, topic, args, progress)
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
