"""The figures of one run of a benchmark, and the file that `--json` names."""

import argparse
import json
import math
import subprocess
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from load import machine

ROOT = Path(__file__).resolve().parents[2]


def add_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--json FILE`."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="file for the figures of the run, as JSON")


class Results:
    """Figures by name; the names are those that `benchmarks/record/rows.py` refers to."""

    def __init__(self) -> None:
        self.figures: dict[str, float] = {}
        self.peers: dict[str, str] = {}
        """Names of the other brokers with their versions, by the name that begins their figures."""

    def note(self, name: str, value: float) -> None:
        """Notes a figure; what is not a number was not measured."""
        if not math.isnan(value):
            self.figures[name] = value

    def note_all(self, figures: Mapping[str, float], who: str = "") -> None:
        """Notes figures, with the name of the broker or program that they are of before theirs."""
        for name, value in figures.items():
            self.note(f"{who}: {name}" if who else name, value)

    def store(self, path: Path | None) -> None:
        """Writes all that was noted with the machine, the commit and the date, if there is a file to write to."""
        if path is None:
            return
        stored = {
            "machine": machine.name(),
            "commit": _commit(),
            "date": date.today().isoformat(),
            "peers": self.peers,
            "figures": self.figures,
        }
        path.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n")


def _commit() -> str:
    """The commit that the work tree is at, with a plus sign if it has changes; empty outside of a repository."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
