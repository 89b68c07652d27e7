"""Connections by address: shared ones for requests and publishing, exclusive ones for fetches."""

import os
import threading
from typing import Final, NamedTuple

from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.connections.connection import Connection
from spark_pulsar.client.connections.service_url import Address
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import (
    ClientClosed,
    ConnectFailed,
    ConnectionLost,
    NoListener,
    OperationTimeout,
    TlsError,
)

_IDLE_EXCLUSIVE_CONNECTIONS: Final = 4


class Target(NamedTuple):
    """A broker: the address to connect to, and its `host:port` to name there when that address is not its own."""

    address: Address
    proxy_to: str = ""

    def __str__(self) -> str:
        return f"{self.proxy_to} through {self.address}" if self.proxy_to else str(self.address)


class ConnectionPool:
    """All connections of one client in one process. Thread-safe."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self._credentials = config.authentication.credentials()
        self._lock = threading.Lock()
        self._opening: dict[Target, threading.Lock] = {}
        self._shared: dict[Target, Connection] = {}
        self._exclusive: set[Connection] = set()
        self._idle: dict[Target, list[Connection]] = {}
        self._service_index = 0
        self._closed = False

    def service(self, deadline: Deadline) -> tuple[Target, Connection]:
        """Returns a shared connection to the service URL, trying its hosts in turn, beginning with the one that last
        worked.

        Raises ConnectionLost when none can be reached, TlsError when all of them fail for that, OperationTimeout at the
        deadline.
        """
        addresses = self.config.addresses
        problems: list[ConnectionLost | OperationTimeout | TlsError] = []
        for step in range(len(addresses)):
            index = (self._service_index + step) % len(addresses)
            target = Target(addresses[index])
            try:
                connection = self.shared(target, deadline)
            except (ConnectionLost, OperationTimeout, TlsError) as error:  # lost: it took the connection, and closed it
                problems.append(error)
                continue
            self._service_index = index
            return target, connection
        if deadline.passed:
            deadline.note(problems[-1])
            raise deadline.error()
        if len(problems) == 1:
            raise problems[0]
        reasons = "; ".join(dict.fromkeys(str(problem) for problem in problems))
        if all(isinstance(problem, TlsError) for problem in problems):
            raise TlsError(reasons)
        is_empty = all(isinstance(problem, NoListener) for problem in problems)
        raise (NoListener if is_empty else ConnectFailed)(reasons)

    def shared(self, target: Target, deadline: Deadline) -> Connection:
        """Returns the shared connection to `target`, opened when missing or broken."""
        with self._lock:
            self._raise_if_closed()
            known = self._shared.get(target)
            if known is not None and known.alive:
                return known
            opening = self._opening.setdefault(target, threading.Lock())
        if not opening.acquire(timeout=deadline.left_ms() / 1000):
            raise deadline.error()
        try:
            with self._lock:
                known = self._shared.get(target)
                if known is not None and known.alive:
                    return known
            connection = self._open(target, deadline)
            with self._lock:
                if not self._closed:
                    self._shared[target] = connection
            return self._unless_closed(connection)
        finally:
            opening.release()

    def _open(self, target: Target, deadline: Deadline) -> Connection:
        return Connection.open(target.address, target.proxy_to, self.config, deadline, self._credentials)

    def _unless_closed(self, connection: Connection) -> Connection:
        """Returns a new connection, unless the pool was closed while it was made."""
        if self._closed:
            connection.close()
            raise ClientClosed("the client was closed")
        return connection

    def acquire(self, target: Target, deadline: Deadline) -> Connection:
        """Returns a connection for one user alone, which may stop reading from it; `give_back` or `drop` it."""
        with self._lock:
            self._raise_if_closed()
            idle = self._idle.get(target, [])
            while idle:
                connection = idle.pop()
                if connection.alive:
                    self._exclusive.add(connection)
                    return connection
        connection = self._open(target, deadline)
        with self._lock:
            if not self._closed:
                self._exclusive.add(connection)
        return self._unless_closed(connection)

    def give_back(self, target: Target, connection: Connection) -> None:
        """Takes back an exclusive connection on which nothing is going on any more."""
        with self._lock:
            self._exclusive.discard(connection)
            idle = self._idle.setdefault(target, [])
            keep = connection.alive and not self._closed and len(idle) < _IDLE_EXCLUSIVE_CONNECTIONS
            if keep:
                idle.append(connection)
        if not keep:
            connection.close()

    def drop(self, connection: Connection) -> None:
        """Closes an exclusive connection."""
        with self._lock:
            self._exclusive.discard(connection)
        connection.close()

    def close(self) -> None:
        """Closes all connections; callers that still wait get ConnectionLost. Later calls raise ClientClosed."""
        with self._lock:
            self._closed = True
            connections = [*self._shared.values(), *self._exclusive]
            connections += [connection for idle in self._idle.values() for connection in idle]
            self._shared.clear()
            self._exclusive.clear()
            self._idle.clear()
        for connection in connections:
            if connection.opened_by_process == os.getpid():
                connection.close()

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise ClientClosed("the client was closed")
