"""Providers chosen by name and by method, and the queue of hosts whose checks wait."""

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from spark_pulsar.model.errors import AuthenticationError
from spark_pulsar.server.configuration.reading import InvalidConfiguration, load_config
from spark_pulsar.server.security import check_queue
from spark_pulsar.server.security import providers as registry
from spark_pulsar.server.security.check_queue import (
    FAILED_S,
    MAX_HOSTS,
    MAX_WAITING,
    MAX_WAITING_OF_HOST,
    Check,
    CheckQueue,
)
from spark_pulsar.server.security.provider import Authenticated, Credentials
from spark_pulsar.server.security.providers import Providers, providers_of
from tests.eventually import eventually

NOW_MS = 1_795_000_000_000


class Listed:
    """A provider that knows some credentials, and the role of each."""

    is_slow = False

    def __init__(self, roles: Mapping[bytes, str], method: str = "token", error: Exception | None = None) -> None:
        self.roles = roles
        self.method = method
        self.error = error

    def authenticate(self, credentials: Credentials, now_ms: int) -> Authenticated:
        assert now_ms == NOW_MS
        if self.error is not None:
            raise self.error
        if credentials.data not in self.roles:
            raise AuthenticationError(f"not of {sorted(self.roles)}")
        return Authenticated(self.roles[credentials.data])

    def from_headers(self, headers: Mapping[str, str], certificate: bytes | None) -> bytes | None:
        raise AssertionError(headers, certificate)


class Slow(Listed):
    """A provider that answers when it is let."""

    is_slow = True

    def __init__(self, roles: Mapping[bytes, str]) -> None:
        super().__init__(roles)
        self.let = threading.Event()
        self.threads: set[str] = set()

    def authenticate(self, credentials: Credentials, now_ms: int) -> Authenticated:
        self.threads.add(threading.current_thread().name)
        assert self.let.wait(10)
        return super().authenticate(credentials, now_ms)


def _check(providers: Providers, data: bytes, method: str = "token") -> str:
    return asyncio.run(providers.check(Credentials(method, data))).role


def _providers(*listed: Any, anonymous_role: str = "") -> Providers:
    return Providers(listed, anonymous_role, lambda: NOW_MS)


def test_method_chooses_and_several_of_one_method_are_asked_in_turn() -> None:
    # covers AU-1
    providers = _providers(Listed({b"a": "r"}), Listed({b"b": "s"}), Listed({b"a": "t"}, method="basic"))
    assert (_check(providers, b"a"), _check(providers, b"b"), _check(providers, b"a", "basic")) == ("r", "s", "t")
    with pytest.raises(AuthenticationError, match="not of \\[b'a'\\]; not of \\[b'b'\\]"):
        _check(providers, b"c")
    with pytest.raises(AuthenticationError, match="no provider of its method"):
        _check(providers, b"a", "none")


def test_anonymous_role_is_for_clients_of_no_method_only() -> None:
    # covers AU-11
    providers = _providers(Listed({}), anonymous_role="guest")
    assert _check(providers, b"", "none") == "guest"
    with pytest.raises(AuthenticationError):
        _check(providers, b"bad")


def test_failure_of_a_provider_refuses_and_shows_nothing(caplog: pytest.LogCaptureFixture) -> None:
    # covers AU-12
    providers = _providers(Listed({}, error=ValueError("s3cret")))
    with pytest.raises(AuthenticationError, match="ValueError") as caught:
        _check(providers, b"s3cret")
    assert "s3cret" not in str(caught.value) + caplog.text


def test_empty_role_and_endless_credentials_are_refused() -> None:
    # covers SEC-1
    providers = _providers(Listed({b"a": "", b"b" * 20_000: "r"}))
    with pytest.raises(AuthenticationError, match="no role"):
        _check(providers, b"a")
    with pytest.raises(AuthenticationError, match="20000 bytes"):
        _check(providers, b"b" * 20_000)


