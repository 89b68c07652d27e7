"""A cursor with a million holes: every second entry acknowledged, in random order.

    python benchmarks/cursor.py [--holes 1000000] [--data DIR]

Three parts. In memory: the cost of one more acknowledgement among more and more holes, and the memory of a hole.
Checkpoint: rows and bytes of the first one, and of those after 1,000 more acks, strewn and in a row. Restart: a data
directory whose broker was killed (its journal is replayed) and one that was stopped (its checkpoint is loaded), from
start to ready, with the memory of the process; then a consumer that joins, until its first message and in messages/s.

The limit for a restart is 5 s. Acknowledging is to cost O(log n): a thousand times the holes, twice the time at most.
"""

from __future__ import annotations

import argparse
import os
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
from spark_pulsar.ledger.state.cursors.records import CursorAcked, CursorCreated
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.state.ledgers import LedgerOpened
from spark_pulsar.ledger.state.snapshot import Row, pop_dirty_rows
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.model.positions.ids import LATEST, Position
from spark_pulsar.storage.files import FileStorage
from spark_pulsar.testing.process import BrokerProcess
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.entry_runs import run_of

TOPIC = "persistent://public/default/holes"
RUN = 1_000


def entries(count: int) -> list[bytes]:
    """Entries of 100 bytes of payload."""
    metadata = MessageMetadata(producer_name="bench", sequence_id=0, publish_time=1_795_000_000_000)
    return [build_entry(metadata, b"%0100d" % number) for number in range(count)]


def opened(state: DurableState) -> list[Record]:
    """The records of a topic with an open ledger and a subscription."""
    ledger_id = state.next_ledger_id
    return [
        TopicCreated(state.next_topic_id, TOPIC, 0, {}),
        LedgerOpened(state.next_topic_id, ledger_id, 0),
        CursorCreated(state.next_cursor_id, state.next_topic_id, "s", ledger_id, -1, 0, {}),
    ]


def filled(holes: int) -> DurableState:
    """A state with twice as many entries as there are to be holes."""
    state = DurableState()
    for record in opened(state):
        apply(state, record)
    some = entries(RUN)
    for first in range(0, 2 * holes, RUN):
        apply(state, EntriesAppended(run_of(1, first, some)))
    return state


def strewn(holes: int) -> list[int]:
    """Every second entry, in random order."""
    order = list(range(1, 2 * holes, 2))
    Random(1).shuffle(order)
    return order


