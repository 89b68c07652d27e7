"""Types of a writer that become types of a reader, as the library matches them (SCHEMA-5)."""

from __future__ import annotations

from typing import Any, Final

from spark_pulsar.model.avro import AvroType

NAMED: Final = frozenset({"record", "enum", "fixed"})
_PROMOTIONS: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_NUMBERS: Final = ("int", "long", "float", "double")


def matches(written: AvroType, read: AvroType) -> bool:
    """Returns whether values of a writer's type can become ones of the reader's; those of unions are distinguished
    later."""
    if "union" in (written.kind, read.kind):
        return True
    if written.kind == read.kind and written.items is not None and read.items is not None:
        return matches(written.items, read.items)
    if written.kind in NAMED and read.kind in NAMED:
        if written.kind == read.kind == "fixed" and written.size_bytes != read.size_bytes:
            return False
        aliases = {alias.rpartition(".")[2] for alias in read.aliases}
        return written.short_name == read.short_name or written.short_name in aliases
    return written.kind == read.kind or read.kind in _PROMOTIONS.get(written.kind, ())


def first_match(written: AvroType, union: AvroType) -> AvroType | None:
    """Returns the branch of a reader's union that a writer's type, which is no union, becomes: the first of its kind,
    else the first that is wider; None without."""
    matched = [branch for branch in union.branches if matches(written, branch)]
    return next((branch for branch in matched if branch.kind == written.kind), matched[0] if matched else None)


def put_narrow_first(parsed: Any) -> None:
    """Orders the numbers in the unions of a reader's definition, in the library's form, which takes the first branch
    that is of a kind or wider."""
    _put_narrow_first(parsed, set())


def _put_narrow_first(parsed: Any, seen: set[int]) -> None:
    if id(parsed) in seen:
        return
    seen.add(id(parsed))
    if isinstance(parsed, list):
        places = [i for i, branch in enumerate(parsed) if _plain_kind(branch) in _NUMBERS]
        numbers = sorted((parsed[i] for i in places), key=lambda branch: _NUMBERS.index(_plain_kind(branch)))
        for i, number in zip(places, numbers, strict=True):
            parsed[i] = number
        for branch in parsed:
            _put_narrow_first(branch, seen)
    elif isinstance(parsed, dict):
        for key in ("type", "items", "values"):
            _put_narrow_first(parsed.get(key), seen)
        for field in parsed.get("fields", ()):
            _put_narrow_first(field, seen)


def _plain_kind(parsed: Any) -> str:
    return str(parsed.get("type")) if isinstance(parsed, dict) else str(parsed)
