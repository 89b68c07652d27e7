#!/usr/bin/env python3
"""The broker's storage under load: many topics, a large backlog, settling, and the bytes that it writes.

    python benchmarks/storage.py [--only NAME …] [--seconds S] [--entries N] [--topics N] [--megabytes N] [--data DIR]

The generator of `broker.py` drives our broker over loopback; each workload has a broker of its own on a fresh data
directory.

    topics    10,000 topics exist. Single messages of 100 B, 1,000 in flight, on one connection: to one topic; from
              1,000 producers in turn, so that no two neighbours share a topic (the worst order there is); from the
              same in runs of ten. Then one message every millisecond, by another process, while those runs go on
    backlog   10,000,000 single messages for a subscription, then kill -9: start to ready, memory, a consumer's first
              message; the same after a stop
    restart   100,000 topics with a message each, then kill -9: start to ready, memory; the same after a stop
    settling  one message every millisecond: in a calm broker, and while a load of a thousand topics that just ended is
              settled. Everything is retained
    written   what the broker's process writes to the disk for each byte of a producer's frames, with batches of
              100 × 100 B, until all is settled: a queue whose consumer acknowledges everything (from its first byte,
              and when segments are used again), and full retention

Results of record: `docs/benchmarks.md`.
"""

import argparse
import contextlib
import gc
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from load import consuming, frames, machine, peers, workloads
from load.connection import Connection
from load.disturbance import settle
from load.results import Results, add_option
from rich.console import Console
from rich.table import Table

import spark_pulsar
from spark_pulsar.testing.process import BrokerProcess
from spark_pulsar.wire import pulsar_api_pb2 as api

