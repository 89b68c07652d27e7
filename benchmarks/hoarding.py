"""Connections that make the broker hold much: its memory, and what a canary feels beside them.

    python benchmarks/hoarding.py [--only NAME …] [--count 100] [--seconds 10] [--data DIR]

Each scene has a broker of its own, with 1 MB for the cache of entries, and `--count` connections from another process:

- `halves`: each sends a frame of 5 MB but for its last bytes;
- `senders`: each publishes a message of 5 MB, all at the same time, which is well-behaved: none may be closed;
- `consumers`: each subscribes to 60 messages of 200 KB and reads none;
- `askers`: each requests 100 times the names of 1,000 topics, 130 KB, and reads no answer;
- `http`: each sends a PUT with 1 MB but for its last bytes;
- `scrapes`: each requests `/metrics` of 1,000 topics, and reads nothing.

Figures: resident memory before, and the most until `--seconds` after; connections that the broker closed; p50, p99 and
the longest time of the messages of a canary, a process of its own, in milliseconds.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import resource
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from load.machine import description
from load.results import Results, add_option
from load.singing import Canary

from spark_pulsar.testing.process import BrokerProcess
from tests.raw import RawConnection, command_bytes, frame_bytes

LARGE = 5 * 1024 * 1024
THREADS = 20
TOPIC = "persistent://public/default/t"
READ_BYTES = 4096
"""Receiving buffer of a client that reads nothing: the smaller, the less the system holds in place of the broker."""
_fork = multiprocessing.get_context("fork")


class Load:
    """Connections of one process to a broker."""

    def __init__(self, service_url: str, admin_url: str, count: int) -> None:
        self.count = count
        self._service, self._admin = urlsplit(service_url), urlsplit(admin_url)
        self._opened: list[socket.socket] = []

    def connect(self) -> RawConnection:
        """Opens a connection after its handshake."""
        connection = RawConnection(self._service.hostname or "", self._service.port or 0)
        self._opened.append(connection._socket)
        connection.connect()
        return connection

    def http(self) -> socket.socket:
        """Opens a connection to the admin API."""
        opened = socket.socket()
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, READ_BYTES)
        opened.connect((self._admin.hostname, self._admin.port))
        self._opened.append(opened)
        return opened

    def each(self, work: Callable[[int], None]) -> None:
        """Does something for every connection, on several threads; what the broker closes is no failure."""

        def some(first: int) -> None:
            for number in range(first, self.count, THREADS):
                with contextlib.suppress(OSError, AssertionError):
                    work(number)

        threads = [threading.Thread(target=some, args=(first,)) for first in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def make_topics(self, count: int) -> None:
        """Makes topics with long names."""
        maker = self.connect()
        for number in range(count):
            maker.request("PRODUCER", topic=f"{TOPIC}-{'x' * 100}-{number}", producer_id=number)

    def closed(self) -> int:
        """Counts the connections that the broker has closed."""
        count = 0
        for opened in self._opened:
            opened.settimeout(0)
            try:
                while data := opened.recv(1 << 20):
                    assert data
                count += 1
            except BlockingIOError:
                continue
            except OSError:
                count += 1
        return count


def pour(opened: socket.socket, data: bytes) -> None:
    """Sends as much as the other side takes."""
    opened.settimeout(0.5)
    with contextlib.suppress(OSError):
        opened.sendall(data)


def halves(load: Load) -> None:
    half = struct.pack(">II", LARGE, 20) + bytes(LARGE - 1_000)
    load.each(lambda _number: pour(load.connect()._socket, half))


def senders(load: Load) -> None:
    def send(number: int) -> None:
        sender = load.connect()
        sender.request("PRODUCER", topic=f"{TOPIC}-{number}", producer_id=1)
        sender.send_message(1, 0, bytes(LARGE - 10_000))
        sender.expect("SEND_RECEIPT", timeout_s=60)

    load.each(send)


def consumers(load: Load) -> None:
    sender = load.connect()
    sender.request("PRODUCER", topic=TOPIC, producer_id=1)
    for number in range(60):
        sender.send_message(1, number, bytes(200_000))
        sender.expect("SEND_RECEIPT")

    def subscribe(number: int) -> None:
        consumer = load.connect()
        consumer._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, READ_BYTES)
        fields = {"subscription": f"s{number}", "subType": "Exclusive", "initialPosition": "Earliest"}
        consumer.request("SUBSCRIBE", topic=TOPIC, consumer_id=1, **fields)
        consumer.send("FLOW", consumer_id=1, messagePermits=1_000)

    load.each(subscribe)


def askers(load: Load) -> None:
    load.make_topics(1_000)

    def request(_number: int) -> None:
        asker = load.connect()
        asker._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, READ_BYTES)
        fields = {"namespace": "public/default"}
        requests = [command_bytes("GET_TOPICS_OF_NAMESPACE", {**fields, "request_id": each}) for each in range(100)]
        pour(asker._socket, b"".join(frame_bytes(each) for each in requests))

    load.each(request)


def http(load: Load) -> None:
    head = b"PUT /admin/v2/namespaces/public/default HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
    load.each(lambda _number: pour(load.http(), head + bytes(999_000)))


def scrapes(load: Load) -> None:
    load.make_topics(1_000)
    load.each(lambda _number: pour(load.http(), b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"))


SCENES = {each.__name__: each for each in (halves, senders, consumers, askers, http, scrapes)}


def play(name: str, load: Load, pipe: Pipe) -> None:
    """Runs a scene in a process of its own; reports when it is done, and at the end how many were closed."""
    SCENES[name](load)
    pipe.send(None)
    pipe.recv()
    pipe.send(load.closed())


def resident_mb(pid: int) -> float:
    """Resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def measure(name: str, count: int, seconds: float, data: Path, results: Results) -> str:
    """Notes the figures of a scene, and returns them as a line."""
    with BrokerProcess(data / name, {"managedLedgerCacheSizeMB": 1}) as broker:
        canary = Canary(broker.service_url)
        before_mb = most_mb = resident_mb(broker.pid)
        begin_s = time.monotonic()
        here, there = _fork.Pipe()
        load = Load(broker.service_url, broker.admin_url, count)
        process = _fork.Process(target=play, args=(name, load, there), daemon=True)
        process.start()
        end_s = 0.0
        while not end_s or time.monotonic() < end_s:
            most_mb = max(most_mb, resident_mb(broker.pid))
            if here.poll(0.05) and not end_s:
                here.recv()
                end_s = time.monotonic() + seconds
                took_s = time.monotonic() - begin_s
        here.send(None)
        closed = here.recv()
        times = sorted(ms for due, ms in canary.end() if due >= begin_s)
        process.kill()
    p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
    results.note_all({"before, MB": before_mb, "most, MB": most_mb, "closed": closed, "p99, ms": p99}, name)
    return (
        f"{name:10} {count:6} {took_s:7.1f} {closed:7} {before_mb:9.1f} {most_mb:9.1f} "
        f"{p50:9.2f} {p99:9.2f} {times[-1]:9.2f}"
    )


def main() -> None:
    """Reads the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SCENES, default=list(SCENES))
    parser.add_argument("--count", type=int, default=100, help="connections")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--data", type=Path, default=None, help="directory for the brokers' data")
    add_option(parser)
    options = parser.parse_args()
    results = Results()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(dir=options.data) as scratch:
        print(description(Path(scratch)))
        heads = ("took, s", "closed", "RSS, MB", "most, MB", "p50, ms", "p99, ms", "max, ms")
        print(
            f"{'scene':10} {'count':>6} "
            + " ".join(f"{head:>{9 if index > 1 else 7}}" for index, head in enumerate(heads))
        )
        for name in options.only:
            print(measure(name, options.count, options.seconds, Path(scratch), results), flush=True)
    results.store(options.json)


if __name__ == "__main__":
    main()
