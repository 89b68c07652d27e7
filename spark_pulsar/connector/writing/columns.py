"""Columns of a write: the checks of a DataFrame's schema, which is used by its public face only (SCHEMA-15). What rows
hold, `topic_column` and `topic_writer` check: a `__topic` that is no name, a `__partition` (SINK-4), event times
(SINK-1)."""

from __future__ import annotations

import re
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
_TEXT: Final = re.compile(r"\b(?:var)?char\(\d+\)|\bstring collate \w+")
"""Kinds of text that Spark has beside `string`."""
_NOT_IN_JSON: Final = ("interval", "variant", "geometry", "geography")
_READ_ONLY: Final = frozenset(column.name for column in READ_COLUMNS + METADATA_COLUMNS) - frozenset(_WRITE)


def check_writable(schema: Any, topic: str | None, *, has_schema: bool = False) -> None:
    """Checks the columns of a write; `topic` is the option of that name. With a Pulsar schema checks only those that
    begin with `__`; the others are the schema's. Raises SchemaError."""
    fields = fields_of(schema)
    no_doubles(name for name, _, _ in fields)
    names = [name for name, _, _ in fields]
    read_only = [name for name in names if name in _READ_ONLY]
    if read_only:
        raise SchemaError(
            f"{' and '.join(read_only)} cannot be written, broker and producer set it; drop it from the DataFrame"
        )
    for name, given, _ in fields:
        kind = _TEXT.sub("string", given)
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
            raise SchemaError(f"column {name} must be {' or '.join(allowed)}, not {given}")
    if "value" not in names and not has_schema:
        raise SchemaError("there is no column value; use for example struct(*) AS value (written as JSON)")
    if topic is None and "__topic" not in names:
        raise SchemaError("rows need a topic: give the option topic or a column __topic")


def check_json_value(schema: Any) -> None:
    """Checks that JSON has a form for all parts of a column `value` that is a struct. Raises SchemaError."""
    for field in schema.jsonValue()["fields"]:
        if field["name"] == "value" and isinstance(field["type"], dict):
            _check_json(field["type"], "value")


def _check_json(kind: Any, path: str) -> None:
    """Checks that JSON has a form for a type, given as in `DataType.jsonValue()`. Raises SchemaError with the path."""
    if isinstance(kind, str):
        if kind.startswith(_NOT_IN_JSON):
            raise SchemaError(f"column {path} is {kind}, which has no form in JSON; cast it to string, or drop it")
    elif kind["type"] == "struct":
        for field in kind["fields"]:
            _check_json(field["type"], f"{path}.{field['name']}")
    elif kind["type"] == "array":
        _check_json(kind["elementType"], f"{path}[]")
    elif kind["type"] == "map":
        if not isinstance(kind["keyType"], str):
            raise SchemaError(f"column {path} is a map whose keys have parts, which has no form in JSON; cast the keys")
        _check_json(kind["keyType"], f"{path} (keys)")
        _check_json(kind["valueType"], f"{path}[]")
    elif kind["type"] == "udt":
        _check_json(kind["sqlType"], path)
