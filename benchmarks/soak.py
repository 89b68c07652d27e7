"""Clients that come and go for minutes: what is left of them in the broker's memory, and what a canary feels.

    python benchmarks/soak.py [--minutes 10] [--sessions N] [--data DIR]

Sessions of every kind come one after the other, on several connections at once: a producer that sends, a consumer of
each subscription type, a reader, a subscription that is made and deleted, a topic that is made and deleted, and a
connection that drops in the middle. Beside them a canary, a process of its own, publishes and consumes a hundred
messages a second. Reported for each tenth of the run, of its minutes or of its sessions: sessions, subscriptions and
topics so far, resident memory; p50, p99 and the longest time of the canary's messages.

Memory is to stay within ten percent from the second tenth on; before that caches fill. The cache of entries has 1 MB
here, and a segment of the journal 8: with 64 MB each they would fill with the sessions' messages, and with the index of
those that are not yet settled, for half an hour, which is no growth.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from load.machine import description
from load.results import Results, add_option
from load.singing import Canary

from spark_pulsar.testing.process import BrokerProcess
from tests.raw import RawConnection, command_bytes, entry_bytes, frame_bytes

KINDS = ("Exclusive", "Shared", "Failover", "Key_Shared")
WORKERS = 3
TENTHS = 10
CONF = {"managedLedgerCacheSizeMB": 1, "journalMaxSizeMB": 8}
CONNECT = frame_bytes(
    command_bytes("CONNECT", {"client_version": "soak", "protocol_version": 21, "auth_method_name": "none"})
)


def resident_mb(pid: int) -> float:
    """Resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


class Soak:
    """Load of one broker until `end` is set."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.end = threading.Event()
        self.sessions = itertools.count()
        self.done = self.subscriptions = self.topics = 0
        self.failures: list[BaseException] = []

    def come_and_go(self) -> None:
        """Plays one session after the other, and keeps its failure."""
        try:
            while not self.end.is_set():
                self._session(next(self.sessions))
                self.done += 1
        except BaseException as error:  # noqa: BLE001 - reported at the end
            self.failures.append(error)
            self.end.set()

    def _session(self, number: int) -> None:
        url = urlsplit(self.broker.service_url)
        raw = RawConnection(url.hostname or "", url.port or 0)
        is_own_topic = number % 10 == 0
        topic = f"soak-own-{number}" if is_own_topic else f"soak-{number % 5}"
        full = f"persistent://public/default/{topic}"
        raw.send_bytes(CONNECT + _frame("PRODUCER", request_id=1, topic=full, producer_id=1))
        raw.answer(1)
        kind, is_durable = KINDS[number % len(KINDS)], number % 3 != 0
        fields = {"subscription": f"s{number}", "subType": kind if is_durable else "Exclusive", "durable": is_durable}
        described = {"producer_name": "p", "publish_time": 1, "partition_key": f"k{number}"}
        sends = [
            frame_bytes(
                command_bytes("SEND", {"producer_id": 1, "sequence_id": sequence_id}),
                entry_bytes({**described, "sequence_id": sequence_id}, b"x" * 100),
            )
            for sequence_id in range(2)
        ]
        subscribe = _frame("SUBSCRIBE", request_id=2, topic=full, consumer_id=1, initialPosition="Latest", **fields)
        raw.send_bytes(b"".join(sends) + subscribe)
        answer = raw.answer(2)
        assert answer.type == "SUCCESS", answer
        last = [_frame("FLOW", consumer_id=1, messagePermits=10)]
        if is_durable:
            last.append(_frame("UNSUBSCRIBE", request_id=3, consumer_id=1))
            self.subscriptions += 1
        if number % 2:
            last.append(_frame("CLOSE_PRODUCER", request_id=4, producer_id=1))
        raw.send_bytes(b"".join(last))
        if is_durable:
            raw.answer(3)
        raw.close()
        if is_own_topic:
            url_of_topic = f"{self.broker.admin_url}/admin/v2/persistent/public/default/{topic}?force=true"
            urllib.request.urlopen(urllib.request.Request(url_of_topic, method="DELETE"), timeout=30).close()
            self.topics += 1


def _frame(type_name: str, **fields: object) -> bytes:
    return frame_bytes(command_bytes(type_name, fields))


def soak(minutes: float, sessions: int, data: Path, results: Results) -> int:
    """Runs the load and prints a line for each tenth; returns the status: whether memory stayed within bounds."""
    random.seed(1)
    with BrokerProcess(data / "broker", CONF) as broker:
        canary = Canary(broker.service_url)
        load = Soak(broker)
        threads = [threading.Thread(target=load.come_and_go, daemon=True) for _ in range(WORKERS)]
        begin = time.monotonic()
        for thread in threads:
            thread.start()
        memory, ends = [], [begin]
        print(f"{'s':>6} {'sessions':>10} {'subscriptions':>14} {'topics':>8} {'RSS, MB':>9}", flush=True)
        for tenth in range(1, TENTHS + 1):
            while not load.end.wait(0.1) and (
                load.done < sessions * tenth / TENTHS
                if sessions
                else time.monotonic() < begin + minutes * 60 * tenth / TENTHS
            ):
                pass
            memory.append(resident_mb(broker.pid))
            ends.append(time.monotonic())
            line = f"{ends[-1] - begin:6.0f} {load.done:10,} {load.subscriptions:14,} {load.topics:8,}"
            print(f"{line} {memory[-1]:9.1f}", flush=True)
        load.end.set()
        for thread in threads:
            thread.join(60)
        heard = canary.end()
        if load.failures:
            print(f"failed: {load.failures[0]!r}")
            return 1
    print(f"\n{'tenth':>6} {'p50, ms':>9} {'p99, ms':>9} {'max, ms':>9}   of the canary")
    for tenth, (since, until) in enumerate(itertools.pairwise(ends), 1):
        times = sorted(ms for due, ms in heard if since <= due < until) or [float("nan")]
        p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
        if tenth == 2:
            results.note_all({"p50, ms": p50, "p99, ms": p99}, "canary of the second tenth")
        print(f"{tenth:6} {p50:9.2f} {p99:9.2f} {times[-1]:9.2f}")
    results.note("RSS of the second tenth, MB", memory[1])
    results.note("most RSS since the second tenth, MB", max(memory[1:]))
    growth = max(memory[1:]) / memory[1] - 1
    print(f"\nmemory since the second tenth: {memory[-1] / memory[1] - 1:+.1%}, at most {growth:+.1%} (bound +10%)")
    return int(growth > 0.1)


def main() -> int:
    """Reads the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--sessions", type=int, default=0, help="end after so many sessions, not by the clock")
    parser.add_argument("--data", type=Path, default=None, help="directory for the broker's data")
    add_option(parser)
    options = parser.parse_args()
    results = Results()
    with tempfile.TemporaryDirectory(dir=options.data) as scratch:
        print(description(Path(scratch)))
        status = soak(options.minutes, options.sessions, Path(scratch), results)
    results.store(options.json)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
