"""Rows without a key."""

from __future__ import annotations

import numpy as np

from spark_pulsar.connector.writing.routing import KeylessRouter


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
