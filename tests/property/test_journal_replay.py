"""A state loaded from rows taken at any moment, with the records after it applied again, equals the live one."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state.apply import apply, decode_record
from spark_pulsar.ledger.state.cursors import cursor
from spark_pulsar.ledger.state.cursors import records as cursor_records
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.state.snapshot import TABLES, Row, load_rows, pop_dirty_rows, pop_some_dirty_rows
from spark_pulsar.storage.journal.groups import records_of
from spark_pulsar.storage.journal.journal import Submission
from tests.contract.histories import History, picture


class Tables:
    """Rows kept as the checkpoint keeps them."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[tuple[object, ...], tuple[object, ...]]] = {table.name: {} for table in TABLES}

    def take(self, state: DurableState) -> None:
        self.store(pop_dirty_rows(state))

    def store(self, rows: Iterable[Row]) -> None:
        for row in rows:
            if row.values is None:
                self.rows[row.table].pop(row.key, None)
            else:
                self.rows[row.table][row.key] = row.values

    def load(self) -> DurableState:
        return load_rows({name: [key + values for key, values in rows.items()] for name, rows in self.rows.items()})


def decoded(records: list[Record]) -> list[Record]:
    """The records as the journal gives them back."""
    payload = b"".join(Submission(records, None).parts)
    return [decode_record(kind, version, payload, at, end) for kind, version, at, end in records_of(payload)]


@pytest.mark.parametrize("block_shift", [2, 12], ids=["blocks of 4", "blocks of 4,096"])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), moments=st.lists(st.integers(1, 20), min_size=1, max_size=8))
def test_rows_and_replay_equal_the_live_state(block_shift: int, seed: int, moments: list[int]) -> None:
    # covers CUR-1, CUR-3, CUR-5, CUR-6: nothing that a cursor keeps is missing in its rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cursor, "BLOCK_SHIFT", block_shift)
        patch.setattr(cursor_records, "BLOCK_SHIFT", block_shift)
        _rows_and_replay(seed, moments)


def _rows_and_replay(seed: int, moments: list[int]) -> None:
    history = History(DurableState(), seed, losing=True)
    tables = Tables()
    after: list[Record] = []
    for moment in moments:
        for _ in range(moment):
            after += history.submit(3)
        replayed = tables.load()
        for record in decoded(after):
            apply(replayed, record)
        assert picture(replayed) == picture(history.state)
        # Dirty rows of the replayed state are as complete as those of the live one.
        again = Tables()
        again.rows = {name: dict(rows) for name, rows in tables.rows.items()}
        again.take(replayed)
        tables.take(history.state)
        assert again.rows == tables.rows
        assert picture(tables.load()) == picture(history.state)
        after.clear()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), moments=st.lists(st.integers(1, 20), min_size=1, max_size=8), most=st.integers(1, 9))
def test_rows_that_are_taken_a_few_at_a_time_are_the_same(seed: int, moments: list[int], most: int) -> None:
    # covers checkpoints that are prepared over many turns, while everything goes on
    history = History(DurableState(), seed, losing=True)
    tables = Tables()
    for moment in moments:
        taken: dict[tuple[str, tuple[object, ...]], Row] = {}
        for _ in range(moment):
            history.submit(3)
            rows = pop_some_dirty_rows(history.state, most)
            taken |= {(row.table, row.key): row for row in rows}
        taken |= {(row.table, row.key): row for row in pop_dirty_rows(history.state)}
        tables.store(taken.values())
        assert picture(tables.load()) == picture(history.state)
