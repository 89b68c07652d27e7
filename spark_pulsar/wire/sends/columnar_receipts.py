"""Receipts of columnar SENDs: a row of bytes for each, as wide as the widest, of which each keeps its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from spark_pulsar.wire.protocol.frames import HEADER
from spark_pulsar.wire.sends import receipts as layout
from spark_pulsar.wire.sends.receipts import receipts

_U64 = np.uint64
_READ_BY_WORD: Final = 1 << 56
_CONTINUED: Final = np.array([0x8080808080808080 >> 8 * (9 - width) if width else 0 for width in range(9)], _U64)
"""The top bits of all bytes but the last, by the number of bytes."""
_FRONT: Final = bytes(HEADER.size) + layout.RECEIPT_START + b"\0"
_TAGS: Final = (layout.PRODUCER_ID, layout.SEQUENCE_ID, layout.MESSAGE_ID + b"\0" + layout.LEDGER_ID, layout.ENTRY_ID)
"""Bytes before each number: producer id, sequence id, ledger id, entry id."""

_Widths = npt.NDArray[np.int64] | int


def columnar_receipts(
    producer_ids: Sequence[int], ledger_ids: Sequence[int], entry_ids: Sequence[int], sequence_ids: Sequence[int]
) -> bytes:
    """Returns the frames of the receipts of entries in different ledgers, in order; all four columns are parallel, of
    numbers below 2**63. No highest sequence ids, no dropped duplicates."""
    numbers = np.array((producer_ids, sequence_ids, ledger_ids, entry_ids), np.int64)
    count = numbers.shape[1]
    if not count:
        return b""
    largest = numbers.max(axis=1).tolist()
    if max(largest) >= _READ_BY_WORD:
        rows = zip(producer_ids, ledger_ids, entry_ids, sequence_ids, strict=True)
        return b"".join(receipts(producer, ledger, entry, (sequence,)) for producer, ledger, entry, sequence in rows)
    least, most = list(map(_width, numbers.min(axis=1).tolist())), list(map(_width, largest))
    widths = [
        most[at] if least[at] == most[at] else _widths(numbers[at], least[at], most[at]) for at in range(len(_TAGS))
    ]
    data = _varints(numbers, widths)
    id_size = widths[2] + widths[3] + 2
    size = widths[0] + widths[1] + id_size + 6
    template, places = _template(tuple(most))
    frames = np.empty((count, len(template)), np.uint8)
    frames[:] = template
    for at, place in enumerate(places):
        frames[:, place : place + most[at]] = data[at, :, : most[at]]
    frames[:, 3] = size + layout.COMMAND_BYTES + 4
    frames[:, 7] = size + layout.COMMAND_BYTES
    frames[:, 11] = size
    frames[:, places[2] - 2] = id_size
    if least == most:
        return frames.tobytes()
    is_used = np.ones(frames.shape, np.bool_)
    for at, place in enumerate(places):
        for byte in range(least[at], most[at]):
            is_used[:, place + byte] = widths[at] > byte
    return frames[is_used].tobytes()


@lru_cache(maxsize=64)
def _template(most: tuple[int, ...]) -> tuple[npt.NDArray[np.uint8], list[int]]:
    """Returns a receipt with numbers of these widths, without them, and where they stand."""
    template = bytearray(_FRONT)
    places = []
    for tag, width in zip(_TAGS, most, strict=True):
        template += tag
        places.append(len(template))
        template += bytes(width)
    template += layout.NO_HIGHEST
    return np.frombuffer(template, np.uint8), places


def _varints(numbers: npt.NDArray[np.int64], widths: list[_Widths]) -> npt.NDArray[np.uint8]:
    """Encodes numbers below 2**56 as varints of a given length: eight bytes each, of which the first count."""
    words = numbers.view(_U64)
    words = (words & _U64(0x0FFFFFFF)) | (words & _U64(0x00FFFFFFF0000000)) << _U64(4)
    words = (words & _U64(0x00003FFF00003FFF)) | (words & _U64(0x0FFFC0000FFFC000)) << _U64(2)
    words = (words & _U64(0x007F007F007F007F)) | (words & _U64(0x3F803F803F803F80)) << _U64(1)
    for row, width in zip(words, widths, strict=True):
        row |= _CONTINUED[width]
    return words.astype("<u8", copy=False).view(np.uint8).reshape(*numbers.shape, 8)


def _widths(values: npt.NDArray[np.int64], least: int, most: int) -> npt.NDArray[np.int64]:
    """Returns the bytes of the varint of each number."""
    widths = np.full(len(values), least)
    for width in range(least, most):
        widths += values >> 7 * width > 0
    return widths


def _width(number: int) -> int:
    """Returns the bytes of a varint."""
    return max(1, -(-number.bit_length() // 7))
