"""Limits of connections before their clients are known (SEC-24, SEC-25). How long one may take, `connection` and
`server.web` know (SEC-26, SEC-28)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.server.sockets import peer_text

if TYPE_CHECKING:
    from collections.abc import Hashable

_LOG: Final = logging.getLogger("spark_pulsar.server")


def host_of(peer: Any) -> str:
    """Returns the host of a client's address, `/host`."""
    return peer_text(peer).rpartition(":")[0]


class Pending:
    """Connections that wait for their clients: for a handshake, or for a request. Of too many, in all or of one host,
    the one that has waited longest is ended: a client that means it is done in no time."""

    def __init__(self, what: str, most: int = 0, most_of_host: int = 0) -> None:
        """`what`: their name for the log; a limit of 0 is none."""
        self._what = what
        self._most = most
        self._most_of_host = most_of_host
        self._hosts: dict[Hashable, str] = {}
        self._by_host: dict[str, dict[Hashable, Callable[[], object]]] = {}
        self._was_said = False

    def __len__(self) -> int:
        return len(self._hosts)

    def enter(self, connection: Hashable, peer: Any, end: Callable[[], object]) -> None:
        """Notes that a connection waits for its client; `end` is called if others need its place."""
        self.leave(connection)
        host = host_of(peer)
        if 0 < self._most_of_host <= len(self._by_host.get(host, ())):
            self._end_oldest(next(iter(self._by_host[host])), f"{self._most_of_host} of {host}")
        elif 0 < self._most <= len(self._hosts):
            self._end_oldest(next(iter(self._hosts)), f"{self._most}")
        elif len(self._hosts) <= self._most // 2 and len(self._by_host.get(host, ())) <= self._most_of_host // 2:
            self._was_said = False
        self._hosts[connection] = host
        self._by_host.setdefault(host, {})[connection] = end

    def leave(self, connection: Hashable) -> None:
        """Notes that a connection waits no more, if it did."""
        host = self._hosts.pop(connection, None)
        if host is not None:
            of_host = self._by_host[host]
            del of_host[connection]
            if not of_host:
                del self._by_host[host]

    def _end_oldest(self, oldest: Hashable, count: str) -> None:
        end = self._by_host[self._hosts[oldest]][oldest]
        self.leave(oldest)
        if not self._was_said:
            self._was_said = True
            _LOG.warning("%s %s wait: the oldest ones are closed", count, self._what)
        end()


class Admission:
    """Counts of the connections of the binary protocol."""

    def __init__(self, most: int = 0, most_of_host: int = 0, pending: Pending | None = None) -> None:
        """`most`: `brokerMaxConnections`, `most_of_host`: `brokerMaxConnectionsPerIp`; 0 is no limit."""
        self.pending = Pending("handshakes") if pending is None else pending
        self._most = most
        self._most_of_host = most_of_host
        self._hosts: dict[Hashable, str] = {}
        self._count_of_host: dict[str, int] = {}

    def enter(self, connection: Hashable, peer: Any, end: Callable[[], object]) -> str:
        """Takes a connection in, whose handshake is pending; `end` ends it. Returns why it is refused, or nothing."""
        host = host_of(peer)
        if 0 < self._most <= len(self._hosts):
            return "Reached the maximum number of connections"
        if 0 < self._most_of_host <= self._count_of_host.get(host, 0):
            return f"Reached the maximum number of connections on address{peer_text(peer)}"
        self._hosts[connection] = host
        self._count_of_host[host] = self._count_of_host.get(host, 0) + 1
        self.pending.enter(connection, peer, end)
        return ""

    def leave(self, connection: Hashable) -> None:
        """Notes that a connection is gone, if it had been taken in."""
        self.pending.leave(connection)
        host = self._hosts.pop(connection, None)
        if host is not None:
            self._count_of_host[host] -= 1
            if not self._count_of_host[host]:
                del self._count_of_host[host]
