"""Compatibility of schemas: by structure for AVRO, JSON and PROTOBUF_NATIVE, by type for all others (SC-3, SC-4,
SC-5)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from spark_pulsar.model import avro
from spark_pulsar.model.avro import AvroType
from spark_pulsar.model.errors import IncompatibleSchema
from spark_pulsar.model.schemas import AVRO_BASED, Compatibility, Schema, SchemaType

from .avro_compatibility import TooMuchToCompare, can_read
from .definitions import key_and_value, old_json_schema, root_message

MAX_SHOWN: Final = 16_384
"""Characters of each schema in a refusal."""


def are_equal(one: Schema, other: Schema) -> bool:
    """Returns whether two schemas are the same version: the same bytes, or, where Avro defines them, the same meaning
    (SC-1). Properties do not matter."""
    if one.type is not other.type:
        return False
    if one.data == other.data:
        return True
    if one.type not in AVRO_BASED:
        return False
    try:
        return avro.meaning(one.data) == avro.meaning(other.data)
    except avro.InvalidAvro:
        return False


def check_follows(existing: Sequence[Schema], new: Schema, strategy: Compatibility) -> None:
    """Raises IncompatibleSchema unless `new` may follow `existing` (oldest first, as many as the strategy is about)."""
    for old in existing:
        if old.type is not new.type:
            raise IncompatibleSchema(
                f"Incompatible schema: exists schema type {old.type.name}, new schema type {new.type.name}"
            )
    try:
        for old in reversed(existing):
            _check_pair(old, new, strategy)
    except RecursionError as error:  # types that refer to each other make long ways of short texts
        raise IncompatibleSchema("Error during schema compatibility check: nested too deep") from error
    except TooMuchToCompare as error:
        raise IncompatibleSchema(f"Error during schema compatibility check: {error}") from error


def _check_pair(old: Schema, new: Schema, strategy: Compatibility) -> None:
    _CHECKS.get(new.type, _check_other)(old, new, strategy)


def _check_other(_old: Schema, _new: Schema, strategy: Compatibility) -> None:
    if strategy is Compatibility.ALWAYS_INCOMPATIBLE:
        raise IncompatibleSchema("Schema compatibility strategy is ALWAYS_INCOMPATIBLE")


def _check_avro(old: Schema, new: Schema, strategy: Compatibility) -> None:
    try:
        before, after = avro.parse(old.data), avro.parse(new.data)
    except avro.InvalidAvro as error:
        raise IncompatibleSchema(f"Error during schema compatibility check: {error}") from error
    if strategy is Compatibility.ALWAYS_INCOMPATIBLE or (strategy.new_reads_old and not can_read(after, before)):
        raise _unreadable(strategy, old, new)
    if strategy.old_reads_new and not can_read(before, after):
        raise _unreadable(strategy, new, old)


def _unreadable(strategy: Compatibility, written: Schema, read: Schema) -> IncompatibleSchema:
    return IncompatibleSchema(
        f"Error during schema compatibility check with strategy {strategy.name}: Unable to read schema: \n"
        f"{_pretty(written)}\nusing schema:\n{_pretty(read)}"
    )


def _pretty(schema: Schema) -> str:
    """Renders a schema for an error, cut at MAX_SHOWN: indentation makes deep ones a thousand times as long."""
    shown = ""
    for piece in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(json.loads(schema.data)):
        shown += piece
        if len(shown) > MAX_SHOWN:
            return f"{shown[:MAX_SHOWN]}..."
    return shown


def _check_json(old: Schema, new: Schema, strategy: Compatibility) -> None:
    """Checks as Avro, unless one of the two is in the form of clients before protocol 13, which any Avro definition may
    replace and follow."""
    if _avro_or_none(old) is not None and _avro_or_none(new) is not None:
        _check_avro(old, new, strategy)
        return
    _check_other(old, new, strategy)
    before, after = old_json_schema(old.data), old_json_schema(new.data)
    are_old = _avro_or_none(old) is None and _avro_or_none(new) is None
    if are_old and before is not None and after is not None and before.get("id") != after.get("id"):
        raise IncompatibleSchema(f"Incompatible Schema from {before.get('id')} to {after.get('id')}")


def _avro_or_none(schema: Schema) -> AvroType | None:
    try:
        return avro.parse(schema.data)
    except avro.InvalidAvro:
        return None


def _check_protobuf_native(old: Schema, new: Schema, strategy: Compatibility) -> None:
    _check_other(old, new, strategy)
    if strategy is not Compatibility.ALWAYS_COMPATIBLE and root_message(old) != root_message(new):
        raise IncompatibleSchema("Protobuf root message isn't allow change!")


def _check_key_value(old: Schema, new: Schema, strategy: Compatibility) -> None:
    old_parts, new_parts = key_and_value(old), key_and_value(new)
    for which, before, after in zip(("key", "value"), old_parts, new_parts, strict=True):
        if before.type is not after.type:
            raise IncompatibleSchema(
                f"Incompatible {which} schema: exists schema type {before.type.name}, new schema type {after.type.name}"
            )
    for before, after in zip(old_parts, new_parts, strict=True):
        _check_pair(before, after, strategy)


_CHECKS: Final[Mapping[SchemaType, Callable[[Schema, Schema, Compatibility], None]]] = {
    SchemaType.AVRO: _check_avro,
    SchemaType.JSON: _check_json,
    SchemaType.PROTOBUF_NATIVE: _check_protobuf_native,
    SchemaType.KEY_VALUE: _check_key_value,
}
"""Checks of types beyond being the same."""
