"""The option and column tables as markdown, for docs/connector.md: `python -m spark_pulsar.connector.tables`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from spark_pulsar.connector.columns import METADATA_COLUMNS, READ_COLUMNS, WRITE_COLUMNS, Column
from spark_pulsar.connector.options.table import ANY, OPTIONS, READ, WRITE


def options_table() -> str:
    """One row an option: name, type, default, where it is valid, meaning."""
    rows = [(f"`{o.name}`", o.kind, o.default or "–", _where(o.uses), o.meaning) for o in OPTIONS]
    return _table(("Option", "Type", "Default", "For", "Meaning"), rows)


def columns_table(columns: Sequence[Column]) -> str:
    """One row a column: name, types, meaning."""
    return _table(("Column", "Type", "Meaning"), [(f"`{c.name}`", " or ".join(c.types), c.meaning) for c in columns])


def _where(uses: tuple[str, ...]) -> str:
    return {ANY: "all", READ: "read", WRITE: "write"}.get(uses, ", ".join(uses))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines)


if __name__ == "__main__":
    columns = [columns_table(each) for each in (READ_COLUMNS, METADATA_COLUMNS, WRITE_COLUMNS)]
    sys.stdout.write("\n\n".join([options_table(), *columns]) + "\n")
