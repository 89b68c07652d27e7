"""Origins of requests: a web page may change nothing here unless it comes from a host that this broker goes by (T-25),
and read nothing under a name that is not this broker's (SEC-41).

A browser sends requests for any page that is open: a form of another site reaches `localhost:8080`, and a name of that
site may lead there as well (DNS rebinding), whose pages then read the answers, too. A browser says where a request
comes from: with `Origin` on all but reading ones, with `Sec-Fetch-Site` in newer versions. Programs say nothing of the
kind, as Pulsar's clients and `pulsar-admin`, so that they are never refused, whatever name the broker has for them
(`http://broker:8080` in a network of containers).
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from .refusals import Refused

READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods of requests that change nothing, but for a few paths."""
_OWN_SITE: Final = frozenset({"same-origin", "none"})


class AllowedHosts:
    """Hosts that pages may come from: this machine, the advertised address, those of the configuration."""

    def __init__(self, advertised_address: str = "", configured: tuple[str, ...] = ()) -> None:
        name = socket.gethostname().lower()
        named = {name, name.partition(".")[0], host_of(advertised_address), *(host.lower() for host in configured)}
        self._names = named - {""}

    def check(self, method: str, headers: Mapping[str, str], *, changes: bool = False) -> None:
        """Refuses, with 403, a request of a browser by a name that is not this broker's, and one that a foreign page
        sends and that changes something: `changes` says so of a method that reads, as a rule."""
        if method in READING:
            self._check_reading(headers, changes)
            return
        host, origin, site = headers.get("host", ""), headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None:
            if not self._is_own_origin(origin, host):
                raise _refused(f"a page of {origin[:200]!r}")
        elif site is not None and site not in _OWN_SITE:
            raise _refused("a page of another site")
        elif site is None and "referer" in headers and not self._is_own_origin(headers["referer"], host):
            raise _refused(f"a page of {headers['referer'][:200]!r}")
        elif (site is not None or _is_browser(headers)) and not self._may_be_called(host):
            raise _refused(f"a page that calls this broker {host[:200]!r}")

    def _check_reading(self, headers: Mapping[str, str], changes: bool) -> None:
        """Refuses a page whose own name leads here, which could read the answer (SEC-41). One of another site cannot,
        but its request has come by then. `Referer` names its origin; a page that shows none is foreign."""
        host, site = headers.get("host", ""), headers.get("sec-fetch-site")
        if site is None and not _is_browser(headers):
            return
        if not self._may_be_called(host):
            raise _refused(f"a page that calls this broker {host[:200]!r}", "read")
        if not changes or site in _OWN_SITE:
            return
        from_page = headers.get("origin") or headers.get("referer")
        if from_page is None or not self._is_own_origin(from_page, host):
            raise _refused("a page of another site")

    def _is_own_origin(self, origin: str, host: str) -> bool:
        """Returns whether the page is of this broker itself, or of a host that is allowed. An address is no sign of
        trust: every program has one."""
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        name = host_of(parts.netloc)
        if parts.netloc and parts.netloc.lower() == host.lower():
            return self._may_be_called(host)
        return name in self._names or _is_loopback(name)

    def _may_be_called(self, host: str) -> bool:
        """Returns whether only this broker can have this name: an address has no name."""
        name = host_of(host)
        return name in self._names or _is_loopback(name) or _address(name) is not None


def host_of(netloc: str) -> str:
    """Returns the host of HOST or HOST:PORT in lower case, an IPv6 address without brackets."""
    host = netloc.rpartition("@")[2]
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().removesuffix(".")


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _is_loopback(name: str) -> bool:
    address = _address(name)
    return name == "localhost" or name.endswith(".localhost") or (address is not None and address.is_loopback)


def _is_browser(headers: Mapping[str, str]) -> bool:
    """Returns whether a request without `Sec-Fetch-Site`, which browsers send to loopback and over TLS alone, has the
    headers of a browser. A page may choose the other headers, but cannot leave out its languages; programs that send
    some, as Node, send `Sec-Fetch-Mode` with them, which no page can."""
    is_named = headers.get("user-agent", "").startswith("Mozilla/")
    return is_named or "referer" in headers or ("accept-language" in headers and "sec-fetch-mode" not in headers)


def _refused(who: str, what: str = "change") -> Refused:
    return Refused(403, f"Refused: {who} may {what} nothing here; webServiceAllowedHosts names hosts whose pages may")
