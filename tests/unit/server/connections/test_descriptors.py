"""However many clients come, the broker can open the files of its storage, and serves those that it has."""

import contextlib
import logging
import resource
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_pulsar.server.connections.descriptors import ConnectionLimit, MostConnections, most_connections, raise_limit
from tests.eventually import eventually
from tests.raw import RawConnection

OPEN_FILES = 64


def test_half_of_the_descriptors_are_for_connections() -> None:
    assert most_connections(1024) == MostConnections(binary=384, http=128)


def test_as_many_files_as_this_process_may_have() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
        assert raise_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_that_there_is_no_room_is_said_once_however_many_come_and_go(caplog: pytest.LogCaptureFixture) -> None:
    limit = ConnectionLimit(100)
    with caplog.at_level(logging.WARNING):
        for _ in range(50):
            assert limit.has_room(99)
            assert not limit.has_room(100)
            assert not limit.has_room(100)
        assert len(caplog.messages) == 1
        assert limit.has_room(90)
        assert not limit.has_room(100)
    assert len(caplog.messages) == 2


@contextlib.contextmanager
def broker_of_few_files(data_dir: Path) -> Iterator[tuple[int, int]]:
    """Ports of a broker that may open 64 files."""
    command = ["sh", "-c", f'ulimit -n {OPEN_FILES}; exec "$@"', "sh", sys.executable, "-m", "spark_pulsar.cli.main"]
    command += ["broker", "--data-dir", str(data_dir), "--host", "127.0.0.1", "--port", "0", "--http-port", "0"]
    with subprocess.Popen([*command, "--with-parent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            binary, http = (int(url.rpartition(b":")[2]) for url in process.stdout.readline().split()[1:])
            yield binary, http
        finally:
            process.stdin.close()
            process.wait()


def is_healthy(http: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{http}/admin/v2/brokers/health", timeout=30) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_too_many_connections_are_no_end_of_a_broker(tmp_path: Path) -> None:
    # covers T-8, SEC-25: idle connections, more than there are descriptors
    with broker_of_few_files(tmp_path) as (binary, http), contextlib.ExitStack() as open_ones:

        def connect(port: int) -> socket.socket:
            return open_ones.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))

        first = RawConnection("127.0.0.1", binary)
        open_ones.callback(first.close)
        first.connect()
        most = most_connections(OPEN_FILES)
        waiting = [connect(binary) for _ in range(OPEN_FILES)]
        assert all(each.recv(1) == b"" for each in waiting[: -(most.binary // 2)]), "half of them may wait"
        assert is_healthy(http), "the admin API has connections of its own"
        waiting = [connect(http) for _ in range(OPEN_FILES)]
        assert all(each.recv(1) == b"" for each in waiting[: -(most.http // 2)])
        assert is_healthy(http), "who holds connections open keeps nobody out"
        first.send("PRODUCER", topic="persistent://public/default/t", producer_id=1, request_id=1)
        first.expect("PRODUCER_SUCCESS")
        open_ones.close()
        eventually(lambda: is_healthy(http))
        again = RawConnection("127.0.0.1", binary)
        open_ones.callback(again.close)
        again.connect()
