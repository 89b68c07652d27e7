"""JSON lines as columns, by pyarrow's reader."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json


def read_columns(lines: bytes | memoryview, rows: int, schema: Any, *, is_closed: bool = False) -> list[Any] | None:
    """Returns the fields of a schema as arrays; None unless the reader accepts all lines, and finds as many rows. It
    does not accept other fields where the schema `is_closed`."""
    unexpected = "error" if is_closed else "ignore"
    try:
        table = pyarrow.json.read_json(
            pa.py_buffer(lines),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
        )
        table.validate(full=True)  # text is not checked to be UTF-8 by the reader
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if table.num_rows != rows:
        return None
    columns = [table.column(name).combine_chunks() for name in schema.names]
    return None if any(_has_infinite(column) for column in columns) else columns  # of a number that is too large, too


def _has_infinite(array: Any) -> bool:
    """Returns whether there is an infinite number in a column, or in one inside of it."""
    if pa.types.is_floating(array.type):
        return pc.any(pc.is_inf(array)).as_py() is True
    if pa.types.is_struct(array.type):
        return any(_has_infinite(array.field(i)) for i in range(array.type.num_fields))
    return pa.types.is_list(array.type) and _has_infinite(array.values)
