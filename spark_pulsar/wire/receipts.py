"""Many SEND_RECEIPTs in one write.

Receipts of one run differ in two numbers that mostly count up by one each. Where they do, up to 128 receipts are made
at once: the first one repeated, then the low bytes of both numbers laid over it with a stride.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from spark_pulsar.model.ids import unsigned
from spark_pulsar.wire.frames import HEADER
from spark_pulsar.wire.varint import LOW, LOW_CONTINUED, RAMP, encode, encode_cached

_FRONT: Final = tuple(
    HEADER.pack(size + 8, size + 4) + b"\x08\x07\x3a" + bytes((size,)) + b"\x08" for size in range(128)
)
"""Everything before the producer id, by the size of the CommandSendReceipt, which is always below 128."""

_ID_FRONT: Final = tuple(b"\x1a" + bytes((size,)) + b"\x08" for size in range(128))
"""Everything between the sequence id and the ledger id, by the size of the MessageIdData."""

_NO_HIGHEST: Final = b"\x20\x00"

_FRONT_AFTER_ANOTHER: Final = tuple(_NO_HIGHEST + front for front in _FRONT)


def receipts(
    producer_id: int,
    ledger_id: int,
    first_entry_id: int,
    sequence_ids: Sequence[int],
    highest_sequence_ids: Sequence[int] | None = None,
) -> bytes:
    """The frames of the receipts of consecutive entries, in order: entry `first_entry_id + i` for `sequence_ids[i]`.

    Echoes `highest_sequence_ids`, or 0 where there are none. A `first_entry_id` of -1 (with `ledger_id` -1) says of
    every one that it was a duplicate and is dropped.
    """
    producer, ledger = _tagged(producer_id), _tagged(unsigned(ledger_id))
    if highest_sequence_ids is not None or first_entry_id < 0:
        return _one_by_one(producer, ledger, first_entry_id, sequence_ids, highest_sequence_ids)
    count = len(sequence_ids)
    pieces: list[bytes | bytearray] = []
    index = 0
    while index < count:
        sequence_id, entry_id = sequence_ids[index], first_entry_id + index
        sequence, entry = encode(sequence_id), encode(entry_id)
        receipt = _receipt(producer, sequence, ledger, entry, _NO_HIGHEST)
        length = min(count - index, 128 - (sequence_id & 127), 128 - (entry_id & 127))
        if length > 1 and list(sequence_ids[index : index + length]) == list(range(sequence_id, sequence_id + length)):
            block = bytearray(receipt * length)
            size = len(receipt)
            sequence_at = 13 + len(producer)
            entry_at = sequence_at + len(sequence) + 3 + len(ledger)
            block[sequence_at::size] = RAMP[sequence[0] : sequence[0] + length]
            block[entry_at::size] = RAMP[entry[0] : entry[0] + length]
            pieces.append(block)
            index += length
        else:
            pieces.append(receipt)
            index += 1
    return b"".join(pieces)


def scattered_receipts(
    producer_ids: Sequence[int], ledger_ids: Sequence[int], entry_ids: Sequence[int], sequence_ids: Sequence[int]
) -> bytes:
    """The frames of the receipts of entries in different ledgers, in order; all four lists are parallel.

    For what a sweep of many producers brought. No highest sequence ids, no dropped duplicates.
    """
    pieces: list[bytes] = []
    add = pieces.extend
    tagged = _tagged
    # Each piece begins with the end of the receipt before it, so that every receipt takes six of them.
    fronts = _FRONT_AFTER_ANOTHER
    entry = sequence = b""
    last_entry_id = last_sequence_id = -1
    for producer_id, ledger_id, entry_id, sequence_id in zip(
        producer_ids, ledger_ids, entry_ids, sequence_ids, strict=True
    ):
        # Producers that take turns are often equally far.
        if entry_id != last_entry_id:
            last_entry_id, entry = entry_id, _quickly(entry_id)
        if sequence_id != last_sequence_id:
            last_sequence_id, sequence = sequence_id, _quickly(sequence_id)
        producer, ledger = tagged(producer_id), tagged(ledger_id)
        id_size = len(ledger) + len(entry) + 1
        add(
            (fronts[len(producer) + len(sequence) + id_size + 5], producer, sequence, _ID_FRONT[id_size], ledger, entry)
        )
    if not pieces:
        return b""
    pieces[0] = pieces[0][len(_NO_HIGHEST) :]
    pieces.append(_NO_HIGHEST)
    return b"".join(pieces)


def _quickly(number: int) -> bytes:
    """An id that is one more than another, as a varint."""
    return LOW_CONTINUED[number & 127] + encode_cached(number >> 7) if number > 127 else LOW[number]


@lru_cache(maxsize=16_384)
def _tagged(number: int) -> bytes:
    """An id that comes again and again, and the tag of field 2 that follows it."""
    return encode(number) + b"\x10"


def _one_by_one(
    producer: bytes,
    ledger: bytes,
    first_entry_id: int,
    sequence_ids: Sequence[int],
    highest_sequence_ids: Sequence[int] | None,
) -> bytes:
    """Receipts with nothing in common: batches that tell their highest sequence id, and dropped duplicates."""
    pieces: list[bytes] = []
    entry_id = first_entry_id
    for index, sequence_id in enumerate(sequence_ids):
        highest = b"\x20" + encode(highest_sequence_ids[index]) if highest_sequence_ids is not None else _NO_HIGHEST
        pieces.append(_receipt(producer, encode(sequence_id), ledger, encode(entry_id), highest))
        if entry_id >= 0:
            entry_id += 1
    return b"".join(pieces)


def _receipt(producer: bytes, sequence: bytes, ledger: bytes, entry: bytes, highest: bytes) -> bytes:
    """One frame from its encoded numbers; `producer` and `ledger` with the tag that follows them."""
    id_size = len(ledger) + len(entry) + 1
    body_size = len(producer) + len(sequence) + id_size + len(highest) + 3
    return _FRONT[body_size] + producer + sequence + _ID_FRONT[id_size] + ledger + entry + highest
