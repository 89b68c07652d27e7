"""The latest result of each row, kept in `benchmarks/results.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .rows import ROWS, Row

FILE = Path(__file__).resolve().parents[1] / "results.json"


@dataclass(frozen=True)
class Result:
    """A row's figures of one run.

    Attributes:
        date: Day of the run, as `2026-11-28`.
        machine: Processor, cores, memory, system, Python.
        commit: The commit that was measured; empty where it is unknown.
        ours: Our figure, in the row's unit; None when no run has succeeded yet.
        peer: The peer's figure, or None.
        against: Name and version of the peer; empty when the row names it.
        failed: Day of a later run whose command failed; empty when the last run succeeded.
    """

    date: str = ""
    machine: str = ""
    commit: str = ""
    ours: float | None = None
    peer: float | None = None
    against: str = ""
    failed: str = ""


def result_of(row: Row, run: dict[str, Any]) -> Result:
    """Returns the result of a row in what a command stored by `--json`.

    Raises:
        KeyError: The command did not store a figure of the row.
    """
    figures = run["figures"]
    against = "" if row.against else run["peers"].get(row.peer.partition(": ")[0], "")
    peer = figures[row.peer] if row.peer else None
    return Result(run["date"], run["machine"], run["commit"], figures[row.ours], peer, against)


def load() -> dict[str, Result]:
    """Returns the results by the names of their rows."""
    return {name: Result(**result) for name, result in json.loads(FILE.read_text()).items()}


def save(results: dict[str, Result]) -> None:
    """Replaces the stored results, in the order of the rows; results without a row are dropped."""
    kept = {row.name: _members(results[row.name]) for row in ROWS if row.name in results}
    FILE.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def _members(result: Result) -> dict[str, str | float]:
    return {key: value for key, value in asdict(result).items() if value not in ("", None)}
