"""The HTTP server in front of the admin API, with and without TLS: bytes and time are bounded."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import pytest
import uvicorn
from uvicorn.server import ServerState

from spark_pulsar.server.connections.admission import Pending
from spark_pulsar.server.sockets import listen
from spark_pulsar.server.web import HttpLimits, WebServer, _Connection
from tests.unit.server.conftest import Sides

TIMEOUT_S = 30
Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]
ENDLESS = 1024 * 1024


@pytest.fixture(params=["plain", "tls"])
def tls(request: pytest.FixtureRequest, sides: Sides) -> Sides | None:
    """A test runs without TLS, and over it."""
    return sides if request.param == "tls" else None


@contextlib.asynccontextmanager
async def serving(
    limits: HttpLimits | None = None, tls: Sides | None = None
) -> AsyncIterator[Callable[..., Awaitable[Peer]]]:
    """A server without a core, and a function that opens a connection to it."""
    (listener,) = listen("127.0.0.2", 0)  # which has no twin in IPv6
    server = WebServer(lambda: None, limits)
    server.start([] if tls else [listener])
    await server.started()
    if tls:
        await server.serve_tls([listener], lambda: tls.server)
    opened: list[asyncio.StreamWriter] = []

    async def connect(signed_by: Any = None) -> Peer:
        secured = {"ssl": tls.client(signed_by), "server_hostname": "localhost"} if tls else {}
        reader, writer = await asyncio.open_connection(*listener.getsockname(), **secured)
        opened.append(writer)
        return reader, writer

    try:
        yield connect
    finally:
        for writer in opened:
            writer.close()
        await server.stop()


async def ends(peer: Peer) -> bytes:
    """Reads until the server ends the connection."""
    try:
        return await asyncio.wait_for(peer[0].read(), TIMEOUT_S)
    except (ConnectionError, ssl.SSLError):
        return b""


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET / HT",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /admin/v2/brokers/ready HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n",
    ],
    ids=["nothing", "head", "body", "chunks", "chunk"],
)
async def test_a_client_that_stops_in_the_middle_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, said: bytes, tls: Sides | None
) -> None:
    # covers SEC-28, SEC-45, T-8
    async with serving(tls=tls) as connect:
        monkeypatch.setattr("spark_pulsar.server.web.PATIENCE_S", 0.01)
        peer = await connect()
        peer[1].write(said)
        await ends(peer)
        monkeypatch.undo()
        assert await ask(await connect())


@pytest.mark.parametrize(
    "said",
    [b"", b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"],
    ids=["line", "headers", "body"],
)
async def test_a_client_that_goes_on_and_on_byte_by_byte_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    # covers SEC-26
    monkeypatch.setattr("spark_pulsar.server.web.PATIENCE_S", 0.01)
    async with serving() as connect:
        reader, writer = await connect()
        writer.write(said)
        for _ in range(10_000):
            writer.write(b"X")
            try:
                if await asyncio.wait_for(reader.read(), 0.005) == b"":
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return
        raise AssertionError("it was waited for")


async def test_one_connection_serves_request_after_request(tls: Sides | None) -> None:
    # covers SEC-42
    async with serving(tls=tls) as connect:
        peer = await connect()
        for _ in range(50):
            assert await ask(peer)


async def test_small_answers_wait_for_nothing() -> None:
    # Without uvloop too: an answer of a few bytes would wait 40 ms for the client's word that it has the one before.
    accepted = asyncio.get_running_loop().create_future()
    listener = listen("127.0.0.2", 0)  # which has no twin in IPv6
    server = await asyncio.start_server(lambda _reader, writer: accepted.set_result(writer), sock=listener[0])
    _, writer = await asyncio.open_connection(*listener[0].getsockname())
    taken = await asyncio.wait_for(accepted, TIMEOUT_S)
    sock = taken.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    taken.close()
    writer.close()
    server.close()


async def test_a_connection_too_many_is_closed_and_the_others_are_served(tls: Sides | None) -> None:
    # covers T-8, SEC-45: no more are open than may be, so that the storage can open its files
    async with serving(HttpLimits(2), tls) as connect:
        first, second = await connect(), await connect()
        assert await ask(first)
        assert await ask(second)
        try:
            assert await ends(await connect()) == b""
        except (ConnectionError, ssl.SSLError):
            assert tls, "a handshake fails"
        assert await ask(first, b"Connection: close\r\n")
        await ends(first)
        assert await ask(await connect())


async def test_the_certificate_of_the_client_is_in_the_state_of_its_requests(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    # covers SEC-43
    states: list[Any] = []

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        states.append((scope["scheme"], scope["state"]["client_certificate"]))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    monkeypatch.setattr("spark_pulsar.server.web.build_app", lambda *_args, **_kwargs: app)
    async with serving(tls=sides) as connect:
        for signed_by in (None, sides.authority):
            reader, writer = await connect(signed_by)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await asyncio.wait_for(reader.readuntil(b"ok"), TIMEOUT_S)).startswith(b"HTTP/1.1 200")
    (first_scheme, none), (_, certificate) = states
    assert (first_scheme, none) == ("https", None)
    assert b"somebody" in certificate


class Slow:
    """A transport to a client that takes nothing but what it is made to take."""

    def __init__(self) -> None:
        self.unread_bytes = 0
        self.aborted = False

    def get_extra_info(self, _name: str) -> None:
        return None

    def write(self, data: bytes) -> None:
        self.unread_bytes += len(data)

    def set_write_buffer_limits(self, _high: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


CHUNK = b"x" * 60_000


async def test_a_client_that_reads_a_long_answer_is_waited_for_and_one_that_stops_is_not() -> None:
    # covers T-8: an answer that is streamed is refilled as it is read
    begun = asyncio.Event()

    async def endless(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": CHUNK, "more_body": True})
        begun.set()
        await asyncio.get_running_loop().create_future()

    config = uvicorn.Config(endless, loop="none", lifespan="off", ws="none", log_config=None)
    slow = Slow()
    connection = _Connection(config, ServerState(), {})
    connection.connection_made(cast("asyncio.Transport", slow))
    connection.data_received(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.wait_for(begun.wait(), TIMEOUT_S)
    for _ in range(5):
        connection._check_progress()
        assert not slow.aborted
        slow.unread_bytes -= 1_000
        connection.transport.write(b"x" * 1_000)
    connection._check_progress()
    assert not slow.aborted
    connection.transport.write(CHUNK)
    connection._check_progress()
    assert slow.aborted
    connection._watch.cancel()
    for each in connection.tasks:
        each.cancel()


async def ask(peer: Peer, headers: bytes = b"") -> bytes:
    """The answer to a request, which is that there is no core."""
    peer[1].write(b"GET /admin/v2/brokers/ready HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n")
    return await asyncio.wait_for(peer[0].readuntil(b'restarting its core"}'), TIMEOUT_S)


@pytest.mark.parametrize(
    ("start", "filler"),
    [(b"GET /", b"a"), (b"GET / HTTP/1.1\r\nX: ", b"a"), (b"GET / HTTP/1.1\r\n", b"X: a\r\n")],
    ids=["path", "header", "headers"],
)
async def test_a_head_without_an_end_is_cut_off(start: bytes, filler: bytes) -> None:
    # covers SEC-27
    async with serving() as connect:
        peer = await connect()
        peer[1].write(start + filler * (ENDLESS // len(filler)))
        answer = await ends(peer)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")


BROKEN = [
    (b"PUT /admin/v2/nothing HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", b"5\r\nhello\r\nZZ\r\n"),
    (b"PUT /admin/v2/nothing HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", b"zz\r\n"),
    (b"POST /admin/v2/brokers/ready HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", b"-1\r\n"),
    (b"HEAD / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", b"zz\r\n"),
    (b"HEAD /admin/v2/brokers/ready HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b""),
    (b"GET /admin/v2/brokers/ready HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00\x01\x02 / HTTP/1.1\r\n\r\n"),
    (b"GET /%ff%00%zz HTTP/1.1\r\nHost: x\r\n\r\n", b"GARBAGE\r\n\r\n"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n", b"xGET\r\n\r\n"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", b"\r\n"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", b"\r\n"),
    (b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n", b"\r\n"),
]


@pytest.mark.parametrize("waits", [False, True], ids=["at once", "after the answer"])
@pytest.mark.parametrize(("first", "second"), BROKEN)
async def test_no_bytes_of_a_stranger_are_a_traceback(
    first: bytes, second: bytes, waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    # covers T-8: hostile input
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failures.append(context))
    async with serving() as connect:
        peer = await connect()
        peer[1].write(first)
        if waits:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(peer[0].read(1), 0.1)
        peer[1].write(second)
        with contextlib.suppress(OSError):  # it is closed already
            peer[1].write_eof()
        await ends(peer)
        assert await ask(await connect())
    assert failures == []
    assert not [record for record in caplog.records if record.exc_info]


def head(path_bytes: int, header_bytes: int) -> bytes:
    """A request with a path of so many bytes, and a header of so many besides."""
    return b"GET /" + b"a" * (path_bytes - 1) + b" HTTP/1.1\r\nHost: x\r\nX: " + b"b" * header_bytes + b"\r\n\r\n"


@pytest.mark.parametrize("drips", [False, True], ids=["at once", "in pieces"])
@pytest.mark.parametrize(("path_bytes", "header_bytes"), [(2, 1000), (1000, 1)])
async def test_a_head_at_its_limit_is_served_and_past_it_refused(
    path_bytes: int, header_bytes: int, drips: bool
) -> None:
    # covers SEC-27
    async def status_of(request: bytes) -> bytes:
        async with serving(HttpLimits(head_bytes=1024)) as connect:
            reader, writer = await connect()
            answer = asyncio.ensure_future(reader.readline())
            piece = 100 if drips else len(request)
            for start in range(0, len(request), piece):
                writer.write(request[start : start + piece])
                await asyncio.wait([answer], timeout=0.02)
                if answer.done():
                    break
            return (await asyncio.wait_for(answer, TIMEOUT_S)).split()[1]

    assert await status_of(head(path_bytes, header_bytes)) == b"404"
    assert await status_of(head(path_bytes * 5, header_bytes * 5)) == b"431"


async def test_of_too_many_that_wait_for_their_clients_the_oldest_is_closed() -> None:
    # covers SEC-25
    waiting = Pending("HTTP connections", most=3)
    async with serving(HttpLimits(waiting=waiting)) as connect:
        peers: list[Peer] = []
        for _ in range(5):
            peers.append(await connect())
            peers[-1][1].write(b"GET / HT")
            while len(waiting) < min(len(peers), 3):
                await asyncio.to_thread(int)
        assert await ends(peers[0]) == b""
        assert await ends(peers[1]) == b""
        fresh = await connect()
        for _ in range(3):
            assert await ask(fresh)
        assert await ends(peers[2]) == b""
        assert len(waiting) == 3
    assert len(waiting) == 0
