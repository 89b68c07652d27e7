"""Broker and connector run where what only Linux has is missing, as on macOS."""

import ast
import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pulsar

from spark_pulsar.storage.disk import system_calls
from spark_pulsar.testing.process import BrokerProcess

MODULE = "tests.unit.portability.without_linux"


class _Elsewhere(BrokerProcess):
    _module = MODULE


def texts(count: int, prefix: str) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def test_a_broker_stores_restarts_and_the_connector_reads(tmp_path: Path) -> None:
    with _Elsewhere(tmp_path / "data", {"journalMaxSizeMB": 1}) as broker:
        for kill, prefix in ((True, "a"), (False, "b")):
            with contextlib.closing(pulsar.Client(broker.service_url)) as client:
                client.subscribe("elsewhere", "keeps them")
                producer = client.create_producer("elsewhere")
                for text in texts(20, prefix):
                    producer.send_async(text.encode(), None)
                producer.send(bytes(1 << 20))  # rolls a segment, and is written past the cache
                producer.flush()
            if kill:
                broker.kill()
            else:
                broker.stop()
            broker.start()
        command = [sys.executable, "-m", MODULE, "read", broker.service_url, "elsewhere"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        read = [text for text in ast.literal_eval(done.stdout) if len(text) < 10]
        assert read == sorted([*texts(20, "a"), *texts(20, "b")])


def test_the_twins_do_what_the_calls_do(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    try:
        assert system_calls._write_joined(fd, [b"ab", memoryview(b"cd")], 3) == 4
        system_calls._fill(fd, 3_000_000)
        assert os.fstat(fd).st_size == 3_000_000
        assert os.pread(fd, 8, 0) == b"\0\0\0abcd\0"
        system_calls._fill(fd, 10)  # shorter than the file: nothing to do
        assert os.fstat(fd).st_size == 3_000_000
        system_calls._sync_all(fd)
    finally:
        os.close(fd)
