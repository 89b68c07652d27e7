"""Many SEND_RECEIPTs in one write, in order, with the sequence ids as they were sent (A2, J4), of non-persistent topics
too (NP-2).

Receipts of one run differ in two numbers that mostly count up by one each. Where they do, up to 128 receipts are made
at once: the first one repeated, then the low bytes of both numbers laid over it with a stride.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spark_pulsar.model.positions.ids import unsigned
from spark_pulsar.wire.protocol.frames import HEADER
from spark_pulsar.wire.protocol.varint import RAMP, encode, encode_cached

RECEIPT_START: Final = b"\x08\x07\x3a"
"""Type SEND_RECEIPT and the tag of its content; its size, always below 128, follows."""
COMMAND_BYTES: Final = len(RECEIPT_START) + 1
PRODUCER_ID: Final = b"\x08"
SEQUENCE_ID: Final = b"\x10"
MESSAGE_ID: Final = b"\x1a"
"""The tag of the MessageIdData, whose size follows."""
LEDGER_ID: Final = b"\x08"
ENTRY_ID: Final = b"\x10"
HIGHEST_SEQUENCE_ID: Final = b"\x20"
NO_HIGHEST: Final = HIGHEST_SEQUENCE_ID + b"\0"

_FRONT: Final = tuple(
    HEADER.pack(size + COMMAND_BYTES + 4, size + COMMAND_BYTES) + RECEIPT_START + bytes((size,)) + PRODUCER_ID
    for size in range(128)
)
"""Everything before the producer id, by the size of the CommandSendReceipt, which is always below 128."""

_ID_FRONT: Final = tuple(MESSAGE_ID + bytes((size,)) + LEDGER_ID for size in range(128))
"""Everything between the sequence id and the ledger id, by the size of the MessageIdData."""


def receipts(
    producer_id: int,
    ledger_id: int,
    first_entry_id: int,
    sequence_ids: Sequence[int],
    highest_sequence_ids: Sequence[int] | None = None,
) -> bytes:
    """Returns the frames of the receipts of consecutive entries, in order: entry `first_entry_id + i` for
    `sequence_ids[i]`.

    Echoes `highest_sequence_ids`, or 0 where there are none. A `first_entry_id` of -1 (with `ledger_id` -1) says of
    every one that it was a duplicate and is dropped.
    """
    producer, ledger = encode_cached(producer_id) + SEQUENCE_ID, encode_cached(unsigned(ledger_id)) + ENTRY_ID
    if highest_sequence_ids is not None or first_entry_id < 0:
        return _one_by_one(producer, ledger, first_entry_id, sequence_ids, highest_sequence_ids)
    count = len(sequence_ids)
    pieces: list[bytes | bytearray] = []
    index = 0
    while index < count:
        sequence_id, entry_id = sequence_ids[index], first_entry_id + index
        sequence, entry = encode(sequence_id), encode(entry_id)
        receipt = _receipt(producer, sequence, ledger, entry, NO_HIGHEST)
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


def _one_by_one(
    producer: bytes,
    ledger: bytes,
    first_entry_id: int,
    sequence_ids: Sequence[int],
    highest_sequence_ids: Sequence[int] | None,
) -> bytes:
    """Receipts with nothing in common: batches with their highest sequence id, and dropped duplicates."""
    pieces: list[bytes] = []
    entry_id = first_entry_id
    for index, sequence_id in enumerate(sequence_ids):
        highest = (
            HIGHEST_SEQUENCE_ID + encode(highest_sequence_ids[index])
            if highest_sequence_ids is not None
            else NO_HIGHEST
        )
        pieces.append(_receipt(producer, encode(sequence_id), ledger, encode(entry_id), highest))
        if entry_id >= 0:
            entry_id += 1
    return b"".join(pieces)


def _receipt(producer: bytes, sequence: bytes, ledger: bytes, entry: bytes, highest: bytes) -> bytes:
    """One frame from its encoded numbers; `producer` and `ledger` with the tag that follows them."""
    id_size = len(ledger) + len(entry) + 1
    body_size = len(producer) + len(sequence) + id_size + len(highest) + 3
    return _FRONT[body_size] + producer + sequence + _ID_FRONT[id_size] + ledger + entry + highest
