"""Values of fields that rows lack: the default of the definition, or null, as Avro bytes and as JSON text
(SCHEMA-6)."""

from __future__ import annotations

import base64
import decimal
import json
import struct
from typing import Any, Final

import numpy as np

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.options.decode_mode import BASE64
from spark_pulsar.connector.schemas.extended_definition import decimal_digits
from spark_pulsar.connector.schemas.linked_definition import kind_of
from spark_pulsar.wire.columns.flat import NO_BYTES, FlatBytes

_INVALID: Final = (TypeError, ValueError, KeyError, AttributeError, struct.error, UnicodeError, RecursionError)
_DIGITS: Final = decimal.Context(prec=80)


def repeated(item: bytes, row_count: int) -> FlatBytes:
    """Returns the same bytes for each row."""
    data = np.tile(np.frombuffer(item, np.uint8), row_count) if item else NO_BYTES
    return FlatBytes(data, np.arange(row_count + 1, dtype=np.int64) * len(item), NO_BYTES)


def avro_of_field(field: Any, column: str) -> bytes:
    """Returns the Avro bytes of a field's default, or of null. Raises SchemaError naming the field for one that has
    neither, or whose default is none of its type."""
    try:
        return _avro(field["type"], _value(field, column))
    except _INVALID as error:
        raise _invalid(field, column) from error


def json_of_field(field: Any, column: str, json_bytes: str = BASE64) -> bytes | None:
    """Returns the JSON text of a field's default, None for null; raises as `avro_of_field`."""
    try:
        text = _json(field["type"], _value(field, column), json_bytes)
    except _INVALID as error:
        raise _invalid(field, column) from error
    return None if text == "null" else text.encode()


def _value(field: Any, column: str) -> Any:
    if "default" in field:
        return field["default"]
    kind = field["type"]
    if kind_of(kind) == "null" or (isinstance(kind, list) and any(kind_of(branch) == "null" for branch in kind)):
        return None
    raise SchemaError(f"there is no column {column}, and the topic's schema has no default and no null for it")


def _member(record: dict[str, Any], field: Any) -> Any:
    """Returns a field's part of a record's default, which may leave it to the field's own."""
    return record[field["name"]] if field["name"] in record else _value(field, field["name"])


def _invalid(field: Any, column: str) -> SchemaError:
    shown = json.dumps(field.get("default"))[:80]
    return SchemaError(
        f"field {column} of the topic's schema has the default {shown}, none of its type; add the column"
    )


def _branch(union: list[Any], value: Any) -> int:
    """Returns the branch of a default: the first one, unless it is a null that stands elsewhere."""
    kinds = [kind_of(branch) for branch in union]
    if value is None:
        return kinds.index("null")
    return next(index for index, kind in enumerate(kinds) if kind != "null")


def _avro(kind: Any, value: Any) -> bytes:
    if isinstance(kind, list):
        index = _branch(kind, value)
        return _long(index) + _avro(kind[index], value)
    name = kind_of(kind)
    if name == "record":
        return b"".join(_avro(field["type"], _member(value, field)) for field in kind["fields"])
    if name in ("array", "map"):
        if name == "array":
            items = [_avro(kind["items"], item) for item in value]
        else:
            items = [_avro("string", key) + _avro(kind["values"], item) for key, item in value.items()]
        return (_long(len(items)) + b"".join(items) if items else b"") + b"\0"
    if name == "null":
        return b""
    if name == "boolean":
        return struct.pack("?", {True: True, False: False}[value])
    if name in ("int", "long", "enum"):
        return _long(kind["symbols"].index(value) if name == "enum" else int(value))
    if name in ("float", "double"):
        return struct.pack("<f" if name == "float" else "<d", float(value))
    data: bytes = value.encode() if name == "string" else value.encode("latin-1")
    if name == "fixed":
        if len(data) != kind["size"]:
            raise ValueError(value)
        return data
    return _long(len(data)) + data


def _long(value: int) -> bytes:
    if not -(2**63) <= value < 2**63:
        raise ValueError(value)
    rest, octets = (value << 1) ^ (value >> 63), bytearray()
    while rest > 0x7F:
        octets.append(rest & 0x7F | 0x80)
        rest >>= 7
    octets.append(rest)
    return bytes(octets)


def _json(kind: Any, value: Any, json_bytes: str) -> str:
    if isinstance(kind, list):
        return _json(kind[_branch(kind, value)], value, json_bytes)
    name = kind_of(kind)
    if name == "record":
        texts = {field["name"]: _json(field["type"], _member(value, field), json_bytes) for field in kind["fields"]}
        return _object({key: text for key, text in texts.items() if text != "null"})
    if name == "array":
        return f"[{','.join(_json(kind['items'], item, json_bytes) for item in value)}]"
    if name == "map":
        return _object({key: _json(kind["values"], item, json_bytes) for key, item in value.items()})
    if name in ("bytes", "fixed"):
        data: bytes = value.encode("latin-1")
        digits = decimal_digits(kind)
        if digits is not None:
            number = decimal.Decimal(int.from_bytes(data, "big", signed=True))
            return format(number.scaleb(-digits[1], _DIGITS), "f")
        return json.dumps((base64.b64encode(data) if json_bytes == BASE64 else data).decode(), ensure_ascii=False)
    _avro(kind, value)  # checks it
    return json.dumps(float(value) if name in ("float", "double") else value, ensure_ascii=False)


def _object(texts: dict[str, str]) -> str:
    return f"{{{','.join(f'{json.dumps(key)}:{text}' for key, text in texts.items())}}}"
