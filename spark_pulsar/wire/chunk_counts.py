"""Counting the chunks of large messages among entries, for statistics, without parsing those that are none (CHK-1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.wire.delays import metadata_end
from spark_pulsar.wire.entries import metadata_of

_TAG: Final = b"\xe8\x01"
"""Of `chunk_id`, field 29 of MessageMetadata."""


def chunks_among(buffer: bytes, starts: Sequence[int], ends: Sequence[int], indexes: Iterable[int]) -> int:
    """Counts the chunks among the entries `buffer[starts[i]:ends[i]]`. Metadata that cannot be read count as none."""
    return sum(
        buffer.find(_TAG, starts[index], metadata_end(buffer, starts[index], ends[index])) >= 0
        and _is_chunk(buffer, starts[index], ends[index])
        for index in indexes
    )


def _is_chunk(buffer: bytes, start: int, end: int) -> bool:
    try:
        return metadata_of(buffer, start, end).num_chunks_from_msg > 1
    except CorruptMessage:
        return False
