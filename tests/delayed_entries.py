"""Delayed entries of a topic, one by one."""

from __future__ import annotations

from collections.abc import Iterator

from spark_pulsar.ledger.state import delays as delay_index


def delayed_entries(delays: delay_index.Delays) -> Iterator[tuple[int, int, int]]:
    """Yields (ledger id, entry id, time in ms) of all, by block and time."""
    for ledger_id, number in sorted(delays.blocks):
        block = delays.blocks[ledger_id, number]
        for index in range(block.head, len(block.offsets)):
            yield ledger_id, (number << delay_index.BLOCK_SHIFT) + block.offsets[index], block.times_ms[index]
