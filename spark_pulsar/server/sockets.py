"""Sockets: the listening ones, one port for each protocol on all addresses of the bind address; addresses as text."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
from typing import Any, Final

_BACKLOG: Final = 1024
_TAKEN: Final = "; another program, perhaps a broker, has it: --port and --http-port choose others, 0 any free one"
_ANY_IPV4: Final = frozenset({"0.0.0.0", ""})
_IPV6_TWINS: Final = {"0.0.0.0": "::", "": "::", "127.0.0.1": "::1", "localhost": "::1"}
"""Addresses that bring another one along, as `localhost` may mean either family (SEC-48)."""
_MAPPED: Final = "::ffff:"
"""Prefix of an IPv4 address on a socket that serves both families."""


def listen(bind_address: str, port: int) -> list[socket.socket]:
    """Opens sockets that listen on a port (0 chooses one). The wildcard and the loopback address of IPv4 bring those of
    IPv6 along if there is IPv6 (SEC-48). Raises OSError when the port is taken or the address is not ours."""
    family = socket.AF_INET6 if ":" in bind_address else socket.AF_INET
    first = _listen(family, bind_address, port)
    sockets = [first]
    if bind_address in _IPV6_TWINS:
        with contextlib.suppress(OSError):
            sockets.append(_listen(socket.AF_INET6, _IPV6_TWINS[bind_address], first.getsockname()[1]))
    return sockets


def is_loopback(bind_address: str) -> bool:
    """Returns whether only this machine reaches an address."""
    if bind_address.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(bind_address).is_loopback
    except ValueError:
        return False


def _listen(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    # With its protocol named: only then asyncio has small answers sent at once (TCP_NODELAY), as uvloop always does.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        taken = _TAKEN if error.errno == errno.EADDRINUSE else ""
        raise OSError(f"cannot listen at {address}, port {port}: {error.strerror or error}{taken}") from error
    return listener


def port_of(sockets: list[socket.socket]) -> int:
    """Returns the port that all these sockets share."""
    port: int = sockets[0].getsockname()[1]
    return port


def url_host(bind_address: str) -> str:
    """Names the host for the ready line: a wildcard is reached by the loopback address."""
    if bind_address in _ANY_IPV4:
        return "127.0.0.1"
    return "[::1]" if bind_address == "::" else f"[{bind_address}]" if ":" in bind_address else bind_address


def local_text(address: Any) -> str:
    """Writes the `host:port` that a client connected to; IPv6 in brackets."""
    host, port = address[0], address[1]
    if host.lower().startswith(_MAPPED) and "." in host:
        host = host[len(_MAPPED) :]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def peer_text(address: Any) -> str:
    """Writes the `/host:port` of a client, as statistics show it."""
    return "/" + local_text(address) if address else "/unknown:0"


def network_of(host: str) -> str:
    """Returns whose address it is for limits of a host, `/10.1.2.3`: of IPv6 the network, `/2001:db8:0:1::/64`, as one
    machine has all of it."""
    text = host.strip("/[]")
    if ":" not in text:
        return host
    try:
        address = ipaddress.IPv6Address(text.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return f"/{address.ipv4_mapped}"
    return f"/{ipaddress.IPv6Network((address, 64), strict=False)}"
