"""Routing: the partition of a row, by its key as the official clients choose (SINK-2, PT-4, PT-6:
`wire.columns.key_hashes`), in turn without one, or as the row says itself (SINK-4, PT-5: `TopicWriter`); and batches by
key: rows of one key stand together, and no batch has rows of two, so that consumers of a Key_Shared subscription get
whole batches (SINK-8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from spark_pulsar.wire.columns.encode import MessageColumns
    from spark_pulsar.wire.columns.flat import FlatBytes
    from spark_pulsar.wire.columns.key_hashes import RowGroups

ROUND_ROBIN: Final = "RoundRobinPartition"


class KeylessRouter:
    """Partitions for rows without a key, of one topic in one task.

    Round robin goes by batch, as the official clients do: `batch_rows` rows stay together, the next go to the next
    partition (PT-2). In single-partition mode all stay at `first` (PT-3). The first partition should be random, so that
    many tasks do not load the same one.
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


def grouped_by_key(columns: MessageColumns, groups: RowGroups) -> tuple[RowGroups, Any]:
    """Returns the groups with the rows of each ordered by key, and a cut at each row where another key begins (BAT-6).

    Keys come in the order of their first rows, and rows of one key keep theirs. An ordering key counts in place of the
    key, as in the official clients; rows without any are together.
    """
    import numpy as np

    from spark_pulsar.wire.columns.key_hashes import RowGroups

    rows, offsets = groups.rows, groups.offsets
    keys, key_count = _numbered(columns.keys, len(columns))
    ordering_keys, _ = _numbered(columns.ordering_keys, len(columns))
    numbers = np.where(ordering_keys >= 0, ordering_keys + key_count + 1, keys + 1)[rows]
    of_group = np.repeat(np.arange(len(groups)), np.diff(offsets))
    _, first_places, inverse = np.unique(
        of_group * (int(numbers.max(initial=0)) + 1) + numbers, return_index=True, return_inverse=True
    )
    begins = first_places[inverse.reshape(-1)]
    order = np.argsort(begins, kind="stable")
    begins = begins[order]
    cuts = np.zeros(len(rows), np.uint8)
    cuts[1:] = begins[1:] != begins[:-1]
    return RowGroups(rows[order], offsets), cuts


def _numbered(column: FlatBytes, row_count: int) -> tuple[Any, int]:
    """Returns a number for each row, the same for the same bytes and -1 for none; and how many there are."""
    import numpy as np
    import pyarrow as pa

    if not len(column.offsets):
        return np.full(row_count, -1, np.int64), 0
    bits = pa.py_buffer(np.packbits(column.valid, bitorder="little")) if len(column.valid) else None
    buffers = [bits, pa.py_buffer(np.ascontiguousarray(column.offsets)), pa.py_buffer(column.data)]
    encoded = pa.Array.from_buffers(pa.large_binary(), row_count, buffers).dictionary_encode()
    numbers = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return numbers, len(encoded.dictionary)
