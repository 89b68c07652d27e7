"""Tables of other libraries as tables of the types that the sink writes (SCHEMA-15), where nothing is lost by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.types.arrow_types import MAX_DECIMAL_DIGITS
from spark_pulsar.connector.schemas.types.spark_types import has_spark_name

_WIDER: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.date64(): pa.date32(),
    pa.time32("s"): pa.time64("ns"),
    pa.time32("ms"): pa.time64("ns"),
    pa.time64("us"): pa.time64("ns"),
}
for _name, _type in (("string_view", pa.string()), ("binary_view", pa.binary())):
    if hasattr(pa, _name):  # since pyarrow 16
        _WIDER[getattr(pa, _name)()] = _type


_COLUMNS: Final = ("Series", "ChunkedArray")
"""Columns of pandas, Polars and Arrow, whose streams are no tables."""


def writable_table(table: Any) -> pa.Table:
    """Returns a table, or anything that Arrow reads as one (record batches, a DataFrame of pandas or Polars, a relation
    of DuckDB), with the types that the sink writes. Raises SchemaError for a value that has no place in them."""
    try:
        arrow = _as_table(table)
    except (pa.ArrowException, ValueError, TypeError) as error:  # pandas: names twice, values of several types
        if isinstance(error, SchemaError):
            raise
        reason = " ".join("; ".join(map(str, error.args)).split())
        raise SchemaError(f"Arrow cannot read this {type(table).__name__} as a table: {reason}") from error
    fields = [pa.field(field.name, _writable(field.type, field.name)) for field in arrow.schema]
    try:
        return arrow.cast(pa.schema(fields))
    except pa.ArrowInvalid as error:
        raise SchemaError(f"the table cannot be written without loss: {error}") from error


def _as_table(table: Any) -> pa.Table:
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    if type(table).__name__ in _COLUMNS:
        raise SchemaError(f"{type(table).__name__} is one column: give a table of it, pyarrow.table({{'value': …}})")
    if type(table).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(table, preserve_index=False)  # its stream has the index as a column
    if hasattr(table, "__arrow_c_stream__") and hasattr(pa.RecordBatchReader, "from_stream"):
        return pa.RecordBatchReader.from_stream(table).read_all()
    if hasattr(table, "to_arrow"):
        return table.to_arrow()
    if isinstance(table, Mapping):
        raise SchemaError("dict is no table: give pyarrow.table(…) of it")
    if isinstance(table, list | tuple) and table and all(isinstance(row, Mapping) for row in table):
        raise SchemaError("a list of rows is no table: give pyarrow.Table.from_pylist(…) of it")
    batches = list(table) if isinstance(table, Iterable) and not isinstance(table, str | bytes | Mapping) else []
    if not batches or not all(isinstance(batch, pa.RecordBatch) for batch in batches):
        raise SchemaError(f"{type(table).__name__} is no table: give a pyarrow.Table, record batches, or a DataFrame")
    return pa.Table.from_batches(batches)


def _writable(kind: Any, path: str) -> Any:
    if kind in _WIDER:
        return _WIDER[kind]
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz is not None else None)
    if pa.types.is_dictionary(kind):
        return _writable(kind.value_type, path)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _writable(field.type, f"{path}.{field.name}")) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_writable(kind.key_type, path), _writable(kind.item_type, f"{path}[]"))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_writable(kind.value_type, f"{path}[]"))
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_uint64(kind):
        return pa.int64()
    if pa.types.is_decimal(kind) and kind.precision <= MAX_DECIMAL_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    if not has_spark_name(kind):
        raise SchemaError(f"column {path} has Arrow's type {kind}, which cannot be written; cast it before")
    return kind
