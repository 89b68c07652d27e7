"""Sequence ids that carry number, count and checksum of rows: they grow, and change with every change of the rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.connector.effectively_once import checked_sequence_ids
from spark_pulsar.connector.effectively_once.checked_sequence_ids import RunningIds, place_of
from spark_pulsar.connector.errors import DeliveryGuaranteeError
from spark_pulsar.wire.columns.encode import MessageColumns, message_columns
from spark_pulsar.wire.columns.kernels.content_kernels import content_hashes
from spark_pulsar.wire.columns.key_hashes import group_rows, text_keys

HASHES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2**63 - 1)), min_size=1, max_size=60)


def ids_of(ids: RunningIds, rows: list[tuple[int, int]]) -> dict[int, list[int]]:
    """Ids of rows, given as partition and hash, by partition."""
    groups = group_rows([partition for partition, _ in rows], 3)
    given_ids = ids.of_rows(np.array([value for _, value in rows], np.int64), groups)
    return {at: given_ids[groups.offsets[at] : groups.offsets[at + 1]].tolist() for at in range(3)}


@given(HASHES, st.integers(0, 60), st.integers(0, 2**35))
def test_ids_grow_and_do_not_depend_on_how_rows_arrive(rows: list[tuple[int, int]], cut: int, number: int) -> None:
    # covers ONCE-3, ONCE-10
    at_once, in_parts = RunningIds(number, ["a", "b", "c"]), RunningIds(number, ["a", "b", "c"])
    expected = ids_of(at_once, rows)
    parts = [ids_of(in_parts, part) for part in (rows[:cut], rows[cut:])]
    assert {at: parts[0][at] + parts[1][at] for at in range(3)} == expected
    for at, ids in expected.items():
        assert all(0 < ids[i] < ids[i + 1] < 2**63 for i in range(len(ids) - 1))
        assert [place_of(one).rows for one in ids] == [*range(1, len(ids) + 1)]
        assert all(place_of(one).number == number % 2**16 and place_of(one).sequence_id == one for one in ids)
        assert at_once.count(at) == in_parts.count(at) == len(ids)
    assert at_once.content == in_parts.content == sum(value for _, value in rows) % 2**64
    assert at_once.rows == len(rows)


def test_every_change_of_rows_changes_the_last_id() -> None:
    # covers ONCE-10
    random = np.random.default_rng(7)
    rows = random.integers(0, 2**63 - 1, 50)
    last = int(RunningIds(3, ["a"]).of_rows(rows, group_rows([0] * 50, 1))[-1])
    misses = 0
    for _ in range(2_000):
        other, (i, j) = rows.copy(), random.choice(50, 2, replace=False)
        if random.random() < 0.5:
            other[[i, j]] = other[[j, i]]
        else:
            other[i] ^= 1 << int(random.integers(0, 63))
        misses += int(RunningIds(3, ["a"]).of_rows(other, group_rows([0] * 50, 1))[-1]) == last
    assert misses <= 1, "2,000 changes, of which one in 2^19 stays unseen"


def test_rows_that_cannot_be_counted_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers ONCE-10
    monkeypatch.setattr(checked_sequence_ids, "MOST_ROWS", 3)
    ids = RunningIds(0, ["a", "b"])
    ids.of_rows(np.arange(4), group_rows([0, 1, 1, 1], 2))
    with pytest.raises(DeliveryGuaranteeError, match=r"more than 3 rows for b in one micro-batch.*minPartitions"):
        ids.of_rows(np.arange(1), group_rows([1], 2))


def columns(**changes: object) -> MessageColumns:
    """One row that has everything, but for changes."""
    row = {"value": b"value", "key": "key", "order": b"o", "properties": [("a", "b")], "time": 5} | changes
    keys = pa.array([row["key"]], pa.binary() if isinstance(row["key"], bytes) else pa.string())
    return message_columns(
        pa.array([row["value"]], pa.binary()),
        keys=text_keys(keys),
        ordering_keys=pa.array([row["order"]], pa.binary()),
        properties=pa.array([row["properties"]], pa.map_(pa.string(), pa.string())),
        event_times=pa.array([row["time"]], pa.int64()),
    )


def test_a_hash_is_of_all_that_a_message_is() -> None:
    # covers ONCE-10
    changes: list[dict[str, object]] = [
        {}, {"value": b"Value"}, {"value": None}, {"value": b""}, {"value": b"value\0"}, {"key": None}, {"key": ""},
        {"key": b"key"}, {"order": None}, {"order": b""}, {"properties": None}, {"properties": [("a", "c")]},
        {"properties": [("ab", "")]}, {"properties": [("a", "b"), ("c", "d")]}, {"time": None}, {"time": -5},
    ]  # fmt: skip
    hashes = [int(columns(**change).content_hashes()[0]) for change in changes]
    content_hashes.compiled()
    assert hashes == [int(columns(**change).content_hashes()[0]) for change in changes]
    assert len(set(hashes)) == len(changes)
    assert min(hashes) >= 0
    absent = message_columns(pa.array([b"value"], pa.binary())).content_hashes()
    nulls = columns(key=None, order=None, properties=None, time=None).content_hashes()
    assert absent.tolist() == nulls.tolist()
    assert hashes[0] == 1478987541600729483, (
        "the same in every version: an attempt may meet what an earlier version has written"
    )
