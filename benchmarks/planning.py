"""Planning of a micro-batch over many partitions of which a few have changed: `latestOffset` of a streaming query, on a
broker of its own, without Spark.

Prints milliseconds (median, longest of the rounds after the first; processor time is the planning process's) and the
connections and threads of the planning process, for a query without limits and one with `maxMessagesPerTrigger`."""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
import urllib.request

import spark_pulsar
from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.publishing.publisher import Publisher
from spark_pulsar.connector.micro_batches.offset_planner import OffsetPlanner
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

TOPIC = "persistent://public/default/planned"


def make_topic(admin_url: str, partitions: int) -> None:
    """Makes the partitioned topic."""
    url = f"{admin_url}/admin/v2/persistent/public/default/planned/partitions"
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, str(partitions).encode(), headers, method="PUT")
    with urllib.request.urlopen(request) as answer:
        answer.read()


def measure(service_url: str, publishers: list[Publisher], changed: int, rounds: int, limit: int | None) -> None:
    """Runs a query of its own, and publishes one message to some partitions before each round."""
    options = {"service.url": service_url, "topic": TOPIC, "startingOffsets": "earliest"}
    before = threading.active_count()
    with PulsarClient(ClientConfig(service_url)) as client:
        planner = OffsetPlanner(client, parse_options(options))
        at = planner.initial()
        took_ms, busy_ms = [], []
        for number in range(rounds + 1):
            for step in range(changed):
                publisher = publishers[(number * changed + step) % len(publishers)]
                publisher.send(MessageMetadata(), b"x" * 100)
                publisher.flush()
            begun, begun_busy = time.perf_counter(), time.process_time()
            text = json.dumps(planner.latest(at, limit).to_json())
            took_ms.append((time.perf_counter() - begun) * 1_000)
            busy_ms.append((time.process_time() - begun_busy) * 1_000)
            at = SourceOffset.from_json(json.loads(text))
        threads = threading.active_count() - before
        planner.close()
    name = "no limit" if limit is None else f"maxMessagesPerTrigger={limit}"
    each = f"{threads} thread{'s' if threads > 1 else ''}, one for each connection"
    print(
        f"{name}: {statistics.median(took_ms[1:]):.0f} ms ({statistics.median(busy_ms[1:]):.0f} ms of processor time), "
        f"longest {max(took_ms[1:]):.0f} ms, first {took_ms[0]:.0f} ms; {each}; {len(text):,} bytes of offset"
    )


def main() -> None:
    """Measures both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--filled", type=int, default=300, help="partitions that have messages at all")
    parser.add_argument("--changed", type=int, default=5, help="partitions that get one before each round")
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    with spark_pulsar.broker_process() as broker, PulsarClient(ClientConfig(broker.service_url)) as client:
        make_topic(broker.admin_url, arguments.partitions)
        publishers = [client.publisher(f"{TOPIC}-partition-{index}") for index in range(arguments.filled)]
        for publisher in publishers:
            publisher.send(MessageMetadata(), b"x" * 100)
            publisher.flush()
        for limit in (None, 10_000):
            measure(broker.service_url, publishers, arguments.changed, arguments.rounds, limit)


if __name__ == "__main__":
    main()
