"""Addresses of a broker: ports, as the shell has opened them (SEC-46), and listeners, as the configuration advertises
them (SEC-47). `topics.lookup` chooses those of a client."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_ENTRY: Final = re.compile(
    r"([^\s:,]+):(pulsar|pulsar\+ssl|http|https)://((?:\[[^\s/\[\],]+\]|[^\s/:\[\],]+):([0-9]{1,5}))"
)


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports of a broker; None: closed."""

    binary: int | None = 6650
    http: int | None = 8080
    binary_tls: int | None = None
    http_tls: int | None = None


@dataclass(frozen=True, slots=True)
class Addresses:
    """URLs that clients receive; None: there is none of this kind."""

    binary: str | None = None
    http: str | None = None
    binary_tls: str | None = None
    http_tls: str | None = None


@dataclass(frozen=True, slots=True)
class Listener:
    """A listener: a name for addresses at which some of the clients reach the broker."""

    name: str
    addresses: Addresses


_KINDS: Final = {"pulsar": "binary", "http": "http", "pulsar+ssl": "binary_tls", "https": "http_tls"}


def listeners(text: str) -> tuple[Listener, ...]:
    """Reads listeners, NAME:SCHEME://HOST:PORT, separated by commas; a name may come once with each scheme. Raises
    ValueError."""
    urls: dict[str, dict[str, str]] = {}
    names_of: dict[str, str] = {}
    for entry in (part.strip() for part in text.split(",")):
        match = _ENTRY.fullmatch(entry)
        if match is None or not 0 < int(match[4]) < 65_536:
            raise ValueError(
                "want NAME:SCHEME://HOST:PORT, by commas, with pulsar, pulsar+ssl, http or https, which "
                f"{entry!r} is not"
            )
        name, scheme, address = match[1], match[2], match[3]
        if names_of.setdefault(address, name) != name:
            raise ValueError(f"want each address in one listener, {address} is in {names_of[address]} and {name}")
        if _KINDS[scheme] in urls.setdefault(name, {}):
            raise ValueError(f"want each scheme once in a listener, {name} has two of {scheme}")
        urls[name][_KINDS[scheme]] = f"{scheme}://{address}"
    return tuple(Listener(name, Addresses(**by_scheme)) for name, by_scheme in urls.items())
