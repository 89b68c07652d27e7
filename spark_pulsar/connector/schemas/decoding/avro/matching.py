"""Types of a writer that become types of a reader, as the library matches them (SCHEMA-5)."""

from __future__ import annotations

from collections.abc import Iterator
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
_TEXTS: Final = ("string", "bytes")


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


def put_own_kind_first(parsed: Any, written: AvroType) -> None:
    """Orders the branches in the unions of a reader's definition, in the library's form, which takes the first one that
    a writer's type becomes: narrow numbers before wide ones, and of string and bytes that which the writer has. Where
    it has both, no order is right: see `mixes_texts_and_bytes`."""
    kinds = kinds_in(written)
    _put_first(parsed, ("bytes", "string") if "bytes" in kinds else ("string", "bytes"), set())


def mixes_texts_and_bytes(written: AvroType, read: AvroType) -> bool:
    """Returns whether a writer has strings and bytes, and the reader a union of both, which the library confuses."""
    is_union_of_both = any({*_TEXTS} <= {branch.kind for branch in part.branches} for part in _parts(read, set()))
    return is_union_of_both and {*_TEXTS} <= kinds_in(written)


def kinds_in(avro: AvroType) -> set[str]:
    """Returns the kinds of a type and of all types in it."""
    return {part.kind for part in _parts(avro, set())}


def _parts(avro: AvroType, seen: set[int]) -> Iterator[AvroType]:
    if id(avro) not in seen:
        seen.add(id(avro))
        yield avro
        inner = [*avro.branches, *(field.type for field in avro.fields), *([avro.items] if avro.items else [])]
        for part in inner:
            yield from _parts(part, seen)


def _put_first(parsed: Any, texts: tuple[str, str], seen: set[int]) -> None:
    if id(parsed) in seen:
        return
    seen.add(id(parsed))
    if isinstance(parsed, list):
        for order in (_NUMBERS, texts):
            _sort(parsed, order)
        for branch in parsed:
            _put_first(branch, texts, seen)
    elif isinstance(parsed, dict):
        for key in ("type", "items", "values"):
            _put_first(parsed.get(key), texts, seen)
        for field in parsed.get("fields", ()):
            _put_first(field, texts, seen)


def _sort(branches: list[Any], order: tuple[str, ...]) -> None:
    """Sorts the branches of these kinds among their places."""
    places = [i for i, branch in enumerate(branches) if _plain_kind(branch) in order]
    ordered = sorted((branches[i] for i in places), key=lambda branch: order.index(_plain_kind(branch)))
    for i, branch in zip(places, ordered, strict=True):
        branches[i] = branch


def _plain_kind(parsed: Any) -> str:
    return str(parsed.get("type")) if isinstance(parsed, dict) else str(parsed)
