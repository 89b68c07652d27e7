"""How the texts of `broker.conf` are read: what a key sets, and one function for each form of value.

A reader raises ValueError with what was wanted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from spark_pulsar.ledger.storage import MAX_SUBMIT_BYTES
from spark_pulsar.model.errors import InvalidTopicName
from spark_pulsar.model.limits import INT, LONG
from spark_pulsar.model.names import split_namespace

_MAX_SEGMENT_MIB: Final = 2048
"""Places in a journal segment are kept in 32 bits."""
_MAX_ENTRY_BYTES: Final = MAX_SUBMIT_BYTES // 4
"""One, with all that a turn takes in besides, has to fit into what is written at a time."""
_TYPES: Final = ("Exclusive", "Shared", "Failover", "Key_Shared")


@dataclass(frozen=True, slots=True)
class Key:
    """One key: the field it sets (of BrokerConfig when `of_broker`, else of ServerConfig), how, and what it is for."""

    field: str
    read: Callable[[str], Any]
    of_broker: bool = True
    help: str = ""


def whole(low: int, high: int, besides: str = "") -> Callable[[str], int]:
    """A reader of a whole number in these bounds, and what to say about one of them."""

    def read(text: str) -> int:
        if re.fullmatch(r"-?[0-9]{1,19}", text) and low <= int(text) <= high:
            return int(text)
        raise ValueError(f"want a whole number from {low} to {high}{besides}")

    return read


natural: Final = whole(0, INT)
"""Not negative. Apache Pulsar's own numbers are no larger."""
positive: Final = whole(1, INT)
"""Above 0."""
limit: Final = whole(-1, INT, ", -1 for no limit")
"""Not negative, or -1 for no limit."""
signed: Final = whole(-INT - 1, INT)
"""Negative too, which means the same as none."""
natural_long: Final = whole(0, LONG)
"""Of bytes, or of a long time."""
signed_long: Final = whole(-LONG - 1, LONG)
"""Of bytes; negative too, which means the same as none."""
port: Final = whole(0, 65_535)
"""A port; 0 is any."""
segment_mib: Final = whole(1, _MAX_SEGMENT_MIB)
"""The size of a journal segment."""
entry_size: Final = whole(1, _MAX_ENTRY_BYTES)
"""The size of one entry."""


def share(text: str) -> float:
    """A part of something, from 0 to 1."""
    if re.fullmatch(r"[0-9]+(\.[0-9]*)?|\.[0-9]+", text) and float(text) <= 1:
        return float(text)
    raise ValueError("want a number from 0 to 1")


def address(text: str) -> str:
    """A host, or a host and a port, as clients are told it."""
    if not re.fullmatch(r"(\[[^\s/\[\]]+\]|[^\s/:\[\]]+)(:[0-9]{1,5})?", text):
        raise ValueError("want HOST or HOST:PORT, an IPv6 address in brackets")
    return text


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
    found = frozenset(part.strip() for part in text.split(",") if part.strip())
    if not found or not found <= set(_TYPES):
        raise ValueError(f"want some of {', '.join(_TYPES)}, by commas")
    return found


def namespaces(text: str) -> tuple[str, ...]:
    """Namespaces by commas, `public/default` in front."""
    names = dict.fromkeys(["public/default", *(part.strip() for part in text.split(",") if part.strip())])
    for name in names:
        try:
            split_namespace(name)
        except InvalidTopicName as error:
            raise ValueError(f"want <tenant>/<namespace>, by commas, which {name!r} is not") from error
    return tuple(names)
