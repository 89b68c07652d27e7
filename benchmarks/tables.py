#!/usr/bin/env python3
"""Topics as Arrow tables without Spark, beside the official Python client, in turns on one broker.

    python benchmarks/tables.py [--rows N] [--official-rows N] [--size BYTES] [--rounds N] [--data DIR]

`send_table` and `read_table` move N rows of `value` bytes, and read all default columns, too; the official client sends
and receives fewer, one Python object each, with batches of 1,000. Figures are medians of rows a second.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pulsar
import pyarrow as pa
from load import machine, peers
from load.results import Results, add_option
from rich.console import Console
from rich.table import Table

import spark_pulsar

SEND, READ, READ_ALL = "send", "read, only value", "read, all columns"
OURS, OFFICIAL = "spark_pulsar", "official client"


def official_send(client: pulsar.Client, topic: str, payload: bytes, rows: int) -> None:
    """Sends rows and waits for all receipts."""
    batching = {"batching_enabled": True, "batching_max_messages": 1_000, "batching_max_publish_delay_ms": 10}
    producer = client.create_producer(topic, block_if_queue_full=True, max_pending_messages=20_000, **batching)
    for _ in range(rows):
        producer.send_async(payload, None)
    producer.flush()
    producer.close()


def official_read(client: pulsar.Client, topic: str, rows: int) -> None:
    """Receives rows by a reader, and takes their payload."""
    reader = client.create_reader(topic, pulsar.MessageId.earliest, receiver_queue_size=10_000)
    for _ in range(rows):
        reader.read_next().data()
    reader.close()


def turn(url: str, number: int, args: argparse.Namespace) -> dict[tuple[str, str], float]:
    """Runs each work once on topics of its own; returns rows a second."""
    ours, theirs, payload = f"ours-{number}", f"official-{number}", b"x" * args.size
    table = pa.table({"value": pa.array([payload] * args.rows, pa.binary())})
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    works: list[tuple[str, str, int, Callable[[], object]]] = [
        (SEND, OURS, args.rows, lambda: spark_pulsar.send_table(url, ours, table)),
        (SEND, OFFICIAL, args.official_rows, lambda: official_send(client, theirs, payload, args.official_rows)),
        (READ, OURS, args.rows, lambda: spark_pulsar.read_table(url, ours, columns=["value"])),
        (READ, OFFICIAL, args.official_rows, lambda: official_read(client, theirs, args.official_rows)),
        (READ_ALL, OURS, args.rows, lambda: spark_pulsar.read_table(url, ours)),
    ]
    figures = {}
    for work, who, rows, run in works:
        since_s = time.perf_counter()
        run()
        figures[work, who] = rows / (time.perf_counter() - since_s)
    client.close()
    return figures


def main() -> None:
    """Runs the turns, the first of which is a warm-up, and prints the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--official-rows", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=Path("data"), help="directory on the disk to use")
    add_option(parser)
    args = parser.parse_args()
    figures: dict[tuple[str, str], list[float]] = defaultdict(list)
    with peers.ours(args.data) as peer:
        for number in range(args.rounds + 1):
            for key, figure in turn(peer.service_url, number, args).items():
                figures[key] += [figure] if number else []
    medians = {key: statistics.median(values) for key, values in figures.items()}
    results = Results()
    for (work, who), figure in medians.items():
        results.note(f"{who}: {work}", figure)
    results.store(args.json)
    console = Console()
    console.print(machine.description(args.data), highlight=False)
    table = Table("work", OURS, OFFICIAL, "ratio", title=f"rows/s of {args.size} bytes")
    for work in (SEND, READ, READ_ALL):
        ours, theirs = medians[work, OURS], medians.get((work, OFFICIAL), medians[READ, OFFICIAL])
        table.add_row(work, f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / theirs:.1f} ×")
    console.print(table)


if __name__ == "__main__":
    main()
