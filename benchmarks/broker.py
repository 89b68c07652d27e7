#!/usr/bin/env python3
"""Our broker under load, alone or beside a real Apache Pulsar in the same run.

    python benchmarks/broker.py [--against apache-pulsar[=VERSION]] [--secured] [--only NAME …] [--seconds S]
                                [--rounds N] [--quick]

One generator (this process: plain sockets, frames built beforehand, see `load/`) drives both brokers over loopback.
Each broker runs on a fresh data directory of the same disk with its defaults, every receipt after fdatasync; both are
warmed up first. Every workload is measured in turns, `--rounds` times, while the other broker is stopped (SIGSTOP); the
figure is the median, the ratio that of the medians. Before each measurement the disk is given what either broker left
to the page cache. On a virtual machine the host disturbs: a measurement that lost more than two percent of the
processors, or just before or after which an fdatasync took three times as long as the quickest of this run, is made
again, three times at most; the least disturbed one counts. Both are printed.

    process             start to first handshake (s), resident memory when idle (MB)
    idle-consumers      1,000 consumers that wait, each on a connection of its own: resident memory (MB)
    unbatched           SENDs of 100 B, one producer, 1,000 in flight                                       messages/s
    unbatched-1kb       the same with 1,024 B                                                               messages/s
    batches             batches of 100 × 100 B, one producer, 1,000 in flight                                messages/s
    latency             one SEND of 100 B every millisecond, each on its own: time to its receipt           ms
    end-to-end          5,000 SENDs of 100 B a second, each on its own: time to its consumer                ms
    consume-unbatched   a backlog of single messages, Shared, individual acks in groups                     messages/s
    consume-exclusive   the same, Exclusive                                                                 messages/s
    consume-failover    the same, Failover                                                                  messages/s
    consume-batches     a backlog of batches of 100, Exclusive, individual acks of whole batches in groups  messages/s
    dispatch-batches    the same, and permits for 1,000 batches instead of 10                               messages/s
    shared              a backlog of single messages with 1,000 keys, Shared, 10 consumers                  messages/s
    key-shared          the same, Key_Shared                                                                messages/s
    showcase            500 publishers of 128 B with 1,000 keys, on 20 connections, 5,000 in flight, and 20 consumers,
                        Key_Shared, at the same time, until nothing is left                          messages/s consumed
    topics              as unbatched, over 1,000 topics in turn, so that no two neighbours share a topic    messages/s

Consumers behave as official clients do by default: a receiver queue of 1,000 messages refilled by halves, acks by 1,000
or after 100 ms. `consume-batches` is bound by that: with 10 batches in flight it measures how quickly the two processes
answer each other. `dispatch-batches` measures what the broker can send.
`--secured` measures `unbatched`, `batches` and `latency` on our broker, and on a second one with TLS and tokens, in
turns; the generator's own part of TLS counts against the second one.
`--url` measures a broker that runs already. Results of record: `docs/benchmarks.md`.
"""

import argparse
import contextlib
import functools
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from load import end_to_end, frames, idle, machine, peers, sharing, workloads
from load import showcase as showcases
from load.connection import UnexpectedFrame
from load.disturbance import Figures, Undisturbed, alone
from load.peers import APACHE_PULSAR, OURS, Peer
from load.results import Results, add_option
from rich.console import Console
from rich.table import Table

from spark_pulsar.wire import pulsar_api_pb2 as api

MESSAGE_BYTES = 100
BATCH = 100
IN_FLIGHT = 1000
BATCHES_IN_FLIGHT = 1000
TOPICS = 1000
PACE_PER_S = 1000
IDLE_S = 2.0
# Frames built per second of measuring: more than any broker has taken.
MAX_FRAMES_PER_S, MAX_LARGE_FRAMES_PER_S, MAX_BATCHES_PER_S, MAX_SHOWCASE_PER_S = 900_000, 500_000, 60_000, 400_000
BACKLOG_ENTRIES, BACKLOG_BATCHES = 200_000, 30_000
"""Backlogs, equal for both brokers: with a few entries only, all are in the memory of the broker that was slower to
store them."""
DISPATCH_QUEUE = 100_000
"""Permits of a consumer that never has to wait for more."""
MEMBERS = 10
KEYS = 1000
IDLE_CONSUMERS = 1000
END_TO_END_PER_S = 5000

