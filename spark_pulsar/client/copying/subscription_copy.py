"""States of durable subscriptions at the copies of their entries (MOVE-7)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from spark_pulsar.client.copying.position_map import PositionMap
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.positions.ids import Position

_RANGE: Final = re.compile(r"[(\[](-?\d+):(-?\d+)\.\.(-?\d+):(-?\d+)[\])]")
_TRUNCATED: Final = "..."


class StateUnknown(PulsarError):
    """A broker does not say all of a subscription's state."""


class CursorState(NamedTuple):
    """The acknowledged entries of a subscription: all through the mark-delete position, and ranges (from, to]."""

    mark_delete: Position
    ranges: tuple[tuple[Position, Position], ...]

    @classmethod
    def of_json(cls, name: str, cursor: Mapping[str, Any]) -> CursorState:
        """Reads a cursor of the internal statistics. StateUnknown where its ranges are not all there."""
        text = str(cursor.get("individuallyDeletedMessages") or "[]")
        if _TRUNCATED in text:
            raise StateUnknown(f"subscription {name} has more acknowledged ranges than the admin API shows")
        ranges = tuple(
            (Position(int(first_ledger), int(first)), Position(int(last_ledger), int(last)))
            for first_ledger, first, last_ledger, last in _RANGE.findall(text)
        )
        ledger, _, entry = str(cursor["markDeletePosition"]).partition(":")
        return cls(Position(int(ledger), int(entry)), ranges)

    def acknowledged(self, positions: PositionMap, *, of_target: bool = False) -> list[tuple[int, int]]:
        """Returns the acknowledged entries as ranges of numbers, first and end, that do not touch each other: numbers
        of the copied entries from 0 on, so that states of both sides can be compared."""
        count = positions.count_until_target if of_target else positions.count_until
        numbers = [(0, count(self.mark_delete)), *((count(first), count(last)) for first, last in self.ranges)]
        joined: list[tuple[int, int]] = []
        for first, end in sorted(numbers):
            if first >= end:
                continue
            if joined and first <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
            else:
                joined.append((first, end))
        return joined


class Acknowledgements(NamedTuple):
    """Acknowledgements that give a subscription of the target the state of the source."""

    through: Position | None
    entries: Iterable[Position]
    parts: dict[Position, int]


def acknowledgements_of(
    acknowledged: list[tuple[int, int]], parts: Mapping[Position, int], positions: PositionMap
) -> Acknowledgements:
    """Returns the acknowledgements for a state of the source: ranges of numbers, and parts of batches of the source."""
    from_start = acknowledged[0][1] if acknowledged and acknowledged[0][0] == 0 else 0
    single = [one for one in acknowledged if one[0] > 0]
    copies = {positions.target_of(position): mask for position, mask in parts.items()}
    return Acknowledgements(
        positions.nth(from_start - 1)[1] if from_start else None,
        (positions.nth(number)[1] for first, end in single for number in range(first, end)),
        {position: mask for position, mask in copies.items() if position is not None},
    )


def last_unacknowledged(acknowledged: list[tuple[int, int]], entries: int) -> int | None:
    """Returns the number of the last of so many entries that is not acknowledged; None when all are."""
    if acknowledged and acknowledged[-1][1] >= entries:
        first = acknowledged[-1][0]
        return first - 1 if first > 0 else None
    return entries - 1 if entries else None
