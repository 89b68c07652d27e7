"""Publish a year of real flights with the official client: key = carrier, event time = scheduled hour, value = JSON.

    spark-submit jobs/flight_replay.py --service-url pulsar://127.0.0.1:6650 --admin-url http://127.0.0.1:8080

It needs no Spark by itself; spark-submit runs it like any Python program. Flights go out in the order of their
scheduled hour. With --admin-url the topic is made first, with --partitions partitions, unless it exists. Ends with
status 1 when a flight was not stored.
"""

import argparse
import json
import sys
import urllib.error
import urllib.request
from typing import Any

import pulsar
from flights import FLIGHT_COUNT, Flight, read_flights
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

STEP = 5_000  # flights between two moves of the progress bar
CREATED, EXISTS = 204, 409


def create_topic(admin_url: str, topic: str, partitions: int) -> None:
    """Makes the partitioned topic public/default/`topic`; fine when it exists with as many partitions."""
    url = f"{admin_url}/admin/v2/persistent/public/default/{topic}/partitions"
    request = urllib.request.Request(url, data=str(partitions).encode(), method="PUT")
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=30):
            return
    except urllib.error.HTTPError as error:
        if error.code != EXISTS:
            raise SystemExit(f"cannot create topic {topic}: {error.code} {error.read().decode()}") from error
    with urllib.request.urlopen(url, timeout=30) as answer:
        found = json.load(answer)["partitions"]
    if found != partitions:
        raise SystemExit(f"topic {topic} exists with {found} partitions, not {partitions}")


def replay(client: pulsar.Client, topic: str, flights: list[Flight], progress: Progress) -> dict[Any, Any]:
    """Sends all flights and waits until each is stored or has failed; the outcomes, each with its first message id."""
    outcomes: dict[Any, Any] = {}
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_messages=1000,
        batching_max_publish_delay_ms=10,
        block_if_queue_full=True,
        max_pending_messages=20_000,
    )
    bar = progress.add_task("flights published", total=len(flights))
    for index, flight in enumerate(flights):
        value = json.dumps(flight.value(), separators=(",", ":")).encode()
        # The callback comes from a thread of the client for every message. A dict's own method is one without Python
        # code, and keeps what matters: which outcomes there were.
        producer.send_async(
            value, outcomes.setdefault, partition_key=flight.carrier, event_timestamp=flight.scheduled_ms
        )
        if index % STEP == 0:
            progress.update(bar, completed=index)
    producer.flush()
    producer.close()
    progress.update(bar, completed=len(flights))
    return outcomes


def main() -> int:
    """The program of the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--service-url", default="pulsar://127.0.0.1:6650")
    parser.add_argument("--admin-url", help="make the topic first, through this REST API")
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--limit", type=int, default=FLIGHT_COUNT, help="only so many flights")
    args = parser.parse_args()

    console = Console()
    flights = read_flights(args.limit)
    if args.admin_url:
        create_topic(args.admin_url, args.topic, args.partitions)
    columns = (TextColumn("{task.description:<18}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    client = pulsar.Client(args.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        with Progress(*columns, console=console) as progress:
            outcomes = replay(client, args.topic, flights, progress)
    finally:
        client.close()
    failures = [str(outcome) for outcome in outcomes if outcome != pulsar.Result.Ok]
    if failures:
        console.print(f"some flights were not stored: {', '.join(failures)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
