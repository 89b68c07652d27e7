"""Many SEND_RECEIPTs in one write.

Receipts of one run differ in two numbers that mostly count up by one each. Where they do, up to 128 receipts are made
at once: the first one repeated, then the low bytes of both numbers laid over it with a stride.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_pulsar.model.ids import unsigned
from spark_pulsar.wire import varint
from spark_pulsar.wire.frames import HEADER
from spark_pulsar.wire.varint import RAMP


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
    producer, ledger = varint.encode(producer_id), varint.encode(unsigned(ledger_id))
    count = len(sequence_ids)
    step = 1 if first_entry_id >= 0 else 0
    if highest_sequence_ids is not None or not step:
        highest: Sequence[int] = highest_sequence_ids if highest_sequence_ids is not None else (0,) * count
        return b"".join(
            _receipt(producer, ledger, sequence_ids[i], unsigned(first_entry_id + i * step), highest[i])[0]
            for i in range(count)
        )
    pieces: list[bytes | bytearray] = []
    index = 0
    while index < count:
        sequence_id, entry_id = sequence_ids[index], first_entry_id + index
        receipt, sequence_at, entry_at = _receipt(producer, ledger, sequence_id, entry_id, 0)
        length = min(count - index, 128 - (sequence_id & 127), 128 - (entry_id & 127))
        if length > 1 and list(sequence_ids[index : index + length]) == list(range(sequence_id, sequence_id + length)):
            block = bytearray(receipt * length)
            size = len(receipt)
            block[sequence_at::size] = RAMP[receipt[sequence_at] :][:length]
            block[entry_at::size] = RAMP[receipt[entry_at] :][:length]
            pieces.append(block)
            index += length
        else:
            pieces.append(receipt)
            index += 1
    return b"".join(pieces)


def _receipt(
    producer: bytes, ledger: bytes, sequence_id: int, entry_id: int, highest_sequence_id: int
) -> tuple[bytes, int, int]:
    """(frame, index of the first byte of the sequence id, index of the first byte of the entry id)."""
    sequence, entry, highest = map(varint.encode, (sequence_id, entry_id, highest_sequence_id))
    id_size = len(ledger) + len(entry) + 2
    body_size = len(producer) + len(sequence) + id_size + len(highest) + 5
    frame = b"".join(
        (
            HEADER.pack(body_size + 8, body_size + 4),
            b"\x08\x07\x3a",
            bytes((body_size,)),
            b"\x08",
            producer,
            b"\x10",
            sequence,
            b"\x1a",
            bytes((id_size,)),
            b"\x08",
            ledger,
            b"\x10",
            entry,
            b"\x20",
            highest,
        )
    )
    sequence_at = 14 + len(producer)
    entry_at = sequence_at + len(sequence) + 4 + len(ledger)
    return frame, sequence_at, entry_at
