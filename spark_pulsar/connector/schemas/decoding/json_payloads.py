"""Payloads of JSON schemas: plain JSON objects, whose fields have the types of an Avro definition.

Where all types are ones that pyarrow's JSON reader has, it reads the whole column at once. What it does not take, and
columns with maps, unions, bytes or decimals, is read by Python's, row by row: slower, and more lenient about how
clients write dates (numbers, ISO texts, lists), bytes (base64) and numbers that are none of JSON (NaN).
"""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.json

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.payloads.decoder import UndecodablePayload
from spark_pulsar.connector.schemas.payloads.flat_payloads import flat
from spark_pulsar.connector.schemas.payloads.record_types import RecordType

if TYPE_CHECKING:
    from spark_pulsar.connector.schemas.definition import Definition
    from spark_pulsar.model.avro import AvroType

Value = Callable[[Any], Any]

_OPEN, _CLOSE, _NEWLINE = b"{}\n"
_FAST_KINDS: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "string", "enum"})
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_INTS: Final = {"int": 2**31, "long": 2**63}
_MOST_DIGITS: Final = 19
"""Digits of the largest long."""
_FLOAT_WORDS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_PER_SECOND: Final = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}


class JsonDecoder:
    """Payloads of one writer's schema, which says in what dates and times are told. Fields that a payload lacks are
    null, fields that are not wanted are left out."""

    def __init__(self, reader: Definition, writer: Definition, wanted: Any) -> None:
        self._record = RecordType(reader.avro(), wanted, _written(writer), is_text=True)
        self.type = wanted
        self._is_fast = _is_fast(self._record) and bool(self._record.members)
        self._schema = pa.schema(list(self._record.physical))
        self._value = _value_of(self._record, "")

    def decode(self, payloads: Any) -> Any:
        """Returns the payloads as an array of `type`."""
        if self._is_fast and (read := self._at_once(payloads)) is not None:
            return self._record.to_spark(read)
        return self._one_by_one(payloads)

    def _at_once(self, payloads: Any) -> Any:
        """Returns the payloads by pyarrow's reader; None when it does not take them all.

        Rows cannot shift: a line that begins with a brace and ends with one is at least one object, never a part of
        one, so as many objects as lines means one object a line. A line break inside of a text is an error to the
        reader; between tokens it is none, and a payload may have as many as it wants.
        """
        lines = _lines(payloads)
        if lines is None:
            return None
        try:
            table = pyarrow.json.read_json(
                pa.py_buffer(lines),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=self._schema, unexpected_field_behavior="ignore"
                ),
            )
            table.validate(full=True)  # text is not checked to be UTF-8 by the reader
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        if table.num_rows != len(payloads):
            return None
        columns = [table.column(name).combine_chunks() for name in self._schema.names]
        return pa.StructArray.from_arrays(columns, fields=list(self._record.physical))

    def _one_by_one(self, payloads: Any) -> Any:
        rows: list[Any] = []
        for payload in payloads.to_pylist():
            try:
                loaded = json.loads(payload.decode(), parse_float=decimal.Decimal)
                if not isinstance(loaded, dict):
                    raise ValueError(f"{_shown(loaded)} is no object")
                rows.append(self._value(loaded))
            except (ValueError, RecursionError, ArithmeticError) as error:
                raise UndecodablePayload(f"it is no JSON of its schema: {error}", len(rows)) from error
        try:
            return self._record.to_spark(pa.array(rows, self._record.physical))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError) as error:
            raise UndecodablePayload(f"it does not fit Spark's types: {error}") from error


def _written(writer: Definition) -> list[AvroType]:
    """Returns the type of a writer; none where its definition is of another form, which has no logical types."""
    try:
        return [writer.avro()]
    except SchemaError:
        return []


def _lines(payloads: Any) -> bytes | None:
    """Returns the payloads, a line break behind each; None unless each begins and ends with a brace."""
    octets, offsets = flat(payloads)
    starts, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    if not len(starts) or not (ends - starts >= 2).all():
        return None
    if not ((octets[starts] == _OPEN).all() and (octets[ends - 1] == _CLOSE).all()):
        return None
    body = octets[starts[0] : ends[-1]]
    places = ends - starts[0]
    return np.insert(body, places, _NEWLINE).tobytes()


def _is_fast(record: RecordType) -> bool:
    """Tells whether pyarrow's JSON reader has all the types."""
    if record.is_union or record.kind == "map" or record.logical == "decimal":
        return False
    if record.kind == "record":
        return all(_is_fast(member) for member in record.members.values())
    if record.kind == "array":
        assert record.items is not None
        return _is_fast(record.items)
    return record.kind in _FAST_KINDS


# ---- row by row -------------------------------------------------------------------------------------------------


def _value_of(record: RecordType, path: str) -> Value:
    """Returns what turns a value of JSON into one of the type's physical form; it raises ValueError with the field."""
    inner = _inner_value(record, path)

    def value(given: Any) -> Any:
        if given is None:
            return None
        try:
            return inner(given)
        except _NotOfType:
            raise ValueError(f"field {path.lstrip('.') or 'record'} is {_shown(given)}, no {_title(record)}") from None

    return value


class _NotOfType(Exception):
    """A value is none of its type."""


