"""The HTTP server in front of the admin API: what comes before anybody looks at a request is bounded."""

import asyncio
import socket

import pytest

from spark_pulsar.server.web import WebServer

TIMEOUT_S = 30
ENDLESS = 1024 * 1024


async def answer_to(start: bytes, filler: bytes) -> bytes:
    """What a request is answered with that begins like this and never ends; nothing when the connection is cut."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = WebServer(lambda: None, 6650)
    server.start([listener])
    await server.started()
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    try:
        writer.write(start + filler * (ENDLESS // len(filler)))
        try:
            return await asyncio.wait_for(reader.read(), TIMEOUT_S)
        except ConnectionError:
            return b""
    finally:
        writer.close()
        await server.stop()


@pytest.mark.parametrize(
    ("start", "filler"),
    [(b"GET /", b"a"), (b"GET / HTTP/1.1\r\nX: ", b"a"), (b"GET / HTTP/1.1\r\n", b"X: a\r\n")],
    ids=["path", "header", "headers"],
)
def test_a_head_without_an_end_is_cut_off(start: bytes, filler: bytes) -> None:
    # covers T-8: hostile input
    answer = asyncio.run(answer_to(start, filler))
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
