"""Appending by column does to each ledger what appending one by one does. Covers ML-1, ML-2."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.ledger.entries import EntryColumns, EntryRun
from spark_pulsar.ledger.managed_ledgers.ledger import LedgerInfo, RollLimits, is_full
from spark_pulsar.ledger.records import InvalidRecord
from spark_pulsar.ledger.state import columns
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.model.column_store import ColumnStore
from tests import without_numpy

both_ways = without_numpy.both_ways

QUICK = settings(max_examples=150, deadline=None, derandomize=True)
TOPICS = 6


def state_with_topics() -> DurableState:
    """Topics 1 to TOPICS with an open ledger each."""
    state = DurableState()
    for topic_id in range(1, TOPICS + 1):
        apply(state, TopicCreated(topic_id, f"persistent://public/default/{topic_id}", 1, {}))
        for record in state.records_to_open_ledger(topic_id, 2):
            apply(state, record)
    return state


ENTRIES = st.lists(
    st.tuples(st.integers(1, TOPICS), st.integers(0, 3_000_000), st.integers(1, 9)), min_size=1, max_size=60
)


@QUICK
@given(st.lists(st.tuples(ENTRIES, st.booleans()), max_size=6))
def test_as_one_by_one(records: list[tuple[list[tuple[int, int, int]], bool]]) -> None:
    at_once, one_by_one = state_with_topics(), state_with_topics()
    for entries, with_rows in records:
        bounds = np.cumsum([0, *(size for _, size, _ in entries)]).tolist()
        starts, ends = bounds[:-1], bounds[1:]
        infos = [at_once.topics[topic_id].ledger for topic_id, _, _ in entries]
        ledger_ids = [info.current.ledger_id for info in infos if info.current is not None]
        entry_ids = at_once.next_entry_ids(ledger_ids)
        counts = [count for _, _, count in entries]
        rows = [info.row for info in infos] if with_rows else None
        if with_rows:
            found = columns.next_ids(at_once.open_ledgers, np.array(rows))
            assert [column.tolist() for column in found] == [ledger_ids, entry_ids]
        apply(at_once, EntriesAppended(EntryColumns(b"", ledger_ids, entry_ids, starts, ends, counts, rows)))
        for at, count in enumerate(counts):
            run = EntryRun(ledger_ids[at], entry_ids[at], b"", (starts[at],), (ends[at],), (count,))
            apply(one_by_one, EntriesAppended(run))
    assert at_once.ledgers == one_by_one.ledgers
    assert at_once.dirty == one_by_one.dirty
    for topic_id in range(1, TOPICS + 1):
        info, other = (state.topics[topic_id].ledger for state in (at_once, one_by_one))
        assert (info.total_entries, info.size_bytes) == (other.total_entries, other.size_bytes)


@pytest.mark.parametrize("with_rows", [False, True])
@pytest.mark.parametrize("entry_ids", [[0, 0, 0], [1, 0, 1], [0, 0, 2], [-1, 0, 0]])
def test_what_does_not_continue_its_ledger_is_refused(entry_ids: list[int], with_rows: bool) -> None:
    state = state_with_topics()
    before = [info.row() for info in state.ledgers.values()]
    rows = [state.topics[1].ledger.row, state.topics[2].ledger.row, state.topics[1].ledger.row] if with_rows else None
    with pytest.raises(InvalidRecord, match="is next"):
        apply(state, EntriesAppended(EntryColumns(b"abc", [1, 2, 1], entry_ids, [0, 1, 2], [1, 2, 3], None, rows)))
    assert [info.row() for info in state.ledgers.values()] == before


def test_ledgers_that_are_not_open_are_refused() -> None:
    state = state_with_topics()
    apply(state, EntriesAppended(EntryColumns(b"a", [1], [0], [0], [1])))
    for record in state.records_to_open_ledger(1, 5):
        apply(state, record)
    for ledger_id in (1, 99):
        with pytest.raises(InvalidRecord, match=f"ledger {ledger_id}, which is not open"):
            apply(state, EntriesAppended(EntryColumns(b"a", [ledger_id], [1], [0], [1])))
    with pytest.raises(InvalidRecord, match="ledger 1, which is not open"):
        apply(state, EntriesAppended(EntryColumns(b"a", [1], [1], [0], [1], None, [state.topics[1].ledger.row])))


@pytest.mark.parametrize("rows", [[0, 0], [1, 0], [5, 600]])
def test_rows_of_another_state_are_not_believed(rows: list[int]) -> None:
    state = state_with_topics()
    apply(state, EntriesAppended(EntryColumns(b"ab", [1, 2], [0, 0], [0, 1], [1, 2], None, rows)))
    assert [info.entries for info in state.ledgers.values()][:3] == [1, 1, 0]


@QUICK
@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 12), st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=8
    ),
    st.integers(0, 12),
    st.tuples(*[st.integers(1, 12)] * 3),
    st.integers(-1, 12),
    st.lists(st.integers(0, 7), min_size=1, max_size=20),
)
def test_who_must_roll(
    ledgers: list[tuple[bool, int, int, int]],
    now_ms: int,
    most: tuple[int, int, int],
    min_age_ms: int,
    wanted: list[int],
) -> None:
    limits = RollLimits(*most, min_age_ms)
    table: ColumnStore[LedgerInfo] = ColumnStore(6)
    expected = set()
    for row, (is_open, opened_ms, entries, size_bytes) in enumerate(ledgers):
        assert table.claim() == row
        info = LedgerInfo(row + 1, 1, 0, opened_ms, entries=entries, size_bytes=size_bytes)
        if is_open:
            table.put(row, info)
        if not is_open or is_full(info, now_ms, limits):
            expected.add(row)
    rows = [row % len(ledgers) for row in wanted]
    found = columns.must_roll(table, np.array(rows), now_ms, limits).tolist()
    assert found == sorted(expected & set(rows))
