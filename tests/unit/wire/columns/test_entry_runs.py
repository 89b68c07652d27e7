"""Runs of small batches: entries and SENDs byte by byte as those that are made one by one."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.model.positions.ids import TransactionId
from spark_pulsar.wire.columns.encode import EncodedBatches, encode_batches, message_columns
from spark_pulsar.wire.columns.entry_runs import RunMetadata, entry_run
from spark_pulsar.wire.columns.flat import NO_INTS
from spark_pulsar.wire.columns.key_hashes import group_rows, text_keys
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

NOW_MS = 1_767_323_045_678
VERSIONS = [b"", (7).to_bytes(8, "big"), b"v" * 200]


def made_batches(random: Random) -> tuple[EncodedBatches, Any]:
    """Batches of random rows, and the number of the schema version of each row."""
    count = random.randrange(1, 40)
    keys = [None if random.random() < 0.3 else random.choice(["", "k", "é" * 90]) for _ in range(count)]
    is_text = random.random() < 0.5
    key_column = pa.array(keys) if is_text else pa.array([key and key.encode() for key in keys], pa.binary())
    ordering = pa.array([None if random.random() < 0.5 else random.randbytes(random.choice([0, 3, 200])) for _ in keys])
    columns = message_columns(
        pa.array(
            [None if random.random() < 0.2 else random.randbytes(random.randrange(300)) for _ in keys], pa.binary()
        ),
        keys=text_keys(key_column) if random.random() < 0.7 else None,
        ordering_keys=ordering.cast(pa.binary()) if random.random() < 0.5 else None,
        properties=pa.array(
            [random.choice([None, [], [("a", "1"), ("é" * 99, "")]]) for _ in keys], pa.map_(pa.string(), pa.string())
        )
        if random.random() < 0.5
        else None,
        event_times=pa.array([random.choice([0, 5, -1, NOW_MS]) for _ in keys]) if random.random() < 0.5 else None,
        deliver_at_times=np.array([random.choice([0, 7, NOW_MS]) for _ in keys], np.int64)
        if random.random() < 0.5
        else None,
    )
    groups = random.choice([1, 3])
    batches = encode_batches(
        columns,
        groups=group_rows(np.array([random.randrange(groups) for _ in keys], np.int64), groups),
        first_sequence_ids=[random.choice([0, 126, 2**40]) for _ in range(groups)],
        cuts=np.array([random.random() < 0.7 for _ in keys], np.uint8),
        max_messages=random.choice([1, 3, 1_000]),
    )
    return batches, np.array([random.randrange(len(VERSIONS)) for _ in keys], np.int64)


@given(st.integers(0, 2**63))
def test_entries_and_sends_of_a_run_are_those_of_its_batches(seed: int) -> None:
    # covers SINK-18
    random = Random(seed)
    batches, row_versions = made_batches(random)
    transaction = TransactionId(random.choice([0, 3]), random.choice([0, 2**63 - 1])) if random.random() < 0.3 else None
    has_versions, is_unbatched = random.random() < 0.7, random.random() < 0.5
    name, producer_id = random.choice(["p", "standalone-0-17", "n" * 200]), random.choice([0, 5, 300])
    limits = {"most_batches": random.choice([1, 2, 100]), "most_bytes": 1_000, "most_batch_bytes": 500}
    places: list[int] = []
    for first, stop in batches.runs(**limits):
        places += range(first, stop)
        sizes = [len(batches[i].payload) for i in range(first, stop)]
        assert stop - first == 1 or (len(sizes) <= limits["most_batches"] and sum(sizes) <= 1_000 and max(sizes) <= 500)
        assert len({batches[i].group for i in range(first, stop)}) == 1
        metadata = RunMetadata(
            name, NOW_MS, VERSIONS if has_versions else [], row_versions if has_versions else NO_INTS, transaction
        )
        is_single = batches[first].is_delayed or (
            is_unbatched and all(batches[i].message_count == 1 for i in range(first, stop))
        )
        run = entry_run(batches, first, stop, metadata, are_single=is_single)
        assert run is not None
        expected, frames = [], []
        for i in range(first, stop):
            one = MessageMetadata(producer_name=name, publish_time=NOW_MS)
            payload: bytes | memoryview = batches[i].payload
            if is_single:
                one.sequence_id = batches[i].first_sequence_id
                payload = batches.columns.describe(int(batches[i].rows[0]), one)
            else:
                batches[i].describe(one)
            if has_versions and (version := VERSIONS[row_versions[batches[i].rows[0]]]):
                one.schema_version = version
            if transaction is not None:
                one.txnid_most_bits, one.txnid_least_bits = transaction
            expected.append(build_entry(one, payload))
            highest = batches[i].last_sequence_id if batches[i].message_count > 1 else None
            command = requests.send(
                producer_id, batches[i].first_sequence_id, batches[i].message_count, highest, False, transaction
            )
            frames.append(payload_frame(command, expected[-1]))
        assert [bytes(entry) for entry in run.entries] == expected
        assert bytes(run.sends(producer_id, transaction)) == b"".join(frames)
        assert run.first_sequence_ids.tolist() == [batches[i].first_sequence_id for i in range(first, stop)]
        assert run.last_sequence_ids.tolist() == [batches[i].last_sequence_id for i in range(first, stop)]
        assert run.message_counts.tolist() == [batches[i].message_count for i in range(first, stop)]
    assert places == list(range(len(batches)))


def test_a_key_that_is_no_text_is_left_to_what_describes_a_batch() -> None:
    buffers = [None, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"a\xff")]
    keys = pa.Array.from_buffers(pa.string(), 2, buffers)  # as a cast of Spark makes it
    batches = encode_batches(message_columns(pa.array(["x", "y"]), keys=text_keys(keys)), max_messages=1)
    metadata = RunMetadata("p", NOW_MS, [], NO_INTS)
    assert entry_run(batches, 0, 1, metadata) is not None
    assert entry_run(batches, 0, 2, metadata) is None
    assert entry_run(batches, 0, 2, metadata, are_single=True) is None
    columns = message_columns(pa.array(["x"]), properties=pa.MapArray.from_arrays([0, 1], keys[1:], pa.array(["v"])))
    properties = encode_batches(columns, max_messages=1)
    assert entry_run(properties, 0, 1, metadata) is not None
    assert entry_run(properties, 0, 1, metadata, are_single=True) is None


@pytest.mark.parametrize("most_bytes", [0, 5, 6, 1_000])
def test_a_batch_above_all_limits_is_a_run_of_its_own(most_bytes: int) -> None:
    batches = encode_batches(message_columns(pa.array([b"x"] * 5)), max_messages=1)
    runs = list(batches.runs(most_batches=3, most_bytes=most_bytes, most_batch_bytes=1_000))
    assert runs == ([(0, 3), (3, 5)] if most_bytes == 1_000 else [(i, i + 1) for i in range(5)])
