"""Two hundred strangers who guess passwords, each from an address of its own, while owners log in."""

from __future__ import annotations

import base64
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from passlib.hash import bcrypt

from spark_pulsar.testing.process import BrokerProcess
from tests.eventually import eventually
from tests.raw import PROTOCOL_VERSION, command_bytes, frame_bytes

STRANGERS = 200


def connect(process: BrokerProcess, password: str, source: str) -> socket.socket:
    """Sends a CONNECT and does not wait for the answer."""
    host, _, port = process.service_url.rpartition("/")[2].rpartition(":")
    connection = socket.create_connection((host, int(port)), 30, (source, 0))
    fields = {"client_version": "test", "protocol_version": PROTOCOL_VERSION, "auth_method_name": "basic"}
    connection.sendall(frame_bytes(command_bytes("CONNECT", fields | {"auth_data": f"owner:{password}".encode()})))
    return connection


@contextmanager
def guessing(process: BrokerProcess) -> Iterator[list[int]]:
    """Strangers that guess again and again; yields a list with an item for each guess that was refused."""
    over, refused = threading.Event(), list[int]()

    def guess(number: int) -> None:
        while not over.is_set():
            with suppress(OSError), connect(process, "guess", f"127.0.{number // 100 + 1}.{number % 100 + 1}") as tried:
                tried.recv(1000)
                refused.append(number)

    threads = [threading.Thread(target=guess, args=(number,)) for number in range(STRANGERS)]
    for thread in threads:
        thread.start()
    try:
        yield refused
    finally:
        over.set()
        process.kill()
        for thread in threads:
            thread.join(30)


def login_s(process: BrokerProcess, source: str) -> float:
    """Seconds that an owner takes to come in."""
    began_s = time.monotonic()
    with connect(process, "right", source) as connection:
        assert b"Failed" not in connection.recv(1000)
    return time.monotonic() - began_s


def conf(tmp_path: Path, rounds: int) -> dict[str, object]:
    users = tmp_path / "users"
    users.write_text(f"owner:{bcrypt.using(rounds=rounds).hash('right')}\n")
    return {
        "authenticationEnabled": "true",
        "authenticationProviders": "basic",
        "basicAuthConf": str(users),
        "maxLogLinesPerHostPerMinute": 1,
    }


@pytest.mark.timeout(300)
def test_an_owner_comes_in_beside_strangers_who_guess(tmp_path: Path) -> None:
    # covers SEC-88
    with BrokerProcess(tmp_path / "data", conf(tmp_path, 8)) as process:
        alone_s = max(login_s(process, "127.0.0.1") for _ in range(3))  # and the host is known
        with guessing(process) as refused:
            eventually(lambda: len(set(refused)) == STRANGERS, timeout_s=200)  # each has guessed
            known = [login_s(process, "127.0.0.1") for _ in range(5)]
            new_s = login_s(process, "127.0.0.77")
            request = urllib.request.Request(f"{process.admin_url}/admin/v2/brokers/health")
            request.add_header("Authorization", "Basic " + base64.b64encode(b"owner:right").decode())
            began_s = time.monotonic()
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert answer.status == 200
            known.append(time.monotonic() - began_s)
    print(f"alone {alone_s:.2f} s; beside {STRANGERS} strangers: known {sorted(known)}, new {new_s:.2f}")
    # In turn with all others it were a hundred checks, of two threads.
    assert sorted(known)[len(known) // 2] < max(1.0, 15 * alone_s)
    assert new_s < max(2.0, 30 * alone_s)


def test_checks_of_clients_that_are_gone_are_not_done(tmp_path: Path) -> None:
    # covers SEC-88
    with BrokerProcess(tmp_path / "data", conf(tmp_path, 12)) as process:
        alone_s = login_s(process, "127.0.0.1")
        for number in range(100):  # from the owner's own host
            connect(process, f"guess{number}", "127.0.0.1").close()
        taken_s = login_s(process, "127.0.0.1")
    assert taken_s < 20 * alone_s, "in turn behind all of them it were 50 checks of two threads"
