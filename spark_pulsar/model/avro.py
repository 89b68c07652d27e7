"""Avro schemas: parses their JSON to types with resolved names, and compares two.

No data is read or written. Parsing is lenient where that does no harm: defaults are not checked against their types.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_RECORDS: Final = frozenset({"record", "error"})
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_ORDERS: Final = frozenset({"ascending", "descending", "ignore"})
_OF_TYPES: Final = frozenset(
    {"type", "name", "namespace", "doc", "aliases", "fields", "items", "values", "symbols", "size"}
)
_OF_FIELDS: Final = frozenset({"name", "type", "doc", "default", "aliases", "order"})
_MAX_DEPTH: Final = 100
_MAX_REASON: Final = 1_000
_MAX_FIXED_BYTES: Final = 2**31 - 1
_REMEMBERED: Final = 4_096
"""Digests that are remembered; each takes some 300 bytes."""
NO_DEFAULT: Final = object()


class InvalidAvro(ValueError):
    """Error of a text that is no Avro schema; says why, in a bounded length."""

    def __init__(self, text: str) -> None:
        super().__init__(text if len(text) <= _MAX_REASON else f"{text[: _MAX_REASON - 3]}...")


@dataclass(slots=True, eq=False)
class AvroField:
    """A field of a record; `default` is `NO_DEFAULT` without one."""

    name: str
    type: AvroType
    default: Any
    aliases: frozenset[str]
    order: str
    attributes: dict[str, Any]


@dataclass(slots=True, eq=False)
class AvroType:
    """An Avro type. `name` is the full one, with namespace, of a record, enum or fixed; types may contain
    themselves."""

    kind: str
    name: str = ""
    aliases: frozenset[str] = frozenset()
    fields: list[AvroField] = field(default_factory=list)
    """Fields of a record."""
    symbols: tuple[str, ...] = ()
    """Symbols of an enum."""
    size_bytes: int = 0
    """Size of a fixed."""
    items: AvroType | None = None
    """Type of the items of an array, or of the values of a map."""
    branches: list[AvroType] = field(default_factory=list)
    """Branches of a union."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """Further attributes, such as `logicalType`."""

    @property
    def short_name(self) -> str:
        """Name without namespace."""
        return self.name.rpartition(".")[2]


def parse(data: bytes) -> AvroType:
    """Parses a definition. InvalidAvro when it is none."""
    try:
        return _Parser().type_of(_json(data), "", 0)
    except RecursionError as error:
        raise InvalidAvro("nested too deep") from error


def _json(data: bytes) -> Any:
    try:
        return json.loads(data.decode())
    except ValueError as error:
        raise InvalidAvro(f"it is no JSON: {error}") from error


def meaning(data: bytes) -> bytes:
    """Computes a digest that is equal for definitions that say the same: documentation and aliases aside, everything is
    equal and in the same order. InvalidAvro when it is no definition.

    Clients come back with the same text again and again, and each new version of a topic is held against all older
    ones: the last requested ones are remembered, those that are none as well.
    """
    key = sha256(data).digest()
    cached = _meanings.get(key)
    if cached is None:
        cached = _meanings[key] = _meaning_or_reason(data)
        if len(_meanings) > _REMEMBERED:
            _meanings.popitem(last=False)
    else:
        _meanings.move_to_end(key)
    if isinstance(cached, str):
        raise InvalidAvro(cached)
    return cached


_meanings: Final[OrderedDict[bytes, bytes | str]] = OrderedDict()
"""Answers of `_meaning_or_reason` by the SHA-256 of the definition, so that no text is kept; longest unused first."""


def _meaning_or_reason(data: bytes) -> bytes | str:
    """Computes the digest of a definition, or returns the reason why it is none."""
    try:
        text = json.dumps(_canonical(parse(data), set()), sort_keys=True)
    except InvalidAvro as error:
        return str(error)
    except RecursionError:
        return "nested too deep"
    return sha256(text.encode()).digest()


class _Parser:
    def __init__(self) -> None:
        self._known: dict[str, AvroType] = {}

    def type_of(self, value: Any, namespace: str, depth: int) -> AvroType:
        if depth > _MAX_DEPTH:
            raise InvalidAvro("nested too deep")
        if isinstance(value, str):
            return AvroType(value) if value in PRIMITIVES else self._reference(value, namespace)
        if isinstance(value, list):
            return self._union(value, namespace, depth)
        if not isinstance(value, dict):
            raise InvalidAvro(f"{_short(value)} is no type")
        kind = value.get("type")
        if isinstance(kind, dict | list):
            return self.type_of(kind, namespace, depth + 1)
        if not isinstance(kind, str):
            raise InvalidAvro(f"No type: {_short(value)}")
        attributes = {key: item for key, item in value.items() if key not in _OF_TYPES}
        if kind in PRIMITIVES:
            return AvroType(kind, attributes=attributes)
        if kind in _NAMED:
            return self._named(kind, value, namespace, attributes, depth)
        if kind in ("array", "map"):
            member = "items" if kind == "array" else "values"
            if member not in value:
                raise InvalidAvro(f"No {member} of the {kind}: {_short(value)}")
            return AvroType(kind, items=self.type_of(value[member], namespace, depth + 1), attributes=attributes)
        return self._reference(kind, namespace)

    def _reference(self, name: str, namespace: str) -> AvroType:
        avro_type = self._known.get(_full_name(name, namespace)) or self._known.get(name)
        if avro_type is None:
            raise InvalidAvro(f'"{name}" is not a defined name')
        return avro_type

    def _union(self, values: list[Any], namespace: str, depth: int) -> AvroType:
        branches = [self.type_of(branch, namespace, depth + 1) for branch in values]
        seen: set[str] = set()
        for branch in branches:
            if branch.kind == "union":
                raise InvalidAvro("Nested union")
            key = branch.name or branch.kind
            if key in seen:
                raise InvalidAvro(f"Duplicate in union: {key}")
            seen.add(key)
        return AvroType("union", branches=branches)

    def _named(
        self, kind: str, value: dict[str, Any], namespace: str, attributes: dict[str, Any], depth: int
    ) -> AvroType:
        name = value.get("name")
        if not isinstance(name, str):
            raise InvalidAvro(f"No name of the {kind}: {_short(value)}")
        own_namespace = value.get("namespace", namespace)
        if not isinstance(own_namespace, str):
            raise InvalidAvro(f"{_short(own_namespace)} is no namespace")
        full = _full_name(name, own_namespace)
        _check_name(full.rpartition(".")[2])
        if full in self._known or full in PRIMITIVES:
            raise InvalidAvro(f"Can't redefine: {full}")
        inner = full.rpartition(".")[0]
        aliases = frozenset(_full_name(alias, inner) for alias in _texts(value.get("aliases", []), "aliases"))
        avro_type = AvroType("record" if kind in _RECORDS else kind, full, aliases, attributes=attributes)
        self._known[full] = avro_type
        if kind == "fixed":
            avro_type.size_bytes = _size(value.get("size"))
        elif kind == "enum":
            avro_type.symbols = self._symbols(value)
        else:
            self._fill(avro_type, value.get("fields"), inner, depth)
        return avro_type

    @staticmethod
    def _symbols(value: dict[str, Any]) -> tuple[str, ...]:
        symbols = tuple(_texts(value.get("symbols"), "symbols"))
        for symbol in symbols:
            _check_name(symbol)
        if len(set(symbols)) != len(symbols):
            raise InvalidAvro("Duplicate enum symbol")
        if value.get("default") is not None and value["default"] not in symbols:
            raise InvalidAvro(f"The Enum Default: {_short(value['default'])} is not in the enum symbol set")
        return symbols

    def _fill(self, record: AvroType, values: Any, namespace: str, depth: int) -> None:
        if not isinstance(values, list):
            raise InvalidAvro(f"Record has no fields: {record.name}")
        seen: set[str] = set()
        for definition in values:
            if (
                not isinstance(definition, dict)
                or not isinstance(definition.get("name"), str)
                or "type" not in definition
            ):
                raise InvalidAvro(f"No field name or type: {_short(definition)}")
            name, order = definition["name"], definition.get("order", "ascending")
            _check_name(name)
            if name in seen:
                raise InvalidAvro(f"Duplicate field {name} in record {record.name}")
            seen.add(name)
            if not isinstance(order, str) or order.lower() not in _ORDERS:
                raise InvalidAvro(f"{_short(order)} is no order of a field")
            record.fields.append(
                AvroField(
                    name,
                    self.type_of(definition["type"], namespace, depth + 1),
                    definition.get("default", NO_DEFAULT),
                    frozenset(_texts(definition.get("aliases", []), "aliases")),
                    order.lower(),
                    {key: item for key, item in definition.items() if key not in _OF_FIELDS},
                )
            )


def _canonical(one: AvroType, seen: set[str]) -> Any:
    """Builds the JSON that is equal for schemas that say the same; a named type stands in it once."""
    if one.name:
        if one.name in seen:
            return one.name
        seen.add(one.name)
    fields = [
        (
            avro_field.name,
            _canonical(avro_field.type, seen),
            [] if avro_field.default is NO_DEFAULT else [avro_field.default],
            avro_field.order,
            avro_field.attributes,
        )
        for avro_field in one.fields
    ]
    branches = [_canonical(branch, seen) for branch in one.branches]
    items = None if one.items is None else _canonical(one.items, seen)
    return (one.kind, one.name, one.size_bytes, one.symbols, one.attributes, fields, branches, items)


def _full_name(name: str, namespace: str) -> str:
    return name.removeprefix(".") if "." in name or not namespace else f"{namespace}.{name}"


def _check_name(name: str) -> None:
    if not name:
        raise InvalidAvro("Empty name")
    if not (name[0].isalpha() or name[0] == "_"):
        raise InvalidAvro(f"Illegal initial character: {name}")
    if not all(letter.isalnum() or letter == "_" for letter in name):
        raise InvalidAvro(f"Illegal character in: {name}")


def _size(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_FIXED_BYTES:
        raise InvalidAvro(f"Invalid or no size: {_short(value)}")
    return value


def _texts(value: Any, what: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidAvro(f"{what}: want a list of texts, got {_short(value)}")
    return value


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
