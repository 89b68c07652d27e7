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
import sys
from pathlib import Path

from load import machine, peers, transacting
from load.disturbance import Figures, Undisturbed
from load.peers import OURS, Peer
from rich.console import Console
from rich.table import Table

MESSAGES = 100
PAYLOAD = b"x" * 100
IN_FLIGHT = 16
PACE_PER_S = 20.0
WARM_UP_S = 5.0
TARGETS = {"throughput, messages/s": (3.0, True), "commit p50, ms": (0.5, False)}
"""Least, or (False) greatest, ratio to Apache Pulsar."""


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


def main() -> int:
    """Exit status 0 when both targets are met, or nothing is compared."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=peers.against, metavar=peers.AGAINST, help="measure it in the same run")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of one measurement of a workload")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each broker")
    parser.add_argument("--data", type=Path, default=peers.ROOT / "data", help="directory for the brokers' data")
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
    return 0 if report(console, results) else 1


def report(console: Console, results: dict[str, list[Figures]]) -> bool:
    """Prints the medians, and returns whether the targets are met."""
    medians = {
        name: {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
        for name, rounds in results.items()
    }
    table = Table("figure", *medians, "ratio", "target")
    met = True
    for key in medians[OURS]:
        values = [figures[key] for figures in medians.values()]
        ratio = values[0] / values[1] if len(values) == 2 else None
        bound, at_least = TARGETS.get(key, (None, True))
        good = ratio is None or bound is None or (ratio >= bound if at_least else ratio <= bound)
        met = met and good
        target = "" if bound is None else f"{'≥' if at_least else '≤'} {bound:g} ×, {'met' if good else 'NOT MET'}"
        shown = "–" if ratio is None else f"{ratio:.2f} ×"
        table.add_row(key, *(f"{value:,.2f}" for value in values), shown, target)
    console.print(table)
    return met


if __name__ == "__main__":
    sys.exit(main())
