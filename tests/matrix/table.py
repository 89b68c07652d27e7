"""The table of docs/compatibility.md: a line for each row of the matrix that has run."""

from __future__ import annotations

import datetime
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
BEGIN, END = "<!-- rows of the matrix: python -m tests.matrix --write-table -->", "<!-- end of the rows -->"
HEAD = (
    "| Row | Spark | Python | NumPy, PyArrow, protobuf | Pulsar | Result | Date |",
    "| --- | --- | --- | --- | --- | --- | --- |",
)
VERSIONS = """
import platform
from importlib.metadata import PackageNotFoundError, version
def of(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return "-"
print(of("pyspark"), platform.python_version(), *map(of, ("numpy", "pyarrow", "protobuf")))
"""
"""Program that prints the versions of an environment."""


def table_line(name: str, versions: str, pulsar: str, result: str) -> str:
    """Returns the line of a row, from what `VERSIONS` printed in its environment."""
    spark, python, numpy, pyarrow, protobuf = versions.split()
    broker = f"Apache Pulsar {pulsar}" if pulsar else "our broker"
    day = datetime.datetime.now(datetime.UTC).date().isoformat()  # noqa: TID251
    return f"| `{name}` | {spark} | {python} | {numpy}, {pyarrow}, {protobuf} | {broker} | {result} | {day} |"


def write_table(lines: dict[str, str]) -> None:
    """Puts the lines of rows that ran into the table; the others stay as they are."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    table, _, after = rest.partition(END)
    kept = {line.split("`")[1]: line for line in table.splitlines() if line.startswith("| `")}
    rows = kept | lines
    PAGE.write_text(
        "\n".join([f"{before}{BEGIN}", "", *HEAD, *(rows[name] for name in sorted(rows)), "", f"{END}{after}"])
    )