async def test_slow_providers_run_in_few_threads_and_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers SEC-1
    monkeypatch.setattr(check_queue, "MAX_WAITING_OF_HOST", 20)
    slow, loop = Slow({b"a": "r"}), asyncio.get_running_loop()
    providers = _providers(slow)
    asked: list[asyncio.Future[Any]] = [loop.create_future() for _ in range(25)]
    for each in asked:
        providers.start(loop, Credentials("token", b"a"), each.set_result)
    await asyncio.to_thread(eventually, lambda: len(slow.threads) == 2)
    slow.let.set()
    accepted = [isinstance(each, Authenticated) for each in await asyncio.gather(*asked)]
    assert sum(accepted) in (20, 21, 22), "those that wait, and those that a thread had taken by then"
    assert all(accepted[:20])
    assert len(slow.threads) <= 2
    assert (await providers.check(Credentials("token", b"a"))).role == "r", "there is room again"
    providers.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"authenticationProviders": "com.example.Mine"}, "authenticationProviders=com.example.Mine: want some of"),
        ({}, "want authenticationProviders"),
    ],
)
def test_configuration_that_lets_nobody_in_is_refused(settings: Mapping[str, str], said: str) -> None:
    # covers SEC-1
    config = load_config(None, {"authenticationEnabled": "true", **settings})
    with pytest.raises(InvalidConfiguration, match=said):
        providers_of(config, lambda: NOW_MS)


def test_missing_provider_and_missing_library_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # covers SEC-1
    config = load_config(None, {"authenticationEnabled": "true", "authenticationProviders": "mine"})
    monkeypatch.setattr(registry, "PROVIDERS", {"mine": ("nowhere", "Mine")})
    with pytest.raises(InvalidConfiguration, match="this version has no such provider"):
        providers_of(config, lambda: NOW_MS)
    (tmp_path / "needy.py").write_text("import no_such_library\n")
    monkeypatch.setattr("spark_pulsar.server.security.__path__", [str(tmp_path)])
    monkeypatch.setattr(registry, "PROVIDERS", {"mine": ("needy", "Mine")})
    with pytest.raises(InvalidConfiguration, match=r"no_such_library: pip install 'spark-pulsar\[security\]'"):
        providers_of(config, lambda: NOW_MS)


def test_nothing_is_made_while_authentication_is_off() -> None:
    assert providers_of(load_config(None, {"authenticationProviders": "com.example.Mine"}), lambda: NOW_MS) is None


async def test_a_check_ends_with_its_client() -> None:
    # covers SEC-88
    slow = Slow({b"a": "r"})
    providers = _providers(slow)
    loop = asyncio.get_running_loop()
    running: list[asyncio.Future[Any]] = [loop.create_future() for _ in range(2)]
    for each in running:  # one for each thread
        providers.start(loop, Credentials("token", b"a"), each.set_result)
    await asyncio.to_thread(eventually, lambda: len(slow.threads) == 2)
    cancel = providers.start(loop, Credentials("token", b"a"), lambda _: pytest.fail("it was cancelled"))
    on_gone: set[Any] = set()
    check = asyncio.ensure_future(providers.check(Credentials("token", b"a"), on_gone))
    await asyncio.to_thread(eventually, lambda: on_gone)
    assert len(providers._queue) == 2
    cancel()
    for gone in list(on_gone):
        gone()
    assert len(providers._queue) == 0
    with pytest.raises(AuthenticationError, match="the client is gone"):
        await check
    assert on_gone == set()
    slow.let.set()
    assert await asyncio.gather(*running) == [Authenticated("r")] * 2
    providers.close()


