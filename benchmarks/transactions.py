#!/usr/bin/env python3
"""Transactions of our broker, alone or beside a real Apache Pulsar in the same run.

    python benchmarks/transactions.py [--against apache-pulsar[=VERSION]] [--seconds S] [--rounds N]

One generator on one connection (`load/transacting.py`) does what official clients do: NEW_TXN, ADD_PARTITION_TO_TXN,
SENDs, END_TXN, each after the answers to what came before. As in `broker.py` the brokers are measured in turns, each
while the other one is stopped; the figure is the median, the ratio that of the medians. Every receipt after fdatasync.

    throughput   transactions of 100 SENDs of 100 B, 16 at once                          messages/s
    commit       20 such transactions a second, one after the other: END_TXN to its answer  ms
"""

import argparse
import contextlib
import statistics
from pathlib import Path

from load import machine, peers, transacting
from load.disturbance import Figures, Undisturbed
from load.peers import OURS, Peer
from load.results import Results, add_option
from rich.console import Console
from rich.table import Table

MESSAGES = 100
PAYLOAD = b"x" * 100
IN_FLIGHT = 16
PACE_PER_S = 20.0
WARM_UP_S = 5.0


def work(peer: Peer, seconds: float) -> Figures:
    """Both workloads."""
    done = transacting.commit(peer.service_url, MESSAGES, PAYLOAD, IN_FLIGHT, seconds)
    paced = transacting.commit_paced(peer.service_url, MESSAGES, PAYLOAD, PACE_PER_S, seconds)
    commits_ms = sorted(1000 * each for each in paced.commits_s)
    return {
        "throughput, messages/s": MESSAGES * done.transactions / done.elapsed_s,
        "commit p50, ms": statistics.median(commits_ms),
        "commit p99, ms": commits_ms[int(0.99 * (len(commits_ms) - 1))],
    }


def main() -> None:
    """Measures and reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=peers.against, metavar=peers.AGAINST, help="measure it in the same run")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of one measurement of a workload")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each broker")
    parser.add_argument("--data", type=Path, default=peers.ROOT / "data", help="directory for the brokers' data")
    add_option(parser)
    args = parser.parse_args()
    console = Console()
    args.data.mkdir(parents=True, exist_ok=True)
    console.print(machine.description(args.data), highlight=False)
    results: dict[str, list[Figures]] = {}
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(peers.ours(args.data, {"transactionCoordinatorEnabled": True}))]
        if args.against:
            found.append(stack.enter_context(peers.apache_pulsar(args.data, args.against.version)))
        undisturbed = Undisturbed(found, args.data)
        for peer in found:
            work(peer, WARM_UP_S)
        for turn in range(args.rounds):
            for peer in found if turn % 2 == 0 else reversed(found):
                disturbed, figures = undisturbed(work, peer, args.seconds)
                results.setdefault(peer.name, []).append(figures)
                shown = "  ".join(f"{key} {value:,.2f}" for key, value in figures.items())
                console.print(f"[dim]{peer.name:>14}  {shown}  {disturbed}[/dim]", soft_wrap=True)
    titles = {peer.name: peer.title for peer in found}
    report(console, results, titles).store(args.json)


def report(console: Console, measured: dict[str, list[Figures]], titles: dict[str, str]) -> Results:
    """Prints the medians, and returns them."""
    medians = {
        name: {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
        for name, rounds in measured.items()
    }
    table = Table("figure", *(titles[name] for name in medians), "ratio")
    for key in medians[OURS]:
        values = [figures[key] for figures in medians.values()]
        ratio = f"{values[0] / values[1]:.2f} ×" if len(values) == 2 else "–"
        table.add_row(key, *(f"{value:,.2f}" for value in values), ratio)
    console.print(table)
    results = Results()
    for name, figures in medians.items():
        results.note_all(figures, name)
        results.peers[name] = titles[name]
    return results


if __name__ == "__main__":
    main()
