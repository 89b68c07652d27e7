"""Options and arguments as Python programs give them, as the texts of options; other values are refused by their name.

Spark's `.option` makes any value a text, lists and times too, in Python's own form. The functions without Spark know
the value.
"""

from __future__ import annotations

import datetime as dt
import json
import numbers
import operator
import os
from collections.abc import Mapping
from typing import Any

from spark_pulsar.connector.errors import OptionError


def texts_of(options: Mapping[str, object] | None) -> dict[str, str]:
    """Returns the texts of options; those that are None are left out. Raises OptionError."""
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise OptionError(f'options is {_shown(options)}: give a dictionary, such as {{"operationTimeoutMs": 5000}}')
    for name in options:
        if not isinstance(name, str):
            raise OptionError(f"options has {name!r}, which is no name of an option: give a text")
    return {name: _text(name, value) for name, value in options.items() if value is not None}


def name_argument(argument: str, value: Any, example: str) -> str:
    """Returns the text of an argument that is a name or an address. Raises OptionError for another type."""
    if isinstance(value, str):
        return value
    has_url = argument == "service_url" and isinstance(getattr(value, argument, None), str)
    more = ", here its service_url" if has_url else ""
    raise OptionError(f"{argument} is {_shown(value)}: give a text, such as {example}{more}")


def count_argument(argument: str, value: Any, least: int, wanted: str, most: int | None = None) -> int:
    """Returns an argument that is a whole number; `wanted` says in words which. Raises OptionError for another."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        raise OptionError(f"{argument} is {value!r}: give {wanted}")
    return number


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple | Mapping):
        return json.dumps(value, default=lambda inner: _text(name, inner))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, numbers.Number):
        return str(value)
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    raise OptionError(f"option {name} is {_shown(value)}: give a text, a number, True or False, a list or a dictionary")


def _shown(value: object) -> str:
    """Returns the value, or its type where it is no short one: a table, an object."""
    if isinstance(value, int | float | bytes | str | list | tuple | dict | None) and len(shown := repr(value)) <= 60:
        return shown
    return f"of type {type(value).__name__}"