class World:
    """A queue, its clock, and what was refused."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.queue = CheckQueue(lambda: self.now_s)
        self.refused: list[tuple[str, str]] = []

    def put(self, host: str, port: int = 1) -> Check:
        peer = f"/{host}:{port}"
        check = Check(peer, lambda: None, lambda reason: self.refused.append((peer, reason)))
        self.queue.put(check)
        return check

    def take(self) -> str:
        check = self.queue.next_check()
        assert check is not None
        return check.host.removeprefix("/")

    def outcome(self, host: str, *, is_accepted: bool) -> None:
        self.queue.done(Check(f"/{host}:1", lambda: None, pytest.fail), is_accepted=is_accepted)


@pytest.fixture
def world() -> World:
    return World()


def test_hosts_take_turns(world: World) -> None:
    # covers SEC-88
    for host in ("a", "a", "a", "b", "a", "c"):
        world.put(host)
    assert [world.take() for _ in range(6)] == ["a", "b", "c", "a", "a", "a"]


def test_known_hosts_are_first_and_guessing_ones_last(world: World) -> None:
    world.outcome("known", is_accepted=True)
    world.outcome("guessing", is_accepted=False)
    for host in ("guessing", "new", "known"):
        world.put(host)
    assert [world.take() for _ in range(3)] == ["known", "new", "guessing"]
    world.queue._turn = 0
    for _ in range(4):
        world.outcome("known", is_accepted=False)
    for host in ("new", "known"):
        world.put(host)
    assert [world.take() for _ in range(2)] == ["known", "new"], "four wrong ones are mistakes"
    world.queue._turn = 0
    world.outcome("known", is_accepted=False)
    for host in ("known", "new"):
        world.put(host)
    assert [world.take() for _ in range(2)] == ["new", "known"]
    world.queue._turn = 0
    world.now_s = FAILED_S
    for host in ("new", "known"):
        world.put(host)
    assert [world.take() for _ in range(2)] == ["known", "new"], "a minute later"


def test_nobody_waits_for_ever(world: World) -> None:
    world.outcome("known", is_accepted=True)
    world.outcome("guessing", is_accepted=False)
    for _ in range(20):
        for host in ("guessing", "new", "known"):
            world.put(host)
    taken = [world.take() for _ in range(16)]
    assert (taken.count("known"), taken.count("new"), taken.count("guessing")) == (12, 2, 2)


def test_a_host_at_its_limit_and_past_it(world: World) -> None:
    for port in range(MAX_WAITING_OF_HOST):
        world.put("a", port)
    assert world.refused == []
    world.put("a", 7777)
    assert world.refused == [("/a:7777", f"{MAX_WAITING_OF_HOST} authentications of /a wait already")]
    world.put("b")
    assert len(world.queue) == MAX_WAITING_OF_HOST + 1


def test_the_queue_at_its_limit_and_past_it(world: World) -> None:
    for number in range(MAX_WAITING // 2):
        for port in (1, 2):
            world.put(f"new{number}", port)
    assert (len(world.queue), world.refused) == (MAX_WAITING, [])
    world.put("another")
    assert world.refused == [("/new0:2", f"{MAX_WAITING} authentications wait already")], "the newest of who has most"
    world.outcome("guessing", is_accepted=False)
    world.put("guessing")
    assert world.refused[1:] == [("/guessing:1", f"{MAX_WAITING} authentications wait already")]
    assert len(world.queue) == MAX_WAITING
    world.outcome("known", is_accepted=True)
    world.put("known")
    assert (len(world.queue), world.take()) == (MAX_WAITING, "known")


def test_all_are_alike(world: World) -> None:
    for number in range(MAX_WAITING):
        world.put(f"new{number}")
    world.put("one more")
    assert world.refused == [("/one more:1", f"{MAX_WAITING} authentications wait already")]


def test_clients_that_are_gone_leave_no_trace(world: World) -> None:
    checks = [world.put(host) for host in ("a", "b", "b")]
    world.queue.cancel(checks[1])
    world.queue.cancel(checks[1])
    assert len(world.queue) == 2
    world.queue.cancel(checks[0])
    assert world.take() == "b"
    assert len(world.queue) == 0
    assert not world.queue._waiting
    assert not any(world.queue._hosts)
    world.queue.close()
    assert world.queue.next_check() is None


def test_outcomes_are_bounded(world: World) -> None:
    for number in range(MAX_HOSTS + 1):
        world.outcome(f"a{number}", is_accepted=True)
        world.outcome(f"b{number}", is_accepted=False)
    assert (len(world.queue._known), len(world.queue._failed)) == (MAX_HOSTS, MAX_HOSTS)
