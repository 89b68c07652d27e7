"""Service URLs: the addresses of brokers, and the kind of connection that is made to them. A port of another kind is
noticed in `wrong_port` (READ-34)."""

import re
from typing import Final, NamedTuple

from spark_pulsar.client.errors import InvalidServiceUrl, NotSupportedByClient
from spark_pulsar.client.secret import REDACTED

PLAIN_SCHEME: Final = "pulsar"
TLS_SCHEME: Final = "pulsar+ssl"
_PORTS: Final = {PLAIN_SCHEME: 6650, TLS_SCHEME: 6651}
_HOST: Final = re.compile(r"^(?:\[(?P<six>[0-9A-Fa-f:.%]+)\]|(?P<host>[^:/?#\[\]@\s]+))(?::(?P<port>\d{1,5}))?$")
_SCHEME: Final = re.compile(r"[^/]*//")


class Address(NamedTuple):
    """A host and a TCP port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def without_user(url: str) -> str:
    """Returns the URL with everything hidden that stands before an `@`: a user and a password, if it has them."""
    before, at, rest = url.rpartition("@")
    if not at:
        return url
    scheme = _SCHEME.match(before)
    return f"{scheme[0] if scheme else ''}{REDACTED}@{rest}"


def uses_tls(url: str) -> bool:
    """Returns whether connections to a service URL are encrypted."""
    return url.strip().startswith(f"{TLS_SCHEME}://")


def parse_service_url(url: str) -> tuple[Address, ...]:
    """Returns the addresses of a service URL `pulsar://host[:port][,host[:port]…]`, in the order given; the ports of
    `pulsar+ssl://` are 6651, others 6650.

    Raises InvalidServiceUrl for text that is no such URL, NotSupportedByClient for lookup over HTTP.
    """
    shown = repr(without_user(url))
    scheme, separator, rest = url.strip().partition("://")
    if not separator:
        raise InvalidServiceUrl(f"service URL {shown}: expected pulsar://host[:port][,host[:port]...] or pulsar+ssl://")
    if scheme in ("http", "https"):
        raise NotSupportedByClient(
            f"service URL {shown}: lookup over HTTP is not supported; use the broker's binary address, "
            "pulsar://host:6650 or pulsar+ssl://host:6651"
        )
    if scheme not in _PORTS:
        raise InvalidServiceUrl(f"service URL {shown}: unknown scheme {scheme!r}, expected pulsar:// or pulsar+ssl://")
    if "@" in rest:
        raise InvalidServiceUrl(
            f"service URL {shown}: a user and a password do not belong there; "
            "they are given by authPluginClassName and authParams"
        )
    addresses = []
    for part in rest.rstrip("/").split(","):
        match = _HOST.match(part.strip())
        port = int(match["port"] or _PORTS[scheme]) if match else 0
        if match is None or not 0 < port < 65536:
            raise InvalidServiceUrl(
                f"service URL {shown}: {part!r} is not host[:port]; expected pulsar://host:port[,host:port...]"
            )
        addresses.append(Address(match["six"] or match["host"], port))
    return tuple(addresses)
