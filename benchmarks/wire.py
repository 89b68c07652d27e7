"""Batch payloads to Arrow and back, on one core.

    .venv/bin/python benchmarks/wire.py [--seconds 1.0] [--only WORD]

Times are processor time of the one thread that works, the best of several runs over the same input, so that a neighbour
on the machine spoils few of them.
"All Spark columns" means the seven columns of the connector; the entries are what a producer makes: 1,000 messages a
batch with a key and a sequence id.
"""

import argparse
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from load.results import Results, add_option

from spark_pulsar.wire.columns.encode import MessageColumns, encode_batches, message_columns
from spark_pulsar.wire.columns.entries import Entries, inspect_entries
from spark_pulsar.wire.columns.kernels.compiler import COMPILED
from spark_pulsar.wire.columns.key_hashes import group_rows, hash_keys, partition_of, text_keys
from spark_pulsar.wire.columns.records import RECORD_COLUMNS, RecordDecoder
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

TOPIC = "persistent://public/default/flights-partition-0"
LINE = "{:<58} {:>9.2f} M msg/s {:>8.0f} MB/s"


def machine() -> str:
    """The machine in one line."""
    names = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    mode = "compiled" if COMPILED else "INTERPRETED"
    return f"{names[0]}, {os.cpu_count()} cores, Python {platform.python_version()}, kernels {mode}"


def columns_of(
    rows: int, value_bytes: int, *, binary_keys: bool = False, with_properties: bool = False
) -> MessageColumns:
    """Made-up messages with keys of about eight bytes."""
    random = np.random.default_rng(7)
    data = random.integers(32, 127, rows * value_bytes, np.uint8)
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(value_bytes)
    value = pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    names = [f"key-{i % 997:04d}" for i in range(rows)]
    keys = text_keys(pa.array(names, pa.binary() if binary_keys else pa.string()))
    pairs = pa.array([[("origin", "JFK"), ("tail", f"N{i}")] for i in range(rows)], pa.map_(pa.string(), pa.string()))
    return message_columns(value, keys=keys, properties=pairs if with_properties else None)


def entries_of(columns: MessageColumns, batch_messages: int) -> Entries:
    """The columns as stored batch entries."""
    parts = []
    for batch in encode_batches(columns, max_messages=batch_messages, max_bytes=1 << 30):
        metadata = MessageMetadata(producer_name="bench", publish_time=1_700_000_000_000)
        batch.describe(metadata)
        parts.append(stored(metadata, batch.payload))
    return joined(parts)


def single_entries_of(columns: MessageColumns) -> Entries:
    """The columns as one entry per message."""
    parts = []
    for row in range(len(columns)):
        metadata = MessageMetadata(producer_name="bench", publish_time=1_700_000_000_000, sequence_id=row)
        parts.append(stored(metadata, columns.describe(row, metadata)))
    return joined(parts)


def stored(metadata: MessageMetadata, payload: bytes | memoryview) -> bytes:
    """An entry as the broker keeps it, without checksum."""
    head = metadata.SerializeToString()
    return b"".join((len(head).to_bytes(4, "big"), head, payload))


def joined(parts: list[bytes]) -> Entries:
    """Entries side by side in one buffer, as they arrive from a socket."""
    ends = np.cumsum([len(part) for part in parts])
    starts = np.concatenate(([0], ends[:-1]))
    return Entries.over(b"".join(parts), starts, ends, np.zeros(len(parts), np.int64), np.arange(len(parts)), 0)


def best_seconds(work: Callable[[], object], seconds: float) -> float:
    """The quickest of the runs that fit into the time."""
    work()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return best


