"""The writer of the log: it holds nobody up, loses nothing in silence, and ends in time."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from spark_pulsar.server.log.writer import MAX_QUEUED_BYTES, LogWriter
from tests.eventually import eventually

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
