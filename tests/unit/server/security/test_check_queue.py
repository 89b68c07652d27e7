"""Turns of hosts whose checks of credentials wait, and the limits of the queue."""

from __future__ import annotations

import pytest

from spark_pulsar.server.security.check_queue import (
    FAILED_S,
    MAX_HOSTS,
    MAX_WAITING,
    MAX_WAITING_OF_HOST,
    Check,
    CheckQueue,
)


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
