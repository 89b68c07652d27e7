"""The broker's hot path in the wire package, one core, no sockets, no disk.

    python benchmarks/hotpath.py [--seconds 1.0]

Each line is one job over prepared bytes in 64 KB reads, as CPU time of this process: best of the rounds that fit into
the given seconds. "peer" is the same job done entry by entry with protobuf (and the same CRC32C), the obvious way.

Two cores, Python 3.11.2, in entries/s: scan + receipts 2.0 to 2.3 M at 100 B (peer 140,000), 1.6 M when 1,000
producers take turns (137,000); MESSAGE frames 5.5 to 6.2 M at 100 B (0.45 M), 3.9 M twenty at a time, 0.9 to 1.2 M of
10 KB (0.3 M); acknowledged ids 55 to 70 M in order (3 M), 8.3 M in runs of twenty, 13 M every other one (3 M).
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable

from load.results import Results, add_option

from spark_pulsar.model.positions.ids import MessageId, Position
from spark_pulsar.wire.entries import entry_bytes
from spark_pulsar.wire.entries.messages import message_frames
from spark_pulsar.wire.protocol import frames, requests
from spark_pulsar.wire.protocol.acks import parse_ack_ids
from spark_pulsar.wire.protocol.frames import FrameSplitter
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from spark_pulsar.wire.sends.columnar_receipts import columnar_receipts
from spark_pulsar.wire.sends.receipts import receipts
from spark_pulsar.wire.sends.run_splitter import RunSplitter
from spark_pulsar.wire.sends.send_runs import ColumnarSends, SendRun
from tests import entry_commands

READ_BYTES = 65_536


def send_stream(count: int, payload_bytes: int, producers: int = 1, batch: int = 1, java: bool = False) -> list[bytes]:
    """SEND frames as a socket would hand them over."""
    made = []
    for index in range(count):
        sequence_id = index // producers * batch
        metadata = MessageMetadata(producer_name="bench", sequence_id=sequence_id, publish_time=1_700_000_000_000)
        if batch > 1:
            metadata.num_messages_in_batch = batch
        command = requests.send(index % producers, sequence_id, batch, sequence_id + batch - 1 if java else None)
        made.append(frames.payload_frame(command, entry_bytes.build_entry(metadata, bytes(payload_bytes))))
    stream = b"".join(made)
    return [stream[at : at + READ_BYTES] for at in range(0, len(stream), READ_BYTES)]


def runs_of(reads: list[bytes]) -> list[SendRun]:
    """The runs that a stream of SENDs holds."""
    splitter = RunSplitter()
    return [item for data in reads for item in splitter.feed_sends(data) if isinstance(item, SendRun)]


def publish(reads: list[bytes]) -> None:
    """Scans and checks every SEND, writes every receipt."""
    splitter = RunSplitter()
    entry_id = 0
    for data in reads:
        for run in splitter.feed_sends(data):
            if isinstance(run, ColumnarSends):
                entry_ids = [entry_id] * len(run)
                columnar_receipts(run.producer_ids, entry_ids, entry_ids, run.sequence_ids)
                entry_id += len(run)
            elif isinstance(run, SendRun):
                receipts(run.producer_id, 7, entry_id, run.sequence_ids, run.highest_sequence_ids)
                entry_id += len(run)


def publish_by_protobuf(reads: list[bytes]) -> None:
    """Does the job of `publish`, one message object at a time."""
    splitter = FrameSplitter()
    entry_id = 0
    for data in reads:
        for frame in splitter.feed(data):
            command, payload_start = frames.parse_command(*frame)
            entry_bytes.parse_entry(frame.buffer, payload_start, frame.end)
            send = command.send
            receipt = entry_commands.send_receipt(send.producer_id, send.sequence_id, Position(7, entry_id))
            frames.command_frame(receipt)
            entry_id += 1


def by_twenties(runs: list[SendRun]) -> list[SendRun]:
    """Splits runs as the consumers of a Shared subscription get them."""
    return [run.slice(low, low + 20) for run in runs for low in range(0, len(run), 20)]


def deliver(runs: list[SendRun]) -> None:
    """Writes every entry of the runs as a MESSAGE."""
    entry_id = 0
    for run in runs:
        b"".join(message_frames(1, 7, entry_id, -1, run.buffer, run.starts, run.ends))
        entry_id += len(run)


def deliver_by_protobuf(runs: list[SendRun]) -> None:
    """Does the job of `deliver`, one message object at a time."""
    entry_id = 0
    for run in runs:
        pieces = []
        for start, end in zip(run.starts, run.ends, strict=True):
            pieces.append(
                frames.payload_frame(entry_commands.message(1, MessageId(7, entry_id)), run.buffer[start:end])
            )
            entry_id += 1
        b"".join(pieces)


def acknowledge(acks: list[bytes]) -> None:
    """Reads grouped acknowledgements into ranges."""
    for frame in acks:
        assert parse_ack_ids(frame, 0, len(frame)) is not None


def acknowledge_by_protobuf(acks: list[bytes]) -> None:
    """Does the job of `acknowledge`, without merging neighbours."""
    for frame in acks:
        command, _ = frames.parse_command(frame, 0, len(frame))
        assert [(data.ledgerId, data.entryId) for data in command.ack.message_id]


def ack_stream(count: int, run: int = 1, skipped: int = 0) -> list[bytes]:
    """ACK frames of 1,000 ids each: after each `run` of entries so many are skipped."""
    positions = [Position(7, index + index // run * skipped) for index in range(count)]
    return [frames.command_frame(requests.ack(1, positions[at : at + 1000])) for at in range(0, count, 1000)]


def rate(job: Callable[[], None], count: int, seconds: float) -> float:
    """Entries a second of CPU time in the best round."""
    best, spent = float("inf"), 0.0
    while spent < seconds:
        started = time.process_time()
        job()
        took = time.process_time() - started
        best, spent = min(best, took), spent + took
    return count / best


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=1.0, help="CPU time for each line")
    add_option(parser)
    options = parser.parse_args()
    seconds, results = options.seconds, Results()
    count = 50_000
    plain = send_stream(count, 100)
    batches = send_stream(5_000, 10_000, batch=100)
    java = send_stream(count, 100, batch=10, java=True)
    many = send_stream(count, 100, producers=1000)
    runs, runs_of_batches = runs_of(plain), runs_of(batches)
    twenties = by_twenties(runs)
    ordered, every_second, in_twenties = ack_stream(count), ack_stream(count, 1, 1), ack_stream(count, 20, 180)
    jobs: list[tuple[str, int, Callable[[], None], Callable[[], None]]] = [
        ("scan + receipts, 100 B", count, lambda: publish(plain), lambda: publish_by_protobuf(plain)),
        ("scan + receipts, 1,000 producers in turn", count, lambda: publish(many), lambda: publish_by_protobuf(many)),
        ("scan + receipts, Java batches of 10", count, lambda: publish(java), lambda: publish_by_protobuf(java)),
        ("scan + receipts, batches of 10 KB", 5_000, lambda: publish(batches), lambda: publish_by_protobuf(batches)),
        ("MESSAGE frames, 100 B", count, lambda: deliver(runs), lambda: deliver_by_protobuf(runs)),
        ("MESSAGE frames, 20 at a time", count, lambda: deliver(twenties), lambda: deliver_by_protobuf(twenties)),
        (
            "MESSAGE frames, batches of 10 KB",
            5_000,
            lambda: deliver(runs_of_batches),
            lambda: deliver_by_protobuf(runs_of_batches),
        ),
        ("acks, consecutive", count, lambda: acknowledge(ordered), lambda: acknowledge_by_protobuf(ordered)),
        ("acks, 20 in a row", count, lambda: acknowledge(in_twenties), lambda: acknowledge_by_protobuf(in_twenties)),
        ("acks, every second", count, lambda: acknowledge(every_second), lambda: acknowledge_by_protobuf(every_second)),
    ]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    print(f"Python {platform.python_version()} on {machine}")
    print(f"{'job':44}{'entries/s':>14}{'peer':>14}{'ratio':>8}")
    for name, entries_done, ours, peer in jobs:
        fast, slow = rate(ours, entries_done, seconds), rate(peer, entries_done, seconds / 2)
        results.note_all({f"ours: {name}": fast, f"protobuf: {name}": slow})
        print(f"{name:44}{fast:14,.0f}{slow:14,.0f}{fast / slow:8.1f}")
    results.store(options.json)


if __name__ == "__main__":
    main()
