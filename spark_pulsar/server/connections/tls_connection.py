"""A connection over TLS: records of TLS on one side, a transport for the protocol above on the other.

It lets TCP's transport hold all that was not sent, so that the budget for unread output and the pausing of writers work
as without TLS, on every event loop (SEC-30). Handshakes have a time limit and are counted from the first byte on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from spark_pulsar.server.log.hosts import of_host
from spark_pulsar.server.sockets import peer_text

from .admission import Pending

HANDSHAKE_TIMEOUT_S: Final = 10.0
"""Time that a handshake may take (SEC-45)."""
_RECORD_BYTES: Final = 16 * 1024
_SLICE_BYTES: Final = 32 * 1024
"""Bytes that pass the memory of TLS at a time: it stays as large as it once was, for as long as the connection."""
_SCRATCH_BYTES: Final = 288 * 1024
_LOG = logging.getLogger("spark_pulsar.server")

Above = Callable[[], asyncio.Protocol]
"""Maker of the protocol above TLS, called once the handshake is done."""


class TlsTransport(asyncio.Transport):
    """The transport of a connection over TLS. Bytes written to it leave for TCP's transport at once."""

    def __init__(self, connection: TlsConnection, tcp: asyncio.Transport, outgoing: ssl.MemoryBIO) -> None:
        super().__init__()
        self._connection = weakref.ref(connection)  # which TCP's transport holds: no cycle is left when it goes
        self._tcp = tcp
        self._tls = connection.tls
        self._outgoing = outgoing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        connection = self._connection()
        if connection is not None:
            connection.above = cast("asyncio.Protocol", protocol)

    def write(self, data: Any) -> None:
        if self._tcp.is_closing():
            return
        write, outgoing = self._tls.write, self._outgoing
        if len(data) <= _RECORD_BYTES:
            if data:
                write(data)
                self._tcp.write(outgoing.read())
            return
        records = []
        with memoryview(data) as view:
            written = 0
            while written < len(view):
                written += write(view[written:])
                if outgoing.pending >= _SLICE_BYTES:
                    records.append(outgoing.read())
        records.append(outgoing.read())
        self._tcp.writelines(records)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        if not self._tcp.is_closing():
            with contextlib.suppress(ssl.SSLError):  # that the peer has not yet said the same
                self._tls.unwrap()
            self._tcp.write(self._outgoing.read())
            self._tcp.close()

    def abort(self) -> None:
        self._tcp.abort()

    def is_closing(self) -> bool:
        return self._tcp.is_closing()

    def is_reading(self) -> bool:
        return self._tcp.is_reading()

    def pause_reading(self) -> None:
        self._tcp.pause_reading()

    def resume_reading(self) -> None:
        self._tcp.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._tcp.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._tcp.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._tcp.get_write_buffer_limits()

    def can_write_eof(self) -> bool:
        return False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "sslcontext":
            return self._tls.context
        if name == "ssl_object":
            return self._tls
        return self._tcp.get_extra_info(name, default)


def client_certificate(transport: Any) -> bytes | None:
    """Returns the verified certificate of a connection's client in DER form; None without TLS or certificate."""
    tls = transport.get_extra_info("ssl_object")
    return None if tls is None else tls.getpeercert(binary_form=True)


