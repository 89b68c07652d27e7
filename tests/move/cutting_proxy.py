"""A TCP proxy in front of a broker that cuts a connection after so many bytes of its client."""

from __future__ import annotations

import contextlib
import socket
import threading
import urllib.parse
from collections.abc import Callable, Iterable


class CuttingProxy:
    """Forwards connections to `service_url`. The next number of `cuts` is the bytes of a client after which its
    connection is cut; behind the last one none is."""

    def __init__(self, service_url: str, cuts: Iterable[int]) -> None:
        url = urllib.parse.urlsplit(service_url)
        assert url.hostname is not None
        assert url.port is not None
        self._broker = (url.hostname, url.port)
        self._left = iter(cuts)
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"pulsar://127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets: list[socket.socket] = []
        self._start(self._accept)

    def close(self) -> None:
        """Stops listening and cuts all connections."""
        for each in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _start(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            broker = socket.create_connection(self._broker, 10)
            self._sockets += [client, broker]
            self._start(lambda one=(client, broker): self._pump(*one, next(self._left, None)))  # type: ignore[misc]
            self._start(lambda one=(broker, client): self._pump(*one, None))  # type: ignore[misc]

    def _pump(self, source: socket.socket, target: socket.socket, left: int | None) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16 if left is None else min(left, 1 << 16)):
                target.sendall(data)
                left = None if left is None else left - len(data)
                if left == 0:
                    self.cuts += 1
                    break
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
