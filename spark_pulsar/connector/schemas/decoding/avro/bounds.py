"""Bounds of Avro payloads: no bytes may still be billions of values, and the library makes an object of each
(SCHEMA-19).

Arrays declare items without bytes in a few bytes: payloads of the few definitions that have such arrays are walked
before. Records double their fields with each level that names the one below twice: too many are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.payloads.decoder import UndecodablePayload
from spark_pulsar.connector.schemas.types.arrow_types import MAX_TYPES
from spark_pulsar.model.avro import AvroType

MOST_LEVELS: Final = 200
"""Depth of a payload, at most: the compiled library follows it as deep as it goes, and crashes the process."""

MAX_EMPTY_ITEMS: Final = 1_000
"""Items without bytes in all arrays of one payload."""

_FIXED_BYTES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_VARINT_BYTES: Final = 10

Walk = Callable[["_Payload", int], int]
"""Returns the place behind the value that begins at one."""


def check_values(avro: AvroType) -> None:
    """Raises SchemaError for a definition whose every payload has more than MAX_TYPES values."""
    if _least_values(avro, {}) > MAX_TYPES:
        raise SchemaError(f"the schema that it was written with has more than {MAX_TYPES} values in each payload")


def _least_values(avro: AvroType, known: dict[AvroType, float]) -> float:
    """Returns the number of values that every payload has: fields of records, and those of records inside."""
    if avro.kind != "record":
        return 1
    if avro not in known:
        known[avro] = math.inf  # while inside of it
        known[avro] = 1 + sum(_least_values(field.type, known) for field in avro.fields)
    return known[avro]


def has_empty_items(avro: AvroType) -> bool:
    """Returns whether a definition has arrays whose items may take no bytes."""
    known: dict[AvroType, bool] = {}
    return any(
        avro_type.kind == "array" and avro_type.items is not None and is_empty(avro_type.items, known)
        for avro_type in _types(avro)
    )


def has_items(avro: AvroType) -> bool:
    """Returns whether a definition has arrays or maps: where the library skips them, it does not notice the end of a
    payload."""
    return any(avro_type.items is not None for avro_type in _types(avro))


def _types(avro: AvroType) -> Iterator[AvroType]:
    """Yields each type of a definition once."""
    seen: set[AvroType] = set()
    waiting = [avro]
    while waiting:
        avro_type = waiting.pop()
        if avro_type not in seen:
            seen.add(avro_type)
            yield avro_type
            waiting += [
                *avro_type.branches,
                *(field.type for field in avro_type.fields),
                *([avro_type.items] if avro_type.items else []),
            ]


def is_empty(avro: AvroType, known: dict[AvroType, bool]) -> bool:
    """Returns whether values of a type take no bytes; those of a record that begins with itself never end."""
    if avro.kind != "record":
        return avro.kind == "null" or (avro.kind == "fixed" and avro.size_bytes == 0)
    if avro not in known:
        known[avro] = False  # while inside of it
        known[avro] = all(is_empty(field.type, known) for field in avro.fields)
    return known[avro]


class EmptyItemsBound:
    """Walk over payloads of one definition that counts items without bytes."""

    def __init__(self, avro: AvroType) -> None:
        self._walks: dict[AvroType, Walk] = {}
        self._empty: dict[AvroType, bool] = {}
        self._walk = self._of(avro)

    def check(self, payload: bytes) -> None:
        """Raises UndecodablePayload for a payload that declares more than MAX_EMPTY_ITEMS items without bytes, and for
        one that ends early."""
        try:
            self._walk(_Payload(payload), 0)
        except _Unwalkable as error:
            raise UndecodablePayload(f"it is no AVRO of its schema: {error}") from None
        except RecursionError:
            raise UndecodablePayload("it is no AVRO of its schema: it is nested too deep") from None

    def _of(self, avro: AvroType) -> Walk:
        """Returns the walk of a type; types may contain themselves."""
        if avro.kind not in ("record", "array", "map", "union"):
            return _leaf(avro)
        if avro not in self._walks:
            self._walks[avro] = lambda payload, at: self._walks[avro](payload, at)
            self._walks[avro] = self._made(avro)
        return self._walks[avro]

    def _made(self, avro: AvroType) -> Walk:
        if avro.kind == "record":
            fields = [self._of(field.type) for field in avro.fields]

            def record(payload: _Payload, at: int) -> int:
                for field in fields:
                    at = field(payload, at)
                return at

            return record
        if avro.kind == "union":
            branches = [self._of(branch) for branch in avro.branches]

            def union(payload: _Payload, at: int) -> int:
                number, at = payload.number(at)
                if not 0 <= number < len(branches):
                    raise _Unwalkable("it names a branch that the union has not")
                return branches[number](payload, at)

            return union
        assert avro.items is not None
        return _blocks(self._of(avro.items), avro.kind == "map", is_empty(avro.items, self._empty))


def _blocks(item: Walk, has_keys: bool, is_empty: bool) -> Walk:
    """Returns the walk of an array or map."""

    def blocks(payload: _Payload, at: int) -> int:
        while True:
            count, at = payload.number(at)
            if count < 0:
                count = -count
                _, at = payload.number(at)  # bytes of the block
            if count == 0:
                return at
            if is_empty and not has_keys:
                payload.count_empty(count)
                continue
            for _ in range(count):
                if has_keys:
                    at = payload.behind_bytes(at)
                at = item(payload, at)

    return blocks


def _leaf(avro: AvroType) -> Walk:
    """Returns the walk of a type without parts."""
    width = avro.size_bytes if avro.kind == "fixed" else _FIXED_BYTES.get(avro.kind)
    if width is not None:
        return lambda payload, at: payload.behind(at, width)
    if avro.kind in ("bytes", "string"):
        return lambda payload, at: payload.behind_bytes(at)
    return lambda payload, at: payload.number(at)[1]


class _Unwalkable(ValueError):
    """Error of a payload that is none of its definition, or declares too much."""


class _Payload:
    """A payload and the items without bytes that it has declared so far."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._empty_items = 0

    def behind(self, at: int, size: int) -> int:
        """Returns the place behind bytes."""
        if not 0 <= size <= len(self._data) - at:
            raise _Unwalkable("it ends early")
        return at + size

    def behind_bytes(self, at: int) -> int:
        """Returns the place behind bytes and their length."""
        size, at = self.number(at)
        return self.behind(at, size)

    def number(self, at: int) -> tuple[int, int]:
        """Reads a number: it and the place behind it."""
        value = 0
        for i, octet in enumerate(self._data[at : at + _VARINT_BYTES]):
            value |= (octet & 0x7F) << (7 * i)
            if octet < 0x80:
                return (value >> 1) ^ -(value & 1), at + i + 1
        raise _Unwalkable("it ends early")

    def count_empty(self, count: int) -> None:
        """Counts items without bytes. Raises _Unwalkable for too many."""
        self._empty_items += count
        if self._empty_items > MAX_EMPTY_ITEMS:
            raise _Unwalkable(f"it declares {self._empty_items} items that take no bytes, more than {MAX_EMPTY_ITEMS}")


def is_deep(avro: AvroType) -> bool:
    """Returns whether payloads may be nested deeper than MOST_LEVELS: where a type contains itself, or many others."""
    return _height(avro, {}, 0) > MOST_LEVELS


def _height(avro: AvroType, known: dict[AvroType, float], depth: int) -> float:
    height = known.get(avro)
    if height is not None:
        return height
    if depth > MOST_LEVELS:
        return math.inf
    known[avro] = math.inf  # while inside of it
    inner = [*avro.branches, *(field.type for field in avro.fields), *([avro.items] if avro.items else [])]
    known[avro] = 1 + max((_height(part, known, depth + 1) for part in inner), default=0)
    return known[avro]
