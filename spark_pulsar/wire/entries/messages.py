"""MESSAGE frames, many in one write; see `entry_blocks` for the way back.

The command of a MESSAGE differs from entry to entry in the entry id alone, so for up to 128 entries a `Struct` writes
totalSize, the unchanging front, one byte, and the unchanging rest; the stored bytes follow as they are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import sub
from struct import Struct
from typing import Final

from spark_pulsar.model.positions.ids import unsigned
from spark_pulsar.wire.protocol import ack_sets as bitmaps
from spark_pulsar.wire.protocol import varint
from spark_pulsar.wire.protocol.varint import LOW, LOW_CONTINUED

MESSAGE_START: Final = b"\x08\x09"
"""The first bytes of a MESSAGE command: its type."""
CONTENT_TAG: Final = b"\x4a"

_SIZE: Final = Struct(">I")
_VIEW_FROM_BYTES: Final = 8192
_LOWEST_14: Final = (1 << 14) - 1


def consumer_id_of(buffer: bytes, start: int) -> int:
    """Returns the consumer that a MESSAGE frame which begins at `start` is for; -1 when it does not stand where brokers
    write it. Raises MalformedFrame for a broken number."""
    at = start + 4 + 4 + len(MESSAGE_START)
    if not buffer.startswith(CONTENT_TAG, at):
        return -1
    _, at = varint.decode(buffer, at + 1, len(buffer))
    return varint.decode(buffer, at + 1, len(buffer))[0] if buffer.startswith(b"\x08", at) else -1


def message_frames(
    consumer_id: int,
    ledger_id: int,
    first_entry_id: int,
    partition: int,
    buffer: bytes,
    starts: Sequence[int],
    ends: Sequence[int],
    redelivery_counts: Sequence[int] | None = None,
    ack_sets: Sequence[int | None] | None = None,
    consumer_epoch: int | None = None,
    entry_ids: Sequence[int] | None = None,
) -> list[bytes | memoryview]:
    """Returns the MESSAGE frames of consecutive entries, or of those of `entry_ids`, which rise, as pieces to be
    written one after the other.

    Entry `first_entry_id + i` is `buffer[starts[i]:ends[i]]`, delivered as it is stored. `partition` is -1 for a topic
    that is none. Redelivery counts of 0 are left out; `ack_sets` are bitmaps (1 = deliver this index), None = all.
    """
    if entry_ids is not None:
        return _sparse_frames(
            consumer_id, ledger_id, entry_ids, partition, buffer, starts, ends, redelivery_counts, ack_sets
        )
    pieces: list[bytes | memoryview] = []
    add = pieces.append
    count = len(starts)
    plain = redelivery_counts is None and ack_sets is None
    options = b"" if consumer_epoch is None else b"\x28" + varint.encode(consumer_epoch)
    index = 0
    while index < count:
        entry_id = first_entry_id + index
        entry = varint.encode(entry_id)
        if plain:
            length = min(count - index, 128 - (entry_id & 127))
            before, after = _template(consumer_id, ledger_id, partition, len(entry), options)
        else:
            length = 1
            redelivered = redelivery_counts[index] if redelivery_counts is not None else 0
            ack_set = ack_sets[index] if ack_sets is not None else None
            before, after = _template(
                consumer_id, ledger_id, partition, len(entry), _options(redelivered, ack_set) + options
            )
        beside = len(before) + len(entry) + len(after)
        if length == 1:
            start, end = starts[index], ends[index]
            head = _SIZE.pack(end - start + beside) + before + entry + after
            if end - start < _VIEW_FROM_BYTES:
                add(head + buffer[start:end])
            else:
                add(head)
                add(memoryview(buffer)[start:end])
        else:
            _add_block(add, before, entry, after, buffer, starts[index : index + length], ends[index : index + length])
        index += length
    return pieces


def _sparse_frames(
    consumer_id: int,
    ledger_id: int,
    entry_ids: Sequence[int],
    partition: int,
    buffer: bytes,
    starts: Sequence[int],
    ends: Sequence[int],
    redelivery_counts: Sequence[int] | None,
    ack_sets: Sequence[int | None] | None,
) -> list[bytes | memoryview]:
    """Returns the MESSAGE frames of entries of a ledger that are not neighbours, in rising order."""
    plain = redelivery_counts is None and ack_sets is None
    pieces: list[bytes | memoryview] = []
    if plain:
        sizes = [*map(sub, ends, starts)]
        if entry_ids[0] > 127 and max(sizes) < _VIEW_FROM_BYTES:
            begin = 0
            while begin < len(sizes):
                entry_size = len(varint.encode(entry_ids[begin]))
                before, after = _template(consumer_id, ledger_id, partition, entry_size, b"")
                near = slice(begin, bisect_left(entry_ids, (entry_ids[begin] | _LOWEST_14) + 1, begin))
                if near.stop - begin == len(sizes):  # the usual case
                    return _near_frames(before, after, entry_ids, buffer, starts, ends, sizes)
                pieces += _near_frames(before, after, entry_ids[near], buffer, starts[near], ends[near], sizes[near])
                begin = near.stop
            return pieces
    add = pieces.append
    known, before, after, tail, beside = -1, b"", b"", b"", 0
    for index, (entry_id, start, end) in enumerate(zip(entry_ids, starts, ends, strict=True)):
        high = entry_id >> 7
        if high != known or not plain:
            entry = varint.encode(entry_id)
            options = b""
            if not plain:
                redelivered = redelivery_counts[index] if redelivery_counts is not None else 0
                options = _options(redelivered, ack_sets[index] if ack_sets is not None else None)
            before, after = _template(consumer_id, ledger_id, partition, len(entry), options)
            known, tail = high, entry[1:] + after
            beside = len(before) + 1 + len(tail)
        low = LOW_CONTINUED[entry_id & 127] if high else LOW[entry_id]
        size = end - start
        if size < _VIEW_FROM_BYTES:
            add(b"".join((_SIZE.pack(size + beside), before, low, tail, buffer[start:end])))
        else:
            add(b"".join((_SIZE.pack(size + beside), before, low, tail)))
            add(memoryview(buffer)[start:end])
    return pieces


def _near_frames(
    before: bytes,
    after: bytes,
    entry_ids: Sequence[int],
    buffer: bytes,
    starts: Sequence[int],
    ends: Sequence[int],
    sizes: list[int],
) -> list[bytes | memoryview]:
    """Returns the MESSAGE frames of small entries whose ids, above 127, differ in their lowest fourteen bits alone:
    four pieces for each, of which only the second and the last one are its own."""
    highest = entry_ids[0] >> 14
    tail = varint.encode(highest) + after if highest else after
    lows = _two_bytes(is_continued=highest > 0)
    beside = len(before) + 2 + len(tail)
    heads = {size: _SIZE.pack(size + beside) + before for size in set(sizes)}
    pieces: list[bytes | memoryview] = [heads[sizes[0]], b"", tail, b""] * len(sizes)
    if len(heads) > 1:
        pieces[0::4] = map(heads.__getitem__, sizes)
    pieces[1::4] = [lows[entry_id & _LOWEST_14] for entry_id in entry_ids]
    pieces[3::4] = [buffer[start:end] for start, end in zip(starts, ends, strict=True)]
    return pieces


@lru_cache(maxsize=2)
def _two_bytes(*, is_continued: bool) -> list[bytes]:
    """Returns the first two bytes of a value, by its fourteen low bits."""
    return [low + second for second in (LOW_CONTINUED if is_continued else LOW) for low in LOW_CONTINUED]


def _add_block(
    add: Callable[[bytes | memoryview], None],
    before: bytes,
    entry: bytes,
    after: bytes,
    buffer: bytes,
    starts: Sequence[int],
    ends: Sequence[int],
) -> None:
    """Adds frames whose entry ids differ in the first byte of `entry` alone, counting up from it."""
    low = entry[0]
    after = entry[1:] + after
    beside = len(before) + 1 + len(after)
    pack = _layout(len(before), len(after)).pack
    view = memoryview(buffer)
    for start, end in zip(starts, ends, strict=True):
        size = end - start
        if size < _VIEW_FROM_BYTES:
            add(pack(size + beside, before, low, after) + buffer[start:end])
        else:
            add(pack(size + beside, before, low, after))
            add(view[start:end])
        low += 1


@lru_cache(maxsize=1024)
def _template(consumer_id: int, ledger_id: int, partition: int, entry_size: int, options: bytes) -> tuple[bytes, bytes]:
    """Returns the bytes before and after the entry id in a MESSAGE, from commandSize on, when the id takes
    `entry_size`."""
    ledger = b"\x08" + varint.encode(unsigned(ledger_id)) + b"\x10"
    place = b"\x18" + varint.encode(partition)
    id_size = len(ledger) + entry_size + len(place)
    front = b"\x08" + varint.encode(consumer_id) + b"\x12" + bytes((id_size,)) + ledger
    body_size = len(front) + entry_size + len(place) + len(options)
    before = MESSAGE_START + CONTENT_TAG + varint.encode(body_size) + front
    command_size = len(before) + entry_size + len(place) + len(options)
    return _SIZE.pack(command_size) + before, place + options


@lru_cache(maxsize=256)
def _layout(before_size: int, after_size: int) -> Struct:
    """totalSize, what precedes the low byte of the entry id, that byte, what follows it."""
    return Struct(f">I{before_size}sB{after_size}s")


def _options(redelivery_count: int, ack_set: int | None) -> bytes:
    """Returns the optional fields 3 and 4 of CommandMessage."""
    pieces = [b"\x18" + varint.encode(redelivery_count)] if redelivery_count else []
    if ack_set is not None:
        pieces += [b"\x20" + varint.encode(word) for word in bitmaps.words(ack_set)]
    return b"".join(pieces)
