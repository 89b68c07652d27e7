"""A broker process whose connections send halves of frames, or read nothing: its memory stays within the budget of all
connections, and nobody who behaves is closed."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from spark_pulsar.testing.process import BrokerProcess
from tests.eventually import eventually
from tests.raw import RawConnection, command_bytes, frame_bytes

MB = 1024 * 1024
BUDGET_MB = 16
SLACK_MB = 24
"""Resident memory for what is not counted: objects of connections, receiving buffers, the reserve of malloc."""
LARGE = 5_200_000
HALF_A_FRAME = struct.pack(">II", LARGE, 20) + bytes(LARGE - 1_000)
TOPIC = "persistent://public/default/t"
CONF = {"maxConnectionBufferSizeInMB": BUDGET_MB, "managedLedgerCacheSizeMB": 1}


class Scene:
    """A broker, and connections to it."""

    def __init__(self, process: BrokerProcess, stack: ExitStack) -> None:
        self.process = process
        self.stack = stack
        self.canary = self.connect()
        self.canary.request("PRODUCER", topic=f"{TOPIC}-canary", producer_id=1)
        self.canary.request("SUBSCRIBE", topic=f"{TOPIC}-canary", subscription="s", subType="Exclusive", consumer_id=1)
        self.canary.send("FLOW", consumer_id=1, messagePermits=10_000)
        self.sung = 0
        self.sing()
        self.before_mb = self.resident_mb()

    def resident_mb(self) -> float:
        """Resident memory of the broker."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024

    def connect(self) -> RawConnection:
        """Opens a connection after its handshake."""
        url = urlsplit(self.process.service_url)
        connection = RawConnection(url.hostname or "", url.port or 0)
        self.stack.callback(connection.close)
        connection.connect()
        return connection

    def http(self) -> socket.socket:
        """Opens a connection to the admin API."""
        url = urlsplit(self.process.admin_url)
        return self.stack.enter_context(socket.create_connection((url.hostname, url.port)))

    def sing(self) -> None:
        """Publishes and consumes a message."""
        self.canary.send_message(1, self.sung, b"x")
        self.canary.expect("SEND_RECEIPT")
        self.canary.expect("MESSAGE")
        self.sung += 1

    def grown_mb(self) -> float:
        """Growth of resident memory."""
        self.sing()
        return self.resident_mb() - self.before_mb


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with BrokerProcess(tmp_path / "data", CONF) as process, ExitStack() as stack:
        yield Scene(process, stack)


def pour(connection: socket.socket, data: bytes) -> None:
    """Sends as much as the other side takes at once."""
    connection.settimeout(0.05)
    with suppress(OSError):
        connection.sendall(data)


def poured(scene: Scene, count: int, one: Callable[[int], None]) -> float:
    """Does something again and again, the canary singing all the time; returns the largest growth of memory."""
    most_mb = 0.0
    for number in range(count):
        one(number)
        most_mb = max(most_mb, scene.grown_mb())
    return most_mb


def test_halves_of_frames_stay_within_the_budget(scene: Scene) -> None:
    # covers SEC-30
    halves: list[RawConnection] = []

    def send_a_half(_number: int) -> None:
        halves.append(scene.connect())
        pour(halves[-1]._socket, HALF_A_FRAME)

    assert poured(scene, 60, send_a_half) < BUDGET_MB + SLACK_MB  # they are 312 MB
    sender = scene.connect()
    sender.request("PRODUCER", topic=TOPIC, producer_id=1)
    sender.send_message(1, 0, bytes(900_000))  # a small one passes them all
    sender.expect("SEND_RECEIPT")
    log = eventually(lambda: [line for line in scene.process.log.splitlines() if " closed: " in line])
    assert len(log) < 20
    assert all("ERROR" in line and "session " in line and "127.0.0.1:" in line for line in log)


def test_large_messages_of_many_producers_wait_for_one_another(scene: Scene) -> None:
    # covers SEC-30
    producers = [scene.connect() for _ in range(10)]
    for number, producer in enumerate(producers):
        producer.request("PRODUCER", topic=f"{TOPIC}-{number}", producer_id=1)
    threads = [
        threading.Thread(target=producer.send_message, args=(1, 0, bytes(5_000_000)), daemon=True)
        for producer in producers
    ]
    for thread in threads:
        thread.start()
    for producer in producers:
        producer.expect("SEND_RECEIPT")
    scene.sing()
    assert " closed: " not in scene.process.log


def test_answers_that_are_not_read_stay_within_the_budget(scene: Scene) -> None:
    # covers SEC-30, SH-9
    sender = scene.connect()
    for number in range(250):
        sender.request("PRODUCER", topic=f"{TOPIC}-{'x' * 180}-{number}", producer_id=number)

    def ask(_number: int) -> None:
        asker = scene.connect()
        asker._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        pour(asker._socket, b"".join(topics_request(request_id) for request_id in range(120)))

    assert poured(scene, 30, ask) < BUDGET_MB + SLACK_MB  # answers to a few would fill it
    scene.sing()


def topics_request(request_id: int) -> bytes:
    """Returns a request whose answer names all topics."""
    fields = {"request_id": request_id, "namespace": "public/default"}
    return frame_bytes(command_bytes("GET_TOPICS_OF_NAMESPACE", fields))


def test_halves_of_http_requests_stay_within_the_budget(scene: Scene) -> None:
    # covers SEC-30
    head = b"PUT /admin/v2/namespaces/public/default HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"

    def send_a_half(_number: int) -> None:
        pour(scene.http(), head + bytes(990_000))

    assert poured(scene, 80, send_a_half) < BUDGET_MB + SLACK_MB
    assert "HTTP connection of /127.0.0.1:" in eventually(lambda: scene.process.log)
