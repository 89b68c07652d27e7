"""Definitions for the library, which takes symbols of enums in ASCII only: Avro's Java library, and so Pulsar, have
letters of all alphabets."""

from __future__ import annotations

from typing import Any, Final

from spark_pulsar.model.extras import require

require("decoding AVRO messages", "fastavro")
import fastavro  # noqa: E402

_PREFIX: Final = "symbol_of_spark_pulsar_"


def parse(schema: Any) -> Any:
    """Parses a definition, in the form of its JSON, for the library; raises its errors for one that is none."""
    symbols: list[list[str]] = []
    parsed = fastavro.parse_schema(_with_numbers(schema, symbols), _ignore_default_error=True)
    for found in parsed.get("__named_schemas", {}).values() if isinstance(parsed, dict) else ():
        _put_back(found, symbols)
    _put_back(parsed, symbols)
    return parsed


def _with_numbers(schema: Any, symbols: list[list[str]]) -> Any:
    """Returns a definition with numbers in place of the symbols that are no ASCII, which go into the list."""
    if isinstance(schema, list):
        return [_with_numbers(each, symbols) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: each if key == "default" else _with_numbers(each, symbols) for key, each in schema.items()}
    own = schema.get("symbols")
    if schema.get("type") == "enum" and isinstance(own, list) and not all(str(each).isascii() for each in own):
        symbols.append(own)
        found["symbols"] = [f"{_PREFIX}{len(symbols) - 1}_{place}" for place in range(len(own))]
        if schema.get("default") in own:
            found["default"] = found["symbols"][own.index(schema["default"])]
    return found


def _put_back(parsed: Any, symbols: list[list[str]]) -> None:
    if isinstance(parsed, list):
        for each in parsed:
            _put_back(each, symbols)
    elif isinstance(parsed, dict):
        for key in ("type", "items", "values"):
            _put_back(parsed.get(key), symbols)
        for each in parsed.get("fields", ()):
            _put_back(each, symbols)
        own = parsed.get("symbols")
        if own and str(own[0]).startswith(_PREFIX):
            original = symbols[int(own[0].removeprefix(_PREFIX).partition("_")[0])]
            if "default" in parsed:
                parsed["default"] = original[own.index(parsed["default"])]
            parsed["symbols"] = original
