"""A TCP proxy that tells brokers apart by the name in the TLS handshake, as Apache Traffic Server does."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping

from tests.apache_pulsar.start import free_ports


class SniProxy:
    """Routes connections by `routes`, host name to (address, port). `names` are those that were asked for."""

    def __init__(self, routes: Mapping[str, tuple[str, int]]) -> None:
        self.names: list[str] = []
        self._routes = dict(routes)
        (self.port,) = free_ports(1)
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._threads = [threading.Thread(target=self._accept)]
        self._sockets: list[socket.socket] = []
        self._threads[0].start()

    @property
    def url(self) -> str:
        """The proxy's address, for `proxyServiceUrl`."""
        return f"pulsar+ssl://127.0.0.1:{self.port}"

    def close(self) -> None:
        """Stops listening and cuts all connections."""
        for each in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for each in [self._listener, *self._sockets]:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(sock)
            self._start(lambda sock=sock: self._route(sock))

    def _start(self, work: object) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _route(self, client: socket.socket) -> None:
        # The name stands in clear text in the first record that the client sends.
        hello = client.recv(16 * 1024)
        name = next((name for name in self._routes if name.encode() in hello), None)
        if name is None:
            client.shutdown(socket.SHUT_RDWR)
            return
        self.names.append(name)
        broker = socket.create_connection(self._routes[name])
        self._sockets.append(broker)
        broker.sendall(hello)
        self._start(lambda: _pump(broker, client))
        _pump(client, broker)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def sni_proxy(routes: Mapping[str, tuple[str, int]]) -> Iterator[SniProxy]:
    """A running one, closed in the end."""
    one = SniProxy(routes)
    try:
        yield one
    finally:
        one.close()
