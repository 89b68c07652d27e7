"""Values of JSON payloads, row by row, as the official clients write them (SCHEMA-12, SCHEMA-13).

Clients differ: Java writes an `Instant` as seconds with nine digits of a fraction, a `LocalDate` as a list, a
`BigDecimal` as a number though its schema says string, a map with numbers as keys as an object though its schema says
array; Python writes an enum as its number, and bytes as text. A number is never read as another one.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
import json
import math
import re
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from spark_pulsar.connector.options.decode_mode import TEXT
from spark_pulsar.connector.schemas.payloads.record_types import RecordType

Value = Callable[[Any], Any]

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_INTS: Final = {"int": 2**31, "long": 2**63}
_MOST_DIGITS: Final = 19
"""Digits of the largest long."""
_MOST_REAL: Final = {"float": 3.4028235677973366e38, "double": math.inf}
"""Numbers from which on the nearest one of a type is infinite."""
_FLOAT_WORDS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_PER_SECOND: Final = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
_NANOS_EXPONENT: Final = -9
"""Exponent of the seconds that Jackson writes: always nine digits behind the point."""
_WHOLE_TEXT: Final = re.compile(r"-?\d{1,19}")
_REAL_TEXT: Final = re.compile(r"-?\d{1,400}(?:\.\d{1,400})?(?:[eE][+-]?\d{1,4})?")
_SHAPES: Final = {"record": dict, "map": dict, "array": list}
CHARACTER: Final = "java.lang.Character"


class NotOfType(Exception):
    """A value is none of its type."""


class Clients:
    """Habits of the clients that wrote the payloads, where clients contradict each other."""

    def __init__(self, json_bytes: str, *, is_strict: bool = False) -> None:
        self.json_bytes = json_bytes
        self.is_strict = is_strict
        """True for values that determine the branch of a union: of JSON's own types alone."""

    def strict(self) -> Clients:
        """Returns the same with values of JSON's own types alone."""
        return Clients(self.json_bytes, is_strict=True)


def value_of(record: RecordType, path: str, clients: Clients) -> Value:
    """Returns what turns a value of JSON into one of the type's physical form; it raises ValueError with the field."""
    inner = _inner_value(record, path, clients)

    def value(given: Any) -> Any:
        if given is None:
            return None
        try:
            return inner(given)
        except NotOfType:
            raise ValueError(f"field {path.lstrip('.') or 'record'} is {shown(given)}, no {_title(record)}") from None

    return value


def _inner_value(record: RecordType, path: str, clients: Clients) -> Value:
    if record.is_opaque:
        return _opaque_value(record, clients)
    if record.is_union:
        return _union_value(record, path, clients)
    if record.kind == "record":
        members = {name: value_of(member, f"{path}.{name}", clients) for name, member in record.members.items()}

        def of_record(given: Any) -> dict[str, Any]:
            fields = _dict(given)
            return {name: value(fields.get(name)) for name, value in members.items()}

        return of_record
    if record.items is not None:
        item = value_of(record.items, f"{path}[]", clients)
        if record.kind == "array":
            return _array_value(record, item, clients)
        return lambda given: {key: item(element) for key, element in _dict(given).items()}
    if record.logical == "decimal":
        return _decimal(record.arrow)
    if record.logical:
        return _moment(record)
    if record.kind == "int" and record.avro.attributes.get("java-class") == CHARACTER:
        return _character(clients)
    return {
        "null": _none,
        "boolean": _boolean(clients),
        "int": _integer("int", clients),
        "long": _integer("long", clients),
        "float": _real("float", clients),
        "double": _real("double", clients),
        "bytes": _bytes(clients, None),
        "fixed": _bytes(clients, record.avro.size_bytes),
        "string": _text(clients),
        "enum": _text(clients),
    }[record.kind]


def _opaque_value(record: RecordType, clients: Clients) -> Value:
    """Returns what makes the text of a value, or its bytes: of an object where the type is a record, unless that has no
    fields, as the classes of Java that its client writes in forms of their own."""
    shape = _SHAPES.get(record.avro.kind)
    if record.avro.kind == "record" and not record.avro.fields and not clients.is_strict:
        shape = None
    is_text = pa.types.is_string(record.arrow)

    def value(given: Any) -> Any:
        text = json_text(given if shape is None else _checked(given, shape))
        return text if is_text else text.encode()

    return value


