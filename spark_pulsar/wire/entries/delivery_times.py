"""Finding the entries of a run that are to be delivered later, without reading the others' metadata (DEL-1), to index
them and to refuse too long a delay (DEL-9).

`deliver_at_time` is field 19 of MessageMetadata, so its bytes begin with 0x98 0x01. A search for those bytes covers a
run of small entries at once, and only the metadata in a run of large ones. A parse then makes sure that the bytes are
the field.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.wire.entries.entry_bytes import CHECKSUM_MAGIC, metadata_of

_TAG: Final = b"\x98\x01"
_FIRST: Final = b"\x98"
_SIZE: Final = Struct(">I")
_SMALL_BYTES: Final = 2_048
"""Up to this mean size of entries a run is searched as a whole."""
_FEW_MISSES: Final = 16
_BYTES_A_MISS: Final = 1_024
"""Mean distance of misses below which the search goes on for two bytes: one byte is searched many times faster, but not
where it is so frequent."""


class Delay(NamedTuple):
    """The entry of this number of a run has a time."""

    number: int
    deliver_at_ms: int
    publish_time_ms: int


def delays_in(buffer: bytes, starts: Sequence[int], ends: Sequence[int]) -> list[Delay]:
    """Returns the entries `buffer[starts[i]:ends[i]]` whose metadata have a time to be delivered at, in order. Metadata
    that cannot be read have none."""
    delays: list[Delay] = []
    find = buffer.find
    if ends[-1] - starts[0] > _SMALL_BYTES * len(starts):
        for index, start in enumerate(starts):
            if find(_TAG, start, metadata_end(buffer, start, ends[index])) >= 0:
                _read(buffer, starts, ends, index, delays)
        return delays
    begin, stop = starts[0], ends[-1]
    wanted, misses = _FIRST, 0
    at = find(wanted, begin, stop)
    while at >= 0:
        if not buffer.startswith(_TAG, at):
            misses += 1
            if misses > _FEW_MISSES and at - begin < misses * _BYTES_A_MISS:
                wanted = _TAG
        else:
            index = bisect_right(starts, at) - 1
            if at < metadata_end(buffer, starts[index], ends[index]):
                _read(buffer, starts, ends, index, delays)
                at = ends[index] - 1
        at = find(wanted, at + 1, stop)
    return delays


def metadata_end(buffer: bytes, start: int, end: int) -> int:
    """Finds the end of the metadata of the entry `buffer[start:end]`, by its own size, and inside the entry in any
    case."""
    if buffer.startswith(CHECKSUM_MAGIC, start):
        start += 6
    if end - start < 4:
        return start
    size: int = _SIZE.unpack_from(buffer, start)[0]
    return min(end, start + 4 + size)


def _read(buffer: bytes, starts: Sequence[int], ends: Sequence[int], index: int, delays: list[Delay]) -> None:
    try:
        metadata = metadata_of(buffer, starts[index], ends[index])
    except CorruptMessage:
        return
    if metadata.deliver_at_time > 0:  # zero means unset (DEL-10)
        delays.append(Delay(index, metadata.deliver_at_time, metadata.publish_time))