def rss_mb(pid: int | str = "self") -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def in_memory(holes: int, results: Results) -> DurableState:
    """Acknowledges one entry after the other and prints the cost at each power of ten."""
    state = filled(holes)
    order = strewn(holes)
    before_mb, done, at = rss_mb(), 0, 1_000
    while at <= holes:
        sample = min(20_000, at - done)
        for entry_id in order[done : at - sample]:
            apply(state, CursorAcked(1, [(1, entry_id, entry_id + 1)]))
        records = [CursorAcked(1, [(1, entry_id, entry_id + 1)]) for entry_id in order[at - sample : at]]
        started = time.perf_counter()
        for record in records:
            apply(state, record)
        cost_us = (time.perf_counter() - started) / sample * 1e6
        cursor = state.cursors[1]
        started = time.perf_counter()
        for entry_id in range(0, 2 * holes, max(1, holes // 500)):
            cursor.unacked(Position(1, entry_id), LATEST, 1)
        find_us = (time.perf_counter() - started) / 1000 * 1e6
        results.note(f"one more ack among {at:,} holes, us", cost_us)
        print(f"  {at:>9,} holes: one more ack {cost_us:5.2f} us; next entry to send {find_us:5.2f} us")
        del records
        done, at = at, at * 10
    cursor = state.cursors[1]
    # The set of changed blocks and the list of ids that were acknowledged are not the cursor's.
    print(f"  memory {(rss_mb() - before_mb) * 1e6 / cursor.acked.range_count():.0f} bytes a hole (RSS)")
    return state


def checkpoints(state: DurableState, holes: int) -> None:
    """Measures the rows and bytes that a checkpoint has to write."""

    def show(what: str) -> None:
        started = time.perf_counter()
        rows = pop_dirty_rows(state)
        took_ms = (time.perf_counter() - started) * 1000
        print(f"  {what}: {len(rows):,} rows, {sum(map(size_of, rows)) / 1e6:.2f} MB, gathered in {took_ms:.1f} ms")

    show("the first one")
    for entry_id in Random(2).sample(range(2 * holes), 1000):
        apply(state, CursorAcked(1, [(1, entry_id, entry_id + 1)]))
    show("after 1,000 acks strewn over all")
    for entry_id in range(holes, holes + 1000):
        apply(state, CursorAcked(1, [(1, entry_id, entry_id + 1)]))
    show("after 1,000 acks in a row")


def size_of(row: Row) -> int:
    """Bytes of a row's blobs."""
    return sum(len(value) for value in row.values or () if isinstance(value, bytes))


def restarts(holes: int, data: Path, results: Results) -> None:
    """Fills a data directory, leaves it as kill -9 would, and starts brokers on it."""
    fill(holes, data)
    broker = BrokerProcess(data_dir=data)
    try:
        for how in ("after a kill", "after a stop"):
            started = time.perf_counter()
            if how == "after a kill":
                broker.start()
            else:
                broker.restart()
            took_s = time.perf_counter() - started
            results.note(f"ready {how}, s", took_s)
            print(f"  {how}: ready after {took_s:.2f} s (limit 5 s, with stopping), {rss_mb(broker.pid):.0f} MB")
        consume(broker.service_url, holes)
    finally:
        broker.close()


def fill(holes: int, data: Path) -> None:
    """A data directory without a last checkpoint."""
    storage, state = FileStorage.open(data, on_failed=print)

    def submit(records: list[Record]) -> None:
        for record in records:
            apply(state, record)
        storage.submit(records, lambda _group: None)
        if storage.needs_checkpoint():
            storage.checkpoint(state)

    submit(opened(state))
    ledger_id = state.topics_by_name[TOPIC].ledger.ledger_ids()[-1]
    some = entries(RUN)
    for first in range(0, 2 * holes, RUN):
        submit([EntriesAppended(run_of(ledger_id, first, some))])
    order = strewn(holes)
    for at in range(0, holes, 100):  # what a client groups in 100 ms
        submit([CursorAcked(1, sorted((ledger_id, each, each + 1) for each in order[at : at + 100]))])
    storage.close()


def consume(service_url: str, holes: int) -> None:
    """Joins the subscription and takes some of the entries between the holes."""
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    count = min(50_000, holes)
    started = time.perf_counter()
    consumer = client.subscribe(TOPIC, "s", pulsar.ConsumerType.Shared, receiver_queue_size=5_000)
    consumer.acknowledge(consumer.receive(timeout_millis=20_000))
    first_ms = (time.perf_counter() - started) * 1000
    started = time.perf_counter()
    for _ in range(count - 1):
        consumer.acknowledge(consumer.receive(timeout_millis=20_000))
    rate = (count - 1) / (time.perf_counter() - started)
    print(f"  a Shared consumer: first message after {first_ms:.0f} ms, then {rate:,.0f} messages/s, all acknowledged")
    client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--holes", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path, help="a directory to work in; default: a new one")
    add_option(parser)
    options = parser.parse_args()
    results = Results()
    with tempfile.TemporaryDirectory(dir=options.data) as directory:
        print(description(Path(directory)))
        print("in memory")
        state = in_memory(options.holes, results)
        print("checkpoint")
        checkpoints(state, options.holes)
        del state
        print("restart")
        restarts(options.holes, Path(directory) / "data", results)
    results.store(options.json)


if __name__ == "__main__":
    main()
