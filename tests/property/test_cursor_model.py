"""Cursor and managed ledger against plain lists and sets of positions."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.ledger.managed_ledgers.ledger import LedgerInfo
from spark_pulsar.ledger.managed_ledgers.managed_ledger import ManagedLedger
from spark_pulsar.ledger.state.cursors.cursor import Cursor
from spark_pulsar.model.positions.ids import EARLIEST, LATEST, Position
from spark_pulsar.model.positions.singles import Singles

MANY = settings(max_examples=160, deadline=None)


class Chain:
    """A managed ledger, and the list of its readable positions."""

    def __init__(self, shape: list[tuple[int, int, int]]) -> None:
        self.managed = ManagedLedger(1)
        self.readable: list[Position] = []
        ledger_id = 0
        for gap, entries, dropped in shape:
            ledger_id += gap
            info = LedgerInfo(ledger_id, 1, self.managed.total_entries, 0, entries=entries, sealed_ms=1)
            self.managed.add(info)
            self.managed.drop_before(ledger_id, dropped)
            self.readable += [Position(ledger_id, entry_id) for entry_id in range(info.first_entry_id, entries)]


shapes = st.lists(
    st.tuples(st.integers(1, 2), st.integers(0, 6), st.one_of(st.just(0), st.integers(0, 6))), min_size=1, max_size=5
)
positions = st.one_of(st.builds(Position, st.integers(-1, 11), st.integers(-1, 7)), st.sampled_from([EARLIEST, LATEST]))


@MANY
@given(shape=shapes, low=positions, high=positions, count=st.integers(1, 8))
def test_positions_and_counts(shape: list[tuple[int, int, int]], low: Position, high: Position, count: int) -> None:
    chain = Chain(shape)
    managed, readable = chain.managed, chain.readable
    at_or_after = [position for position in readable if position >= low]
    assert managed.at_or_after(low) == (at_or_after[0] if at_or_after else managed.end_position)
    after = [position for position in readable if position > low]
    assert managed.next_position(low) == (after[0] if after else managed.end_position)
    assert managed.count_after(low) == len(after)
    assert managed.count_between(low, high) == len([position for position in after if position <= high])
    if after:
        assert managed.advance(low, count) == after[:count][-1] or len(after) < count
    assert managed.contains(low) == (low in readable)
    for index, position in enumerate(readable):
        assert managed.position_at(index) == position


ranges = st.tuples(st.integers(1, 4), st.integers(0, 11), st.integers(1, 6)).map(lambda r: (r[0], r[1], r[1] + r[2]))
operations = st.lists(
    st.one_of(
        st.tuples(st.just("ack"), st.lists(ranges, min_size=1, max_size=3)),
        st.tuples(st.just("each"), st.tuples(st.integers(1, 4), st.sets(st.integers(0, 11), min_size=1, max_size=5))),
        st.tuples(st.just("batch"), st.tuples(st.integers(1, 4), st.integers(0, 11), st.integers(0, 7))),
        st.tuples(st.just("mark"), st.builds(Position, st.integers(0, 4), st.integers(-1, 11))),
        st.tuples(st.just("reset"), st.builds(Position, st.integers(1, 4), st.integers(-1, 11))),
        st.tuples(st.just("redeliver"), st.lists(ranges, min_size=1, max_size=2)),
    ),
    max_size=25,
)


class NaiveCursor:
    """Model of a cursor: a set of acked positions."""

    def __init__(self, everything: list[Position]) -> None:
        self.everything = everything
        self.acked: set[Position] = set()
        self.sets: dict[Position, int] = {}
        self.counts: dict[Position, int] = {}

    def ack(self, gone: set[Position]) -> None:
        self.acked |= gone
        for position in gone:
            self.sets.pop(position, None)
            self.counts.pop(position, None)

    def apply(self, name: str, value: Any) -> None:
        if name == "ack":
            self.ack(self._within(value))
        elif name == "each":
            self.ack({position for position in self.everything if position[0] == value[0] and position[1] in value[1]})
        elif name == "batch":
            ledger_id, entry_id, bits = value
            position = Position(ledger_id, entry_id)
            if position in self.acked or position not in self.everything:
                return
            left = self.sets.get(position, -1) & bits
            if left:
                self.sets[position] = left
            else:
                self.ack({position})
        elif name == "mark":
            self.ack({position for position in self.everything if position <= value})
        elif name == "reset":
            self.acked = {position for position in self.everything if position <= value}
            self.sets.clear()
            self.counts.clear()
        else:
            for ledger_id, first, end in value:
                for position in self._within([(ledger_id, first, end)]) - self.acked:
                    self.counts[position] = self.counts.get(position, 0) + 1

    def _within(self, value: Any) -> set[Position]:
        return {
            position
            for ledger_id, first, end in value
            for position in self.everything
            if position.ledger_id == ledger_id and first <= position.entry_id < end
        }


def perform(cursor: Cursor, name: str, value: Any, entries: int) -> None:
    """Performs the step on the real cursor; only existing entries are acked, as the broker makes sure."""
    if name in ("ack", "redeliver"):
        inside = [(ledger_id, first, min(end, entries)) for ledger_id, first, end in value]
        inside = [some for some in inside if some[1] < some[2]]
        if name == "ack":
            cursor.acknowledge(inside)
        else:
            cursor.redeliver(inside)
    elif name == "each":
        singles = Singles(value[0], sorted(value[1])).between(0, entries)
        if singles is not None:
            cursor.acknowledge(singles)
    elif name == "batch":
        if value[1] < entries:
            cursor.acknowledge_batch(*value)
    elif name == "mark":
        cursor.advance_mark_delete(value)
    else:
        cursor.reset(value)


@MANY
@given(operations=operations, entries=st.integers(1, 12), start=positions, limit=st.integers(0, 20))
def test_a_cursor_against_a_set(
    operations: list[tuple[str, object]], entries: int, start: Position, limit: int
) -> None:
    # covers CUR-1, CUR-3, CUR-11
    chain = Chain([(1, entries, 0)] * 4)
    everything = chain.readable
    cursor = Cursor(chain.managed, "sub", EARLIEST)
    naive = NaiveCursor(everything)
    for name, value in operations:
        naive.apply(name, value)
        perform(cursor, name, value, entries)
        unacked = [position for position in everything if position not in naive.acked]
        assert [position for position in everything if not cursor.is_acked(*position)] == unacked
        assert cursor.backlog() == len(unacked)
        assert {Position(led, ent): bits for led, sets in cursor.batch_sets.items() for ent, bits in sets.items()} == (
            naive.sets
        )
        assert {Position(led, ent): n for led, counts in cursor.redelivered.items() for ent, n in counts.items()} == (
            naive.counts
        )
        # Mark-delete is as far as it can be, and nothing acked is kept twice.
        assert all(position in naive.acked for position in everything if position <= cursor.mark_delete)
        first = chain.managed.next_position(cursor.mark_delete)
        assert first == chain.managed.end_position or first not in naive.acked
        assert all((ledger_id, low) > cursor.mark_delete for ledger_id, low, _ in cursor.acked)
    wanted = [position for position in everything if position >= start and position not in naive.acked]
    for through in (LATEST, everything[len(everything) // 2]):
        found = [
            Position(ledger_id, entry_id)
            for ledger_id, first_id, end_id in cursor.unacked(start, through, limit)
            for entry_id in range(first_id, end_id)
        ]
        assert found == [position for position in wanted if position <= through][:limit]
    for through in everything:
        assert cursor.backlog(through) == len([p for p in everything if p <= through and p not in naive.acked])
