"""Results of queries on standard output: a table, JSON or CSV, or in a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any

import typer

from spark_pulsar.cli.output.formats import Format, show
from spark_pulsar.cli.tables.files import SUFFIXES, Csv, JsonLines, check_suffix, table_file


class ResultForm(StrEnum):
    """Forms of a result on standard output."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def form_of(output: str | None) -> ResultForm | Path:
    """Returns the form of a result that an option names: a word, or a file. Raises typer.BadParameter."""
    if output is None:
        return ResultForm.TABLE
    if output.lower() in list(ResultForm):
        return ResultForm(output.lower())
    if not Path(output).suffix:
        raise typer.BadParameter(f"want table, json, csv or a file ({SUFFIXES}), got {output!r}", param_hint="--output")
    check_suffix(Path(output))
    return Path(output)


def print_result(schema: Any, batches: Iterator[Any], form: ResultForm | Path) -> None:
    """Writes a result: a table needs all rows at once, other forms hold a few batches."""
    if isinstance(form, Path):
        rows = 0
        with table_file(form, schema) as file:
            for batch in batches:
                file.write(batch)
                rows += batch.num_rows
        typer.echo(f"{rows} rows in {form}", err=True)
    elif form is ResultForm.TABLE:
        _print_table(schema, batches)
    else:
        _print_lines(schema, batches, form)


def _print_table(schema: Any, batches: Iterator[Any]) -> None:
    rows = [{name: _cell(value) for name, value in row.items()} for batch in batches for row in batch.to_pylist()]
    chosen = Format.TABLE if sys.stdout.isatty() else Format.TEXT
    show(rows, chosen, columns=schema.names)


def _cell(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, (str, int, float)) or value is None:
        return value
    if isinstance(value, (list, dict)):
        return value if not _has_other(value) else str(value)
    return str(value)


def _has_other(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_other, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_has_other, value))
    return not (isinstance(value, (str, int, float)) or value is None)


def _print_lines(schema: Any, batches: Iterator[Any], form: ResultForm) -> None:
    sink = _TextSink()
    writer: Csv | JsonLines = Csv(sink, schema) if form is ResultForm.CSV else JsonLines(sink, schema)
    for batch in chain(batches):
        writer.write(batch)
        sys.stdout.flush()
    writer.close()


class _TextSink:
    """A file of bytes that are UTF-8, on standard output, which escapes what a terminal would obey (SEC-86)."""

    closed = False

    def write(self, data: Any) -> int:
        """Writes bytes."""
        sys.stdout.write(bytes(data).decode())
        return len(data)

    def flush(self) -> None:
        """Flushes standard output."""
        sys.stdout.flush()

    def close(self) -> None:
        """Leaves standard output open."""
