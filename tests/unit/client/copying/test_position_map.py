"""New positions of entries, and states of subscriptions in terms of them, against lists."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.client.copying.position_map import PositionMap, PositionsUnusable
from spark_pulsar.client.copying.subscription_copy import (
    CursorState,
    StateUnknown,
    acknowledgements_of,
    last_unacknowledged,
)
from spark_pulsar.model.positions.ids import Position

LEDGERS = 4
ENTRIES = 6
ANY = st.builds(Position, st.integers(-1, LEDGERS), st.integers(-1, ENTRIES))
SOURCES = st.sets(st.builds(Position, st.integers(0, LEDGERS - 1), st.integers(0, ENTRIES - 1)), max_size=16).map(
    sorted
)


def targets_of(count: int, ledger_size: int) -> list[Position]:
    """Positions in ledgers of one size."""
    return [Position(10 + number // ledger_size, number % ledger_size) for number in range(count)]


# covers MOVE-3
@given(SOURCES, st.integers(1, 5), st.integers(0, 16), ANY)
def test_positions_of_both_sides(sources: list[Position], ledger_size: int, split: int, position: Position) -> None:
    targets = targets_of(len(sources), ledger_size)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "x.positions"
        with PositionMap(file, "a", "b") as positions:
            positions.add(sources[:split], targets[:split])
            positions.add(sources[split:], targets[split:])
        with PositionMap(file, "a", "b") as positions:
            assert [positions.nth(number) for number in range(positions.entries)] == list(
                zip(sources, targets, strict=True)
            )
            assert positions.target_of(position) == dict(zip(sources, targets, strict=True)).get(position)
            until = [target for source, target in zip(sources, targets, strict=True) if source <= position]
            assert positions.last_target_until(position) == (until[-1] if until else None)
            assert positions.count_until(position) == len(until)
            moved = Position(position.ledger_id + 10, position.entry_id)
            assert positions.count_until_target(moved) == sum(target <= moved for target in targets)


# covers MOVE-7
@given(SOURCES, st.integers(1, 5), ANY, st.lists(st.tuples(ANY, ANY), max_size=4))
def test_acknowledgements_of_a_state(
    sources: list[Position], ledger_size: int, mark_delete: Position, ranges: list[tuple[Position, Position]]
) -> None:
    targets = targets_of(len(sources), ledger_size)
    behind = tuple(sorted((min(pair), max(pair)) for pair in ranges))
    with TemporaryDirectory() as folder, PositionMap(Path(folder) / "x", "a", "b") as positions:
        positions.add(sources, targets)
        acknowledged = CursorState(mark_delete, behind).acknowledged(positions)
        wanted = [at <= mark_delete or any(first < at <= last for first, last in behind) for at in sources]
        assert [any(first <= n < end for first, end in acknowledged) for n in range(len(sources))] == wanted
        acks = acknowledgements_of(acknowledged, {}, positions)
        done = {*acks.entries, *(at for at in targets if acks.through is not None and at <= acks.through)}
        assert done == {target for target, is_acknowledged in zip(targets, wanted, strict=True) if is_acknowledged}
        open_ones = [number for number, is_acknowledged in enumerate(wanted) if not is_acknowledged]
        assert last_unacknowledged(acknowledged, len(sources)) == (open_ones[-1] if open_ones else None)


def test_cursors_of_the_internal_statistics() -> None:
    cursor = {"markDeletePosition": "3:-1", "individuallyDeletedMessages": "[(3:0..3:2],(4:-1..4:5]]"}
    ranges = ((Position(3, 0), Position(3, 2)), (Position(4, -1), Position(4, 5)))
    assert CursorState.of_json("s", cursor) == CursorState(Position(3, -1), ranges)
    with pytest.raises(StateUnknown, match="subscription s has more"):
        CursorState.of_json("s", cursor | {"individuallyDeletedMessages": "[(3:0..3:2],...]"})


# covers MOVE-3
def test_files_of_other_copies_are_refused(tmp_path: Path) -> None:
    PositionMap(tmp_path / "x", "a", "b").close()
    with pytest.raises(PositionsUnusable, match="of the copy of a to b"):
        PositionMap(tmp_path / "x", "a", "c")
    (tmp_path / "y").write_bytes(b"something else")
    with pytest.raises(PositionsUnusable, match="no file of positions"):
        PositionMap(tmp_path / "y", "a", "c")
