"""Chunked messages on a Shared subscription: all chunks of a message go to one consumer, which puts them together
(CHK-6, X1).

The consumer that gets the first chunk of a message gets the others too. Chunks for one that is not ready are passed
over and wait, so that other consumers do not. When one is redelivered, all unacknowledged ones are; they may go to
another consumer then, together. A chunk of a message without an owner goes to any consumer, whose client drops it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.model.positions.ranges import RangeSet
from spark_pulsar.wire.entries.entry_bytes import metadata_of, text_of

_MAX_UUID: Final = 256
"""Characters of a UUID; a digest stands for longer ones."""

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.ledger.entries import EntryRun

    from .base import EntryRange

    Place = tuple[int, int]


@dataclass(slots=True)
class ChunkedMessage:
    """A chunked message: its chunks that were sent and are not acknowledged."""

    consumer: Consumer
    """The consumer of its chunks."""
    places: dict[Place, None] = field(default_factory=dict)
    """Ledger and entry of each chunk."""
    awaited: RangeSet = field(default_factory=RangeSet)
    """Chunks that were passed over because the consumer was not ready; some may have been sent since."""


class ChunkBook:
    """The chunked messages of one subscription, and the consumer of each (CHK-7)."""

    def __init__(self) -> None:
        self._messages: dict[str, ChunkedMessage] = {}
        self._uuids: dict[Place, str] = {}
        self.waiting: dict[Consumer, RangeSet] = {}
        """Chunks that were passed over because their consumer was not ready."""
        self.free = RangeSet()
        """Chunks that waited for a consumer which lost one of its messages: any consumer may get them now."""

    def __bool__(self) -> bool:
        return bool(self._messages or self.waiting or self.free)

    def clear(self) -> None:
        """Discards all messages."""
        self._messages.clear()
        self._uuids.clear()
        self.waiting.clear()
        self.free.clear()

    def count(self) -> int:
        """Counts the chunks that wait."""
        return self.free.count() + sum(ranges.count() for ranges in self.waiting.values())

    def owner(self, uuid: str) -> Consumer | None:
        """Finds the consumer of a chunked message; None when none of its chunks was sent."""
        message = self._messages.get(uuid)
        return None if message is None else message.consumer

    def sent(self, uuid: str, consumer: Consumer, ledger_id: int, entry_id: int) -> None:
        """Notes that a chunk was sent to a consumer, which gets the others too."""
        message = self._messages.get(uuid)
        if message is None:
            message = self._messages[uuid] = ChunkedMessage(consumer)
        message.places[ledger_id, entry_id] = None
        self._uuids[ledger_id, entry_id] = uuid

    def wait(self, uuid: str, consumer: Consumer, ledger_id: int, entry_id: int) -> None:
        """Makes a chunk wait until the consumer of its message is ready."""
        self._messages[uuid].awaited.add(ledger_id, entry_id, entry_id + 1)
        self.waiting.setdefault(consumer, RangeSet()).add(ledger_id, entry_id, entry_id + 1)

    @property
    def is_ready(self) -> bool:
        """True when `ready` yields something."""
        return bool(self.free) or any(consumer.can_receive for consumer in self.waiting)

    def ready(self) -> Iterator[EntryRange]:
        """Takes the chunks that wait no more: their consumer is ready, or any consumer may get them."""
        if self.free:
            yield from list(self.free)
            self.free.clear()
        for consumer in [consumer for consumer in self.waiting if consumer.can_receive]:
            yield from self.waiting.pop(consumer)

    def left(self, consumer: Consumer) -> list[EntryRange]:
        """Discards the messages of a consumer that closed: others may get them. Returns the chunks that waited for
        it."""
        for uuid in [uuid for uuid, message in self._messages.items() if message.consumer is consumer]:
            self._remove_message(uuid)
        return list(self.waiting.pop(consumer, ()))

    def with_all_chunks(self, ranges: Iterable[EntryRange]) -> list[EntryRange]:
        """Completes ranges to redeliver with all chunks of their messages, which any consumer may get then."""
        completed = RangeSet(ranges)
        if self._uuids:
            uuids = {self._uuids[place] for place in self._places_in(completed)}
            for uuid in uuids:
                for ledger_id, entry_id in self._messages[uuid].places:
                    completed.add(ledger_id, entry_id, entry_id + 1)
                self._remove_message(uuid)
        return list(completed)

    def done(self, ranges: Iterable[EntryRange]) -> None:
        """Discards acknowledged chunks, and messages of which none is left."""
        if not self:
            return
        acked = RangeSet(ranges)
        for place in self._places_in(acked):
            uuid = self._uuids.pop(place)
            message = self._messages[uuid]
            del message.places[place]
            if not message.places:
                self._remove_message(uuid)
        for ledger_id, first, end in acked:
            self.free.remove(ledger_id, first, end)
        for consumer, waiting in list(self.waiting.items()):
            for ledger_id, first, end in acked:
                waiting.remove(ledger_id, first, end)
            if not waiting:
                del self.waiting[consumer]

    def done_through(self, ledger_id: int, entry_id: int) -> None:
        """Discards all chunks at or before a position, which are acknowledged."""
        if self:
            passed = [place for place in self._uuids if place <= (ledger_id, entry_id)]
            self.done((ledger, entry, entry + 1) for ledger, entry in passed)
            self.free.remove_through(ledger_id, entry_id)
            for consumer, waiting in list(self.waiting.items()):
                waiting.remove_through(ledger_id, entry_id)
                if not waiting:
                    del self.waiting[consumer]

    def _places_in(self, ranges: RangeSet) -> list[Place]:
        if ranges.count() <= len(self._uuids):
            return [
                (ledger_id, entry_id)
                for ledger_id, first, end in ranges
                for entry_id in range(first, end)
                if (ledger_id, entry_id) in self._uuids
            ]
        return [place for place in self._uuids if ranges.contains(*place)]

    def _remove_message(self, uuid: str) -> None:
        message = self._messages.pop(uuid)
        for place in message.places:
            del self._uuids[place]
        waiting = self.waiting.get(message.consumer)
        if waiting is None:
            return
        for ledger_id, first, end in message.awaited:
            for low, high in list(waiting.pieces_in(ledger_id, first, end)):
                waiting.remove(ledger_id, low, high)
                self.free.add(ledger_id, low, high)
        if not waiting:
            del self.waiting[message.consumer]


def uuid_of(run: EntryRun, index: int) -> str | None:
    """Reads the UUID of the chunked message that an entry belongs to; None when it is no chunk."""
    try:
        metadata = metadata_of(run.buffer, run.starts[index], run.ends[index])
    except CorruptMessage:
        return None
    if metadata.num_chunks_from_msg <= 1:
        return None
    uuid = text_of(metadata.uuid)  # bytes, when they are not UTF-8
    return uuid if len(uuid) <= _MAX_UUID else sha256(uuid.encode()).hexdigest()
