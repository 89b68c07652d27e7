"""`spark-pulsar read --output FILE`: the messages of a topic as a file of a table, column by column (TABLE-5)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.cli.output.progress import Progress
from spark_pulsar.cli.tables.files import check_suffix, is_text, table_file
from spark_pulsar.cli.tables.topic_reading import TopicReading


def save(
    access: AccessOptions, topic: str, path: Path, *, first: str, until: str, limit: int | None, columns: str | None
) -> None:
    """Reads a topic into a file, and says on standard error how many rows it has."""
    check_suffix(path)
    reading = TopicReading.of(access, "read --output").between(topic, first, until)
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    read = reading.reader_with_ids if is_text(path) else reading.reader
    since_s, rows = time.monotonic(), 0
    with (
        reading.errors(topic),
        contextlib.closing(read(topic, names, limit)) as reader,
        table_file(path, reader.schema) as file,
    ):
        for batch in with_progress(reader, topic):
            file.write(batch)
            rows += batch.num_rows
    took_s = time.monotonic() - since_s
    typer.echo(f"{rows} messages of {topic} in {path}, in {took_s:.2f} s: {rows / took_s:,.0f}/s", err=True)


def with_progress(batches: Any, topic: str) -> Iterator[Any]:
    """Yields batches, and shows the number of rows on a terminal once it takes longer than a second."""
    rows = 0
    with Progress(f"Reading {topic}") as bar:
        for batch in batches:
            yield batch
            rows += batch.num_rows
            bar.update(text=f"Reading {topic}: {rows:,} messages")
