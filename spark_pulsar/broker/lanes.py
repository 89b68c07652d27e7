"""Where the numbers of a session's producers stand, by producer id, so that many are found at once."""

from __future__ import annotations

from array import array
from typing import Final

_FIRST_LANES: Final = 16
_NOBODY: Final = -1
ID_BITS: Final = 56
"""Producer ids of more bits have no lane; nor do sweeps have them."""


class Lanes:
    """Rows of `Core.producer_numbers`: that of producer `ids[lane]` is `rows[lane]`, and its lane is the end of its id
    in bits, which is another one for each while a client counts them up.

    There are at least twice as many lanes as producers. Who shares its lane with one that came later has none; what it
    sends comes by runs.
    """

    __slots__ = ("_taken", "ids", "rows")

    def __init__(self) -> None:
        self.ids = array("q")
        self.rows = array("q")
        self._taken = 0

    def of(self, producer_id: int) -> int:
        """The row of a producer, -1 when it has no lane."""
        lane = self._lane(producer_id)
        return self.rows[lane] if self.ids and self.ids[lane] == producer_id else _NOBODY

    def open(self, producer_id: int, row: int) -> None:
        """A producer is there."""
        if producer_id >> ID_BITS:
            return
        if 2 * self._taken >= len(self.ids):
            taken = [pair for pair in zip(self.ids, self.rows, strict=True) if pair[0] != _NOBODY]
            self.ids = array("q", (_NOBODY,)) * max(_FIRST_LANES, 2 * len(self.ids))
            self.rows = array("q", self.ids)
            self._taken = 0
            for pair in taken:
                self._take(*pair)
        self._take(producer_id, row)

    def close(self, producer_id: int, row: int) -> None:
        """It is gone."""
        if self.of(producer_id) == row != _NOBODY:
            self.ids[self._lane(producer_id)] = _NOBODY
            self._taken -= 1

    def _lane(self, producer_id: int) -> int:
        return producer_id & len(self.ids) - 1

    def _take(self, producer_id: int, row: int) -> None:
        lane = self._lane(producer_id)
        self._taken += self.ids[lane] == _NOBODY
        self.ids[lane], self.rows[lane] = producer_id, row
