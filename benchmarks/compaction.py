"""Compaction: messages a second, memory, and the latency of publishing meanwhile.

    python benchmarks/compaction.py [--messages 500000] [--keys 100000] [--against apache-pulsar] [--data DIR]

Keyed messages of 100 bytes are published by the official client, single and in batches, then compacted by command. The
clock runs from the command to the status SUCCESS. In our broker a second connection publishes one message every 2 ms
meanwhile, and did so before: its p50 and p99 are to stay what they were.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pulsar
from load import frames, machine, workloads

import spark_pulsar
from tests.apache_pulsar.start import apache_pulsar

PACE_PER_S = 500
PACED_S = 3.0


class Peer(NamedTuple):
    """A broker that runs; `pid` 0 = its memory is not measured."""

    name: str
    service_url: str
    admin_url: str
    pid: int


@contextlib.contextmanager
def started(name: str, data: Path) -> Iterator[Peer]:
    """A broker on a fresh directory."""
    with tempfile.TemporaryDirectory(dir=data) as directory:
        if name == "ours":
            with spark_pulsar.broker_process(Path(directory)) as ours:
                yield Peer(name, ours.service_url, ours.admin_url, ours.pid)
        else:
            other = apache_pulsar(Path(directory), {})
            try:
                yield Peer(name, other.service_url, other.admin_url, 0)
            finally:
                other.stop()


def resident_mb(pid: int) -> float:
    """Resident memory of a process, 0 when it is not measured."""
    if not pid:
        return 0.0
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def publish(peer: Peer, topic: str, messages: int, keys: int, *, batches: bool) -> None:
    """Messages with random keys, all receipted on return."""
    client = pulsar.Client(peer.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    client.subscribe(topic, "keep", initial_position=pulsar.InitialPosition.Earliest).close()
    producer = client.create_producer(topic, batching_enabled=batches, block_if_queue_full=True)
    random, value = Random(1), bytes(100)
    for _ in range(messages):
        producer.send_async(value, None, partition_key=f"key-{random.randrange(keys)}")
    producer.flush()
    client.close()


def compact(peer: Peer, topic: str) -> tuple[float, float]:
    """Compacts a topic: the seconds that it took, and the most memory of the broker meanwhile."""
    url = f"{peer.admin_url}/admin/v2/{topic.replace('://', '/')}/compaction"
    begun, most_mb = time.perf_counter(), 0.0
    urllib.request.urlopen(urllib.request.Request(url, method="PUT")).close()
    while True:
        most_mb = max(most_mb, resident_mb(peer.pid))
        with urllib.request.urlopen(url) as answer:
            status = json.load(answer)["status"]
        if status != "RUNNING":
            assert status == "SUCCESS", status
            return time.perf_counter() - begun, most_mb
        time.sleep(0.02)


def paced(peer: Peer, seconds: float) -> tuple[float, float]:
    """p50 and p99 of publishing at a fixed pace, ms."""
    buffer = frames.SendBuffer(int(PACE_PER_S * seconds))
    latencies = workloads.publish_paced(peer.service_url, buffer, PACE_PER_S, seconds)
    return latencies[len(latencies) // 2], latencies[len(latencies) * 99 // 100]


def measure(peer: Peer, messages: int, keys: int, *, batches: bool) -> None:
    """One kind of entries on one broker."""
    topic = workloads.fresh_topic()
    publish(peer, topic, messages, keys, batches=batches)
    before_mb = resident_mb(peer.pid)
    kind = "in batches" if batches else "single"
    if peer.name != "ours":
        seconds, _ = compact(peer, topic)
        print(f"{peer.name}, {kind}: {messages / seconds:,.0f} messages/s")
        return
    idle = paced(peer, PACED_S)
    during: list[tuple[float, float]] = []
    pacing = threading.Thread(target=lambda: during.append(paced(peer, PACED_S)))
    pacing.start()
    seconds, most_mb = compact(peer, topic)
    pacing.join()
    print(
        f"{peer.name}, {kind}: {messages / seconds:,.0f} messages/s; memory {before_mb:.0f} to {most_mb:.0f} MB; ",
        end="",
    )
    print("publishing p50/p99 {:.2f}/{:.2f} ms before, {:.2f}/{:.2f} ms meanwhile".format(*idle, *during[0]))


def main() -> None:
    """Prints the machine and the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=500_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--against", choices=["apache-pulsar"])
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    print(machine.description(options.data))
    print(f"{options.messages:,} messages, {options.keys:,} keys")
    for name in ["ours", *([options.against] if options.against else [])]:
        with started(name, options.data) as peer:
            for batches in (False, True):
                measure(peer, options.messages, options.keys, batches=batches)
                sys.stdout.flush()


if __name__ == "__main__":
    main()
