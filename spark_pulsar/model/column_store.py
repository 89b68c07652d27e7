"""A column store of counters: an object reads and sets its own as attributes, and the counters of a thousand objects
change at once by column.

A connection that publishes to a thousand topics in turn changes a dozen counters with every message. One by one that
takes longer than all the rest of the message's way.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_Owner = TypeVar("_Owner", bound="HasCounters")
_LARGEST: Final = (1 << 63) - 1


class HasCounters:
    """An object with counters, signed and of 64 bits: in a row of a table, or by itself."""

    __slots__ = ("at", "cells")

    def __init__(self, numbers: Sequence[int]) -> None:
        self.cells = array("q", numbers)
        self.at = 0
        """Index of the row's first number in the cells."""


class Counter(property):
    """An attribute of an object that is one of its numbers; the largest there is when it is set to more."""

    def __init__(self, column: int) -> None:
        def get(owner: HasCounters) -> int:
            return owner.cells[owner.at + column]

        def put(owner: HasCounters, value: int) -> None:
            try:
                owner.cells[owner.at + column] = value
            except OverflowError:
                owner.cells[owner.at + column] = _LARGEST

        super().__init__(get, put)

    if TYPE_CHECKING:

        def __get__(self, owner: HasCounters, kind: type | None = None) -> int: ...  # type: ignore[override]

        def __set__(self, owner: HasCounters, value: int) -> None: ...


def column_of(numbers: npt.NDArray[np.int64], typecode: str = "q") -> array[int]:
    """Returns a column of numbers as an array, for readers of single numbers; `code` is the array's type."""
    values = array(typecode)
    values.frombytes(numbers.astype(typecode, copy=False).tobytes())
    return values


def bounds_of(ordered: npt.NDArray[np.int64]) -> list[int]:
    """Returns the bounds of the stretches of equal numbers: where each begins, and where the last one ends. There is at
    least one."""
    import numpy as np

    return [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(ordered)]


class ColumnStore(Generic[_Owner]):
    """Rows of `width` numbers. `owners[row]` is the object that they belong to; without an owner they are 0."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.cells = array("q")
        self.owners: list[_Owner | None] = []
        self.departures = 0
        """Counts the rows that were released. While that stays the same, each row has the owner that it had."""
        self._free: list[int] = []

    def claim(self) -> int:
        """Returns a free row."""
        row = self._free.pop() if self._free else len(self.owners)
        self._reach(row)
        return row

    def release(self, row: int) -> None:
        """Gives back a claimed row."""
        self.detach(row)
        self._free.append(row)

    def put(self, row: int, owner: _Owner) -> None:
        """Gives this row to an object, instead of its owner."""
        self._reach(row)
        self.detach(row)
        at = row * self.width
        self.cells[at : at + self.width] = owner.cells[owner.at : owner.at + self.width]
        owner.cells, owner.at = self.cells, at
        self.owners[row] = owner

    def detach(self, row: int) -> None:
        """Takes the row from its owner, if it has one, which keeps its numbers by itself."""
        owner = self.owners[row]
        if owner is not None:
            at = row * self.width
            owner.cells, owner.at = self.cells[at : at + self.width], 0
            self.cells[at : at + self.width] = array("q", bytes(8 * self.width))
            self.owners[row] = None
            self.departures += 1

    def matrix(self) -> npt.NDArray[np.int64]:
        """All rows, to be read and changed by column. Not to be kept: no row can be added while it is."""
        import numpy as np

        return np.frombuffer(self.cells, np.int64).reshape(-1, self.width)

    def _reach(self, row: int) -> None:
        missing = row + 1 - len(self.owners)
        if missing > 0:
            self.owners += [None] * missing
            self.cells.frombytes(bytes(8 * self.width * missing))
