"""From the client's blocks of raw entries to the kernels' tables of entries."""

from __future__ import annotations

from typing import Final

from spark_pulsar.client.blocks import EntryBlock
from spark_pulsar.wire.columns.entries import Entries, EntryTable, inspect_entries

_EVERY_INDEX: Final = 2**31 - 1


def table_of(block: EntryBlock) -> EntryTable:
    """The entries of a block with their metadata read, and only the batch indexes wanted that the block says.

    Raises MalformedBatch for metadata that cannot be read.
    """
    count = len(block)
    firsts = [block.first_batch_index] + [0] * (count - 1) if block.first_batch_index else None
    stops = [_EVERY_INDEX] * (count - 1) + [block.end_batch_index] if block.end_batch_index >= 0 else None
    return inspect_entries(
        Entries.over(
            block.buffer,
            block.starts,
            block.ends,
            block.ledger_ids,
            block.entry_ids,
            block.partition,
            first_indexes=firsts,
            stop_indexes=stops,
        )
    )
