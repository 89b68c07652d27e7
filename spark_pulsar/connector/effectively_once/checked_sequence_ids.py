"""Sequence ids that prove what they stand for: number of the micro-batch, count of its rows so far, checksum of these
(ONCE-3, ONCE-10).

A broker stores the last sequence id of a producer together with the entry, and returns it when the producer is created
again. So the id of a row carries what the next attempt of the task compares its own rows with, on every Pulsar and
without a read. From the highest bit on, below the sign:

| 16 bits | number of the micro-batch, or of the transaction, modulo 2^16; the rest of it is in the producer's name |
| 28 bits | count of the rows that the task has written to the partition in the micro-batch, this one included, from 1 |
| 19 bits | checksum of these rows, in their order |

Ids grow with every row, because the count is above the checksum, and none is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spark_pulsar.connector.errors import DeliveryGuaranteeError

if TYPE_CHECKING:
    import numpy.typing as npt

    from spark_pulsar.connector.effectively_once.sequence_ids import Ids
    from spark_pulsar.wire.columns.key_hashes import RowGroups

NUMBER_BITS: Final = 16
_COUNT_BITS: Final = 28
_CHECKSUM_BITS: Final = 19
_NUMBERS: Final = 1 << NUMBER_BITS
MOST_ROWS: Final = (1 << _COUNT_BITS) - 2
"""Rows of one task for one partition in one micro-batch at most."""
_COUNT_MASK: Final = (1 << _COUNT_BITS) - 1
_CHECKSUM_MASK: Final = (1 << _CHECKSUM_BITS) - 1
_NUMBER_SHIFT: Final = _COUNT_BITS + _CHECKSUM_BITS
_TOTAL_MASK: Final = (1 << 64) - 1


class Place(NamedTuple):
    """A row's place among those of its micro-batch, as its sequence id says."""

    number: int
    """Number of the micro-batch or transaction, modulo 2^16."""
    rows: int
    """Rows up to this one."""
    checksum: int

    @property
    def sequence_id(self) -> int:
        """Sequence id of the place."""
        return self.number << _NUMBER_SHIFT | self.rows << _CHECKSUM_BITS | self.checksum


def place_of(sequence_id: int) -> Place:
    """Returns the place that a sequence id stands for."""
    return Place(
        sequence_id >> _NUMBER_SHIFT, sequence_id >> _CHECKSUM_BITS & _COUNT_MASK, sequence_id & _CHECKSUM_MASK
    )


def counts_of(ids: Ids) -> Ids:
    """Returns the counts of rows in sequence ids."""
    counts: Ids = ids >> _CHECKSUM_BITS & _COUNT_MASK
    return counts


class RunningIds:
    """The ids of one topic's rows in one task, and what they sum up to."""

    def __init__(self, number: int, partitions: Sequence[str]) -> None:
        self._number = number % _NUMBERS
        self._partitions = partitions
        self._counts = [0] * len(partitions)
        self._checksums = [0] * len(partitions)
        self.rows = 0
        self.content = 0
        """Sum of the hashes of all rows modulo 2^64, the same in every order."""

    def count(self, partition: int) -> int:
        """Returns the number of rows that went to a partition so far."""
        return self._counts[partition]

    def of_rows(self, hashes: Ids, groups: RowGroups) -> Ids:
        """Returns the id of each place in the groups, one for each partition; `hashes` are those of the rows' contents.

        Raises DeliveryGuaranteeError when a partition gets more rows than can be counted.
        """
        import numpy as np

        offsets = groups.offsets
        sizes = np.diff(offsets)
        before = np.array(self._counts, np.int64)
        if (before + sizes).max(initial=0) > MOST_ROWS:
            partition = self._partitions[int(np.argmax(before + sizes))]
            raise DeliveryGuaranteeError(
                f"a task has more than {MOST_ROWS} rows for {partition} in one micro-batch, more than sequence ids "
                "count: split the rows into more tasks (repartition, minPartitions) or smaller micro-batches "
                "(maxMessagesPerTrigger)"
            )
        hashes = hashes[groups.rows]
        counts = np.arange(1, len(hashes) + 1) + np.repeat(before - offsets[:-1], sizes)
        sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(_mixed(hashes, counts))))
        checksums = sums[1:] + np.repeat(np.array(self._checksums, np.int64) - sums[offsets[:-1]], sizes)
        checksums &= _CHECKSUM_MASK
        for group in np.flatnonzero(sizes).tolist():
            last = int(offsets[group + 1]) - 1
            self._counts[group], self._checksums[group] = int(counts[last]), int(checksums[last])
        self.rows += len(hashes)
        self.content = (self.content + int(hashes.view(np.uint64).sum(dtype=np.uint64))) & _TOTAL_MASK
        ids: Ids = self._number << _NUMBER_SHIFT | counts << _CHECKSUM_BITS | checksums
        return ids


def _mixed(hashes: Ids, counts: Ids) -> npt.NDArray[Any]:
    """Returns what each row adds to the checksum, which depends on its content and on its number."""
    import numpy as np

    mixed = hashes.view(np.uint64) ^ counts.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    return (mixed >> np.uint64(64 - _CHECKSUM_BITS)).astype(np.int64)
