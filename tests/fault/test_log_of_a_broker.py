"""The log of a broker process while strangers write it: it holds nobody up, stays small, and keeps its lines."""

from __future__ import annotations

import base64
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.raw import PROTOCOL_VERSION, command_bytes, frame_bytes

BROKEN = b"\x00\x00\x00\x05\x00\x00\x00\x01\xff"
COUNT = 800
"""Lines that nobody reads: 600 fill a pipe."""


@contextmanager
def broker(directory: Path, conf: str) -> Iterator[tuple[subprocess.Popen[bytes], int, str]]:
    """A broker whose standard error is a pipe that nobody reads; yields it with its port and its admin URL."""
    path = directory / "broker.conf"
    path.write_text(conf)
    command = [sys.executable, "-m", "spark_pulsar", "broker", "--conf", str(path), "--port", "0", "--http-port", "0"]
    command += ["--data-dir", str(directory / "data"), "--with-parent"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            assert process.stdout is not None
            _, binary, http = process.stdout.readline().decode().split()[:3]
            yield process, int(binary.rpartition(":")[2]), http
        finally:
            process.kill()


def say(port: int, data: bytes, address: str = "127.0.0.1") -> bytes:
    """Sends bytes over a connection of their own, and returns what comes until it is closed."""
    with socket.create_connection(("127.0.0.1", port), 20, (address, 0)) as connection:
        connection.sendall(data)
        parts = [b""]
        with suppress(ConnectionResetError):
            while part := connection.recv(1 << 16):
                parts.append(part)
        return b"".join(parts)


def log_at_the_end(process: subprocess.Popen[bytes]) -> list[str]:
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=30)
    assert process.returncode == 0
    return log.decode().splitlines()


def test_an_unread_pipe_stops_nothing(tmp_path: Path) -> None:
    # covers SEC-87
    with broker(tmp_path, "maxLogLinesPerHostPerMinute=0\n") as (process, port, http):
        for _ in range(COUNT):
            say(port, BROKEN)
        with urllib.request.urlopen(f"{http}/admin/v2/brokers/health", timeout=10) as answer:
            assert answer.status == 200
        assert len([line for line in log_at_the_end(process) if "INFO" in line and "session" in line]) == COUNT


def test_the_end_does_not_wait_for_a_reader(tmp_path: Path) -> None:
    with broker(tmp_path, "maxLogLinesPerHostPerMinute=0\n") as (process, port, _):
        for _ in range(COUNT):
            say(port, BROKEN)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_refused_logins_are_so_many_lines_a_host_and_the_rest_is_counted(tmp_path: Path) -> None:
    key = base64.b64encode(os.urandom(33)).decode()
    conf = f"authenticationEnabled=true\nauthenticationProviders=token\ntokenSecretKey={key}\n"
    fields = {"client_version": "\x1b]0;x\x07\nforged", "protocol_version": PROTOCOL_VERSION, "auth_data": b"guess"}
    guess = frame_bytes(command_bytes("CONNECT", fields | {"auth_method_name": "token\x1b[31m\nforged"}))
    with broker(tmp_path, conf) as (process, port, _):
        for _ in range(100):
            assert b"Failed to authenticate" in say(port, guess)
        assert b"Failed to authenticate" in say(port, guess, "127.0.0.2")
        lines = log_at_the_end(process)
    refused = [line for line in lines if "spark_pulsar.audit: refused" in line]
    assert sum('client="/127.0.0.1:' in line for line in refused) == 30
    assert sum('client="/127.0.0.2:' in line for line in refused) == 1
    assert sum("spark_pulsar.audit: 70 more lines about /127.0.0.1 within" in line for line in lines) == 1
    for line in lines:
        assert re.match(r"\d{4}-|spark-pulsar broker: ", line), "each begins as a line of the log"
        assert re.search("[\x00-\x1f\x7f-\x9f]", line) is None, line
