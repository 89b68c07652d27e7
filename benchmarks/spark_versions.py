#!/usr/bin/env python3
"""The connector on older versions of Spark beside the newest, in turns, each in an environment of its own.

    python benchmarks/spark_versions.py [--versions 4.0 4.1 4.3] [--rows N] [--rounds N] [--warm-ups N] [--data DIR]

The environments have the packages that `tests/matrix` pins for that version, as the platforms have them. Each turn of a
version is a run of `spark.py`: a new session and a new broker, warm-ups, then every workload once. The figure is the
median of the rounds, the ratio is that to the last version named.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from load import machine, peers
from load.results import Results, add_option
from rich.console import Console
from rich.table import Table

sys.path.append(str(peers.ROOT))
from tests.matrix.__main__ import ROWS

WORKLOADS = ("source batch", "source stream", "prebuilt", "sink batch", "sink stream", "sink avro", "sink json")
_CACHE = Path.home() / ".cache" / "spark-pulsar-benchmarks"


def environment(version: str) -> Path:
    """Returns the Python of a virtual environment with this Spark and the packages of its row; makes it once."""
    [row] = [row for row in ROWS if row.name == f"spark-{version}"]
    home = _CACHE / row.name
    python, ready = home / "bin" / "python", home / "ready"
    if not ready.exists():
        print(f"making an environment with Spark {version}, once ...", file=sys.stderr, flush=True)
        base = Path(getattr(sys, "_base_executable", sys.executable))
        subprocess.run([str(base), "-m", "venv", "--clear", str(home)], check=True)
        packages = ["-e", f"{peers.ROOT}[{row.extras}]", *row.pins, "rich", "psutil"]
        subprocess.run([str(python), "-m", "pip", "--quiet", "install", *packages], check=True)
        ready.touch()
    return python


def run(version: str, args: argparse.Namespace) -> dict[str, float]:
    """Runs `spark.py` once on this version; returns rows a second of each workload."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [str(environment(version)), str(Path(__file__).with_name("spark.py")), "--json", file.name]
        command += ["--warm-ups", str(args.warm_ups), "--rounds", "1", "--rows", str(args.rows)]
        command += ["--data", str(args.data), "--only", *WORKLOADS]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        answer = Path(file.name).read_text()
        if not answer:
            raise RuntimeError(f"no figures of Spark {version}: {done.stdout}")
        figures = json.loads(answer)["figures"]
        return {workload: figures[f"{peers.OURS}: {workload}"] for workload in WORKLOADS}


def main() -> None:
    """Runs the versions in turns and prints the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", nargs="+", default=["4.0", "4.1", "4.3"], metavar="VERSION")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-ups", type=int, default=2, help="of each turn")
    parser.add_argument("--data", type=Path, default=Path("data"), help="directory on the disk to use")
    add_option(parser)
    args = parser.parse_args()
    for version in args.versions:
        environment(version)
    figures: dict[str, dict[str, list[float]]] = {version: defaultdict(list) for version in args.versions}
    for _ in range(args.rounds):
        for version in args.versions:
            for workload, figure in run(version, args).items():
                figures[version][workload].append(figure)
    console = Console()
    console.print(machine.description(args.data), highlight=False)
    table = Table("workload", *args.versions, title="rows/s, and the ratio to the last version")
    results = Results()
    for workload in WORKLOADS:
        for version in args.versions:
            results.note(f"{version}: {workload}", statistics.median(figures[version][workload]))
        medians = [statistics.median(figures[version][workload]) for version in args.versions]
        table.add_row(workload, *(f"{median:,.0f} ({median / medians[-1]:.2f})" for median in medians))
    console.print(table)
    results.store(args.json)


if __name__ == "__main__":
    main()
