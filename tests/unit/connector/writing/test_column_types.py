"""Every type of Spark in every place of a value that becomes JSON: it has a form there, or is refused by its path."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import types as T

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.writing.columns import check_json_value

NONE: dict[str, Any] = {
    "interval year to month": T.YearMonthIntervalType(),
    "interval year": T.YearMonthIntervalType(0, 0),
    "interval day to second": T.DayTimeIntervalType(),
    "interval hour": T.DayTimeIntervalType(1, 1),
    "interval": T.CalendarIntervalType(),
    "variant": T.VariantType(),
}
SOME = [
    T.BooleanType(), T.ByteType(), T.ShortType(), T.IntegerType(), T.LongType(), T.FloatType(), T.DoubleType(),
    T.DecimalType(38, 38), T.StringType(), T.CharType(3), T.VarcharType(3), T.BinaryType(), T.DateType(),
    T.TimestampType(), T.TimestampNTZType(), T.TimeType(6), T.NullType(), T.StructType([]),
]  # fmt: skip


def placed(kind: Any) -> dict[str, Any]:
    return {
        "value.v": kind,
        "value.v.s": T.StructType().add("s", kind),
        "value.v[]": T.ArrayType(kind),
        "value.v[][]": T.MapType(T.StringType(), T.ArrayType(kind)),
    }


@pytest.mark.parametrize("name", NONE)
def test_types_without_a_form_are_refused_by_path(name: str) -> None:
    # covers SCHEMA-15
    for path, kind in placed(NONE[name]).items():
        schema = T.StructType().add("value", T.StructType().add("v", kind))
        with pytest.raises(SchemaError) as refused:
            check_json_value(schema)
        assert (
            str(refused.value) == f"column {path} is {name}, which has no form in JSON; cast it to string, or drop it"
        )


def test_all_others_are_taken() -> None:
    # covers SCHEMA-15
    for each in SOME:
        for kind in placed(each).values():
            check_json_value(T.StructType().add("value", T.StructType().add("v", kind)))
    keys = T.MapType(T.StructType().add("a", T.LongType()), T.LongType())
    with pytest.raises(SchemaError, match=r"column value\.v is a map whose keys have parts"):
        check_json_value(T.StructType().add("value", T.StructType().add("v", keys)))
