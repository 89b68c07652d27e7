"""Byte streams to a broker, plain and encrypted, behind one face: one thread reads, and one at a time writes."""

import select
import socket
import ssl
import threading
from collections.abc import Sequence
from typing import Final, Protocol

from spark_pulsar.client.errors import TlsError

_SEND_BUFFER_BYTES: Final = 1024 * 1024
_BUFFERS_PER_CALL: Final = 512  # below every system's limit for sendmsg

Buffer = bytes | memoryview


class Stream(Protocol):
    """An open stream. Every method raises OSError when the stream is broken, TimeoutError when nothing can be written
    for too long."""

    def wait_to_receive(self, timeout_ms: int) -> bool:
        """Waits until there may be bytes to receive; false when the time is over."""

    def receive(self, size: int) -> bytes | None:
        """Returns at most `size` bytes, none at the end of the stream, or None when there are none yet."""

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Writes the buffers one after the other."""

    def takes_more(self) -> bool:
        """Returns whether a few bytes can be written without waiting."""

    def shut_down(self) -> None:
        """Ends both directions, which wakes waiting threads. May be called by any thread."""

    def close(self) -> None:
        """Gives the socket back to the system; the reading thread calls it last."""


class PlainStream:
    """A stream as it is."""

    def __init__(self, sock: socket.socket, timeout_ms: int) -> None:
        sock.settimeout(timeout_ms / 1000)
        self._socket = sock
        self._arriving = select.poll()
        self._arriving.register(sock.fileno(), select.POLLIN)

    def wait_to_receive(self, timeout_ms: int) -> bool:
        """See `Stream`."""
        return bool(self._arriving.poll(timeout_ms))

    def receive(self, size: int) -> bytes | None:
        """See `Stream`."""
        return self._socket.recv(size)

    def send(self, buffers: Sequence[Buffer]) -> None:
        """See `Stream`."""
        for first in range(0, len(buffers), _BUFFERS_PER_CALL):
            some = buffers[first : first + _BUFFERS_PER_CALL]
            if len(some) == 1:
                self._socket.sendall(some[0])
                continue
            left = sum(len(buffer) for buffer in some)
            sent = self._socket.sendmsg(some)
            if sent < left:
                self._socket.sendall(b"".join(some)[sent:] if left <= _SEND_BUFFER_BYTES else _tail(some, sent))

    def takes_more(self) -> bool:
        """See `Stream`."""
        return _writable(self._socket, 0)

    def shut_down(self) -> None:
        """See `Stream`."""
        self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """See `Stream`."""
        self._socket.close()


class TlsStream:
    """A stream under TLS, after its handshake.

    OpenSSL lets one thread at a time use a connection, even when one reads and the other writes. So the socket never
    blocks, each call of OpenSSL holds a lock, and waiting for the socket happens outside of it.
    """

    def __init__(self, sock: ssl.SSLSocket, timeout_ms: int) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._timeout_ms = timeout_ms
        self._failed: ssl.SSLError | None = None
        self._lock = threading.Lock()
        self._arriving = select.poll()
        self._arriving.register(sock.fileno(), select.POLLIN)

    def wait_to_receive(self, timeout_ms: int) -> bool:
        """See `Stream`."""
        with self._lock:
            decrypted = self._socket.pending()
        return decrypted > 0 or self._failed is not None or bool(self._arriving.poll(timeout_ms))

    def receive(self, size: int) -> bytes | None:
        """See `Stream`. One call of OpenSSL gives one TLS record, 16 KiB at most: several are put together."""
        pieces: list[bytes] = []
        while size > 0 and self._failed is None:
            try:
                with self._lock:
                    piece = self._socket.recv(size)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return b"".join(pieces) if pieces else None
            except ssl.SSLError as error:
                self._failed = error
                break
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
        if self._failed is not None and not pieces:  # else the next call raises it: what came before may say why
            raise TlsError(f"the broker ended TLS: {self._failed}") from self._failed
        return b"".join(pieces)

    def send(self, buffers: Sequence[Buffer]) -> None:
        """See `Stream`."""
        for first in range(0, len(buffers), _BUFFERS_PER_CALL):
            some = buffers[first : first + _BUFFERS_PER_CALL]
            left = memoryview(some[0] if len(some) == 1 else b"".join(some))
            while left:
                try:
                    with self._lock:
                        sent = self._socket.send(left)
                except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    if not _writable(self._socket, self._timeout_ms):
                        raise TimeoutError("timed out") from None
                else:
                    left = left[sent:]

    def takes_more(self) -> bool:
        """See `Stream`."""
        return _writable(self._socket, 0)

    def shut_down(self) -> None:
        """See `Stream`."""
        # SSLSocket.shutdown would let a thread that reads go on without TLS.
        socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """See `Stream`."""
        with self._lock:
            self._socket.close()


def _writable(sock: socket.socket, timeout_ms: int) -> bool:
    poller = select.poll()
    poller.register(sock.fileno(), select.POLLOUT)
    return bool(poller.poll(timeout_ms))


def _tail(buffers: Sequence[Buffer], skip: int) -> memoryview:
    """Returns the rest of the buffers after the first `skip` bytes."""
    return memoryview(b"".join(buffers))[skip:]
