"""Sets of single positions against a plain set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.model.positions.entry_sets import EntrySet

LEDGERS = st.integers(1, 3)
IDS = st.integers(0, 20)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add all", "remove", "remove each", "through"]),
        LEDGERS,
        IDS,
        IDS,
        st.sets(IDS, max_size=6),
    ),
    max_size=30,
)


@given(STEPS)
def test_as_a_plain_set(steps: list[tuple[str, int, int, int, set[int]]]) -> None:
    entries, model = EntrySet(), set[tuple[int, int]]()
    for name, ledger_id, low, high, some in steps:
        wanted = {(ledger_id, entry_id) for entry_id in range(low, high)}
        if name == "add":
            entries.add(ledger_id, low, high)
            model |= wanted
        elif name == "add all":
            fresh = sorted(entry_id for entry_id in some if (ledger_id, entry_id) not in model)
            if fresh:
                entries.add_all(ledger_id, fresh)
            model |= {(ledger_id, entry_id) for entry_id in fresh}
        elif name == "remove":
            assert entries.remove(ledger_id, low, high) == len(model & wanted)
            model -= wanted
        elif name == "remove each":
            if some:
                each = {(ledger_id, entry_id) for entry_id in some}
                assert entries.remove_each(ledger_id, sorted(some)) == len(model & each)
                model -= each
        else:
            gone = {place for place in model if place <= (ledger_id, low)}
            assert entries.remove_through(ledger_id, low) == len(gone)
            model -= gone
        _compare(entries, model)
    entries.clear()
    _compare(entries, set())


def _compare(entries: EntrySet, model: set[tuple[int, int]]) -> None:
    assert [(ledger, each) for ledger, first, end in entries for each in range(first, end)] == sorted(model)
    assert [(ledger, each) for ledger, ids in entries.by_ledger() for each in ids] == sorted(model)
    assert (entries.count(), bool(entries)) == (len(model), bool(model))
    assert entries.first() == (min(model) if model else None)
    assert entries.ledgers() == sorted({ledger for ledger, _ in model})
    inside = {entry_id for ledger, entry_id in model if ledger == 2 and 5 <= entry_id < 12}
    assert entries.between(2, 5, 12) == sorted(inside)
    assert {each for low, high in entries.pieces_in(2, 5, 12) for each in range(low, high)} == inside
    assert {each for low, high in entries.pieces_not_in(2, 5, 12) for each in range(low, high)} == set(
        range(5, 12)
    ) - inside
    assert entries.intersects(2, 5, 12) == bool(inside)
