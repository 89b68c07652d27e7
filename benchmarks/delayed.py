"""A million delayed messages: their cost in memory and at a start, and how late they come.

    python benchmarks/delayed.py [--messages 1000000] [--data DIR]

Three data directories with the same entries of 100 bytes in one topic with one subscription: none of them delayed, all
of them, every other one (the worst order there is); the times are strewn over the hour that begins a day from now. Each
is left as kill -9 would leave it and started twice, after the kill and after a stop in order. The memory is that of the
process when it is ready.

Where all are delayed an official client then publishes 1,000 messages that are due within the second that begins 3 s
later, while the others wait: a Shared consumer gets those and nothing else, none of them before its time; how late they
are is measured by the clock they were sent with. (Behind a backlog that is not delayed they would wait for their turn.)
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from random import Random

import pulsar
from load.machine import description
from load.results import Results, add_option

from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.cursors.records import CursorCreated
from spark_pulsar.ledger.state.delays import EntriesDelayed
from spark_pulsar.ledger.state.ledgers import LedgerOpened
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.storage.files import FileStorage
from spark_pulsar.testing.process import BrokerProcess
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.entry_runs import run_of

TOPIC = "persistent://public/default/delayed"
RUN = 1_000
DAY_MS = 24 * 3600 * 1000
STEPS = {"none delayed": 0, "all delayed": 1, "every other one delayed": 2}


def fill(messages: int, every: int, data: Path) -> None:
    """A data directory without a last checkpoint; one of `every` entries is delayed, 0 = none."""
    storage, state = FileStorage.open(data, on_failed=print)
    now_ms, random = int(time.time() * 1000), Random(1)

    def submit(records: list[Record]) -> None:
        for record in records:
            apply(state, record)
        storage.submit(records, lambda _group: None)
        if storage.needs_checkpoint():
            storage.checkpoint(state)

    ledger_id, topic_id = state.next_ledger_id, state.next_topic_id
    cursor = CursorCreated(state.next_cursor_id, topic_id, "s", ledger_id, -1, 0, {})
    submit([TopicCreated(topic_id, TOPIC, 0, {}), LedgerOpened(topic_id, ledger_id, 0), cursor])
    for first in range(0, messages, RUN):
        times = {
            entry_id: now_ms + DAY_MS + random.randrange(3_600_000)
            for entry_id in range(first, first + RUN)
            if every and entry_id % every == 0
        }
        entries = [build_entry(metadata(now_ms, times.get(each, 0)), bytes(100)) for each in range(first, first + RUN)]
        appended: list[Record] = [EntriesAppended(run_of(ledger_id, first, entries))]
        submit(appended + ([EntriesDelayed(ledger_id, list(times), list(times.values()))] if times else []))
    storage.close()


def metadata(now_ms: int, deliver_at_ms: int) -> MessageMetadata:
    """Delivery time of one message; 0 = not delayed."""
    of = MessageMetadata(producer_name="bench", sequence_id=0, publish_time=now_ms)
    if deliver_at_ms:
        of.deliver_at_time = deliver_at_ms
    return of


def rss_mb(pid: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(messages: int, name: str, data: Path, results: Results) -> float:
    """Starts a broker on such a directory twice and has a consumer join; returns its memory in MB."""
    every = STEPS[name]
    fill(messages, every, data)
    broker = BrokerProcess(data_dir=data)
    try:
        started = time.perf_counter()
        broker.start()
        killed_s = time.perf_counter() - started
        started = time.perf_counter()
        broker.restart()
        stopped_s = time.perf_counter() - started
        ready_mb = rss_mb(broker.pid)
        results.note(f"{name}: ready after a kill, s", killed_s)
        print(f"  ready after a kill {killed_s:.2f} s, after a stop (with it) {stopped_s:.2f} s, {ready_mb:.0f} MB")
        if every == 1:
            deliver(broker.service_url, results)
        return ready_mb
    finally:
        broker.close()


def deliver(service_url: str, results: Results) -> None:
    """Measures how late messages come that are due while all others wait."""
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    consumer = client.subscribe(TOPIC, "s", pulsar.ConsumerType.Shared, receiver_queue_size=2_000)
    producer = client.create_producer(TOPIC, max_pending_messages=2_000)
    base_ms, random = int(time.time() * 1000) + 3_000, Random(2)
    for _ in range(1_000):
        due_ms = base_ms + random.randrange(1_000)
        producer.send_async(str(due_ms).encode(), lambda *_: None, deliver_at=due_ms, partition_key="due")
    producer.flush()
    late_ms: list[float] = []
    while len(late_ms) < 1_000:
        message = consumer.receive(timeout_millis=60_000)
        consumer.acknowledge(message)
        assert message.partition_key(), "came a day too early"
        late_ms.append(time.time() * 1000 - int(message.data()))
    p50, p99 = statistics.median(late_ms), sorted(late_ms)[990]
    results.note_all({"late p50, ms": p50, "late p99, ms": p99}, "due")
    print(
        f"  1,000 due within a second: {min(late_ms):.1f} to {max(late_ms):.0f} ms late, p50 {p50:.1f}, p99 {p99:.0f}"
    )
    assert min(late_ms) > -1, "never early"
    client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path, help="a directory to work in; default: a new one")
    add_option(parser)
    options = parser.parse_args()
    results = Results()
    with tempfile.TemporaryDirectory(dir=options.data) as directory:
        print(description(Path(directory)))
        idle_mb = 0.0
        for number, name in enumerate(STEPS):
            print(f"{options.messages:,} messages, {name}")
            used_mb = measure(options.messages, name, Path(directory) / str(number), results)
            if STEPS[name]:
                results.note(f"{name}: more memory, MB", used_mb - idle_mb)
                print(f"  {used_mb - idle_mb:.0f} MB more than without delays")
            else:
                idle_mb = used_mb
    results.store(options.json)


if __name__ == "__main__":
    main()
