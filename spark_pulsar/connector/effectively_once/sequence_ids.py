"""Sequence ids of rows: counted (`checked_sequence_ids`, ONCE-10), or as a column gives them. They grow on each
partition, in the order of the rows, and depend on these alone (ONCE-3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.connector.errors import SchemaError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from spark_pulsar.wire.columns.key_hashes import RowGroups

    Ids = npt.NDArray[np.int64]

SEQUENCE_ID: Final = "__sequenceId"
_MOST: Final = (1 << 63) - 2


class SequenceIds:
    """The ids of one topic's rows in one task. Rows are grouped by partition; ids come for each place in the groups."""

    def __init__(self, partitions: Sequence[str]) -> None:
        self._partitions = partitions
        self._next: dict[int, int] = {}
        self._last_given: dict[int, int] = {}

    def begin(self, partition: int, sequence_id: int) -> None:
        """Sets the id of the first row of a partition, where ids are counted."""
        self._next[partition] = sequence_id

    def counted(self, groups: RowGroups) -> Ids:
        """Returns ids that count on."""
        import numpy as np

        sizes = np.diff(groups.offsets)
        starts = np.array([self._next.get(group, 0) for group in range(len(groups))], np.int64)
        for group in np.flatnonzero(sizes).tolist():
            self._next[group] += int(sizes[group])
        ids: Ids = np.arange(len(groups.rows), dtype=np.int64) + np.repeat(starts - groups.offsets[:-1], sizes)
        return ids

    def given(self, column: Any, groups: RowGroups) -> Ids:
        """Returns the ids that the rows name (ONCE-5). Raises SchemaError for a null, and where they do not grow."""
        import numpy as np

        if column.null_count:
            raise SchemaError(f"a row has no {SEQUENCE_ID}: with this column each row needs one")
        numbers = column.combine_chunks().to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        ids: Ids = numbers[groups.rows]
        if len(ids) and not (ids.min() >= 0 and ids.max() <= _MOST):
            raise SchemaError(f"{SEQUENCE_ID} is {ids.min() if ids.min() < 0 else ids.max()}: it is from 0 to {_MOST}")
        for group in np.flatnonzero(np.diff(groups.offsets)).tolist():
            own = ids[groups.offsets[group] : groups.offsets[group + 1]]
            before = np.concatenate([[self._last_given.get(group, -1)], own[:-1]])
            if (falls := own <= before).any():
                at = int(np.argmax(falls))
                raise SchemaError(
                    f"{SEQUENCE_ID} is {own[at]} after {before[at]} on {self._partitions[group]}: the ids of the rows "
                    "that one task writes to a partition have to grow; sort the rows by it within each task "
                    "(sortWithinPartitions), and give no id twice"
                )
            self._last_given[group] = int(own[-1])
        return ids
