"""Tests that are coroutines, and an authority with contexts of TLS for both sides."""

import asyncio
import inspect
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
import uvloop

from spark_pulsar.server.security.tls import TlsSettings, make_context

TIMEOUT_S = 60


@pytest.fixture(params=["asyncio", "uvloop"])
def both_loops(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    """Event loops on which a test is a coroutine, one after the other."""
    return uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine on an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    with asyncio.Runner(loop_factory=pyfuncitem.funcargs.get("both_loops")) as runner:
        runner.run(asyncio.wait_for(pyfuncitem.obj(**given), TIMEOUT_S))
    return True


class Sides:
    """An authority, and contexts of both sides that trust it."""

    def __init__(self, directory: Path) -> None:
        self.authority = trustme.CA()
        made = self.authority.issue_cert("localhost", "127.0.0.2")
        files = [directory / name for name in ("broker.pem", "broker.key", "authority.pem")]
        files[0].write_bytes(b"".join(each.bytes() for each in made.cert_chain_pems))
        made.private_key_pem.write_to_path(files[1])
        self.authority.cert_pem.write_to_path(files[2])
        self.server = make_context(TlsSettings(*files))

    def client(self, signed_by: trustme.CA | None = None) -> ssl.SSLContext:
        """Returns a context of a client, with a certificate of `signed_by`."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        if signed_by is not None:
            signed_by.issue_cert(common_name="somebody").configure_cert(context)
        return context


@pytest.fixture(scope="session")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Sides:
    return Sides(tmp_path_factory.mktemp("tls"))
