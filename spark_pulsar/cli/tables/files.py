"""Files of tables: Parquet, CSV, JSON lines and Arrow, by their suffix. A file has its name when it is complete."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import typer

_GROUP_ROWS: Final = 1 << 17
_GROUP_BYTES: Final = 64 << 20
"""Rows and bytes of a row group of Parquet, whichever comes first: what is kept in memory."""


class BatchWriter(Protocol):
    """Writer of record batches."""

    def write(self, batch: Any) -> None:
        """Writes a record batch."""

    def close(self) -> None:
        """Writes what is left."""


class _Parquet:
    def __init__(self, sink: BinaryIO, schema: Any) -> None:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(sink, schema, compression="zstd")
        self._schema = schema
        self._waiting: list[Any] = []

    def write(self, batch: Any) -> None:
        self._waiting.append(batch)
        rows = sum(one.num_rows for one in self._waiting)
        if rows >= _GROUP_ROWS or sum(one.nbytes for one in self._waiting) >= _GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema), row_group_size=_GROUP_ROWS)
            self._waiting.clear()

    def close(self) -> None:
        self._flush()
        self._writer.close()


class _Arrow:
    def __init__(self, sink: BinaryIO, schema: Any) -> None:
        import pyarrow as pa

        self._writer = pa.ipc.new_file(sink, schema)

    def write(self, batch: Any) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class Csv:
    """Writer of CSV: texts of bytes, JSON of nested columns."""

    def __init__(self, sink: Any, schema: Any) -> None:
        self._sink = sink
        self._columns = schema.names
        self._writer: Any = None
        self.write(schema.empty_table().to_batches()[0] if schema.empty_table().to_batches() else _no_rows(schema))

    def write(self, batch: Any) -> None:
        """Writes a record batch. Raises NoText."""
        import pyarrow as pa
        import pyarrow.csv as pa_csv

        flat = pa.RecordBatch.from_arrays(list(map(_flat, batch.columns, self._columns)), names=self._columns)
        if self._writer is None:
            self._writer = pa_csv.CSVWriter(self._sink, flat.schema)
        self._writer.write_batch(flat)

    def close(self) -> None:
        """Ends the file."""
        self._writer.close()


def _no_rows(schema: Any) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _flat(array: Any, name: str) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    from spark_pulsar.cli.tables.json_text import as_text, json_text

    kind = array.type
    if pa.types.is_nested(kind):
        return pc.if_else(pc.is_valid(array), json_text(array, name), None)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return as_text(array, name)
    return array


class JsonLines:
    """Writer of an object of JSON a line."""

    def __init__(self, sink: Any, schema: Any) -> None:
        self._sink = sink

    def write(self, batch: Any) -> None:
        """Writes a record batch. Raises NoText."""
        import pyarrow.compute as pc

        from spark_pulsar.cli.tables.json_text import json_lines

        lines = pc.binary_join_element_wise(json_lines(batch), "", "\n")
        if len(lines):
            first, last = lines.offset, lines.offset + len(lines)
            ends = memoryview(lines.buffers()[1]).cast("i")
            self._sink.write(memoryview(lines.buffers()[2])[ends[first] : ends[last]])

    def close(self) -> None:
        """Leaves the sink to its owner."""


_WRITERS: Final[dict[str, Callable[[BinaryIO, Any], BatchWriter]]] = {
    ".parquet": _Parquet,
    ".csv": Csv,
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".arrow": _Arrow,
    ".feather": _Arrow,
}
_TEXTS: Final = (".csv", ".jsonl", ".ndjson")
SUFFIXES: Final = ", ".join(_WRITERS)


def is_text(path: Path) -> bool:
    """Returns whether a file is one of texts, which hold no bytes."""
    return path.suffix.lower() in _TEXTS


def check_suffix(path: Path, option: str = "--output") -> None:
    """Raises typer.BadParameter for a file whose form is not known."""
    if path.suffix.lower() not in _WRITERS:
        raise typer.BadParameter(f"want a file that ends in one of {SUFFIXES}; got {str(path)!r}", param_hint=option)
    if not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no directory {path.absolute().parent}", param_hint=option)


@contextlib.contextmanager
def table_file(path: Path, schema: Any) -> Iterator[BatchWriter]:
    """Opens a file for batches of a schema. It has another name until it is complete, and goes when it does not become
    so. Raises OSError."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        with unfinished.open("wb") as sink:
            writer = _WRITERS[path.suffix.lower()](sink, schema)
            yield writer
            writer.close()
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
