"""Compaction: messages a second, memory, and the latency of publishing meanwhile.

    python benchmarks/compaction.py [--messages 500000] [--keys 100000] [--against apache-pulsar[=VERSION]] [--data DIR]

Keyed messages of 100 bytes are published by the official client, single and in batches, then compacted by command. The
clock runs from the command to the status SUCCESS. In our broker a second connection publishes one message every 2 ms
meanwhile, and did so before: its p50 and p99 are to stay what they were.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from random import Random

import pulsar
from load import frames, machine, peers, workloads
from load.peers import OURS, Peer
from load.results import Results, add_option

PACE_PER_S = 500
PACED_S = 3.0


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
        most_mb = max(most_mb, peer.resident_mb() or 0.0)
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


def measure(peer: Peer, messages: int, keys: int, results: Results, *, batches: bool) -> None:
    """One kind of entries on one broker."""
    topic = workloads.fresh_topic()
    publish(peer, topic, messages, keys, batches=batches)
    before_mb = peer.resident_mb()
    kind = "in batches" if batches else "single"
    if peer.name != OURS:
        seconds, _ = compact(peer, topic)
        results.note(f"{peer.name}: {kind}, messages/s", messages / seconds)
        print(f"{peer.title}, {kind}: {messages / seconds:,.0f} messages/s")
        return
    idle = paced(peer, PACED_S)
    during: list[tuple[float, float]] = []
    pacing = threading.Thread(target=lambda: during.append(paced(peer, PACED_S)))
    pacing.start()
    seconds, most_mb = compact(peer, topic)
    pacing.join()
    results.note(f"{peer.name}: {kind}, messages/s", messages / seconds)
    for when, times in (("before", idle), ("meanwhile", during[0])):
        results.note(f"{peer.name}: {kind}, publishing {when} p50, ms", times[0])
        results.note(f"{peer.name}: {kind}, publishing {when} p99, ms", times[1])
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
    parser.add_argument("--against", type=peers.against, metavar=peers.AGAINST)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()))
    add_option(parser)
    options = parser.parse_args()
    results = Results()
    print(machine.description(options.data))
    print(f"{options.messages:,} messages, {options.keys:,} keys")
    brokers = [peers.ours(options.data)]
    if options.against:
        brokers.append(peers.apache_pulsar(options.data, options.against.version))
    for broker in brokers:
        with broker as peer:
            results.peers[peer.name] = peer.title
            for batches in (False, True):
                measure(peer, options.messages, options.keys, results, batches=batches)
                sys.stdout.flush()
    results.store(options.json)


if __name__ == "__main__":
    main()