def _array_value(record: RecordType, item: Value, clients: Clients) -> Value:
    """Returns what makes a list: of a list, of the text that Java's `char[]` is, and of the object that Java's map with
    other keys than text is, whose definition is an array of `key` and `value`."""
    items = record.items
    assert items is not None
    is_text = items.avro.attributes.get("java-class") == CHARACTER
    names = [field.name for field in items.avro.fields]
    is_map = items.kind == "record" and names == ["key", "value"] and not clients.is_strict

    def value(given: Any) -> list[Any]:
        if is_text and type(given) is str:
            return [item(unit) for unit in _units(given)]
        if is_map and type(given) is dict:
            return [item({"key": key, "value": element}) for key, element in given.items()]
        return [item(element) for element in _checked(given, list)]

    return value


def _union_value(record: RecordType, path: str, clients: Clients) -> Value:
    """Returns what puts a value into the first branch of a union that takes it: JSON does not name branches. Those that
    have its own type of JSON come first."""
    rounds = [clients.strict()] if clients.is_strict else [clients.strict(), clients]
    branches = [
        (name, _inner_value(member, path, variant)) for variant in rounds for name, member in record.branches.items()
    ]

    def value(given: Any) -> Any:
        for name, branch in branches:
            try:
                return {name: branch(given)}
            except (NotOfType, ValueError):
                continue
        raise NotOfType

    return value


def _checked(given: Any, kind: type) -> Any:
    if type(given) is not kind:
        raise NotOfType
    return given


def _dict(given: Any) -> dict[str, Any]:
    mapping: dict[str, Any] = _checked(given, dict)
    return mapping


def _none(given: Any) -> Any:
    raise NotOfType


def _boolean(clients: Clients) -> Value:
    words = {} if clients.is_strict else {"true": True, "false": False}

    def value(given: Any) -> bool:
        return words[given] if type(given) is str and given in words else bool(_checked(given, bool))

    return value


def _text(clients: Clients) -> Value:
    """Returns what makes a text: of a number its digits, as Java's `BigDecimal` and `BigInteger` are written, and the
    enums of Python."""

    def value(given: Any) -> str:
        if type(given) is str:
            return given
        if clients.is_strict:
            raise NotOfType
        if type(given) is bool:
            return "true" if given else "false"
        if isinstance(given, int | float | decimal.Decimal):
            return json_text(given)
        raise NotOfType

    return value


def _integer(kind: str, clients: Clients) -> Value:
    bound = _INTS[kind]

    def value(given: Any) -> int:
        number = given
        if (
            isinstance(given, decimal.Decimal)
            and given.adjusted() < _MOST_DIGITS
            and given == given.to_integral_value()
        ):
            number = int(given)  # of 1e999999999 it would take hours
        elif not clients.is_strict and type(given) is str and _WHOLE_TEXT.fullmatch(given):
            number = int(given)
        if not -bound <= _checked(number, int) < bound:
            raise NotOfType
        return int(number)

    return value


def _character(clients: Clients) -> Value:
    integer = _integer("int", clients)

    def value(given: Any) -> int:
        if type(given) is not str:
            return int(integer(given))
        units = _units(given)
        if len(units) != 1:
            raise NotOfType
        return units[0]

    return value


def _units(text: str) -> list[int]:
    """Returns the characters of a text as Java has them, units of UTF-16."""
    octets = text.encode("utf-16-be", "surrogatepass")
    return [octets[i] << 8 | octets[i + 1] for i in range(0, len(octets), 2)]


def _real(kind: str, clients: Clients) -> Value:
    most = _MOST_REAL[kind]

    def value(given: Any) -> float:
        if type(given) is str and given in _FLOAT_WORDS:
            return float(given)
        if not clients.is_strict and type(given) is str and _REAL_TEXT.fullmatch(given):
            given = decimal.Decimal(given)
        if isinstance(given, bool) or not isinstance(given, int | float | decimal.Decimal):
            raise NotOfType
        if isinstance(given, float):  # NaN and infinities that are no JSON, as Python writes them
            return given
        try:
            number = float(given)
        except OverflowError:
            raise NotOfType from None
        if abs(number) >= most:
            raise NotOfType
        return number

    return value


