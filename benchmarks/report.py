#!/usr/bin/env python3
"""Runs the benchmarks of the table in `docs/benchmarks.md`, and writes their figures into it.

    python benchmarks/report.py [--list] [ROW or WORD …]

Without words every row is run, with words the rows whose name, figure, group or command has one of them. A command that
several rows share runs once. After each command `benchmarks/results.json` and the page are written anew; rows that were
not run keep their figures and their date. A command that fails, or that leaves out a figure, is noted in its rows, the
others go on, and the exit status is 1 at the end; a goal that is missed is no failure.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from record import results
from record.results import Result
from record.rows import ROWS, Row
from record.table import shown, verdict

HERE = Path(__file__).resolve().parent


def chosen_rows(words: Sequence[str]) -> list[Row]:
    """Returns the rows that have one of the words, or are named by it; all without words."""
    texts = {row.name: f"{row.name} {row.group} {row.figure} {row.command}".lower() for row in ROWS}
    return [row for row in ROWS if not words or any(word.lower() in texts[row.name] for word in words)]


def run(command: str) -> dict[str, object] | None:
    """Runs a command in the foreground; returns what it stored, or None when it failed."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "results.json"
        program, *arguments = shlex.split(command)
        print(f"\n$ python benchmarks/{command}", flush=True)
        ends = subprocess.run(
            [sys.executable, str(HERE / program), *arguments, "--json", str(file)], cwd=HERE.parent, check=False
        )
        if ends.returncode or not file.exists():
            print(f"failed with status {ends.returncode}: {command}", file=sys.stderr, flush=True)
            return None
        stored: dict[str, object] = json.loads(file.read_text())
        return stored


def outcome(row: Row, stored: dict[str, object] | None, before: Result | None) -> Result:
    """Returns the row's new result; the one before with a note when the run failed or has no such figure."""
    try:
        if stored is not None:
            return results.result_of(row, stored)
        reason = "the command failed"
    except KeyError as error:
        reason = f"the command stored no figure {error}"
    print(f"{row.name}: {reason}", file=sys.stderr, flush=True)
    return replace(before or Result(), failed=date.today().isoformat())


def main() -> int:
    """Exit status 1 when a command failed, 2 when no row has one of the words."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="ROW or WORD")
    parser.add_argument("--list", action="store_true", help="name the rows, and run nothing")
    args = parser.parse_args()
    rows = chosen_rows(args.words)
    if not rows:
        print(f"no row has one of the words {', '.join(args.words)}; --list names the rows", file=sys.stderr)
        return 2
    if args.list:
        print("\n".join(f"{row.name:<32} {row.command}" for row in rows))
        return 0
    known, failed = results.load(), False
    for command in dict.fromkeys(row.command for row in rows):
        stored = run(command)
        for row in (row for row in rows if row.command == command):
            result = known[row.name] = outcome(row, stored, known.get(row.name))
            failed = failed or bool(result.failed)
            print(f"{row.figure}: {shown(result.ours)}, goal {verdict(row, result).replace('*', '')}", flush=True)
        results.save(known)
        subprocess.run([sys.executable, str(HERE.parent / ".ci" / "tables")], check=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
