"""Connections over TLS, on both event loops: a transport as without TLS, and handshakes that fail."""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import trustme

from spark_pulsar.server.connections import tls_connection
from spark_pulsar.server.connections.admission import Pending
from spark_pulsar.server.connections.tls_connection import Handshakes, client_certificate
from spark_pulsar.server.sockets import listen
from tests.unit.server.conftest import Sides

pytestmark = pytest.mark.usefixtures("both_loops")
MANY_BYTES = 5_000_000


class Echo(asyncio.Protocol):
    """A protocol that sends back what it gets; "flood" makes it send much instead, "bye" makes it end."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.certificate: bytes | None = None
        self.paused = asyncio.Event()
        self.resumed = asyncio.Event()
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.certificate = client_certificate(transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(bytes(MANY_BYTES) if data == b"flood" else data)
        if data == b"bye":
            self.transport.close()

    def pause_writing(self) -> None:
        self.paused.set()

    def resume_writing(self) -> None:
        self.resumed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()


@contextlib.asynccontextmanager
async def serving(
    sides: Sides, has_room: Callable[[int], bool] = lambda _: True, waiting: Pending | None = None
) -> AsyncIterator[tuple[Any, list[Echo], Handshakes]]:
    """The address of a server, the protocols it has made, its handshakes."""
    loop, made = asyncio.get_running_loop(), list[Echo]()

    def echo() -> Echo:
        made.append(Echo())
        return made[-1]

    (listener,) = listen("127.0.0.2", 0)
    handshakes = Handshakes(loop, lambda: sides.server, has_room, waiting)
    server = await loop.create_server(handshakes.over(echo), sock=listener)
    try:
        yield listener.getsockname(), made, handshakes
    finally:
        server.close()
        for each in made:
            each.transport.abort()
            await each.lost.wait()
        await server.wait_closed()


async def until(condition: Callable[[], bool]) -> None:
    loop = asyncio.get_running_loop()
    while not condition():
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn


async def connected(address: Any, context: ssl.SSLContext) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(*address, ssl=context, server_hostname="localhost", limit=MANY_BYTES)


async def test_bytes_pass_whole_and_in_order(sides: Sides) -> None:
    # covers SEC-42
    async with serving(sides) as (address, made, handshakes):
        reader, writer = await connected(address, sides.client())
        for size in (1, 100, 16_384, 16_385, 1_000_000, MANY_BYTES):
            sent = (b"%09d" % size) * (size // 9 + 1)
            writer.write(sent)
            assert await reader.readexactly(len(sent)) == sent
        assert made[0].certificate is None
        assert not handshakes.pending
        writer.write(b"bye")
        assert await reader.read() == b"bye"
        writer.close()


async def test_the_certificate_of_the_client_is_at_hand(sides: Sides) -> None:
    # covers SEC-43
    async with serving(sides) as (address, made, _):
        _reader, writer = await connected(address, sides.client(sides.authority))
        await until(lambda: bool(made))
        certificate = made[0].certificate
        assert certificate is not None
        assert b"somebody" in certificate
        writer.close()


async def test_output_that_is_not_read_is_counted_where_it_waits_and_pauses_the_writer(sides: Sides) -> None:
    # covers SEC-30
    async with serving(sides) as (address, made, _):
        reader, writer = await connected(address, sides.client())
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"flood")
        await until(lambda: bool(made))
        await made[0].paused.wait()
        waiting = made[0].transport.get_write_buffer_size()
        assert 0 < waiting <= MANY_BYTES + MANY_BYTES // 100
        assert not made[0].resumed.is_set()
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert await reader.readexactly(MANY_BYTES) == bytes(MANY_BYTES)
        await made[0].resumed.wait()
        writer.close()


async def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log has, once it has something."""
    await until(lambda: bool(caplog.records))
    assert all(each.exc_info is None for each in caplog.records)
    return [each.getMessage() for each in caplog.records]


