"""Reasons of the rows that do not decode (SCHEMA-18), as arrays: every second message may have one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_pulsar.connector.schemas.payloads.flat_payloads import spread
from spark_pulsar.wire.columns.arrays import repeated_text_array

Rows = npt.NDArray[np.int64]
_NO_ROWS: Final[Rows] = np.zeros(0, np.int64)
_NO_TEXTS: Final = pa.array([], pa.string())


class Reasons(Mapping[int, str]):
    """Reasons by row, in order of the rows. Never changed: `and_of` makes new ones."""

    def __init__(self, rows: Rows = _NO_ROWS, texts: Any = _NO_TEXTS) -> None:
        """`texts` is a string array with the reason of each row; rows are distinct, and ascend."""
        self.rows = rows
        self.texts = texts

    @staticmethod
    def of(reasons: Mapping[int, str]) -> Reasons:
        """Returns the reasons of a mapping."""
        if isinstance(reasons, Reasons):
            return reasons
        return _in_order(np.fromiter(reasons, np.int64, len(reasons)), pa.array(list(reasons.values()), pa.string()))

    @staticmethod
    def alike(rows: Rows, texts: list[str], places: Rows | None = None) -> Reasons:
        """Returns the reasons of ascending rows of which many are alike: `places` are those in `texts`; None: all are
        the first."""
        if places is None or len(texts) == 1:
            return Reasons(rows, repeated_text_array(texts[0], len(rows)))
        return Reasons(rows, pa.array(texts, pa.string()).take(pa.array(places)))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[int]:
        return iter(self.rows.tolist())

    def __getitem__(self, row: int) -> str:
        return self._by_row[row]

    def __repr__(self) -> str:
        return repr(self._by_row)

    @cached_property
    def _by_row(self) -> dict[int, str]:
        return dict(zip(self.rows.tolist(), self.texts.to_pylist(), strict=True))

    @property
    def first(self) -> tuple[int, str]:
        """Row and reason of the first row."""
        return int(self.rows[0]), self.texts[0].as_py()

    def and_of(self, others: Mapping[int, str], places: Rows | None = None) -> Reasons:
        """Returns these and others, which count where a row has both; `places` are the rows of the others' rows."""
        if not len(others):
            return self
        added = Reasons.of(others)
        rows = added.rows if places is None else places[added.rows]
        if not len(self):
            return _in_order(rows, added.texts)
        kept = ~np.isin(self.rows, rows)
        texts = self.texts if kept.all() else self.texts.filter(pa.array(kept))
        return _in_order(np.concatenate((self.rows[kept], rows)), pa.concat_arrays([texts, added.texts]))

    def explained(self, hint: str) -> Reasons:
        """Returns the reasons with more behind each."""
        return Reasons(self.rows, pc.binary_join_element_wise(self.texts, hint, ""))

    def are_of(self, count: int) -> npt.NDArray[np.bool_]:
        """Returns for each of `count` rows whether it has a reason."""
        has = np.zeros(count, np.bool_)
        has[self.rows] = True
        return has

    def column(self, count: int) -> Any:
        """Returns the reasons of `count` rows as strings; null for rows without."""
        if not len(self):
            return pa.nulls(count, pa.string())
        return spread(self.texts, self.are_of(count))


def _in_order(rows: Rows, texts: Any) -> Reasons:
    if (rows[1:] < rows[:-1]).any():
        order = np.argsort(rows)
        rows, texts = rows[order], texts.take(pa.array(order))
    return Reasons(rows, texts)