Workload = Callable[[Peer, float], Figures]


# -- workloads -------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=3)
def send_buffer(
    count: int, batch: int = 0, producers: int = 1, keys: int = 0, message_bytes: int = MESSAGE_BYTES
) -> frames.SendBuffer:
    """A buffer of SENDs, built once."""
    return frames.SendBuffer(count, message_bytes, batch, producers, keys=keys)


def enough(per_s: int, seconds: float) -> int:
    """Frames for a measurement of so many seconds, but three at most: a longer one ends with them."""
    return int(per_s * min(seconds, 3.0))


def unbatched(peer: Peer, seconds: float) -> Figures:
    """Single SENDs of one producer."""
    buffer = send_buffer(enough(MAX_FRAMES_PER_S, seconds))
    done = workloads.publish(peer.service_url, buffer, [workloads.fresh_topic()], IN_FLIGHT, seconds)
    return {"unbatched": done.messages_per_s}


def unbatched_1kb(peer: Peer, seconds: float) -> Figures:
    """Single SENDs of one producer, of a kilobyte each."""
    buffer = send_buffer(enough(MAX_LARGE_FRAMES_PER_S, seconds), message_bytes=1024)
    done = workloads.publish(peer.service_url, buffer, [workloads.fresh_topic()], IN_FLIGHT, seconds)
    return {"unbatched-1kb": done.messages_per_s}


def batches(peer: Peer, seconds: float) -> Figures:
    """Batches of one producer."""
    buffer = send_buffer(enough(MAX_BATCHES_PER_S, seconds), BATCH)
    done = workloads.publish(peer.service_url, buffer, [workloads.fresh_topic()], BATCHES_IN_FLIGHT, seconds)
    return {"batches": done.messages_per_s}


def latency(peer: Peer, seconds: float) -> Figures:
    """Paced SENDs, one by one."""
    buffer = send_buffer(int(PACE_PER_S * seconds))
    ordered = workloads.publish_paced(peer.service_url, buffer, PACE_PER_S, seconds)
    return percentiles("latency", ordered)


def from_end_to_end(peer: Peer, seconds: float) -> Figures:
    """Paced SENDs, one by one, to a consumer."""
    buffer = send_buffer(int(END_TO_END_PER_S * seconds))
    return percentiles("end-to-end", end_to_end.end_to_end(peer.service_url, buffer, END_TO_END_PER_S, seconds))


def percentiles(name: str, ordered: list[float]) -> Figures:
    """Figures of sorted latencies."""
    return {f"{name} {key}": ordered[min(int(len(ordered) * part), len(ordered) - 1)] for key, part in PARTS.items()}


PARTS = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


def consume(name: str, kind: int) -> Workload:
    """One consumer drains a backlog of single messages."""

    def run(peer: Peer, seconds: float) -> Figures:
        buffer = send_buffer(BACKLOG_ENTRIES)
        return {name: workloads.Backlog(peer.service_url, buffer, kind).consume(seconds)}

    return run


def consume_batches(peer: Peer, seconds: float) -> Figures:
    """A backlog of batches."""
    return {"consume-batches": backlog_of_batches(peer, workloads.RECEIVER_QUEUE).consume(seconds)}


def dispatch_batches(peer: Peer, seconds: float) -> Figures:
    """A backlog of batches, for a consumer that always has permits."""
    return {"dispatch-batches": backlog_of_batches(peer, DISPATCH_QUEUE).consume(seconds)}


def backlog_of_batches(peer: Peer, receiver_queue: int) -> workloads.Backlog:
    """Batches for one consumer with so many permits."""
    buffer = send_buffer(BACKLOG_BATCHES, BATCH)
    return workloads.Backlog(peer.service_url, buffer, api.CommandSubscribe.Exclusive, receiver_queue)


