"""Written types: the types of a payload's own schema that stand behind each type of the schema that it is read with.

Pairs are those of Avro's schema resolution, which compares kinds alone: a number of timestamp-millis would be taken for
one of timestamp-micros. Dates, times and decimals are therefore converted by the type that they were written with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.types.arrow_types import branches_of, decimal_of, logical_name

if TYPE_CHECKING:
    from spark_pulsar.model.avro import AvroField, AvroType

_PROMOTIONS: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_UNITS: Final = ("-millis", "-micros", "-nanos")


def written_fields(field: AvroField, records: Sequence[AvroType]) -> list[AvroType]:
    """Returns the types of a field in the records it was written in; its own where one lacks it, which is that of its
    default."""
    types = []
    for record in records:
        if record.kind == "record":
            names = {member.name: member.type for member in record.fields}
            there = [names[name] for name in (field.name, *sorted(field.aliases)) if name in names]
            types.append(there[0] if there else field.type)
    return types


def written_items(kind: str, written: Sequence[AvroType]) -> list[AvroType]:
    """Returns the types of the items of arrays, or of the values of maps."""
    return [avro_type.items for avro_type in written if avro_type.kind == kind and avro_type.items is not None]


def written_branches(read: AvroType, written: Sequence[AvroType]) -> list[list[AvroType]]:
    """Returns for each branch of a union but null, or for the one type that is no union, the types that become it: the
    first branch of its kind has a type, else the first that takes it."""
    branches, others = (read.branches, branches_of(read)) if read.kind == "union" else ([read], [read])
    plain = [
        branch for avro_type in written for branch in (avro_type.branches if avro_type.kind == "union" else [avro_type])
    ]
    if len(others) == 1:  # names do not matter: there is nothing to distinguish
        return [[branch for branch in plain if branch.kind != "null"]]
    by_branch: dict[int, list[AvroType]] = {id(branch): [] for branch in branches}
    for written_branch in plain:
        takers = [branch for branch in branches if _becomes(written_branch, branch)]
        taker = next((branch for branch in takers if branch.kind == written_branch.kind), takers[0] if takers else None)
        if taker is not None:
            by_branch[id(taker)].append(written_branch)
    return [by_branch[id(branch)] for branch in others]


def _becomes(written: AvroType, read: AvroType) -> bool:
    if written.kind != read.kind:
        return read.kind in _PROMOTIONS.get(written.kind, ())
    aliases = {alias.rpartition(".")[2] for alias in read.aliases}
    return written.short_name == read.short_name or written.short_name in aliases


def read_as(read: AvroType, written: Sequence[AvroType], path: str, *, is_text: bool) -> AvroType:
    """Returns the type by which numbers and bytes are turned into the date, time or decimal `read`: the written one.

    Types without logical type have that of `read`. With `is_text` numbers are of any size, and decimals have their own
    scale. Raises SchemaError, with the path of the field, where the written type cannot be converted.
    """
    own = logical_name(read)
    if not own or (is_text and own == "decimal" and all(logical_name(avro_type) in ("", own) for avro_type in written)):
        return read
    by_unit: dict[tuple[str, int], AvroType] = {}
    for avro_type in written:
        kind = logical_name(avro_type)
        fits = is_text or read.kind == avro_type.kind or read.kind in _PROMOTIONS.get(avro_type.kind, ())
        if not kind or (_family(kind) != _family(own) and not fits):
            if fits:
                by_unit[_unit(read)] = read
            continue  # Avro refuses the values
        if _family(kind) != _family(own) or not fits:
            raise SchemaError(
                f"field {path.lstrip('.')} was written as {_described(avro_type)}, it cannot be read as {own}"
            )
        by_unit[_unit(avro_type)] = avro_type
    if len(by_unit) > 1:
        kinds = " and ".join(sorted(_described(avro_type) for avro_type in by_unit.values()))
        raise SchemaError(f"field {path.lstrip('.')} was written as {kinds}: its values do not show which of them")
    return next(iter(by_unit.values()), read)


def _unit(avro: AvroType) -> tuple[str, int]:
    decimal = decimal_of(avro)
    return logical_name(avro), decimal[1] if decimal else 0


def _family(logical: str) -> str:
    for unit in _UNITS:
        logical = logical.removesuffix(unit)
    return logical


def _described(avro: AvroType) -> str:
    return f"{logical_name(avro)} ({avro.kind})"
