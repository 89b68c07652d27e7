"""Defaults of Avro fields as values: a definition writes them in JSON, with bytes as text and parts left out."""

from __future__ import annotations

from typing import Any

from spark_pulsar.model.avro import NO_DEFAULT, AvroType


def set_defaults(schema: Any, avro: AvroType) -> None:
    """Replaces the defaults in the library's form of a definition, which reads them as they stand, by their values.

    Raises ValueError for text that is no bytes.
    """
    if isinstance(schema, list):
        for each, branch in zip(schema, avro.branches, strict=False):
            set_defaults(each, branch)
    elif isinstance(schema, dict) and avro.kind == "record":
        types = {each.name: each.type for each in avro.fields}
        for field in schema.get("fields", ()):
            if "default" in field:
                field["default"] = default_value(field["default"], types[field["name"]])
            set_defaults(field["type"], types[field["name"]])
    elif isinstance(schema, dict) and avro.items is not None:
        set_defaults(schema.get("items", schema.get("values")), avro.items)


def default_value(default: Any, avro: AvroType) -> Any:
    """Returns the value that a default of a type stands for."""
    if default is None:
        return None
    if avro.kind == "union":
        return default_value(default, avro.branches[0]) if avro.branches else None
    if avro.kind in ("bytes", "fixed") and isinstance(default, str):
        return default.encode("latin-1")  # each character is a byte
    if avro.kind in ("float", "double") and isinstance(default, int | str):
        return float(default)
    if avro.kind == "record" and isinstance(default, dict):
        own = {each.name: None if each.default is NO_DEFAULT else each.default for each in avro.fields} | default
        return {each.name: default_value(own[each.name], each.type) for each in avro.fields}
    if avro.kind == "array" and avro.items is not None and isinstance(default, list):
        return [default_value(each, avro.items) for each in default]
    if avro.kind == "map" and avro.items is not None and isinstance(default, dict):
        return {key: default_value(each, avro.items) for key, each in default.items()}
    return default
