"""Clients that come and go for minutes: what is left of them in the broker's memory, and what a canary feels.

    python benchmarks/soak.py [--minutes 10] [--data DIR]

Sessions of every kind come one after the other, on several connections at once: a producer that sends, a consumer of
each subscription type, a reader, a subscription that is made and deleted, a topic that is made and deleted, and a
connection that drops in the middle. Beside them a canary publishes and consumes a hundred messages a second. Told each
tenth of the run: sessions so far, resident memory, p50, p99 and the longest time of the canary's messages.

Memory is to stay within ten percent from the second tenth on; before that caches fill. The cache of entries has 1 MB
here: that of 64 MB would fill with the sessions' messages for half an hour, which is no growth.
"""

from __future__ import annotations

import argparse
import itertools
import random
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from load.machine import description

from spark_pulsar.cli.process import BrokerProcess
from tests.raw import RawConnection

KINDS = ("Exclusive", "Shared", "Failover", "Key_Shared")
WORKERS = 3
TENTHS = 10
CANARY = "persistent://public/default/canary"
CANARY_INTERVAL_S = 0.01


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
        self.done = 0
        self.latencies_ms: list[float] = []
        self.failures: list[BaseException] = []

    def connect(self) -> RawConnection:
        """Opens a connection after its handshake."""
        url = urlsplit(self.broker.service_url)
        connection = RawConnection(url.hostname or "", url.port or 0)
        connection.connect()
        return connection

    def run(self, work: str) -> None:
        """Runs `come_and_go` or `sing` and keeps its failure."""
        try:
            getattr(self, work)()
        except BaseException as error:  # noqa: BLE001 - told at the end
            self.failures.append(error)
            self.end.set()

    def come_and_go(self) -> None:
        """Plays one session after the other."""
        while not self.end.is_set():
            self._session(next(self.sessions))
            self.done += 1

    def _session(self, number: int) -> None:
        raw = self.connect()
        is_own_topic = number % 10 == 0
        topic = f"soak-own-{number}" if is_own_topic else f"soak-{number % 5}"
        full = f"persistent://public/default/{topic}"
        answer = raw.request("PRODUCER", topic=full, producer_id=1)
        for sequence_id in range(2):
            raw.send_message(1, sequence_id, b"x" * 100, metadata={"partition_key": f"k{number}"})
            raw.expect("SEND_RECEIPT")
        kind, is_durable = KINDS[number % len(KINDS)], number % 3 != 0
        fields = {"subscription": f"s{number}", "subType": kind if is_durable else "Exclusive", "durable": is_durable}
        answer = raw.request("SUBSCRIBE", topic=full, consumer_id=1, initialPosition="Latest", **fields)
        assert answer.type == "SUCCESS", answer
        raw.send("FLOW", consumer_id=1, messagePermits=10)
        if is_durable:
            raw.request("UNSUBSCRIBE", consumer_id=1)
        if number % 2:
            raw.request("CLOSE_PRODUCER", producer_id=1)
        raw.close()
        if is_own_topic:
            url = f"{self.broker.admin_url}/admin/v2/persistent/public/default/{topic}?force=true"
            urllib.request.urlopen(urllib.request.Request(url, method="DELETE"), timeout=30).close()

    def sing(self) -> None:
        """Publishes and consumes at a fixed pace, whatever the broker does."""
        publisher, consumer = self.connect(), self.connect()
        publisher.request("PRODUCER", topic=CANARY, producer_id=1)
        fields = {"subscription": "canary", "subType": "Exclusive", "consumer_id": 1}
        assert consumer.request("SUBSCRIBE", topic=CANARY, **fields).type == "SUCCESS"
        consumer.send("FLOW", consumer_id=1, messagePermits=1_000)
        due = time.monotonic()
        for number in itertools.count():
            if self.end.is_set():
                return
            due += CANARY_INTERVAL_S
            time.sleep(max(0.0, due - time.monotonic()))
            publisher.send_message(1, number, b"x")
            found = consumer.expect("MESSAGE")
            self.latencies_ms.append((time.monotonic() - due) * 1000)
            publisher.expect("SEND_RECEIPT")
            consumer.send("ACK", consumer_id=1, ack_type="Individual", message_id=[found["message_id"]])
            if number % 500 == 499:
                consumer.send("FLOW", consumer_id=1, messagePermits=500)


def soak(minutes: float, data: Path) -> int:
    """Runs the load and prints a line for each tenth; tells by the status whether memory stayed within bounds."""
    random.seed(1)
    with BrokerProcess(data / "broker", {"managedLedgerCacheSizeMB": 1}) as broker:
        load = Soak(broker)
        works = ["sing", *["come_and_go"] * WORKERS]
        threads = [threading.Thread(target=load.run, args=(work,), daemon=True) for work in works]
        for thread in threads:
            thread.start()
        memory = []
        print(f"{'sessions':>10} {'RSS, MB':>9} {'p50, ms':>9} {'p99, ms':>9} {'max, ms':>9}", flush=True)
        for _ in range(TENTHS):
            load.end.wait(minutes * 60 / TENTHS)
            latencies, load.latencies_ms = sorted(load.latencies_ms), []
            if not latencies:
                break
            memory.append(resident_mb(broker.pid))
            p50, p99 = latencies[len(latencies) // 2], latencies[len(latencies) * 99 // 100]
            print(f"{load.done:10,} {memory[-1]:9.1f} {p50:9.2f} {p99:9.2f} {latencies[-1]:9.2f}", flush=True)
        load.end.set()
        for thread in threads:
            thread.join(60)
        if load.failures:
            print(f"failed: {load.failures[0]!r}")
            return 1
    growth = memory[-1] / memory[1] - 1
    print(f"memory since the second tenth: {growth:+.1%} (at most +10%)")
    return int(growth > 0.1)


def main() -> int:
    """Reads the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--data", type=Path, default=None, help="directory for the broker's data")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.data) as scratch:
        print(description(Path(scratch)))
        return soak(options.minutes, Path(scratch))


if __name__ == "__main__":
    raise SystemExit(main())
