"""Routing: the partition of a row, by its key as the official clients choose, in turn without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

ROUND_ROBIN: Final = "RoundRobinPartition"


class KeylessRouter:
    """Partitions for rows without a key, of one topic in one task.

    Round robin goes by batch, as the official clients do: `batch_rows` rows stay together, the next go to the next
    partition. In single-partition mode all stay at `first`. The first partition should be random, so that many tasks
    do not load the same one.
    """

    def __init__(self, partition_count: int, mode: str, batch_rows: int, first: int) -> None:
        self._count = partition_count
        self._batch_rows = batch_rows if mode == ROUND_ROBIN else 0
        self._first = first % partition_count
        self._routed = 0

    def fill(self, partitions: npt.NDArray[np.int64]) -> None:
        """Replaces every -1 (no key) in place, in row order."""
        import numpy as np

        keyless = np.flatnonzero(partitions < 0)
        if self._batch_rows == 0:
            partitions[keyless] = self._first
            return
        turns = (np.arange(len(keyless), dtype=np.int64) + self._routed) // self._batch_rows
        partitions[keyless] = (turns + self._first) % self._count
        self._routed += len(keyless)
