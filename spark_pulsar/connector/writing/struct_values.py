"""Values of rows that are structs, as JSON text the way Spark's `to_json` writes it.

Fields that are null are left out; timestamps are ISO 8601 with the zone's offset, dates ISO, binary base64, decimals
with all their digits, NaN and infinities as strings. This goes row by row in Python: a job that writes millions of
structs a second had better call `to_json` in Spark, which gives a string column.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import math
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.connector.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow as pa

_NOT_FINITE: Final = {math.inf: '"Infinity"', -math.inf: '"-Infinity"'}


def struct_to_json(array: pa.Array) -> pa.Array:
    """One JSON object a row; null stays null."""
    import pyarrow as pa

    from spark_pulsar.connector.schemas.encoding.session_zone import with_arrow_zone

    array = array.cast(with_arrow_zone(array.type))
    try:
        rows = array.to_pylist()
    except (OverflowError, ValueError) as error:
        raise SchemaError(
            "column value holds a date or timestamp that is not in the years 1 to 9999; write to_json(value), which "
            "Spark makes, in its place"
        ) from error
    texts = [None if row is None else _json(row, array.type) for row in rows]
    return pa.array(texts, pa.large_string())


def _json(value: Any, kind: pa.DataType) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        items = (
            f"{encode_basestring(field.name)}:{_json(value[field.name], field.type)}"
            for field in fields
            if value[field.name] is not None
        )
        return f"{{{','.join(items)}}}"
    if isinstance(value, list):
        if hasattr(kind, "item_type"):
            return f"{{{','.join(f'{_map_key(key)}:{_json(item, kind.item_type)}' for key, item in value)}}}"
        return f"[{','.join(_json(item, kind.value_type) for item in value)}]"
    return _scalar(value)


def _map_key(key: Any) -> str:
    text = _scalar(key)
    return text if text.startswith('"') else f'"{text}"'


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else _NOT_FINITE.get(value, '"NaN"')
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode("ascii")}"'
    if isinstance(value, datetime.datetime):
        text = value.isoformat(timespec="microseconds" if value.microsecond % 1000 else "milliseconds")
        return f'"{text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text}"'
    if isinstance(value, (datetime.date, datetime.time)):
        return f'"{value.isoformat()}"'
    return encode_basestring(str(value))
