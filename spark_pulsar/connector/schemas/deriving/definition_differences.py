"""Definitions held against each other: what differs between a topic's and that of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spark_pulsar.model.avro import NO_DEFAULT, AvroField, AvroType
from spark_pulsar.model.schemas import Compatibility

_READ_AS: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""Types as which Avro reads another."""
_MAX_DEPTH: Final = 50
_MOST_SHOWN: Final = 12
_MOST_SYMBOLS: Final = 200


def differences(topic: AvroType, rows: AvroType, strategy: Compatibility | None) -> list[str]:
    """Describes field by field how the definition of rows differs from the topic's: what the strategy forbids of that,
    or everything without one."""
    forbids_all = strategy is None or strategy is Compatibility.ALWAYS_INCOMPATIBLE
    shown = [
        text
        for text, new_reads_old, old_reads_new in _differences(topic, rows, "", 0)
        if forbids_all
        or (strategy is not None and strategy.new_reads_old and not new_reads_old)
        or (strategy is not None and strategy.old_reads_new and not old_reads_new)
    ]
    if len(shown) > _MOST_SHOWN:
        return [*shown[:_MOST_SHOWN], f"and {len(shown) - _MOST_SHOWN} more"]
    return shown


_Difference = tuple[str, bool, bool]
"""A text, and whether the rows' definition reads what the topic's wrote, and the other way round."""


def _differences(topic: AvroType, rows: AvroType, path: str, depth: int) -> Iterator[_Difference]:
    (before, was_nullable), (after, is_nullable) = _unwrapped(topic), _unwrapped(rows)
    name = path or "the record"
    if was_nullable and not is_nullable:
        yield f"{name} may be null on the topic, but is not null in the DataFrame", False, True
    if is_nullable and not was_nullable:
        yield f"{name} is not null on the topic, but may be null in the DataFrame", True, False
    if before.kind != after.kind:
        one, other = _shown_apart(before, after)
        text = f"{name} is {one} on the topic, but {other} in the DataFrame"
        yield text, after.kind in _READ_AS.get(before.kind, ()), before.kind in _READ_AS.get(after.kind, ())
    elif depth > _MAX_DEPTH:
        return
    elif before.kind == "record":
        yield from _fields(before, after, path, depth)
    elif before.kind in ("array", "map") and before.items is not None and after.items is not None:
        yield from _differences(before.items, after.items, f"{path}[]", depth + 1)
    elif before.symbols != after.symbols or before.size_bytes != after.size_bytes:
        one, other = _shown_apart(before, after)
        old, new = set(before.symbols), set(after.symbols)
        alike = before.size_bytes == after.size_bytes
        yield f"{name} is {one} on the topic, but {other} in the DataFrame", alike and old <= new, alike and new <= old
    elif _shown(before) != _shown(after):
        yield f"{name} is {_shown(before)} on the topic, but {_shown(after)} in the DataFrame", True, True


def _fields(before: AvroType, after: AvroType, path: str, depth: int) -> Iterator[_Difference]:
    prefix = f"{path}." if path else ""
    old, new = ({field.name: field for field in one.fields} for one in (before, after))
    for name, field in old.items():
        if name not in new:
            text = f"{prefix}{name} ({_field(field)}) is on the topic, but not in the DataFrame"
            yield text, True, field.default is not NO_DEFAULT
    for name, field in new.items():
        if name not in old:
            has_default = field.default is not NO_DEFAULT
            hint = "" if has_default else ": a new field must be nullable"
            yield f"{prefix}{name} ({_field(field)}) is in the DataFrame, but not on the topic{hint}", has_default, True
        else:
            yield from _differences(old[name].type, field.type, f"{prefix}{name}", depth + 1)


def _field(one: AvroField) -> str:
    kind, nullable = _unwrapped(one.type)
    default = "no default" if one.default is NO_DEFAULT else f"default {one.default!r}".replace("None", "null")
    return f"{_shown(kind)}{' or null' if nullable else ''}, {default}"


def _unwrapped(one: AvroType) -> tuple[AvroType, bool]:
    if one.kind != "union":
        return one, False
    others = [branch for branch in one.branches if branch.kind != "null"]
    has_null = len(others) < len(one.branches)
    return (others[0] if len(others) == 1 else one), has_null


def _shown_apart(one: AvroType, other: AvroType) -> tuple[str, str]:
    """Returns the names of two types that differ, with what they differ in where the names are the same."""
    names = _shown(one), _shown(other)
    return names if names[0] != names[1] else (_shown_wholly(one), _shown_wholly(other))


def _shown_wholly(one: AvroType) -> str:
    if one.kind == "enum":
        symbols = ", ".join(one.symbols)
        return f"enum of {symbols if len(symbols) <= _MOST_SYMBOLS else f'{symbols[:_MOST_SYMBOLS]}...'}"
    size = f"({one.size_bytes})" if one.kind == "fixed" else ""
    shown = _shown(one)
    return f"{one.kind}{size}" if shown == one.kind else f"{shown} in {one.kind}{size}"


def _shown(one: AvroType) -> str:
    logical = one.attributes.get("logicalType")
    if logical == "decimal":
        return f"decimal({one.attributes.get('precision')},{one.attributes.get('scale', 0)})"
    if one.kind == "union":
        return f"a union of {', '.join(branch.kind for branch in one.branches)}"
    return f"{one.kind} ({logical})" if logical else one.kind
