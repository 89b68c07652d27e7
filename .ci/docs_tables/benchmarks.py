"""The table of docs/benchmarks.md, made from `benchmarks/record/rows.py` and `benchmarks/results.json`."""

from __future__ import annotations

from benchmarks.record import results
from benchmarks.record.rows import ROWS
from benchmarks.record.table import page_tables


def tables() -> dict[str, str]:
    """Returns the tables by their marks."""
    return page_tables(ROWS, results.load())
