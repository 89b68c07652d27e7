"""Where the numbers of a session's producers stand, by producer id, so that many are found at once."""

from __future__ import annotations

from array import array
from typing import Final

MOST_LANES: Final = 65_536
"""Producer ids up to this one have a lane. Clients count from 0; what others send comes by runs."""


class Lanes:
    """`rows[producer_id]` is a row of `Core.producer_numbers`; -1 where no producer is open."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows = array("q")

    def of(self, producer_id: int) -> int:
        """The row of a producer, -1 when it has no lane."""
        return self.rows[producer_id] if producer_id < len(self.rows) else -1

    def open(self, producer_id: int, row: int) -> None:
        """A producer is there."""
        if producer_id < MOST_LANES:
            missing = producer_id + 1 - len(self.rows)
            if missing > 0:
                self.rows.extend((-1,) * max(missing, len(self.rows)))
            self.rows[producer_id] = row

    def close(self, producer_id: int, row: int) -> None:
        """It is gone, unless its id is already another's."""
        if self.of(producer_id) == row:
            self.rows[producer_id] = -1
