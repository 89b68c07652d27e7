"""Planning of a micro-batch over many partitions of which a few have changed: `latestOffset` of a streaming query, on a
broker of its own, without Spark.

Prints milliseconds (median, longest of the rounds after the first; processor time is the planning process's) and the
connections and threads of the planning process, for a query without limits and one with `maxMessagesPerTrigger`. Then
the start of a query in parts, and with `--idle SECONDS` what one costs that has nothing to read, polled as Spark does,
in percent of a core."""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
import urllib.request

from load.machine import tree_processor_s
from load.results import Results, add_option

import spark_pulsar
from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.publishing.publisher import Publisher
from spark_pulsar.connector.micro_batches.offset_planner import OffsetPlanner
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

TOPIC = "persistent://public/default/planned"
SPARK_PAUSE_S = 0.01
"""Time until Spark requests the newest offset again."""


def make_topic(admin_url: str, partitions: int) -> None:
    """Makes the partitioned topic."""
    url = f"{admin_url}/admin/v2/persistent/public/default/planned/partitions"
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, str(partitions).encode(), headers, method="PUT")
    with urllib.request.urlopen(request) as answer:
        answer.read()


def measure(
    service_url: str, publishers: list[Publisher], changed: int, rounds: int, limit: int | None, results: Results
) -> None:
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
    results.note(f"{name}: p50, ms", statistics.median(took_ms[1:]))
    results.note("offset, KB", len(text) / 1e3)
    each = f"{threads} thread{'s' if threads > 1 else ''}, one for each connection"
    print(
        f"{name}: {statistics.median(took_ms[1:]):.0f} ms ({statistics.median(busy_ms[1:]):.0f} ms of processor time), "
        f"longest {max(took_ms[1:]):.0f} ms, first {took_ms[0]:.0f} ms; {each}; {len(text):,} bytes of offset"
    )


class Clocks:
    """Processor time of this process and of the broker."""

    def __init__(self, broker_pid: int) -> None:
        self._broker_pid = broker_pid
        self.reset()

    def reset(self) -> None:
        """Begins anew."""
        self._begun = time.perf_counter(), time.process_time(), tree_processor_s(self._broker_pid)

    def spent_s(self) -> tuple[float, float, float]:
        """Seconds since the last reset: of wall time, of this process, of the broker."""
        ends = time.perf_counter(), time.process_time(), tree_processor_s(self._broker_pid)
        wall, own, broker = (end - begin for end, begin in zip(ends, self._begun, strict=True))
        return wall, own, broker


def start_and_rest(service_url: str, broker_pid: int, start: str, idle_s: float, results: Results) -> None:
    """Starts a query on a topic that rests, polls it until it waits for news, and for `idle_s` after that."""
    options = {"service.url": service_url, "topic": TOPIC, "startingOffsets": start}
    clocks = Clocks(broker_pid)
    with PulsarClient(ClientConfig(service_url)) as client:
        planner = OffsetPlanner(client, parse_options(options))
        at = planner.initial()
        steps = [("initial offset", clocks.spent_s())]
        for name in ("first micro-batch", "first poll", "readers that wait"):
            clocks.reset()
            following = planner.latest(at)
            steps.append((name, clocks.spent_s()))
            if following is not at:
                planner.tasks(at, following)
                at = following
        texts = [f"{name} {wall * 1e3:.0f} ({own * 1e3:.0f}, {busy * 1e3:.0f})" for name, (wall, own, busy) in steps]
        results.note(f"start from {start}, s", sum(wall for name, (wall, _, _) in steps[:2]))
        print(f"start from {start}, ms (processor time of the planner, of the broker): {'; '.join(texts)}")
        for counts in (False, True) if idle_s else ():
            clocks.reset()
            polls, until = 0, time.monotonic() + (idle_s if counts else min(idle_s, 5))
            while time.monotonic() < until:
                planner.latest(at)
                time.sleep(SPARK_PAUSE_S)
                polls += 1
        if idle_s:
            wall, own, broker = clocks.spent_s()
            results.note_all(
                {"planner, % of a core": 100 * own / wall, "broker, % of a core": 100 * broker / wall}, "idle"
            )
            shares = f"{own / wall:.2%} of a core, broker {broker / wall:.2%}"
            print(f"idle for {wall:.0f} s: {polls} polls, planner {shares}")
        planner.close()


def main() -> None:
    """Measures all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--filled", type=int, default=300, help="partitions that have messages at all")
    parser.add_argument("--changed", type=int, default=5, help="partitions that get one before each round")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--idle", type=float, default=0.0, metavar="SECONDS", help="a query without new messages, too")
    add_option(parser)
    arguments = parser.parse_args()
    results = Results()
    with spark_pulsar.broker_process() as broker, PulsarClient(ClientConfig(broker.service_url)) as client:
        make_topic(broker.admin_url, arguments.partitions)
        publishers = [client.publisher(f"{TOPIC}-partition-{index}") for index in range(arguments.filled)]
        for publisher in publishers:
            publisher.send(MessageMetadata(), b"x" * 100)
            publisher.flush()
        for limit in (None, 10_000):
            measure(broker.service_url, publishers, arguments.changed, arguments.rounds, limit, results)
        for start, idle_s in (("latest", 0.0), ("earliest", arguments.idle)):
            start_and_rest(broker.service_url, broker.pid, start, idle_s, results)
    results.store(arguments.json)


if __name__ == "__main__":
    main()