class Handshakes:
    """Handshakes under way on the ports of one protocol, and the way to begin one."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        context: Callable[[], ssl.SSLContext],
        has_room: Callable[[int], bool] = lambda _pending: True,
        waiting: Pending | None = None,
    ) -> None:
        """`context` returns that of new handshakes; `has_room` returns whether one more may begin beside that number,
        and `waiting` ends the oldest of too many."""
        self.loop = loop
        self.context = context
        self.has_room = has_room
        self.pending: set[TlsConnection] = set()
        self.waiting = Pending("TLS handshakes") if waiting is None else waiting
        self.scratch = memoryview(bytearray(_SCRATCH_BYTES))

    def over(self, above: Above) -> Above:
        """Makes the protocol of a listening socket: TLS, and above it the one that `above` makes."""
        return lambda: TlsConnection(self, above)

    def failed(self, peer: Any, reason: str) -> None:
        """Logs a failed handshake."""
        _LOG.info("TLS handshake of %s failed: %s", peer_text(peer), reason, extra=of_host(peer))


class TlsConnection(asyncio.Protocol):
    """The protocol of TCP's transport: it takes records and hands over what they hold."""

    def __init__(self, handshakes: Handshakes, above: Above) -> None:
        self._handshakes = handshakes
        self._make_above = above
        self.above: asyncio.Protocol | None = None
        """Protocol above TLS, once the handshake is done."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._has_come = False
        """The client has sent something."""
        self._timer: asyncio.TimerHandle | None = None

    # Called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._tcp: asyncio.Transport = transport  # type: ignore[assignment]
        self._peer = transport.get_extra_info("peername")
        handshakes = self._handshakes
        if not handshakes.has_room(len(handshakes.pending)):
            self._tcp.abort()
            return
        self.tls = handshakes.context().wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._transport = TlsTransport(self, self._tcp, self._outgoing)
        handshakes.pending.add(self)
        handshakes.waiting.enter(self, self._peer, self._tcp.abort)
        self._timer = handshakes.loop.call_later(HANDSHAKE_TIMEOUT_S, self._end_late)

    def data_received(self, data: bytes) -> None:
        if self._tcp.is_closing():
            return
        self._has_come = True
        if self.above is not None:
            self._read(data)
        else:
            self._incoming.write(data)
            if self._shake_hands():
                self._read(b"")

    def pause_writing(self) -> None:
        if self.above is not None:
            self.above.pause_writing()

    def resume_writing(self) -> None:
        if self.above is not None:
            self.above.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self in self._handshakes.pending and self._has_come:
            self._handshakes.failed(self._peer, "the client has left")
        self._end_handshake()
        if self.above is not None:
            self.above.connection_lost(exc)

    # The handshake

    def _shake_hands(self) -> bool:
        """Takes the handshake as far as it goes, and returns whether it is done."""
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send()
            return False
        except ssl.SSLError as error:
            self._send()  # the alert for the client
            self._fail(reason_of(error))
            return False
        self._send()
        self._end_handshake()
        self.above = self._make_above()
        self.above.connection_made(self._transport)
        return True

    def _end_handshake(self) -> None:
        self._handshakes.pending.discard(self)
        self._handshakes.waiting.leave(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_late(self) -> None:
        self._timer = None
        self._fail(f"not done after {HANDSHAKE_TIMEOUT_S:g} s")
        self._tcp.abort()

    def _fail(self, reason: str) -> None:
        self._end_handshake()
        self._handshakes.failed(self._peer, reason)
        self._tcp.close()

    # Records

    def _read(self, data: bytes) -> None:
        """Hands over what the records hold that are whole with these bytes."""
        scratch = self._handshakes.scratch
        size, has_ended = 0, False
        with memoryview(data) as view:
            for start in range(0, len(view) or 1, _SLICE_BYTES):
                self._incoming.write(view[start : start + _SLICE_BYTES])
                is_drained = False
                while not (is_drained or has_ended or self._tcp.is_closing()):
                    if size > _SCRATCH_BYTES - _RECORD_BYTES:
                        self._hand_over(bytes(scratch[:size]))
                        size = 0
                    count, is_drained = self._decrypt(scratch[size:])
                    size += count
                    has_ended = not (count or is_drained)
        if size and not self._tcp.is_closing():
            self._hand_over(bytes(scratch[:size]))
        if not self._tcp.is_closing():
            self._send()
            if has_ended:
                self._transport.close()

    def _hand_over(self, data: bytes) -> None:
        """Passes bytes to the protocol above, which may have put another one in its place."""
        assert self.above is not None, "set by the handshake"
        self.above.data_received(data)

    def _decrypt(self, room: memoryview) -> tuple[int, bool]:
        """Decrypts one record, and returns its size, and whether no other one is whole yet. Neither means the end."""
        tls = self.tls
        try:
            count: int = tls.read(_RECORD_BYTES, room)  # type: ignore[assignment]
        except ssl.SSLWantReadError:
            return 0, True
        except ssl.SSLError as error:
            _LOG.info(
                "TLS connection of %s ends: %s", peer_text(self._peer), reason_of(error), extra=of_host(self._peer)
            )
            return 0, False
        return count, bool(count) and not (self._incoming.pending or tls.pending())

    def _send(self) -> None:
        if self._outgoing.pending:
            self._tcp.write(self._outgoing.read())


def reason_of(error: ssl.SSLError) -> str:
    """Writes the reason of an error of TLS for the log."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    return (error.reason or str(error)).replace("_", " ").lower()
