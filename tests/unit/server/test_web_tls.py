"""The admin API over TLS: the protections of the server without TLS, and the client's certificate for who asks."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from spark_pulsar.server import web
from spark_pulsar.server.security.tls import TlsSettings, make_context
from spark_pulsar.server.sockets import listen
from spark_pulsar.server.web import HttpLimits, WebServer

TIMEOUT_S = 30
REQUEST = b"GET /admin/v2/brokers/ready HTTP/1.1\r\nHost: x\r\n\r\n"
Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def context(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """The server's."""
    files: list[Path] = [tmp_path_factory.mktemp("tls") / name for name in ("certificate", "key", "authority")]
    made = authority.issue_cert("localhost")
    files[0].write_bytes(b"".join(each.bytes() for each in made.cert_chain_pems))
    made.private_key_pem.write_to_path(files[1])
    authority.cert_pem.write_to_path(files[2])
    return make_context(TlsSettings(*files))


@contextlib.asynccontextmanager
async def serving(context: ssl.SSLContext, most_connections: int = 100) -> AsyncIterator[Any]:
    """A server without a core; its address."""
    (listener,) = listen("127.0.0.2", 0)  # which has no twin in IPv6
    server = WebServer(lambda: None, HttpLimits(most_connections))
    server.start([])
    await server.started()
    await server.serve_tls([listener], lambda: context)
    try:
        yield listener.getsockname()
    finally:
        await server.stop()


async def connected(address: Any, authority: trustme.CA, name: str = "") -> Peer:
    """A connection, with a certificate of this name if there is one."""
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    if name:
        authority.issue_cert(common_name=name).configure_cert(trusting)
    return await asyncio.open_connection(*address, ssl=trusting, server_hostname="localhost")


async def answer(peer: Peer) -> bytes:
    """The answer to a request, which is that there is no core."""
    peer[1].write(REQUEST)
    return await asyncio.wait_for(peer[0].readuntil(b'restarting its core"}'), TIMEOUT_S)


async def end(peer: Peer) -> None:
    """Waits until the server ends the connection."""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while await asyncio.wait_for(peer[0].read(1000), TIMEOUT_S):
            pass
    peer[1].close()


def test_requests_follow_each_other_on_one_connection(context: ssl.SSLContext, authority: trustme.CA) -> None:
    # covers SEC-42
    async def scene() -> None:
        async with serving(context) as address:
            peer = await connected(address, authority)
            for _ in range(3):
                assert (await answer(peer)).startswith(b"HTTP/1.1 503")
            peer[1].close()

    asyncio.run(scene())


@pytest.mark.parametrize("said", [b"", b"GET / HT", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"])
def test_a_client_that_stops_in_the_middle_is_not_waited_for(
    context: ssl.SSLContext, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    # covers T-8, SEC-45
    async def scene() -> None:
        async with serving(context) as address:
            monkeypatch.setattr(web, "PATIENCE_S", 0.01)
            peer = await connected(address, authority)
            peer[1].write(said)
            await end(peer)
            monkeypatch.undo()
            fresh = await connected(address, authority)
            assert await answer(fresh)
            fresh[1].close()

    asyncio.run(scene())


def test_the_limit_of_connections_is_one_for_all(context: ssl.SSLContext, authority: trustme.CA) -> None:
    # covers T-8, SEC-45
    async def scene() -> None:
        async with serving(context, most_connections=2) as address:
            peers = [await connected(address, authority) for _ in range(2)]
            for peer in peers:
                await answer(peer)
            with pytest.raises((ConnectionError, ssl.SSLError)):
                await connected(address, authority)
            for peer in peers:
                assert await answer(peer)
                peer[1].close()

    asyncio.run(scene())


def test_the_certificate_of_the_client_is_in_the_state_of_its_requests(
    context: ssl.SSLContext, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    # covers SEC-43
    states: list[Any] = []

    def build(*_args: object, **_kwargs: object) -> Any:
        async def app(scope: Any, _receive: Any, send: Any) -> None:
            states.append((scope["scheme"], scope["state"]["client_certificate"]))
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"ok"})

        return app

    monkeypatch.setattr(web, "build_app", build)

    async def scene() -> None:
        async with serving(context) as address:
            for name in ("", "somebody"):
                reader, writer = await connected(address, authority, name)
                writer.write(REQUEST)
                assert (await asyncio.wait_for(reader.readuntil(b"ok"), TIMEOUT_S)).startswith(b"HTTP/1.1 200")
                writer.close()

    asyncio.run(scene())
    (first_scheme, none), (_, certificate) = states
    assert (first_scheme, none) == ("https", None)
    assert b"somebody" in certificate
