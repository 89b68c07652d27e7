"""Values of Avro types that Spark lacks, each as one text of JSON, or as its Avro bytes (SCHEMA-14).

The JSON is that of Spark's `to_json`: bytes are base64, dates and times ISO 8601, decimals numbers. Values are those of
the library, which makes a pair of name and fields of a record in a union.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import struct
from collections.abc import Callable
from typing import Any, Final

from spark_pulsar.connector.schemas.payloads.decoder import UndecodablePayload
from spark_pulsar.connector.schemas.types.arrow_types import decimal_of
from spark_pulsar.model.avro import AvroType

_EPOCH: Final = datetime.datetime(1970, 1, 1)
_EXACTLY: Final = decimal.Context(prec=5_000)
_MOST_BITS: Final = 14_000
_PER_SECOND: Final = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
PYTHON_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (float,),
    "double": (float,),
    "bytes": (bytes,),
    "fixed": (bytes,),
    "string": (str,),
    "enum": (str,),
    "array": (list,),
    "map": (dict,),
    "record": (dict,),
}
"""Types of the values that the library makes of each kind."""


def text_of(avro: AvroType) -> Callable[[Any], str | None]:
    """Returns what makes the JSON text of a value; null stays null."""

    def text(value: Any) -> str | None:
        try:
            return None if value is None else _text(avro, value)
        except RecursionError:
            raise UndecodablePayload("it is nested too deep") from None

    return text


def bytes_of(avro: AvroType) -> Callable[[Any], bytes | None]:
    """Returns what makes the Avro bytes of a value; null stays null."""

    def value_bytes(value: Any) -> bytes | None:
        if value is None:
            return None
        out = bytearray()
        try:
            _put(avro, value, out)
        except RecursionError:
            raise UndecodablePayload("it is nested too deep") from None
        return bytes(out)

    return value_bytes


def branch_of_value(avro: AvroType, value: Any) -> tuple[int, Any]:
    """Returns the number of the branch of a union that a value is of, and the value."""
    if isinstance(value, tuple):
        name, value = value
        records = [i for i, branch in enumerate(avro.branches) if branch.kind == "record"]
        named = [i for i in records if avro.branches[i].short_name == name.rpartition(".")[2]]
        return (named or records)[0], value
    return next(i for i, branch in enumerate(avro.branches) if type(value) in PYTHON_TYPES[branch.kind]), value


def _text(avro: AvroType, value: Any) -> str:
    if avro.kind == "union":
        number, value = branch_of_value(avro, value)
        return _text(avro.branches[number], value)
    if avro.kind == "record":
        fields = (f"{json.dumps(field.name)}:{_text(field.type, value[field.name])}" for field in avro.fields)
        return f"{{{','.join(fields)}}}"
    if avro.items is not None:
        items = avro.items
        if avro.kind == "map":
            pairs = (f"{json.dumps(key, ensure_ascii=False)}:{_text(items, item)}" for key, item in value.items())
            return f"{{{','.join(pairs)}}}"
        return f"[{','.join(_text(items, item) for item in value)}]"
    if isinstance(value, bytes):
        digits = decimal_of(avro)
        if digits is None or 8 * len(value) > _MOST_BITS:
            return f'"{base64.b64encode(value).decode()}"'
        unscaled = decimal.Decimal(int.from_bytes(value, "big", signed=True))
        return format(unscaled.scaleb(-digits[1], _EXACTLY), "f")
    if isinstance(value, float) and not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else f'"{"-" if value < 0 else ""}Infinity"'
    logical = avro.attributes.get("logicalType")
    if type(value) is int and isinstance(logical, str):
        return _moment(value, logical)
    return json.dumps(value, ensure_ascii=False)


def _moment(value: int, logical: str) -> str:
    """Returns the text of a date, time or timestamp; of another logical type, and of a time beyond Python's, the
    number."""
    family, _, unit = logical.rpartition("-")
    try:
        if logical == "date":
            return f'"{(_EPOCH + datetime.timedelta(days=value)).date().isoformat()}"'
        if family not in ("time", "timestamp", "local-timestamp") or unit not in _PER_SECOND:
            return str(value)
        at = _EPOCH + datetime.timedelta(microseconds=value * 1_000_000 // _PER_SECOND[unit])
    except OverflowError:
        return str(value)
    text = at.time().isoformat() if family == "time" else at.isoformat()
    return f'"{text}Z"' if family == "timestamp" else f'"{text}"'


def _put(avro: AvroType, value: Any, out: bytearray) -> None:
    if avro.kind == "union":
        number, value = branch_of_value(avro, value)
        _put_number(number, out)
        _put(avro.branches[number], value, out)
    elif avro.kind == "record":
        for field in avro.fields:
            _put(field.type, value[field.name], out)
    elif avro.items is not None:
        if value:
            _put_number(len(value), out)
        for key in value:
            if avro.kind == "map":
                _put_bytes(key.encode(), out)
            _put(avro.items, value[key] if avro.kind == "map" else key, out)
        _put_number(0, out)
    elif avro.kind == "enum":
        _put_number(avro.symbols.index(value), out)
    elif avro.kind in ("bytes", "string"):
        _put_bytes(value.encode() if isinstance(value, str) else value, out)
    elif avro.kind in ("float", "double"):
        out += struct.pack("<f" if avro.kind == "float" else "<d", value)
    elif avro.kind in ("boolean", "fixed"):
        out += bytes([value]) if avro.kind == "boolean" else value
    elif avro.kind != "null":
        _put_number(value, out)


def _put_bytes(data: bytes, out: bytearray) -> None:
    _put_number(len(data), out)
    out += data


def _put_number(number: int, out: bytearray) -> None:
    zigzag = (number << 1) ^ (number >> 63)
    while zigzag > 0x7F:
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    out.append(zigzag)
