"""Columns of a write: the checks of a DataFrame's schema, which is used by its public face only."""

from __future__ import annotations

from typing import Any, Final

from spark_pulsar.connector.columns import (
    METADATA_COLUMNS,
    READ_COLUMNS,
    WRITE_COLUMNS,
    fields_of,
    near_names,
    no_doubles,
)
from spark_pulsar.connector.errors import SchemaError

_WRITE: Final = {column.name: column for column in WRITE_COLUMNS}
_READ_ONLY: Final = frozenset(column.name for column in READ_COLUMNS + METADATA_COLUMNS) - frozenset(_WRITE)


def check_writable(schema: Any, topic: str | None, *, has_schema: bool = False) -> None:
    """Checks the columns of a write; `topic` is the option of that name. With a Pulsar schema only those that begin
    with `__` are looked at, the others are the schema's. Raises SchemaError."""
    fields = fields_of(schema)
    no_doubles(name for name, _, _ in fields)
    names = [name for name, _, _ in fields]
    read_only = [name for name in names if name in _READ_ONLY]
    if read_only:
        raise SchemaError(
            f"{' and '.join(read_only)} cannot be written, broker and producer set it; drop it from the DataFrame"
        )
    for name, kind, _ in fields:
        if has_schema and not name.startswith("__"):
            continue
        if name not in _WRITE:
            hint = near_names(name, _WRITE) or (
                "; set schemaType to AVRO or JSON to write a record of all columns, or put them into one: "
                "struct(...) AS value"
            )
            raise SchemaError(f"column {name} cannot be written{hint}; there are {', '.join(_WRITE)}")
        allowed = _WRITE[name].types
        if kind not in allowed and not ("struct" in allowed and kind.startswith("struct<")):
            raise SchemaError(f"column {name} must be {' or '.join(allowed)}, not {kind}")
    if "value" not in names and not has_schema:
        raise SchemaError("there is no column value; use for example struct(*) AS value (written as JSON)")
    if topic is None and "__topic" not in names:
        raise SchemaError("rows need a topic: give the option topic or a column __topic")