def _bytes(clients: Clients, size_bytes: int | None) -> Value:
    """Returns what makes bytes of their text: base64, as Java and Go write them, or as they are, as Python does."""

    def value(given: Any) -> bytes:
        text = _checked(given, str)
        if clients.json_bytes == TEXT:
            decoded = text.encode()
        else:
            try:
                decoded = base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                raise NotOfType from None
        if size_bytes is not None and len(decoded) != size_bytes:
            raise NotOfType
        return bytes(decoded)

    return value


def _decimal(arrow: Any) -> Value:
    """Returns what makes a decimal of a number, or of its text."""
    if not pa.types.is_decimal(arrow):  # more digits than Spark has
        return lambda given: (
            format(_number(given), "f") if arrow == pa.string() else format(_number(given), "f").encode()
        )
    quantum = decimal.Decimal((0, (1,), -arrow.scale))
    exactly = decimal.Context(prec=arrow.precision, traps=[decimal.Inexact, decimal.InvalidOperation])

    def value(given: Any) -> decimal.Decimal:
        try:
            exact = _number(given).quantize(quantum, context=exactly)
        except ArithmeticError:
            raise NotOfType from None
        if not exact.is_finite():
            raise NotOfType
        return exact

    return value


def _number(given: Any) -> decimal.Decimal:
    if isinstance(given, bool) or not isinstance(given, int | str | decimal.Decimal):
        raise NotOfType
    try:
        number = decimal.Decimal(given)
    except ArithmeticError:
        raise NotOfType from None
    if not number.is_finite() or abs(number.adjusted()) > 10_000:
        raise NotOfType
    return number


def _moment(record: RecordType) -> Value:
    """Returns what makes the number of a date, time or timestamp in the unit of the physical form.

    A number is of the unit that the definition says; one with nine digits behind the point is the seconds of Java's
    `Instant`. A text is ISO 8601, a list is what Java's local times are written as (year, month, day, hour, minute,
    second, nanosecond).
    """
    integer, logical = _integer(record.written_kind, Clients("")), record.logical
    per_second = _PER_SECOND.get(logical.rpartition("-")[2], 0)
    written = _PER_SECOND.get(record.written_unit, per_second)

    def value(given: Any) -> int:
        if isinstance(given, str):
            return _from_text(given, logical, per_second)
        if isinstance(given, list):
            return _from_list([_checked(number, int) for number in given], logical, per_second)
        if (
            isinstance(given, decimal.Decimal)
            and given.as_tuple().exponent == _NANOS_EXPONENT
            and logical.startswith("timestamp-")
        ):
            return math.floor(given * per_second)
        number = int(integer(given))
        return number if written == per_second else number * per_second // written

    return value


def _from_text(text: str, logical: str, per_second: int) -> int:
    try:
        if logical == "date":
            return (datetime.date.fromisoformat(text) - _EPOCH.date()).days
        if logical.startswith("time-"):
            at = datetime.time.fromisoformat(text)
            if at.tzinfo is not None:
                raise NotOfType
            return _scaled(at.hour * 3600 + at.minute * 60 + at.second, at.microsecond, per_second)
        when = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise NotOfType from None
    is_local = logical.startswith("local-")
    if is_local != (when.tzinfo is None):
        raise NotOfType
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
        raise NotOfType from None
    if not (logical.startswith(("local-", "time-")) and 0 <= nanos < 1_000_000_000 and len(parts) <= first + 4):
        raise NotOfType
    return _scaled(seconds + at.hour * 3600 + at.minute * 60 + at.second, nanos // 1000, per_second)


def _scaled(seconds: int, micros: int, per_second: int) -> int:
    return seconds * per_second + math.floor(micros * per_second / 1_000_000)


def json_text(given: Any) -> str:
    """Returns a value as JSON in one line, with the digits that its numbers have."""
    if isinstance(given, dict):
        return f"{{{','.join(f'{json.dumps(key)}:{json_text(item)}' for key, item in given.items())}}}"
    if isinstance(given, list):
        return f"[{','.join(json_text(item) for item in given)}]"
    return str(given) if isinstance(given, decimal.Decimal) else json.dumps(given, ensure_ascii=False)


def _title(record: RecordType) -> str:
    if record.kind in ("bytes", "fixed") and not record.logical:
        return f"{record.kind} by jsonBytes"
    kind = record.avro.kind if record.is_opaque else record.kind
    return record.logical or ("union of its branches" if kind == "union" else kind)


def shown(value: Any) -> str:
    """Returns a value for an error, in a bounded length."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."
