"""How the texts of `broker.conf` are read: what a key sets, and one function for each form of value.

A reader raises ValueError with what was wanted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from spark_pulsar.model.names import split_namespace

_MAX_SEGMENT_MIB: Final = 2048
"""Places in a journal segment are kept in 32 bits."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key: the field it sets (of BrokerConfig when `of_broker`, else of ServerConfig), how, and what it is for."""

    field: str
    read: Callable[[str], Any]
    of_broker: bool = True
    help: str = ""


def whole(text: str) -> int:
    """A whole number."""
    if not re.fullmatch(r"-?[0-9]+", text):
        raise ValueError("want a whole number")
    return int(text)


def natural(text: str) -> int:
    """Not negative."""
    number = whole(text)
    if number < 0:
        raise ValueError("want a number that is not negative")
    return number


def positive(text: str) -> int:
    """Above 0."""
    number = whole(text)
    if number <= 0:
        raise ValueError("want a number above 0")
    return number


def share(text: str) -> float:
    """A part of something, from 0 to 1."""
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError("must be a number from 0 to 1")
    return value


def port(text: str) -> int:
    """A port; 0 is any."""
    number = whole(text)
    if not 0 <= number <= 65535:
        raise ValueError("want a port, 0 to 65535")
    return number


def segment_mib(text: str) -> int:
    """The size of a journal segment."""
    number = positive(text)
    if number > _MAX_SEGMENT_MIB:
        raise ValueError(f"want at most {_MAX_SEGMENT_MIB}")
    return number


def limit(text: str) -> int:
    """Not negative, or -1 for no limit."""
    number = whole(text)
    if number < -1:
        raise ValueError("want a number that is not negative, or -1 for no limit")
    return number


def one_of(words: tuple[str, ...]) -> Callable[[str], str]:
    """A reader of one of some words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"want one of {', '.join(words)}")
        return text

    return read


def times(factor: int, read: Callable[[str], int] = positive) -> Callable[[str], int]:
    """A reader of a number in a larger unit, as `factor` smaller ones."""
    return lambda text: read(text) * factor


def switch(text: str) -> bool:
    """true or false."""
    if text.lower() not in ("true", "false"):
        raise ValueError("want true or false")
    return text.lower() == "true"


def types(text: str) -> frozenset[str]:
    """Subscription types by commas."""
    types = frozenset(part.strip() for part in text.split(",") if part.strip())
    wrong = types - {"Exclusive", "Shared", "Failover", "Key_Shared"}
    if wrong:
        raise ValueError(f"no such subscription type: {', '.join(sorted(wrong))}")
    return types


def namespaces(text: str) -> tuple[str, ...]:
    """Namespaces by commas, `public/default` in front."""
    names = dict.fromkeys(["public/default", *(part.strip() for part in text.split(",") if part.strip())])
    for name in names:
        try:
            split_namespace(name)
        except Exception as error:
            raise ValueError(str(error)) from error
    return tuple(names)
