"""TLS and a token for the load generator: a socket over TLS that behaves like one without."""

import socket
import ssl
from dataclasses import dataclass

_RECORD_BYTES = 1 << 14
_MOST_BYTES = 1 << 18
"""Bytes of one send, so that the generator reads in between."""


@dataclass(frozen=True, slots=True)
class Access:
    """Requirements of a secured broker."""

    context: ssl.SSLContext
    token: str


ACCESSES: dict[str, Access] = {}
"""Accesses of the brokers of this run, by service URL."""


class TlsSocket:
    """A connected socket over TLS that does not block."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, host: str) -> None:
        self._tls = context.wrap_socket(plain, server_hostname=host)
        self._tls.setblocking(False)

    def fileno(self) -> int:
        """The descriptor, for `select`."""
        return self._tls.fileno()

    def pending(self) -> int:
        """Bytes that are decrypted already, of which `select` knows nothing."""
        return self._tls.pending()

    def send(self, data: memoryview) -> int:
        """Sends what there is room for. Raises BlockingIOError when there is none."""
        sent = 0
        try:
            while sent < min(len(data), _MOST_BYTES):
                sent += self._tls.send(data[sent : sent + _RECORD_BYTES])
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            if not sent:
                raise BlockingIOError from None
        return sent

    def recv_into(self, view: memoryview) -> int:
        """Reads what has arrived. Raises BlockingIOError when nothing has."""
        size = 0
        try:
            while size < len(view):
                count = self._tls.recv_into(view[size:])
                size += count
                if not count:
                    break
        except ssl.SSLWantReadError:
            if not size:
                raise BlockingIOError from None
        return size

    def close(self) -> None:
        """Closes the socket."""
        self._tls.close()
