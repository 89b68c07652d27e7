"""Runs of SENDs of one producer, and columnar SENDs of several: what `run_splitter` makes of a received buffer."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Final

from spark_pulsar.model.positions.ids import TransactionId

PLAIN: Final = 0
"""A run of SENDs that are checked and have nothing special about them."""

CHECKSUM_WRONG: Final = 1
"""The CRC32C does not match the bytes: refuse with ChecksumError."""

CHECKSUM_ABSENT: Final = 2
"""No 0x0e01 block. Deliverable, but the Go client discards such entries (PR-12)."""

METADATA_MALFORMED: Final = 4
"""The metadata size does not fit into the entry."""

CHUNK: Final = 8
"""is_chunk: a piece of a large message."""

TRANSACTION: Final = 16
"""The SENDs are in the transaction that `SendRun.transaction` names."""

MARKER: Final = 32
"""A broker's internal marker, which no client may send."""

SHADOW: Final = 64
"""The SEND carries a message_id, as only the replicator of a shadow topic does."""

IN_RUNS: Final = frozenset({PLAIN, CHUNK, TRANSACTION, CHUNK | TRANSACTION})
"""Flags of SENDs that come in runs."""

STREAK: Final = 16
"""SENDs of one producer in a row that are better off in a run of their own than among columnar SENDs."""

LEAST: Final = 16
"""The fewest columnar SENDs: fewer would share the cost of each column among too few."""


class SendRun:
    """Consecutive SENDs of one producer in one buffer; index i of every list is the i-th of them.

    `buffer[starts[i]:ends[i]]` is an entry as it is stored and delivered: from 0x0e01 (from metadataSize when the
    checksum is absent) to the end of its frame. `message_counts` are at least 1. `highest_sequence_ids` is None when
    no SEND has one. `flags` and `transaction` hold for every entry; a run whose flags are not `IN_RUNS` has one entry.
    """

    __slots__ = (
        "buffer",
        "ends",
        "flags",
        "highest_sequence_ids",
        "message_counts",
        "producer_id",
        "sequence_ids",
        "starts",
        "transaction",
    )

    def __init__(
        self, producer_id: int, buffer: bytes, sequence_id: int, message_count: int, start: int, end: int
    ) -> None:
        self.producer_id = producer_id
        self.buffer = buffer
        self.sequence_ids = [sequence_id]
        self.message_counts = [message_count]
        self.starts = [start]
        self.ends = [end]
        self.flags = PLAIN
        self.highest_sequence_ids: list[int] | None = None
        self.transaction: TransactionId | None = None

    def __len__(self) -> int:
        return len(self.ends)

    def __repr__(self) -> str:
        return f"SendRun(producer_id={self.producer_id}, entries={len(self)}, flags={self.flags})"

    def slice(self, low: int, high: int) -> SendRun:
        """Returns the SENDs `low … high - 1` over the same buffer."""
        part = SendRun(self.producer_id, self.buffer, 0, 0, 0, 0)
        part.sequence_ids = self.sequence_ids[low:high]
        part.message_counts = self.message_counts[low:high]
        part.starts = self.starts[low:high]
        part.ends = self.ends[low:high]
        part.flags = self.flags
        part.transaction = self.transaction
        if self.highest_sequence_ids is not None:
            part.highest_sequence_ids = self.highest_sequence_ids[low:high]
        return part


@dataclass(slots=True)
class ColumnarSends:
    """Consecutive plain SENDs of several producers in one buffer; index i of every column is the i-th of them.

    A connection that publishes to many topics in turn brings them; a run for each producer would be an object for each
    entry. The columns mean the same as in a SendRun; there are no highest sequence ids and no flags. Neighbours may be
    of one producer. Ids are below 2**56.
    """

    buffer: bytes
    producer_ids: array[int]
    sequence_ids: array[int]
    message_counts: array[int]
    starts: array[int]
    ends: array[int]

    def __len__(self) -> int:
        return len(self.ends)

    def __repr__(self) -> str:
        return f"ColumnarSends(entries={len(self)})"
