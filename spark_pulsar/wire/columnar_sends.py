"""SENDs of many producers in turn, as a connection brings them that publishes to many topics at once.

A run per producer would be an object per entry then. A sweep is columnar instead: one object for a stretch of SENDs,
the producer a column like the others.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Final

STREAK: Final = 16
"""So many SENDs of one producer in a row are better off in a run of their own."""
LEAST: Final = 16
"""Fewer SENDs make no sweep: what each column costs is shared by too few of them."""


@dataclass(slots=True)
class ColumnarSends:
    """Consecutive plain SENDs of several producers in one buffer; index i of every column is the i-th of them.

    The columns mean what they mean in a SendRun; there are no highest sequence ids and no flaws in a sweep. Neighbours
    may be of one producer. Ids are below 2**56.
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
        return f"SendSweep(entries={len(self)})"
