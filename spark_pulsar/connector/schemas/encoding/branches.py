"""Branches of unions, symbols of enums and bytes of fixed, as the encoders of Avro and JSON choose and check them
(SCHEMA-7)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.extended_definition import branch_of, decimal_digits, members_of
from spark_pulsar.connector.schemas.linked_definition import FULL_NAME, kind_of
from spark_pulsar.wire.columns.entries import IntArray

_MOST_SYMBOLS: Final = 20
_MOST_CHARACTERS: Final = 100
_PLAIN: Final = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int64, "long"),
    (pa.types.is_integer, "int"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_date, {"type": "int", "logicalType": "date"}),
    (pa.types.is_time, {"type": "long", "logicalType": "time-micros"}),
)
_Member = tuple[int, Any]
"""Branch of a union, and the column of its values: null in the rows of others."""


def members_of_union(array: Any, union: list[Any], column: str) -> list[_Member]:
    """Returns the branches of a union that a column has values for: of a struct of `member0` and so on, as a read
    makes it, those that it names, else the one that takes the column's type.

    Raises SchemaError where none does, where a row has two of them, and for a null where the union has none.
    """
    places = [index for index, branch in enumerate(union) if kind_of(branch) != "null"]
    branches = [union[index] for index in places]
    struct = array.type if pa.types.is_struct(array.type) else None
    numbers = None if struct is None else members_of([field.name for field in struct], len(branches))
    if numbers is not None:
        members = list(zip((places[number] for number in numbers), array.flatten(), strict=True))
    else:
        number = branch_of(branches, avro_of_arrow(array.type))
        if number is None:
            shown = ", ".join(kind_of(branch) for branch in branches)
            raise SchemaError(f"column {column} is {array.type}, the topic's schema has a union of {shown} there")
        members = [(places[number], array)]
    counts: IntArray = np.zeros(len(array), np.int64)
    for _, values in members:
        counts += values.is_valid().to_numpy(zero_copy_only=False)
    if counts.max(initial=0) > 1:
        raise SchemaError(f"column {column} holds values of two branches in one row: {array[int(counts.argmax())]}")
    if len(places) == len(union) and not counts.all():
        raise SchemaError(f"column {column} holds a null, but the topic's schema allows none there")
    return members


def avro_of_arrow(kind: Any) -> Any:
    """Returns the Avro type of an Arrow type, linked, without names of its own."""
    for is_kind, name in _PLAIN:
        if is_kind(kind):
            return name
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": f"{'' if kind.tz else 'local-'}timestamp-micros"}
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_struct(kind):
        return {
            "type": "record",
            "name": "r",
            "fields": [{"name": field.name, "type": avro_of_arrow(field.type)} for field in kind],
        }
    if pa.types.is_map(kind):
        return {"type": "map", "values": avro_of_arrow(kind.item_type)}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {"type": "array", "items": avro_of_arrow(kind.value_type)}
    return "bytes" if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) else "string"


def symbol_places(array: Any, enum: Any, column: str) -> IntArray:
    """Returns the place of each row's text among the symbols of an enum, 0 for null. Raises SchemaError for a text that
    is none of them."""
    symbols = pa.array(enum["symbols"], array.type)
    places = pc.index_in(array, value_set=symbols)
    unknown = pc.and_(places.is_null(), array.is_valid())
    if pc.any(unknown).as_py():
        value = array.filter(unknown)[0].as_py()
        shown = ", ".join(enum["symbols"][:_MOST_SYMBOLS]) + (", ..." if len(enum["symbols"]) > _MOST_SYMBOLS else "")
        raise SchemaError(
            f"column {column} holds {value[:_MOST_CHARACTERS]!r}, which is no symbol of the enum "
            f"{enum.get(FULL_NAME, enum['name'])} in the topic's schema; there are {shown}"
        )
    indices: IntArray = places.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return indices


def check_size(array: Any, fixed: Any, column: str) -> None:
    """Checks that each row has as many bytes as a fixed. Raises SchemaError with the first other length."""
    lengths = pc.binary_length(array)
    wrong = pc.fill_null(pc.not_equal(lengths, fixed["size"]), False)
    if pc.any(wrong).as_py():
        length = lengths.filter(wrong)[0].as_py()
        raise SchemaError(
            f"column {column} holds {length} bytes, but the topic's schema has {fixed['size']} there, of the fixed "
            f"{fixed.get(FULL_NAME, fixed['name'])}"
        )


def rescaled(array: Any, kind: Any, column: str) -> Any:
    """Returns decimals with the scale of the definition."""
    digits = decimal_digits(kind)
    if digits is None or digits[1] == array.type.scale:
        return array
    try:
        return array.cast(pa.decimal128(38, digits[1]))
    except pa.ArrowInvalid as error:
        raise SchemaError(
            f"column {column} holds a decimal that the topic's schema has no room for: {error}"
        ) from error