async def test_a_failed_handshake_is_one_line(sides: Sides, caplog: pytest.LogCaptureFixture) -> None:
    # covers SEC-45, SEC-87
    caplog.set_level(logging.INFO, "spark_pulsar.server")
    async with serving(sides) as (address, made, handshakes):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await reader.read()
        writer.close()
        host, port = writer.get_extra_info("sockname")
        assert await said(caplog) == [f"TLS handshake of /{host}:{port} failed: http request"]
        caplog.clear()

        reader, writer = await connected(address, sides.client(trustme.CA()))
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            await reader.read()
        (line,) = await said(caplog)
        assert "the client's certificate is refused: " in line
        writer.close()
        caplog.clear()

        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection(*address, ssl=ssl.create_default_context(), server_hostname="localhost")
        (line,) = await said(caplog)
        assert line.endswith(("unknown ca", "the client has left"))
        assert not made
        assert not handshakes.pending


async def test_who_comes_and_goes_without_a_word_is_not_in_the_log(
    sides: Sides, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "spark_pulsar.server")
    async with serving(sides) as (address, _made, handshakes):
        _reader, writer = await asyncio.open_connection(*address)
        await until(lambda: bool(handshakes.pending))
        writer.close()
        await until(lambda: not handshakes.pending)
    assert not caplog.records


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01"])
async def test_a_handshake_has_its_time(
    sides: Sides, sent: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # covers SEC-45
    monkeypatch.setattr(tls_connection, "HANDSHAKE_TIMEOUT_S", 0.05)
    caplog.set_level(logging.INFO, "spark_pulsar.server")
    async with serving(sides) as (address, made, handshakes):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(sent)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        assert "not done after 0.05 s" in (await said(caplog))[0]
        assert not made
        assert not handshakes.pending


async def test_handshakes_take_the_room_of_connections(sides: Sides) -> None:
    # covers SEC-45
    async with serving(sides, lambda pending: pending < 2) as (address, _made, handshakes):
        peers = [await asyncio.open_connection(*address) for _ in range(2)]
        await until(lambda: len(handshakes.pending) == 2)
        with pytest.raises((ConnectionError, ssl.SSLError)):
            await connected(address, sides.client())
        peers.pop()[1].close()
        await until(lambda: len(handshakes.pending) == 1)
        _reader, writer = await connected(address, sides.client())
        writer.close()
        peers.pop()[1].close()


async def test_failures_count_against_the_lines_of_their_host(sides: Sides, caplog: pytest.LogCaptureFixture) -> None:
    # covers SEC-45
    caplog.set_level(logging.INFO, "spark_pulsar.server")
    handshakes = Handshakes(asyncio.get_running_loop(), lambda: sides.server)
    handshakes.failed(("10.0.0.1", 1), "nonsense")
    assert [getattr(record, "host", None) for record in caplog.records] == ["/10.0.0.1"]


async def test_records_that_are_damaged_end_the_connection(sides: Sides) -> None:
    async with serving(sides) as (address, made, _):
        sock = socket.create_connection(address[:2])
        sock.setblocking(False)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = sides.client().wrap_bio(incoming, outgoing, server_hostname="localhost")
        reader, writer = await asyncio.open_connection(sock=sock)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await reader.read(65_536))
        tls.write(b"hello")
        record = bytearray(outgoing.read())
        record[-1] ^= 1
        writer.write(record)
        await reader.read()
        assert not made or await made[0].lost.wait()
        writer.close()


async def test_of_too_many_handshakes_the_oldest_is_closed(sides: Sides) -> None:
    # covers SEC-25
    waiting = Pending("TLS handshakes", most_of_host=2)
    async with serving(sides, waiting=waiting) as (address, _, handshakes):
        peers = []
        for _ in range(3):
            peers.append(await asyncio.open_connection(*address))
            while len(handshakes.pending) < min(len(peers), 2):
                await asyncio.to_thread(int)
        with contextlib.suppress(ConnectionError):
            assert await peers[0][0].read() == b""
        reader, writer = await asyncio.open_connection(*address, ssl=sides.client(), server_hostname="localhost")
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        writer.close()
        for _, each in peers:
            each.close()
        while handshakes.pending:
            await asyncio.to_thread(int)
        assert len(waiting) == 0