def share(name: str, kind: int) -> Workload:
    """Many consumers drain a backlog of single messages with keys."""

    def run(peer: Peer, seconds: float) -> Figures:
        buffer = send_buffer(BACKLOG_ENTRIES, keys=KEYS)
        return {name: sharing.consume_shared(peer.service_url, buffer, kind, MEMBERS, seconds)}

    return run


def showcase(peer: Peer, seconds: float) -> Figures:
    """Many publishers and many consumers at the same time."""
    connections, keys = showcases.CONNECTIONS, showcases.KEYS
    count = enough(MAX_SHOWCASE_PER_S, seconds) // connections // keys * keys
    buffer = send_buffer(count, 0, showcases.PUBLISHERS // connections, keys, showcases.MESSAGE_BYTES)
    return {"showcase": showcases.showcase(peer, buffer, seconds)}


def topics(peer: Peer, seconds: float) -> Figures:
    """Single SENDs of a thousand producers in turn, each on its own topic, on one connection."""
    buffer = send_buffer(enough(MAX_FRAMES_PER_S, seconds) // TOPICS * TOPICS, producers=TOPICS)
    names = [workloads.fresh_topic() for _ in range(TOPICS)]
    return {"topics": workloads.publish(peer.service_url, buffer, names, IN_FLIGHT, seconds).messages_per_s}


WORKLOADS: dict[str, Workload] = {
    "unbatched": unbatched,
    "unbatched-1kb": unbatched_1kb,
    "batches": batches,
    "latency": latency,
    "end-to-end": from_end_to_end,
    "consume-unbatched": consume("consume-unbatched", api.CommandSubscribe.Shared),
    "consume-exclusive": consume("consume-exclusive", api.CommandSubscribe.Exclusive),
    "consume-failover": consume("consume-failover", api.CommandSubscribe.Failover),
    "consume-batches": consume_batches,
    "dispatch-batches": dispatch_batches,
    "shared": share("shared", api.CommandSubscribe.Shared),
    "key-shared": share("key-shared", api.CommandSubscribe.Key_Shared),
    "showcase": showcase,
    "topics": topics,
}


OF_SECURED = ("unbatched", "batches", "latency")
"""Workloads of `--secured`: what TLS and tokens may cost."""


# -- the run ---------------------------------------------------------------------------------------------------------


def process(peer: Peer) -> Figures:
    """Start time and memory of a broker that has done nothing yet; empty when this run did not start it."""
    if peer.ready_s is None:
        return {}
    time.sleep(IDLE_S)
    return {"start to ready, s": peer.ready_s, "idle memory, MB": resident_mb(peer)}


def idle_consumers(peer: Peer) -> Figures:
    """Memory of consumers that do nothing, in a broker that has done nothing else: afterwards there is memory to use
    again."""
    if peer.pid is None:
        return {}
    before = resident_mb(peer)
    with idle.idle_consumers(peer.service_url, IDLE_CONSUMERS, IDLE_CONSUMERS):
        return {"1,000 idle consumers, MB": resident_mb(peer) - before}


def resident_mb(peer: Peer) -> float:
    """Resident memory; not a number when it is not known."""
    memory = peer.resident_mb()
    return float("nan") if memory is None else memory


FRESH: dict[str, Callable[[Peer], Figures]] = {"process": process, "idle-consumers": idle_consumers}
"""Workloads that are measured once, on a broker just started."""


@contextlib.contextmanager
def told_of_others(console: Console, peer: Peer, workload: str) -> Iterator[None]:
    """Reports a wrong delivery by another broker and leaves out its measurement; one by ours ends the run."""
    try:
        yield
    except UnexpectedFrame as error:
        if peer.name == OURS:
            raise
        console.print(f"{peer.name:>14}  {workload}: {error}")


def measure(console: Console, found: Sequence[Peer], args: argparse.Namespace) -> dict[str, list[Figures]]:
    """All rounds of all workloads, the brokers in turn."""
    results: dict[str, list[Figures]] = {peer.name: [] for peer in found}
    undisturbed = Undisturbed(found, args.data)
    wanted = [name for name in WORKLOADS if not args.only or name in args.only]
    for name, of_fresh in FRESH.items():
        for peer in found:
            if not args.only or name in args.only:
                results[peer.name].append(of_fresh(peer))
    for name in wanted:
        for peer in found:
            with alone(peer, found), told_of_others(console, peer, name):
                WORKLOADS[name](peer, args.warm_up if peer.name == APACHE_PULSAR else min(args.warm_up, 1.0))
        for turn in range(args.rounds):
            for peer in found if turn % 2 == 0 else reversed(found):
                with told_of_others(console, peer, name):
                    disturbed, figures = undisturbed(WORKLOADS[name], peer, args.seconds)
                    results[peer.name].append(figures)
                    shown = "  ".join(f"{key} {figure(value)}" for key, value in figures.items())
                    console.print(f"[dim]{peer.name:>14}  {shown}  {disturbed}[/dim]", soft_wrap=True)
    for peer in found:
        memory = peer.resident_mb()
        if memory is not None and wanted:
            results[peer.name].append({"memory after load, MB": memory})
    return results


def medians_of(results: dict[str, list[Figures]]) -> dict[str, Figures]:
    """The median of every figure over the rounds."""
    out: dict[str, Figures] = {}
    for name, rounds in results.items():
        keys = dict.fromkeys(key for figures in rounds for key in figures)
        out[name] = {key: statistics.median(each[key] for each in rounds if key in each) for key in keys}
    return out


def figure(value: float | None) -> str:
    """A figure with three digits that count."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def report(console: Console, medians: dict[str, Figures], titles: dict[str, str]) -> None:
    """Prints the table."""
    names = list(medians)
    table = Table("figure", *titles.values(), *(["ratio"] if len(names) == 2 else []), title="medians")
    for key in dict.fromkeys(key for figures in medians.values() for key in figures):
        values = [medians[name].get(key) for name in names]
        ratio = []
        if len(names) == 2:
            ratio = [f"{values[0] / values[1]:.2f} ×" if values[0] and values[1] else "–"]
        table.add_row(key, *(figure(value) for value in values), *ratio)
    console.print(table)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=peers.against, metavar=peers.AGAINST, help="measure it in the same run")
    parser.add_argument("--only", nargs="+", choices=[*WORKLOADS, *FRESH], metavar="NAME", help="only these workloads")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one measurement")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each workload and broker")
    parser.add_argument(
        "--warm-up", type=float, default=5.0, help="seconds of each workload before the first measurement"
    )
    parser.add_argument("--quick", action="store_true", help="one round of two seconds, a short warm-up")
    parser.add_argument("--data", type=Path, default=peers.ROOT / "data", help="directory for the brokers' data")
    parser.add_argument(
        "--secured", action="store_true", help=f"ours beside ours with TLS and tokens: {', '.join(OF_SECURED)}"
    )
    parser.add_argument("--url", help="a running broker instead of ours")
    add_option(parser)
    args = parser.parse_args()
    if args.secured:
        args.only = [name for name in OF_SECURED if not args.only or name in args.only]
    if args.quick:
        args.seconds, args.rounds, args.warm_up = 2.0, 1, 1.0
    return args


def main() -> None:
    """Measures and reports."""
    args = arguments()
    console = Console()
    args.data.mkdir(parents=True, exist_ok=True)
    console.print(machine.description(args.data), highlight=False)
    gc.disable()  # the generator makes no cycles worth a pause
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(peers.running(args.url) if args.url else peers.ours(args.data))]
        if args.secured:
            found.append(stack.enter_context(peers.secured(args.data)))
        if args.against:
            found.append(stack.enter_context(peers.apache_pulsar(args.data, args.against.version)))
        results = measure(console, found, args)
    medians, titles = medians_of(results), {peer.name: peer.title for peer in found}
    report(console, medians, titles)
    stored = Results()
    for name, figures in medians.items():
        stored.note_all(figures, name)
        stored.peers[name] = titles[name]
    stored.store(args.json)


if __name__ == "__main__":
    main()
