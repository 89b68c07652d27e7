"""The index of delayed entries against a plain dictionary; its rows; its bounds."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.ledger.state import delays as delay_index
from spark_pulsar.ledger.state.delays import Delays
from spark_pulsar.model.positions.ranges import RangeSet
from tests.delayed_entries import delayed_entries


def run_through(delays: Delays, now_ms: int) -> list[tuple[int, int]]:
    """Everything that is due, taken out as the broker does it: (ledger id, entry id)."""
    released: list[tuple[int, int]] = []
    while (following := delays.next_block()) is not None and following[0] <= now_ms:
        due = delays.due(following[1], now_ms)
        assert due, "the block that is due first has something that is due"
        released += [(ledger_id, entry_id) for ledger_id, low, high in due for entry_id in range(low, high)]
        delays.elapse(following[1], now_ms)
    return released


@settings(max_examples=200, deadline=None)
@given(
    entries=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 60)), min_size=1, max_size=80),
    clock=st.lists(st.integers(0, 70), max_size=6),
    shift=st.sampled_from((2, 12)),
)
def test_entries_are_free_at_their_time_and_not_before(
    entries: list[tuple[int, int]], clock: list[int], shift: int
) -> None:
    # covers DEL-3, DEL-4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delay_index, "BLOCK_SHIFT", shift)
        patch.setattr(delay_index, "_MASK", (1 << shift) - 1)
        delays, model = Delays(), {}
        entry_id = 0
        for gap, time_ms in entries:
            entry_id += 1 + gap
            ledger_id = 7 if entry_id < 90 else 9
            delays.add(ledger_id, [entry_id], [time_ms])
            model[ledger_id, entry_id] = time_ms
        for now_ms in [*sorted(clock), 100]:
            due = {place for place, time_ms in model.items() if time_ms <= now_ms}
            assert sorted(run_through(delays, now_ms)) == sorted(due)
            model = {place: time_ms for place, time_ms in model.items() if place not in due}
            assert list(delays.held) == list(RangeSet((ledger_id, each, each + 1) for ledger_id, each in model))
            assert {(ledger_id, each): time_ms for ledger_id, each, time_ms in delayed_entries(delays)} == model
            assert delays.next_block() is None or delays.next_block()[0] == min(model.values())  # type: ignore[index]
            again = Delays()
            for key in sorted(delays.blocks):
                times_ms, offsets = delays.columns(key) or ([], [])
                again.load(key, times_ms, offsets)  # type: ignore[arg-type]
            assert list(delayed_entries(again)) == list(delayed_entries(delays))
            assert list(again.held) == list(delays.held)
        assert not delays


def test_a_ledger_that_is_gone_takes_its_delays_along() -> None:
    # covers DEL-6
    delays = Delays()
    delays.add(1, [0, 1, 5_000], [10, 20, 30])
    delays.add(2, [4], [5])
    assert sorted(delays.remove_ledger(1)) == [(1, 0), (1, 1)]
    assert delays.remove_ledger(1) == []
    assert list(delayed_entries(delays)) == [(2, 4, 5)]
    assert delays.next_block() == (5, (2, 0))


def test_times_that_fall_leave_no_more_behind_than_there_are_blocks() -> None:
    delays = Delays()
    for entry_id in range(3_000):
        delays.add(1, [entry_id], [10_000 - entry_id])
    assert len(delays._heads) <= 2 * len(delays.blocks) + delay_index._SPARE_HEADS
    assert delays.next_block() == (7_001, (1, 0))


def test_columns_that_cannot_be_a_block_are_refused() -> None:
    for offsets in ([], [1, 2], [4096]):
        with pytest.raises(ValueError, match="columns of"):
            Delays().load((1, 0), Delays().columns((1, 0)) or delay_index.array("q", [5]), offsets)


def test_the_same_delay_for_all_costs_ten_bytes_each() -> None:
    # covers DEL-8: there is no need to stop reading before all of them are known
    delays, count = Delays(), 60_000
    delays.add(1, range(count), range(5_000, 5_000 + count))
    columns = [column for block in delays.blocks.values() for column in (block.times_ms, block.offsets)]
    assert sum(len(column) * column.itemsize for column in columns) == 10 * count
    assert list(delays.held) == [(1, 0, count)]
    assert run_through(delays, 5_000 + count) == [(1, each) for each in range(count)]


@pytest.mark.parametrize("seed", range(4))
def test_many_at_once_are_as_one_by_one(seed: int) -> None:
    # covers DEL-3, DEL-4
    random = Random(seed)
    together, single = Delays(), Delays()
    entry_id, now_ms = 4_000, 0
    for _ in range(30):
        entry_ids = []
        for _ in range(random.choice((1, 100, 127, 128, 500))):
            entry_id += random.choice((1, 1, 1, 2, 7)) if seed % 2 else 1
            entry_ids.append(entry_id)
        times_ms = [now_ms + random.randrange(1, 400) for _ in entry_ids]
        changed = {key for each, time in zip(entry_ids, times_ms, strict=True) for key in single.add(3, [each], [time])}
        assert together.add(3, entry_ids, times_ms) == changed
        assert together.next_block() == single.next_block()
        assert list(delayed_entries(together)) == list(delayed_entries(single))
        assert list(together.held) == list(single.held)
        now_ms += random.randrange(100)
        while (following := single.next_block()) is not None and following[0] <= now_ms:
            for delays in (together, single):
                delays.elapse(following[1], now_ms)