def _inner_value(record: RecordType, path: str) -> Value:
    if record.is_union:
        return _union_value(record, path)
    if record.kind == "record":
        members = {name: _value_of(member, f"{path}.{name}") for name, member in record.members.items()}
        return lambda given: {name: value(_dict(given).get(name)) for name, value in members.items()}
    if record.items is not None:
        item = _value_of(record.items, f"{path}[]")
        if record.kind == "array":
            return lambda given: [item(each) for each in _of(given, list)]
        return lambda given: {key: item(each) for key, each in _dict(given).items()}
    if record.logical == "decimal":
        return _decimal(record.arrow)
    if record.logical:
        return _moment(record)
    return {
        "null": _none,
        "boolean": lambda given: _of(given, bool),
        "int": _whole("int"),
        "long": _whole("long"),
        "float": _real,
        "double": _real,
        "bytes": _bytes,
        "fixed": _bytes,
        "string": lambda given: _of(given, str),
        "enum": lambda given: _of(given, str),
    }[record.kind]


def _union_value(record: RecordType, path: str) -> Value:
    """Returns what puts a value into the first branch of a union that takes it: JSON does not name branches."""
    branches = {name: _inner_value(member, path) for name, member in record.branches.items()}

    def value(given: Any) -> Any:
        for name, branch in branches.items():
            try:
                return {name: branch(given)}
            except (_NotOfType, ValueError):
                continue
        raise _NotOfType

    return value


def _of(given: Any, kind: type) -> Any:
    if type(given) is not kind:
        raise _NotOfType
    return given


def _dict(given: Any) -> dict[str, Any]:
    found: dict[str, Any] = _of(given, dict)
    return found


def _none(given: Any) -> Any:
    raise _NotOfType


def _whole(kind: str) -> Value:
    bound = _INTS[kind]

    def value(given: Any) -> int:
        number = given
        if (
            isinstance(given, decimal.Decimal)
            and given.adjusted() < _MOST_DIGITS
            and given == given.to_integral_value()
        ):
            number = int(given)  # of 1e999999999 it would take hours
        if not -bound <= _of(number, int) < bound:
            raise _NotOfType
        return int(number)

    return value


def _real(given: Any) -> float:
    if isinstance(given, str) and given in _FLOAT_WORDS:
        return float(given)
    if isinstance(given, bool) or not isinstance(given, int | float | decimal.Decimal):
        raise _NotOfType
    return float(given)


def _bytes(given: Any) -> bytes:
    try:
        return base64.b64decode(_of(given, str), validate=True)
    except binascii.Error:
        raise _NotOfType from None


def _decimal(arrow: Any) -> Value:
    """Returns what makes a decimal of a number, or of its text."""
    quantum = decimal.Decimal((0, (1,), -arrow.scale))
    exactly = decimal.Context(prec=arrow.precision, traps=[decimal.Inexact, decimal.InvalidOperation])

    def value(given: Any) -> decimal.Decimal:
        if isinstance(given, bool) or not isinstance(given, int | str | decimal.Decimal):
            raise _NotOfType
        try:
            exact = decimal.Decimal(given).quantize(quantum, context=exactly)
        except ArithmeticError:
            raise _NotOfType from None
        if not exact.is_finite():
            raise _NotOfType
        return exact

    return value


def _moment(record: RecordType) -> Value:
    """Returns what makes the number of a date, time or timestamp: a number is that, a text is ISO 8601, a list is what
    Java's time types are written as (year, month, day, hour, minute, second, nanosecond)."""
    whole, logical = _whole(record.kind), record.logical
    per_second = _PER_SECOND.get(logical.rpartition("-")[2], 0)

    def value(given: Any) -> int:
        if isinstance(given, str):
            return _from_text(given, logical, per_second)
        if isinstance(given, list):
            return _from_list([_of(each, int) for each in given], logical, per_second)
        return int(whole(given))

    return value


def _from_text(text: str, logical: str, per_second: int) -> int:
    try:
        if logical == "date":
            return (datetime.date.fromisoformat(text) - _EPOCH.date()).days
        if logical.startswith("time-"):
            at = datetime.time.fromisoformat(text)
            return _scaled(at.hour * 3600 + at.minute * 60 + at.second, at.microsecond, per_second)
        when = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise _NotOfType from None
    is_local = logical.startswith("local-")
    if is_local != (when.tzinfo is None):
        raise _NotOfType
    since = (when.replace(tzinfo=datetime.UTC) if is_local else when) - _EPOCH
    return _scaled(since.days * 86_400 + since.seconds, since.microseconds, per_second)


def _from_list(parts: list[int], logical: str, per_second: int) -> int:
    try:
        if logical == "date":
            return (datetime.date(*parts) - _EPOCH.date()).days
        first = 3 if logical.startswith("local-timestamp") else 0
        seconds = 0 if not first else (datetime.date(*parts[:3]) - _EPOCH.date()).days * 86_400
        hour, minute, second, nanos = (parts[first:] + [0] * 4)[:4]
        at = datetime.time(hour, minute, second)
    except (TypeError, ValueError, OverflowError):
        raise _NotOfType from None
    if not (logical.startswith(("local-", "time-")) and 0 <= nanos < 1_000_000_000 and len(parts) <= first + 4):
        raise _NotOfType
    return _scaled(seconds + at.hour * 3600 + at.minute * 60 + at.second, nanos // 1000, per_second)


def _scaled(seconds: int, micros: int, per_second: int) -> int:
    return seconds * per_second + math.floor(micros * per_second / 1_000_000)


def _title(record: RecordType) -> str:
    return record.logical or ("union of its branches" if record.is_union else record.kind)


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."
