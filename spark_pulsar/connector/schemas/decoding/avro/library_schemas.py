"""Definitions in the form that the library reads.

It takes symbols of enums in ASCII only, where Avro's Java library, and so Pulsar, have letters of all alphabets. It
reads defaults as they stand, where a definition writes them in JSON, with bytes as text and parts left out.
"""

from __future__ import annotations

from typing import Any, Final

from spark_pulsar.model.avro import NO_DEFAULT, AvroType
from spark_pulsar.model.extras import require

require("decoding AVRO messages", "fastavro")
import fastavro  # noqa: E402

_PREFIX: Final = "symbol_of_spark_pulsar_"


def parse(schema: Any) -> Any:
    """Parses a definition, in the form of its JSON, for the library; raises its errors for one that is none."""
    symbols: list[list[str]] = []
    parsed = fastavro.parse_schema(_with_numbers(schema, symbols), _ignore_default_error=True)
    for named in parsed.get("__named_schemas", {}).values() if isinstance(parsed, dict) else ():
        _put_back(named, symbols)
    _put_back(parsed, symbols)
    return parsed


def _with_numbers(schema: Any, symbols: list[list[str]]) -> Any:
    """Returns a definition with numbers in place of the symbols that are no ASCII, which go into the list."""
    if isinstance(schema, list):
        return [_with_numbers(branch, symbols) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    numbered = {key: member if key == "default" else _with_numbers(member, symbols) for key, member in schema.items()}
    own = schema.get("symbols")
    if schema.get("type") == "enum" and isinstance(own, list) and not all(str(symbol).isascii() for symbol in own):
        symbols.append(own)
        numbered["symbols"] = [f"{_PREFIX}{len(symbols) - 1}_{place}" for place in range(len(own))]
        if schema.get("default") in own:
            numbered["default"] = numbered["symbols"][own.index(schema["default"])]
    return numbered


def _put_back(parsed: Any, symbols: list[list[str]]) -> None:
    if isinstance(parsed, list):
        for branch in parsed:
            _put_back(branch, symbols)
    elif isinstance(parsed, dict):
        for key in ("type", "items", "values"):
            _put_back(parsed.get(key), symbols)
        for field in parsed.get("fields", ()):
            _put_back(field, symbols)
        own = parsed.get("symbols")
        if own and str(own[0]).startswith(_PREFIX):
            original = symbols[int(own[0].removeprefix(_PREFIX).partition("_")[0])]
            if "default" in parsed:
                parsed["default"] = original[own.index(parsed["default"])]
            parsed["symbols"] = original


def set_defaults(schema: Any, avro: AvroType) -> None:
    """Replaces the defaults in the library's form of a definition, which reads them as they stand, by their values.

    Raises ValueError for text that is no bytes.
    """
    if isinstance(schema, list):
        for definition, branch in zip(schema, avro.branches, strict=False):
            set_defaults(definition, branch)
    elif isinstance(schema, dict) and avro.kind == "record":
        types = {field.name: field.type for field in avro.fields}
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
        own = {field.name: None if field.default is NO_DEFAULT else field.default for field in avro.fields} | default
        return {field.name: default_value(own[field.name], field.type) for field in avro.fields}
    if avro.kind == "array" and avro.items is not None and isinstance(default, list):
        return [default_value(item, avro.items) for item in default]
    if avro.kind == "map" and avro.items is not None and isinstance(default, dict):
        return {key: default_value(item, avro.items) for key, item in default.items()}
    return default
