"""Keys of `broker.conf`: the metadata of a configuration field, and one reader for each form of value.

A key added to `BrokerConfig` or `ServerConfig` is one field made by `Section.key`. The parser, `--help`,
`conf/broker.conf` and the table of docs/broker-configuration.md are made from these fields. A reader raises ValueError,
whose text names the wanted form.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar

from spark_pulsar.model.errors import InvalidTopicName
from spark_pulsar.model.limits import INT, LONG
from spark_pulsar.model.names import split_namespace

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Key:
    """One key of `broker.conf`."""

    name: str
    """Pulsar's name."""
    section: str
    """Title of its section in `broker.conf`."""
    read: Callable[[str], Any]
    """Reader: the field's value from the text of `broker.conf`."""
    default: str
    """Text in `broker.conf`; empty: not set."""
    rules: str
    """Rule ids of docs/rules.md, with commas."""
    meaning: str
    """Description for users: one plain sentence, seldom a second one."""
    takes_empty: bool = False
    """True when `key=` has a meaning of its own: the reader gets the empty text."""
    is_secret: bool = False
    """True when the value may be a secret: it is shown nowhere (AU-12)."""
    is_dynamic: bool = False
    """True when the admin API may change the value of a running broker (ADM-1)."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of `broker.conf`."""

    title: str

    def key(
        self,
        name: str,
        read: Callable[[str], T],
        default: object,
        rules: str,
        meaning: str,
        *,
        unset: T | None = None,
        takes_empty: bool = False,
        is_secret: bool = False,
        is_dynamic: bool = False,
    ) -> T:
        """Makes a configuration field: the default is given in the key's own unit, as `broker.conf` writes it. An empty
        one means `unset`. (The type is that of the field's values, as for `dataclasses.field`.)"""
        text = setting_text(default)
        value: Any = read(text) if text else unset
        key = Key(name, self.title, read, text, rules, meaning, takes_empty, is_secret, is_dynamic)
        made: Any = field(default=value, metadata={"key": key}, repr=not is_secret)
        return made  # type: ignore[no-any-return]


MASK: Final = "*****"
"""Text in place of a secret."""
_SECRET_KEYS: Final = re.compile("secret|password|params$|authenticationparameters$|^basicauthconf$", re.IGNORECASE)


def holds_secret(key: str) -> bool:
    """Returns whether the value of a key, of this broker or of Apache Pulsar, is or may hold a secret (SEC-85)."""
    return _SECRET_KEYS.search(key) is not None


def shown(key: str, text: str) -> str:
    """Returns the text of a key for errors and lists, masked if it may hold a secret."""
    return MASK if text and holds_secret(key) else text


ADDRESSES: Final = Section("Addresses")
STORAGE: Final = Section("Storage")
CONNECTIONS: Final = Section("Connections")
WEBSOCKETS: Final = Section("WebSockets")
TLS: Final = Section("TLS")
SECURITY: Final = Section("Security")


def keys_of(config: type) -> dict[str, tuple[str, Key]]:
    """Lists the keys of a configuration class: field and key, by Pulsar's name."""
    return {
        field.metadata["key"].name: (field.name, field.metadata["key"]) for field in fields(config) if field.metadata
    }


def setting_text(value: object) -> str:
    """Writes a value as `broker.conf` does."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def integer(low: int, high: int, besides: str = "") -> Callable[[str], int]:
    """Makes a reader of a whole number within bounds; `besides` explains one of them in the error."""

    def read(text: str) -> int:
        if re.fullmatch(r"-?[0-9]{1,19}", text) and low <= int(text) <= high:
            return int(text)
        raise ValueError(f"want a whole number from {low} to {high}{besides}")

    return read


def times(factor: int, read: Callable[[str], int]) -> Callable[[str], int]:
    """Makes a reader that converts a number to a smaller unit."""
    return lambda text: read(text) * factor


natural: Final = integer(0, INT)
"""Numbers from 0 on. Apache Pulsar's own are no larger."""
positive: Final = integer(1, INT)
limit: Final = integer(-1, INT, ", -1 for no limit")
signed: Final = integer(-INT - 1, INT)
"""Any number; a negative one means the same as none."""
natural_long: Final = integer(0, LONG)
"""Number of bytes, or of milliseconds."""
signed_long: Final = integer(-LONG - 1, LONG)
"""Number of bytes; a negative one means the same as none."""
seconds: Final = times(1000, positive)
"""Seconds as milliseconds."""
minutes: Final = times(60_000, positive)
"""Minutes as milliseconds."""
seconds_or_zero: Final = times(1000, natural)
minutes_or_zero: Final = times(60_000, natural)
mebibytes: Final = times(1024 * 1024, positive)
"""MB as bytes."""
mebibytes_or_zero: Final = times(1024 * 1024, natural)


def share(text: str) -> float:
    """Reads a fraction from 0 to 1."""
    if re.fullmatch(r"[0-9]+(\.[0-9]*)?|\.[0-9]+", text) and float(text) <= 1:
        return float(text)
    raise ValueError("want a number from 0 to 1")


def hosts(text: str) -> tuple[str, ...]:
    """Reads names or addresses of hosts, separated by commas."""
    names = tuple(part.strip().strip("[]").lower() for part in text.split(","))
    if not all(re.fullmatch(r"[^\s/\[\],]+", name) for name in names):
        raise ValueError("want hosts, separated by commas, without scheme and port")
    return names


def address(text: str) -> str:
    """Reads a host, or a host and a port, to be advertised to clients."""
    if not re.fullmatch(r"(\[[^\s/\[\]]+\]|[^\s/:\[\]]+)(:[0-9]{1,5})?", text):
        raise ValueError("want HOST or HOST:PORT, an IPv6 address in brackets")
    return text


def names(known: tuple[str, ...] = ()) -> Callable[[str], tuple[str, ...]]:
    """Makes a reader of words, separated by commas; of these, if some are given."""

    def read(text: str) -> tuple[str, ...]:
        names = tuple(part.strip() for part in text.split(",") if part.strip())
        if not names or (known and not set(names) <= set(known)):
            raise ValueError(f"want some of {', '.join(known)}, by commas" if known else "want names, by commas")
        return names

    return read


def one_of(words: tuple[str, ...]) -> Callable[[str], str]:
    """Makes a reader of one of these words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"want one of {', '.join(words)}")
        return text

    return read


def switch(text: str) -> bool:
    """Reads true or false."""
    if text.lower() not in ("true", "false"):
        raise ValueError("want true or false")
    return text.lower() == "true"


def is_partitioned(text: str) -> bool:
    """Reads the type of topics that are created automatically."""
    return one_of(("partitioned", "non-partitioned"))(text) == "partitioned"


_TYPES: Final = ("Exclusive", "Shared", "Failover", "Key_Shared")


def subscription_types(text: str) -> frozenset[str]:
    """Reads subscription types, separated by commas."""
    types = frozenset(part.strip() for part in text.split(",") if part.strip())
    if not types or not types <= set(_TYPES):
        raise ValueError(f"want some of {', '.join(_TYPES)}, by commas")
    return types


def namespaces(text: str) -> tuple[str, ...]:
    """Reads namespaces, separated by commas, and puts `public/default` in front."""
    names = dict.fromkeys(["public/default", *(part.strip() for part in text.split(",") if part.strip())])
    for name in names:
        try:
            split_namespace(name)
        except InvalidTopicName as error:
            raise ValueError(f"want <tenant>/<namespace>, by commas, which {name!r} is not") from error
    return tuple(names)
