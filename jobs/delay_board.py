"""Airlines that are late right now: a streaming job over the topic that flight_replay.py fills.

    spark-submit jobs/delay_board.py --service-url pulsar://127.0.0.1:6650

Flights are grouped by carrier and by windows of their scheduled time (the event time), with a watermark. Two queries
run over the same windows:

  board   update mode, foreachBatch: every window as it changes, added up in the driver, printed as a table at the end
  alerts  append mode, written by the connector to the topic `delay-alerts`: one JSON message for each window that is
          closed and has a mean departure delay of --alert-minutes or more over at least --alert-flights departures

The job reads what the topic holds when it starts, in micro-batches of --max-per-trigger flights, and ends. The last
windows of the data stay open, since no later flight closes them: as in production, they give no alert yet. Ends with
status 1 when --expect flights were not found.
"""

import argparse
import sys
import tempfile
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flights import FLIGHT_COUNT, Window, airline_names
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table


def read_windows(spark: SparkSession, args: argparse.Namespace, subscription: str) -> DataFrame:
    """Sums of each carrier and window of scheduled time, from the beginning of the topic, whose schema has columns."""
    flights = (
        spark.readStream.format("pulsar")
        .option("service.url", args.service_url)
        .option("topic", args.topic)
        .option("startingOffsets", "earliest")
        .option("subscriptionName", subscription)
        .option("maxMessagesPerTrigger", args.max_per_trigger)
        .load()
        .select("carrier", "dep_delay", F.col("__eventTime").alias("scheduled"))
    )
    return (
        flights.withWatermark("scheduled", f"{args.watermark_hours} hours")
        .groupBy(F.window("scheduled", f"{args.window_hours} hours"), "carrier")
        .agg(
            F.count("*").alias("flights"),
            F.count("dep_delay").alias("departed"),
            F.coalesce(F.sum("dep_delay"), F.lit(0)).alias("delay_sum_min"),
        )
    )


def alerts_of(windows: DataFrame, args: argparse.Namespace) -> DataFrame:
    """Rows for the connector's sink: the windows worth an alert, as JSON, by carrier, with the airline's name."""
    departed, delay_sum = F.col("departed"), F.col("delay_sum_min")
    late = windows.where((departed >= args.alert_flights) & (delay_sum >= args.alert_minutes * departed))
    airlines = windows.sparkSession.createDataFrame(list(airline_names().items()), "carrier string, airline string")
    return late.join(F.broadcast(airlines), "carrier", "left").select(
        F.struct(
            "carrier",
            "airline",
            F.date_format("window.start", "yyyy-MM-dd'T'HH:mm:ss'Z'").alias("window_start"),
            departed.alias("departures"),
            F.round(delay_sum / departed, 1).alias("mean_delay_minutes"),
        ).alias("value"),
        F.col("carrier").alias("__key"),
        F.col("window.end").alias("__eventTime"),
    )


class Board:
    """The newest sums of every window, in the driver: 16 carriers and a year of windows are some ten thousand rows."""

    def __init__(self, progress: Progress, expected: int) -> None:
        self.windows: dict[tuple[str, int], Window] = {}
        self._progress = progress
        self._bar = progress.add_task("flights on the board", total=expected)

    def update(self, changed: DataFrame, _batch_id: int) -> None:
        """Takes one micro-batch: windows that changed, with their sums so far."""
        for row in changed.withColumn("start_ms", F.unix_millis("window.start")).collect():
            self.windows[row.carrier, row.start_ms] = Window(row.flights, row.departed, row.delay_sum_min)
        self._progress.update(self._bar, completed=self.flights)

    @property
    def flights(self) -> int:
        """Number of flights that have been counted."""
        return sum(window.flights for window in self.windows.values())

    def table(self, alert_flights: int) -> Table:
        """One row a carrier, the latest of them first."""
        totals: dict[str, Window] = defaultdict(Window)
        worst: dict[str, tuple[float, int]] = {}
        for (carrier, start_ms), window in self.windows.items():
            total = totals[carrier]
            total.flights += window.flights
            total.departed += window.departed
            total.delay_sum_min += window.delay_sum_min
            if window.departed >= alert_flights:
                mean = window.delay_sum_min / window.departed
                worst[carrier] = max(worst.get(carrier, (mean, start_ms)), (mean, start_ms))
        names = airline_names()
        table = Table("airline", title="Departure delays, New York City 2013", box=box.SIMPLE, pad_edge=False)
        for heading in ("flights", "cancelled", "mean delay", "worst window (UTC)"):
            table.add_column(heading, justify="right", no_wrap=True)
        for carrier, total in sorted(totals.items(), key=lambda item: -_mean(item[1])):
            shown = "–"
            if carrier in worst:
                mean, start_ms = worst[carrier]
                shown = f"{datetime.fromtimestamp(start_ms / 1000, UTC):%d %b %H:%M}  {mean:3.0f} min"
            table.add_row(
                names.get(carrier, carrier),
                f"{total.flights:,}",
                f"{total.flights - total.departed:,}",
                f"{_mean(total):.1f} min",
                shown,
            )
        return table


def _mean(window: Window) -> float:
    return window.delay_sum_min / window.departed if window.departed else 0.0


def run(spark: SparkSession, args: argparse.Namespace, checkpoint: Path, console: Console) -> int:
    """Both queries to their end; prints the board. Returns the exit status."""
    columns = (TextColumn("{task.description:<20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        board = Board(progress, args.expect)
        queries = [
            read_windows(spark, args, "delay-board")
            .writeStream.queryName("board")
            .outputMode("update")
            .foreachBatch(board.update)
            .option("checkpointLocation", str(checkpoint / "board"))
            .trigger(availableNow=True)
            .start(),
            alerts_of(read_windows(spark, args, "delay-alerts"), args)
            .writeStream.queryName("alerts")
            .format("pulsar")
            .outputMode("append")
            .option("service.url", args.service_url)
            .option("topic", args.alerts_topic)
            .option("checkpointLocation", str(checkpoint / "alerts"))
            .trigger(availableNow=True)
            .start(),
        ]
        for query in queries:
            query.awaitTermination()
    console.print(board.table(args.alert_flights))
    dropped = sum(_dropped(progress) for query in queries for progress in query.recentProgress)
    console.print(f"{board.flights:,} flights read, {dropped} came too late for their window")
    return 0 if board.flights == args.expect and not dropped else 1


def _dropped(progress: Any) -> int:
    return sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)


def main() -> int:
    """The program of the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--service-url", default="pulsar://127.0.0.1:6650")
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--alerts-topic", default="delay-alerts")
    parser.add_argument("--window-hours", type=int, default=3)
    parser.add_argument("--watermark-hours", type=int, default=48)
    parser.add_argument("--alert-minutes", type=float, default=60)
    parser.add_argument("--alert-flights", type=int, default=10)
    parser.add_argument("--max-per-trigger", type=int, default=120_000)
    parser.add_argument("--expect", type=int, default=FLIGHT_COUNT, help="flights that the topic holds")
    args = parser.parse_args()

    spark = SparkSession.builder.appName("delay board").getOrCreate()
    try:
        with tempfile.TemporaryDirectory(prefix="delay-board-") as checkpoint:
            return run(spark, args, Path(checkpoint), Console())
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
