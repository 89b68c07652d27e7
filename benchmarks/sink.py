"""A task of the sink, without Spark: rows whose topics or schema versions change from row to row, beside rows of one,
and rows that are no part of a batch.

Rows of 100 bytes come in record batches of 10,000, as Spark hands them over, and go to a broker of its own. Prints rows
a second of wall time, the best of the rounds, processor seconds a million rows of this process and of the broker, and
messages an entry. Topics are there before; a round opens its own producers, as each task does.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pyarrow as pa
from load.results import Results, add_option

import spark_pulsar
from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.publishing.attached_producer import SentEntry
from spark_pulsar.client.publishing.publisher import Publisher
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.writing.task_writing import publish
from spark_pulsar.model.schemas import Schema, SchemaType

BATCH_ROWS = 10_000
VALUE_BYTES = 100
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass
class Case:
    """Rows of a task, and how they are written."""

    name: str
    batches: Callable[[int], Iterator[pa.RecordBatch]]
    options: dict[str, str] = field(default_factory=dict)


def rows_of(count: int, **columns: Callable[[int], pa.Array]) -> Iterator[pa.RecordBatch]:
    """Yields record batches of values, and columns made for the first row of each."""
    value = pa.array([b"x" * VALUE_BYTES] * BATCH_ROWS)
    for first in range(0, count, BATCH_ROWS):
        yield pa.RecordBatch.from_pydict({"value": value} | {name: make(first) for name, make in columns.items()})


def topics_in_turn(topics: int) -> Case:
    """Rows of so many topics in turn."""
    names = [f"persistent://public/default/in-turn-{i}" for i in range(topics)]

    def column(first: int) -> pa.Array:
        return pa.array([names[(first + i) % topics] for i in range(BATCH_ROWS)])

    return Case(f"{topics:,} topic{'s in turn' if topics > 1 else ''}", lambda count: rows_of(count, __topic=column))


def versions_in_turn(versions: int, run: int = 1) -> Case:
    """Rows that name so many versions of the topic's schema in turn, some of each at a time."""

    def column(first: int) -> pa.Array:
        return pa.array([(first + i) // run % versions for i in range(BATCH_ROWS)], pa.int64())

    name = f"{versions} schema version{'s in turn' if versions > 1 else ''}" + (f", {run} rows each" if run > 1 else "")
    options = {"topic": "persistent://public/default/versions", "schemaType": "AUTO_PRODUCE_BYTES"}
    return Case(name, lambda count: rows_of(count, __schemaVersion=column), options)


def single_messages() -> list[Case]:
    """Rows in batches, and each by itself: without batches, and with a delivery time."""
    topic = {"topic": "persistent://public/default/single"}

    def delays(first: int) -> pa.Array:
        return pa.array([86_400_000] * BATCH_ROWS)

    return [
        Case("batches of 1,000", rows_of, topic),
        Case("messages without batches", rows_of, topic | {"batchingMaxMessages": "1"}),
        Case("delayed messages", lambda count: rows_of(count, __deliverAfterMs=delays), topic),
    ]


def register_versions(client: PulsarClient, topic: str) -> None:
    """Registers two versions of a schema by producers."""
    for names in (["a"], ["a", "b"]):
        fields = [{"name": name, "type": ["null", "int"], "default": None} for name in names]
        data = json.dumps({"type": "record", "name": "R", "fields": fields}).encode()
        client.publisher(topic, schema=Schema(SchemaType.JSON, data)).close()


def processor_s(pid: int) -> float:
    """Returns the processor time of a process, in seconds."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


@contextlib.contextmanager
def entries_counted() -> Iterator[Iterator[int]]:
    """Counts the entries that are sent in a block: the next number of what it yields."""
    append, entries = Publisher._append, itertools.count()

    def counting(self: Publisher, sent: Sequence[SentEntry]) -> Any:
        for _ in sent:
            next(entries)
        return append(self, sent)

    with mock.patch.object(Publisher, "_append", counting):
        yield entries


def measure(service_url: str, broker_pid: int, case: Case, rows: int, rounds: int) -> tuple[float, float, float, float]:
    """Returns rows a second; processor seconds a million rows, here and of the broker; messages an entry."""
    options = parse_options({"service.url": service_url} | case.options)
    batches = list(case.batches(rows))
    best = (0.0, float("inf"), float("inf"), 0.0)
    for _ in range(rounds + 1):  # the first one makes topics and loads kernels
        begun, begun_s, broker_s = time.perf_counter(), time.process_time(), processor_s(broker_pid)
        with entries_counted() as entries, PulsarClient(ClientConfig(service_url)) as client:
            publish(client, options, iter(batches))
        took, took_s = time.perf_counter() - begun, time.process_time() - begun_s
        broker_s = processor_s(broker_pid) - broker_s
        per_million = 1_000_000 / rows
        best = (
            max(best[0], rows / took),
            min(best[1], took_s * per_million),
            min(best[2], broker_s * per_million),
            rows / next(entries),
        )
    return best


def main() -> None:
    """Prints a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases with this text in their names, and the clean one")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    add_option(parser)
    given = parser.parse_args()
    results = Results()
    topics = [topics_in_turn(1), topics_in_turn(100), topics_in_turn(1_000)]
    versions = [versions_in_turn(1), versions_in_turn(2), versions_in_turn(2, 10), versions_in_turn(2, 100)]
    print(f"{'':<36} {'rows/s':>10} {'clean is':>9} {'s/M rows':>9} {'clean is':>9} {'broker':>7} {'an entry':>9}")
    with spark_pulsar.broker_process() as broker, PulsarClient(ClientConfig(broker.service_url)) as client:
        register_versions(client, "persistent://public/default/versions")
        for cases in (topics, versions, single_messages()):
            clean: tuple[float, float, float, float] | None = None
            for case in cases:
                if clean is None or given.only in case.name:
                    found = measure(broker.service_url, broker.pid, case, given.rows, given.rounds)
                    clean = clean or found
                    results.note_all({"rows/s": found[0], "CPU s a million": found[1]}, case.name)
                    slower, dearer = clean[0] / found[0], found[1] / clean[1]
                    print(
                        f"{case.name:<36} {found[0]:>10,.0f} {slower:>7.1f} x {found[1]:>9.2f} {dearer:>7.1f} x "
                        f"{found[2]:>7.2f} {found[3]:>9.1f}",
                        flush=True,
                    )
    results.store(given.json)


if __name__ == "__main__":
    main()