MESSAGE_BYTES: Final = 100
BATCH: Final = 100
IN_FLIGHT: Final = 1000
BATCHES_IN_FLIGHT: Final = 200
TOPICS: Final = 10_000
PUBLISHING: Final = 1000
RUN: Final = 10
PACE_PER_S: Final = 1000
MAX_FRAMES_PER_S: Final = 900_000
BACKLOG_PART: Final = 500_000
RESTART_PART: Final = 10_000
SETTLED_ENTRIES: Final = 1_500_000
BATCHES_PART: Final = 2_000
QUIET_S: Final = 3.0
QUIET_BYTES: Final = 1_000_000
LONGEST_SETTLING_S: Final = 60.0
KEEP: Final = {"defaultRetentionTimeInMinutes": -1, "defaultRetentionSizeInMB": -1}
NO_RETENTION: Final = {"defaultRetentionTimeInMinutes": 0, "defaultRetentionSizeInMB": 0}
TOPICS_STAY: Final = {"brokerDeleteInactiveTopicsEnabled": False}


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured figure."""

    name: str
    value: float


@contextlib.contextmanager
def broker(args: argparse.Namespace, conf: Mapping[str, object]) -> Iterator[BrokerProcess]:
    """A broker on a fresh directory of the chosen disk."""
    with peers.fresh_directory(args.data) as directory, spark_pulsar.broker_process(directory, conf) as process:
        try:
            yield process
        finally:
            lines = process.log.splitlines(keepends=True)
            sys.stderr.writelines(line for line in lines if " INFO " not in line)


def latencies(name: str, ordered: Sequence[float]) -> list[Figure]:
    """Percentiles of sorted times in ms."""
    return [Figure(f"{name}: p{part}, ms", ordered[len(ordered) * part // 100]) for part in (50, 99)]


def paced(service_url: str, seconds: float) -> list[float]:
    """One message every millisecond: sorted times to their receipts in ms. Runs in a process of its own beside load."""
    gc.disable()
    buffer = frames.SendBuffer(int(PACE_PER_S * seconds), MESSAGE_BYTES)
    return workloads.publish_paced(service_url, buffer, PACE_PER_S, seconds)


# -- many topics -----------------------------------------------------------------------------------------------------


def topics(args: argparse.Namespace, beside: Executor) -> list[Figure]:
    """A thousand publishing topics of ten thousand."""
    names = [workloads.fresh_topic() for _ in range(TOPICS)]
    count = int(MAX_FRAMES_PER_S * args.seconds)
    per_round = PUBLISHING * RUN
    with broker(args, TOPICS_STAY) as process:
        url, peer = process.service_url, peers.Peer(peers.OURS, process.service_url, process.pid)
        started = time.perf_counter()
        with Connection(url) as connection:
            connection.create_many_producers(names)
        figures = [Figure("topics created a second", TOPICS / (time.perf_counter() - started))]
        rates: dict[str, list[float]] = {"one topic": [], "in turn": [], "in runs": []}
        busy = names[::10]
        for _ in range(args.rounds):
            for name, producers, run in (("one topic", 1, 1), ("in turn", PUBLISHING, 1), ("in runs", PUBLISHING, RUN)):
                buffer = frames.SendBuffer(count // per_round * per_round, MESSAGE_BYTES, producers=producers, run=run)
                if not rates[name]:
                    workloads.publish(url, buffer, busy[:producers], IN_FLIGHT, min(args.seconds, 1.0))
                settle(peer)
                rates[name].append(
                    workloads.publish(url, buffer, busy[:producers], IN_FLIGHT, args.seconds).messages_per_s
                )
        pace = beside.submit(paced, url, args.seconds)
        workloads.publish(url, buffer, busy, IN_FLIGHT, args.seconds + 1)
        one = median(rates["one topic"])
        figures += [Figure(f"{name}, messages a second", median(found)) for name, found in rates.items()]
        figures += [
            Figure(f"{PUBLISHING:,} topics {name} / one topic", median(rates[name]) / one)
            for name in ("in turn", "in runs")
        ]
        figures += latencies(f"paced beside {PUBLISHING:,} topics in runs", pace.result())
        return [*figures, Figure(f"memory with {TOPICS:,} topics, MB", peer.resident_mb() or 0.0)]


# -- a large backlog -------------------------------------------------------------------------------------------------


def _restarts(process: BrokerProcess) -> Iterator[tuple[str, float, float]]:
    """Ends and starts a broker twice; yields how it was ended, the seconds until it serves, and its memory in MB."""
    for how, end in (("a kill", process.kill), ("a stop", process.stop)):
        end()
        started = time.perf_counter()
        process.start()
        Connection(process.service_url).close()
        ready_s = time.perf_counter() - started
        yield how, ready_s, peers.Peer(peers.OURS, process.service_url, process.pid).resident_mb() or 0.0


def backlog(args: argparse.Namespace, _: Executor) -> list[Figure]:
    """Start with ten million entries."""
    topic = workloads.fresh_topic()
    part = frames.SendBuffer(min(BACKLOG_PART, args.entries), MESSAGE_BYTES)
    figures = []
    with broker(args, {}) as process:
        with Connection(process.service_url) as connection:
            connection.subscribe(topic, "load", api.CommandSubscribe.Shared)
        started = time.perf_counter()
        for _turn in range(0, args.entries, part.count):
            workloads.publish(process.service_url, part, [topic], IN_FLIGHT)
        rate = args.entries / (time.perf_counter() - started)
        figures.append(Figure("publishing the backlog, messages a second", rate))
        for how, ready_s, memory in _restarts(process):
            first_ms = consuming.first_message_s(process.service_url, topic, "load") * 1000
            figures += [
                Figure(f"after {how}: start to ready, s", ready_s),
                Figure(f"after {how}: memory, MB", memory),
                Figure(f"after {how}: a consumer's first message, ms", first_ms),
            ]
    return figures


# -- restart with many topics ----------------------------------------------------------------------------------------


def restart(args: argparse.Namespace, _: Executor) -> list[Figure]:
    """Start with a hundred thousand topics, each with a message."""
    part = frames.SendBuffer(RESTART_PART, MESSAGE_BYTES, producers=RESTART_PART)
    with broker(args, TOPICS_STAY) as process:
        started = time.perf_counter()
        for _turn in range(0, args.topics, RESTART_PART):
            with Connection(process.service_url) as connection:
                connection.create_many_producers([workloads.fresh_topic() for _ in range(RESTART_PART)])
                workloads.pump(connection, part, IN_FLIGHT)
        figures = [Figure("topics created with a message, a second", args.topics / (time.perf_counter() - started))]
        for how, ready_s, memory in _restarts(process):
            figures += [
                Figure(f"topics, after {how}: start to ready, s", ready_s),
                Figure(f"topics, after {how}: memory, MB", memory),
            ]
    return figures


# -- settling --------------------------------------------------------------------------------------------------------


def settling(args: argparse.Namespace, beside: Executor) -> list[Figure]:
    """Paced publishing while settling runs."""
    names = [workloads.fresh_topic() for _ in range(PUBLISHING)]
    buffer = frames.SendBuffer(SETTLED_ENTRIES, MESSAGE_BYTES, producers=PUBLISHING)
    with broker(args, KEEP) as process:
        url = process.service_url
        beside.submit(paced, url, 1.0).result()
        calm = beside.submit(paced, url, args.seconds).result()
        workloads.publish(url, buffer, names, IN_FLIGHT)
        ledgers = Path(process.data_dir) / "ledgers"
        before, started = size_of(ledgers), time.perf_counter()
        running = beside.submit(paced, url, args.seconds).result()
        settled_mb = (size_of(ledgers) - before) / 1e6 / (time.perf_counter() - started)
    return [
        *latencies("paced in a calm broker", calm),
        *latencies("paced while settling", running),
        Figure("settled meanwhile, MB/s", settled_mb),
    ]


def size_of(directory: Path) -> int:
    """Bytes of the files in a directory."""
    return sum(path.stat().st_size for path in directory.iterdir())


# -- bytes written ---------------------------------------------------------------------------------------------------


def written(args: argparse.Namespace, beside: Executor) -> list[Figure]:
    """Bytes written for each byte received."""
    queue, steady_queue = bytes_written(args, NO_RETENTION, beside)
    kept, _ = bytes_written(args, KEEP, None)
    return [
        Figure("written for each byte, a queue from its first byte", queue),
        Figure("written for each byte, a queue after the first half", steady_queue),
        Figure("written for each byte, full retention", kept),
    ]


def bytes_written(args: argparse.Namespace, conf: Mapping[str, object], beside: Executor | None) -> tuple[float, float]:
    """Publish, with a consumer when there is a process for one, until the broker is quiet: the ratio from the first
    byte on, and from the half on."""
    topic = workloads.fresh_topic()
    part = frames.SendBuffer(BATCHES_PART, MESSAGE_BYTES, BATCH)
    half = max(1, args.megabytes * 500_000 // len(part.data))
    with broker(args, conf) as process:
        consumed = None
        if beside is not None:
            with Connection(process.service_url) as connection:
                connection.subscribe(topic, "load", api.CommandSubscribe.Exclusive)
            consumed = beside.submit(consuming.consume_all, process.service_url, topic, "load", 2 * half * part.count)
        marks = [quiet_written_bytes(args.data)]
        for _ in range(2):
            for _part in range(half):
                workloads.publish(process.service_url, part, [topic], BATCHES_IN_FLIGHT)
            marks.append(machine.written_bytes(args.data))
        if consumed is not None:
            consumed.result()
        end, size = quiet_written_bytes(args.data), half * len(part.data)
    return (end - marks[0]) / (2 * size), (end - marks[1]) / size


def quiet_written_bytes(data: Path) -> int:
    """Bytes written to the disk of `data`, once that has hardly changed for a while."""
    known, since = machine.written_bytes(data), time.monotonic()
    deadline = since + LONGEST_SETTLING_S
    while time.monotonic() < min(since + QUIET_S, deadline):
        time.sleep(0.1)
        now = machine.written_bytes(data)
        if now - known > QUIET_BYTES:
            known, since = now, time.monotonic()
    return known


# -- the run ---------------------------------------------------------------------------------------------------------

WORKLOADS: Final[dict[str, Callable[[argparse.Namespace, Executor], list[Figure]]]] = {
    "topics": topics,
    "backlog": backlog,
    "restart": restart,
    "settling": settling,
    "written": written,
}


def shown(value: float) -> str:
    """A figure with three digits that count."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(WORKLOADS), metavar="NAME", help="only these workloads")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of one measurement")
    parser.add_argument("--rounds", type=int, default=2, help="measurements of each rate of `topics`")
    parser.add_argument("--entries", type=int, default=10_000_000, help="entries of `backlog`")
    parser.add_argument("--topics", type=int, default=100_000, help="topics of `restart`, in ten thousands")
    parser.add_argument("--megabytes", type=int, default=1000, help="what `written` sends, each time")
    parser.add_argument("--data", type=Path, default=peers.ROOT / "data", help="directory for the broker's data")
    add_option(parser)
    return parser.parse_args()


def main() -> None:
    """Measures and reports."""
    args = arguments()
    console = Console()
    args.data.mkdir(parents=True, exist_ok=True)
    console.print(machine.description(args.data), highlight=False)
    results = Results()
    with ProcessPoolExecutor(1) as beside:
        beside.submit(int).result()  # starts the process while this one is small
        gc.disable()  # the generator makes no cycles worth a pause
        for name, workload in WORKLOADS.items():
            if args.only and name not in args.only:
                continue
            table = Table("figure", "value", title=name)
            for figure in workload(args, beside):
                table.add_row(figure.name, shown(figure.value))
                results.note(figure.name, figure.value)
            console.print(table)
    results.store(args.json)


if __name__ == "__main__":
    main()
