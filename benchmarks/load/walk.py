"""Walks over received frames, compiled: the generator shares its two cores with the broker it measures."""

from typing import Any

import numba
import numpy as np

NO_PARTITION = b"\x18" + b"\xff" * 9 + b"\x01"
"""Last bytes of a message id on a topic that is no partition; an acknowledgement names the id without them."""
ID_SIZE_AT = 15
"""Offset of the size of the message id in a MESSAGE frame of a consumer with a small id."""
MAX_PART_BYTES = 2 + 127 - len(NO_PARTITION)
_CUT = len(NO_PARTITION)


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def frame_starts(buffer: Any, start: Any, end: int, wanted_type: int, starts: Any) -> tuple[int, int]:
    """Notes in `starts` where whole frames of one type start in `buffer[start:end]`, up to the first that is of another
    type, is not whole or has no place there. Returns the number noted, and where that one starts."""
    found = 0
    while end - start >= 10 and found < len(starts) and buffer[start + 9] == wanted_type:
        size = 4 + (
            (np.int64(buffer[start]) << 24)
            | (np.int64(buffer[start + 1]) << 16)
            | (np.int64(buffer[start + 2]) << 8)
            | np.int64(buffer[start + 3])
        )
        if start + size > end:
            break
        starts[found] = start
        found += 1
        start += size
    return found, start


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def ack_parts(buffer: Any, starts: Any, count: int, parts: Any, parts_end: int, ends: Any, ends_count: int) -> int:
    """Writes, for each of the first `count` MESSAGE frames in `starts`, the part of an individual ACK that names it to
    `parts[parts_end:]`, and the end of that part to `ends[ends_count:]`. Returns the end of the last."""
    for at in range(count):
        start = starts[at]
        size = buffer[start + ID_SIZE_AT] - _CUT
        parts[parts_end] = 0x1A
        parts[parts_end + 1] = size
        parts_end += 2
        for offset in range(start + 16, start + 16 + size):
            parts[parts_end] = buffer[offset]
            parts_end += 1
        ends[ends_count + at] = parts_end
    return parts_end


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def key_numbers(buffer: Any, starts: Any, count: int, payload_bytes: int, numbers: Any, numbers_count: int) -> None:
    """Writes the six digits before the payload, with which the key of a `SendBuffer` ends, as a number for each of the
    first `count` MESSAGE frames in `starts` to `numbers[numbers_count:]`."""
    for at in range(count):
        start = starts[at]
        size = (
            (np.int64(buffer[start]) << 24)
            | (np.int64(buffer[start + 1]) << 16)
            | (np.int64(buffer[start + 2]) << 8)
            | np.int64(buffer[start + 3])
        )
        ends = start + 4 + size - payload_bytes
        number = 0
        for offset in range(ends - 6, ends):
            number = number * 10 + buffer[offset] - 48
        numbers[numbers_count + at] = number


def grown(array: Any, room: int) -> Any:
    """The array, or a copy of it twice as long or more, with room for so many items."""
    if len(array) >= room:
        return array
    larger = np.empty(max(2 * len(array), room), array.dtype)
    larger[: len(array)] = array
    return larger


def warm_up() -> None:
    """Compiles the kernels before anything is measured."""
    nothing, places = np.empty(0, np.uint8), np.empty(1, np.int64)
    frame_starts(nothing, 0, 0, 0, places)
    ack_parts(nothing, places, 0, nothing, 0, places, 0)
    key_numbers(nothing, places, 0, 0, places, 0)


warm_up()
