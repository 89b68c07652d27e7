"""Routing of rows: without a key in turn, and by key into batches of one key each, in order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.connector.writing.routing import KeylessRouter, grouped_by_key
from spark_pulsar.wire.columns.encode import encode_batches, message_columns
from spark_pulsar.wire.columns.key_hashes import group_rows, text_keys


def routed(router: KeylessRouter, partitions: list[int]) -> list[int]:
    array = np.array(partitions, np.int64)
    router.fill(array)
    return array.tolist()


def test_round_robin_goes_by_batch_and_goes_on() -> None:
    router = KeylessRouter(3, "RoundRobinPartition", batch_rows=2, first=4)
    assert routed(router, [-1] * 5) == [1, 1, 2, 2, 0]
    assert routed(router, [-1] * 2) == [0, 1]


def test_keys_keep_their_partition_and_do_not_count() -> None:
    router = KeylessRouter(2, "RoundRobinPartition", batch_rows=2, first=0)
    assert routed(router, [-1, 1, -1, 0, -1]) == [0, 1, 0, 0, 1]


def test_single_partition() -> None:
    assert routed(KeylessRouter(4, "SinglePartition", batch_rows=2, first=3), [-1, -1, 0, -1, -1]) == [3, 3, 0, 3, 3]


KEYS = st.one_of(st.none(), st.sampled_from(["", "a", "b", "c"]))
ROWS = st.lists(st.tuples(st.integers(0, 2), KEYS, KEYS), max_size=40)


@given(ROWS, st.booleans(), st.booleans())
def test_every_batch_has_one_key_and_keys_keep_their_order(
    rows: list[tuple[int, str | None, str | None]], has_keys: bool, has_ordering_keys: bool
) -> None:
    # covers SINK-8
    keys = [key if has_keys else None for _, key, _ in rows]
    ordering_keys = [key if has_ordering_keys else None for _, _, key in rows]
    columns = message_columns(
        pa.array([str(row) for row in range(len(rows))]),
        keys=text_keys(pa.array(keys, pa.string())) if has_keys else None,
        ordering_keys=pa.array(ordering_keys, pa.binary()) if has_ordering_keys else None,
    )
    plain = group_rows([partition for partition, _, _ in rows], 3)
    groups, cuts = grouped_by_key(columns, plain)
    of_row = [
        ("ordering", ordering) if ordering is not None else ("key", key)
        for key, ordering in zip(keys, ordering_keys, strict=True)
    ]
    batches = list(encode_batches(columns, groups=groups, cuts=cuts, first_sequence_ids=[0, 0, 0]))
    for group in range(3):
        mine = [batch for batch in batches if batch.group == group]
        each = [[of_row[row] for row in batch.rows.tolist()] for batch in mine]
        assert all(len(set(found)) == 1 for found in each)
        expected = plain.rows[plain.offsets[group] : plain.offsets[group + 1]].tolist()
        in_order = list(dict.fromkeys(of_row[row] for row in expected))
        assert [found[0] for found in each] == in_order
        for key, batch in zip(in_order, mine, strict=True):
            assert batch.rows.tolist() == [row for row in expected if of_row[row] == key]
        assert [batch.first_sequence_id for batch in mine] == [
            sum(len(found) for found in each[:place]) for place in range(len(mine))
        ]