def record_batches(entries: Entries, topic: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Decodes entries once."""
    return RecordDecoder(topic, columns).batches(entries)


def drain(batches: Iterator[pa.RecordBatch]) -> int:
    """Uses up an iterator."""
    return sum(batch.num_rows for batch in batches)


def decoding(measure: Callable[..., None]) -> None:
    """Entries to Arrow."""
    keyed = entries_of(columns_of(100_000, 100), 1000)
    both = ["value", "__key"]
    measure(
        "decode 1,000 x 100 B, key and value",
        keyed,
        lambda: drain(record_batches(keyed, TOPIC, both)),
    )
    measure("decode 1,000 x 100 B, all Spark columns", keyed, lambda: drain(record_batches(keyed, TOPIC)))
    one = keyed.part(0, 1)
    measure("decode one entry a call, all Spark columns", one, lambda: drain(record_batches(one, TOPIC)))
    rich = entries_of(columns_of(100_000, 100, binary_keys=True, with_properties=True), 1000)
    measure("decode 1,000 x 100 B, base64 keys, 2 properties", rich, lambda: drain(record_batches(rich, TOPIC)))
    narrow = [name for name in RECORD_COLUMNS if name != "__messageProperties"]
    measure("  the same without reading properties", rich, lambda: drain(record_batches(rich, TOPIC, narrow)))
    large = entries_of(columns_of(20_000, 1024), 100)
    measure("decode 100 x 1 KB, value", large, lambda: drain(record_batches(large, TOPIC, ["value"])))
    measure("decode 100 x 1 KB, all Spark columns", large, lambda: drain(record_batches(large, TOPIC)))
    single = single_entries_of(columns_of(50_000, 100))
    measure("count unbatched entries (metadata only)", single, lambda: inspect_entries(single))
    measure("decode unbatched 100 B, all Spark columns", single, lambda: drain(record_batches(single, TOPIC)))


def encoding(measure: Callable[..., None]) -> None:
    """Arrow to entries."""
    for label, columns in (
        ("encode 1,000 x 100 B with keys", columns_of(100_000, 100)),
        (
            "encode 1,000 x 100 B, base64 keys, 2 properties",
            columns_of(100_000, 100, binary_keys=True, with_properties=True),
        ),
    ):
        measure(label, columns, lambda c=columns: sum(map(len_of, encode_batches(c, max_bytes=1 << 20))))
    values = pa.array([bytes(100)] * 100_000)
    names = pa.array([f"key-{i % 997:04d}" for i in range(100_000)])

    def sink() -> None:
        keys = text_keys(names)
        groups = group_rows(partition_of(keys, 4), 4)
        sum(map(len_of, encode_batches(message_columns(values, keys=keys), groups=groups, max_bytes=1 << 20)))

    measure("sink: flatten, hash, group by 4 partitions, encode", columns_of(100_000, 100), sink)
    keys = text_keys(names)
    measure("JavaStringHash of 8-byte keys", len(keys), lambda: hash_keys(keys, "JavaStringHash"))
    measure("Murmur3_32Hash of 8-byte keys", len(keys), lambda: hash_keys(keys, "Murmur3_32Hash"))


def len_of(batch: object) -> int:
    """Payload size of an encoded batch."""
    return len(batch.payload)  # type: ignore[attr-defined]


def main() -> None:
    """Prints the machine and all figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each line (default 1)")
    parser.add_argument("--only", default="", help="lines whose text has this word")
    add_option(parser)
    options = parser.parse_args()
    results = Results()
    print(machine())

    def measure(label: str, what: Entries | MessageColumns | int, work: Callable[[], object]) -> None:
        if options.only not in label:
            return
        seconds = best_seconds(work, options.seconds)
        if isinstance(what, Entries):
            messages, size = int(inspect_entries(what).message_counts.sum()), int((what.ends - what.starts).sum())
        else:
            messages = what if isinstance(what, int) else len(what)
            size = 8 * messages if isinstance(what, int) else int(what.value.offsets[-1])
        results.note_all({"messages/s": messages / seconds, "MB/s": size / seconds / 1e6}, label)
        print(LINE.format(label, messages / seconds / 1e6, size / seconds / 1e6), flush=True)

    decoding(measure)
    encoding(measure)
    results.store(options.json)


if __name__ == "__main__":
    main()
