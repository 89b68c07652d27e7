"""The log: lines that a host may cause, what stands in one, and the writer, which holds nobody up."""

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from spark_pulsar.server.log.hosts import MOST_HOSTS, WINDOW_S, LinesOfHosts, of_host
from spark_pulsar.server.log.writer import MAX_QUEUED_BYTES, LogWriter
from tests.eventually import eventually


def record(peer: str | None, logger: str = "spark_pulsar.audit") -> logging.LogRecord:
    made = logging.makeLogRecord({"name": logger})
    if peer is not None:
        made.__dict__.update(of_host(peer))
    return made


def test_a_host_has_its_lines_and_the_rest_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    # covers SEC-87
    now_s = 0.0
    limit = LinesOfHosts(30, lambda: now_s)
    assert [limit.filter(record(f"/10.0.0.1:{port}")) for port in range(1, 38)] == [True] * 30 + [False] * 7
    assert limit.filter(record("/10.0.0.2:1"))
    assert limit.filter(record("/10.0.0.1:1", "spark_pulsar.server")), "each log by itself"
    assert all(limit.filter(record(None)) for _ in range(100))
    now_s = WINDOW_S - 1
    limit.report()
    assert caplog.messages == []
    now_s = WINDOW_S
    limit.report()
    assert caplog.messages == ["7 more lines about /10.0.0.1 within a minute were left out"]
    assert limit.filter(record("/10.0.0.1:1"))


def test_ipv6_counts_by_network_and_mapped_addresses_as_what_they_are() -> None:
    assert of_host(("2001:db8::1", 1, 0, 0)) == of_host(("2001:db8::ffff", 2, 0, 0)) == {"host": "/2001:db8::/64"}
    assert of_host(("2001:db8:0:1::1", 1, 0, 0)) != of_host(("2001:db8::1", 1, 0, 0))
    assert of_host(("::ffff:10.0.0.1", 1, 0, 0)) == of_host(("10.0.0.1", 7)) == {"host": "/10.0.0.1"}
    assert of_host(None) == {"host": "/unknown"}


def test_hosts_past_the_limit_are_counted_together(caplog: pytest.LogCaptureFixture) -> None:
    limit = LinesOfHosts(1, lambda: 0.0)
    for number in range(MOST_HOSTS):
        assert limit.filter(record(f"/host{number}:1"))
    assert limit.filter(record("/one more:1"))
    assert not limit.filter(record("/another one:1"))
    limit.report(is_last=True)
    assert caplog.messages == ["1 more lines about other hosts within a minute were left out"]


def test_no_limit() -> None:
    assert all(LinesOfHosts(0).filter(record("/10.0.0.1:1")) for _ in range(1000))


PROGRAM = r"""
import logging
from spark_pulsar.server.log.start import logging_to_standard_error
with logging_to_standard_error("INFO", 2):
    log = logging.getLogger("spark_pulsar.server")
    log.info("session of %s", "\x1b]0;x\x07\nforged\u202e\x9b")
    for number in range(5):
        log.warning("guess %d", number, extra={"host": "/10.0.0.1"})
    try:
        raise ValueError("\x1b[31m")
    except ValueError:
        log.exception("failed")
"""


def test_lines() -> None:
    # covers SEC-87
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert lines[0].endswith(r"INFO    spark_pulsar.server: session of \u001b]0;x\u0007\u000aforged\u202e\u009b")
    assert [line[-7:] for line in lines[1:3]] == ["guess 0", "guess 1"]
    assert lines[3].endswith("ERROR   spark_pulsar.server: failed")
    assert lines[-2] == r"ValueError: \u001b[31m"
    assert lines[-1].endswith("WARNING spark_pulsar.server: 3 more lines about /10.0.0.1 within a minute were left out")


LINE = "x" * 1023
PIPE_BYTES = 1024 * 1024
"""More than a pipe holds."""


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def read_lines(descriptor: int, writer: LogWriter) -> list[str]:
    """Reads until the writer has ended, in a thread of its own."""
    parts: list[bytes] = []

    def read() -> None:
        while not parts or not parts[-1].endswith(b"END\n"):
            parts.append(os.read(descriptor, 1 << 16))

    reader = threading.Thread(target=read)
    reader.start()
    eventually(lambda: not writer.dropped and not writer._lines)
    writer.put("END")
    reader.join(20)
    writer.close()
    return b"".join(parts).decode().splitlines()


def drain(descriptor: int, writer: LogWriter) -> None:
    """Reads until the thread of a closed writer has ended: the pipe's number is another pipe's soon."""
    os.set_blocking(descriptor, False)
    while writer._thread.is_alive():
        with suppress(BlockingIOError):
            os.read(descriptor, 1 << 16)


def test_an_unread_pipe_holds_nobody_up_and_what_is_dropped_is_counted(pipe: tuple[int, int]) -> None:
    # covers SEC-87
    writer = LogWriter(pipe[1])
    count = (PIPE_BYTES + MAX_QUEUED_BYTES) // len(LINE) + 1000
    began_s = time.monotonic()
    for _ in range(count):
        writer.put(LINE)
    assert time.monotonic() - began_s < 5
    dropped = writer.dropped
    assert dropped > 0
    lines = read_lines(pipe[0], writer)
    assert lines.count(LINE) == count - dropped
    assert lines[-2:] == [f"{dropped} lines of the log were dropped: what it is written to took no more", "END"]


def test_the_queue_at_its_limit_and_past_it(pipe: tuple[int, int]) -> None:
    writer = LogWriter(pipe[1])
    while not writer.dropped:  # until the pipe and the queue are full
        writer.put(LINE)
    eventually(lambda: len(writer._lines) * 1024 <= MAX_QUEUED_BYTES)
    while writer._queued_bytes + 1024 <= MAX_QUEUED_BYTES:  # what the thread had taken
        writer.put(LINE)
    before, room = writer.dropped, MAX_QUEUED_BYTES - writer._queued_bytes
    if room:
        writer.put("y" * (room - 1))
        assert (writer.dropped, writer._queued_bytes) == (before, MAX_QUEUED_BYTES)
    writer.put("")
    assert writer.dropped == before + 1
    writer.close(0)
    drain(pipe[0], writer)


def test_the_end_waits_for_a_reader_and_not_for_ever(pipe: tuple[int, int]) -> None:
    writer = LogWriter(pipe[1], lambda is_last: writer.put("last") if is_last else None)
    writer.put("one")
    writer.close(30)
    assert os.read(pipe[0], 100) == b"one\nlast\n"
    stuck = LogWriter(pipe[1])
    for _ in range(200):
        stuck.put(LINE)
    began_s = time.monotonic()
    stuck.close(0.1)
    assert time.monotonic() - began_s < 3
    drain(pipe[0], stuck)


def test_a_descriptor_that_does_not_block(pipe: tuple[int, int]) -> None:
    os.set_blocking(pipe[1], False)
    writer = LogWriter(pipe[1])
    for _ in range(300):
        writer.put(LINE)
    assert read_lines(pipe[0], writer).count(LINE) == 300


def test_nobody_reads_any_more() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    writer = LogWriter(writing)
    writer.put(LINE)
    writer.close()
    os.close(writing)
    assert not writer._thread.is_alive()
