"""The configuration of a client: the service's address and the time-outs."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from spark_pulsar.client.errors import InvalidServiceUrl, NotSupportedByClient

PLAIN_PORT = 6650
LONGEST_ANSWER_MS = 30_000
_HOST = re.compile(r"^(?:\[(?P<six>[0-9A-Fa-f:.%]+)\]|(?P<host>[^:/?#\[\]@\s]+))(?::(?P<port>\d{1,5}))?$")


class Address(NamedTuple):
    """A host and a TCP port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_service_url(url: str) -> tuple[Address, ...]:
    """Returns the addresses of a service URL `pulsar://host[:port][,host[:port]…]`, in the order given.

    Raises InvalidServiceUrl for text that is no such URL, NotSupportedByClient for schemes that Pulsar has and this
    client has not (TLS and REST lookup).
    """
    scheme, separator, rest = url.strip().partition("://")
    if not separator:
        raise InvalidServiceUrl(f"service URL {url!r}: expected pulsar://host[:port][,host[:port]...]")
    if scheme == "pulsar+ssl":
        raise NotSupportedByClient(f"service URL {url!r}: TLS (pulsar+ssl://) is not supported yet; use pulsar://")
    if scheme in ("http", "https"):
        raise NotSupportedByClient(
            f"service URL {url!r}: lookup over HTTP is not supported; use the broker's binary address pulsar://host:6650"
        )
    if scheme != "pulsar":
        raise InvalidServiceUrl(f"service URL {url!r}: unknown scheme {scheme!r}, expected pulsar://")
    addresses = []
    for part in rest.rstrip("/").split(","):
        match = _HOST.match(part.strip())
        port = int(match["port"] or PLAIN_PORT) if match else 0
        if match is None or not 0 < port < 65536:
            raise InvalidServiceUrl(f"service URL {url!r}: {part!r} is not host[:port]")
        addresses.append(Address(match["six"] or match["host"], port))
    return tuple(addresses)


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """All settings of a client: immutable, hashable and picklable, so that it can be the key of a cache.

    Creating one checks every value and raises InvalidServiceUrl or NotSupportedByClient.
    """

    service_url: str
    """`pulsar://host[:port][,host[:port]…]`; with several hosts the next is tried when one cannot be reached."""
    connect_timeout_ms: int = 10_000
    """Time-out for TCP and the handshake of one connection."""
    operation_timeout_ms: int = 30_000
    """Time-out for one operation with all its retries; also the longest wait for the next receipt or promised entry."""
    keep_alive_interval_ms: int = 30_000
    """A PING is sent this often; a peer that sent nothing for two intervals is dead."""
    auth_method: str = "none"
    """Only `none` so far."""

    def __post_init__(self) -> None:
        parse_service_url(self.service_url)
        if self.auth_method != "none":
            raise NotSupportedByClient(f"authentication {self.auth_method!r} is not supported yet; use 'none'")
        for name in ("connect_timeout_ms", "operation_timeout_ms", "keep_alive_interval_ms"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")

    @property
    def answer_timeout_ms(self) -> int:
        """Time-out for the answer to one request, which is then made again.

        Half of the operation at most: a single lost request must not cost the whole of it.
        """
        return max(1, min(LONGEST_ANSWER_MS, self.operation_timeout_ms // 2))

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The service's addresses in the order of the URL."""
        return parse_service_url(self.service_url)
