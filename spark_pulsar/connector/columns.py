"""Tables of columns: those of a read, those of a read on request, and those of a write (READ-3, READ-12). What a
topic's schema has in place of `value` is in `schemas.types.columns` (SCHEMA-1)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from spark_pulsar.connector.errors import SchemaError

MAP_TYPE: Final = "map<string,string>"
"""Type of properties."""


@dataclass(frozen=True, slots=True)
class Column:
    """Name and Spark types (the first is the default) of a column; docs/connector-read.md and docs/connector-write.md
    say what it means."""

    name: str
    types: tuple[str, ...]


READ_COLUMNS: Final[tuple[Column, ...]] = (
    Column("value", ("binary", "string")),
    Column("__key", ("binary", "string")),
    Column("__topic", ("string",)),
    Column("__messageId", ("binary",)),
    Column("__publishTime", ("timestamp",)),
    Column("__eventTime", ("timestamp",)),
    Column("__messageProperties", (MAP_TYPE,)),
)

METADATA_COLUMNS: Final[tuple[Column, ...]] = (
    Column("__orderingKey", ("binary",)),
    Column("__producerName", ("string",)),
    Column("__sequenceId", ("bigint",)),
    Column("__schemaVersion", ("bigint",)),
    Column("__redeliveryCount", ("int",)),
    Column("__partition", ("int",)),
    Column("__ledgerId", ("bigint",)),
    Column("__entryId", ("bigint",)),
    Column("__batchIndex", ("int",)),
    Column("__brokerPublishTime", ("timestamp",)),
    Column("__index", ("bigint",)),
    Column("__encryptionContext", ("string",)),
)
"""Columns of a read that are not there unless `metadataColumns` or the schema names them."""

WRITE_COLUMNS: Final[tuple[Column, ...]] = (
    Column("value", ("string", "binary", "struct")),
    Column("__key", ("string", "binary")),
    Column("__topic", ("string",)),
    Column("__eventTime", ("timestamp", "timestamp_ntz", "bigint")),
    Column("__messageProperties", (MAP_TYPE,)),
    Column("__orderingKey", ("binary", "string")),
    Column("__schemaVersion", ("bigint", "int")),
    Column("__partition", ("int", "bigint")),
    Column("__deliverAt", ("timestamp", "timestamp_ntz", "bigint")),
    Column("__deliverAfterMs", ("bigint", "int")),
    Column("__sequenceId", ("bigint",)),
)

NOT_THERE: Final = {
    "__replicatedFrom": "messages from other clusters are not distinguished",
}
"""Columns that users expect and that do not exist, with the reason."""

ON_REQUEST: Final = {column.name: column for column in METADATA_COLUMNS}


def metadata_columns(names: tuple[str, ...]) -> tuple[str, ...]:
    """Checks the names of the option `metadataColumns`, or `all`, and returns the columns (READ-12). Raises
    ValueError."""
    if names == ("all",):
        return tuple(ON_REQUEST)
    no_doubles(names)
    for name in names:
        if name in NOT_THERE:
            raise SchemaError(f"there is no column {name}: {NOT_THERE[name]}")
        if name not in ON_REQUEST:
            near = near_names(name, ON_REQUEST)
            raise SchemaError(f"no column {name}{near}; there are {', '.join(ON_REQUEST)}")
    return names


def no_doubles(names: Iterable[str]) -> None:
    """Refuses a column that is there twice. Raises SchemaError."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise SchemaError(f"column {name} is there twice: rename or drop one of them")
        seen.add(name)


def near_names(name: str, known: Iterable[str]) -> str:
    """Suggests columns whose names are close to this one; empty for none."""
    lower = {column.lower(): column for column in known}
    near = difflib.get_close_matches(name.lower(), list(lower), n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(lower[match] for match in near)}?" if near else ""


def fields_of(schema: Any) -> list[tuple[str, str, bool]]:
    """Returns name, Spark type and nullability of each column of a `StructType`, by its public face only."""
    return [(field.name, field.dataType.simpleString(), bool(field.nullable)) for field in schema.fields]
