"""Unacknowledged entries of a WebSocket's client: the unacknowledged messages of each, and the time of its
redelivery."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.protocol import ack_sets

MAX_ENTRIES: Final = 100_000
"""Entries that are remembered; of more the oldest is removed, and is acknowledged as a whole."""


@dataclass(slots=True)
class Delivery:
    """An entry at the client."""

    consumer_id: int
    positions: list[Position]
    """The entry, or all chunks of its message."""
    left: int
    """Bits of the messages that are not acknowledged."""
    delivered_s: float = 0.0


class Deliveries:
    """Entries at the client, in the order of their delivery (WS-12)."""

    def __init__(self) -> None:
        self._entries: dict[tuple[int, int], Delivery] = {}

    def add(self, delivery: Delivery) -> None:
        """Notes that an entry goes to the client; one that came before counts anew."""
        key = delivery.positions[-1]
        self._entries.pop((key.ledger_id, key.entry_id), None)
        self._entries[key.ledger_id, key.entry_id] = delivery
        if len(self._entries) > MAX_ENTRIES:
            del self._entries[next(iter(self._entries))]

    def consumer_of(self, ledger_id: int, entry_id: int) -> int | None:
        """Returns the consumer that has got an entry."""
        delivery = self._entries.get((ledger_id, entry_id))
        return None if delivery is None else delivery.consumer_id

    def acknowledge(self, ledger_id: int, entry_id: int, batch_index: int, batch_size: int) -> list[Position]:
        """Acknowledges a message; returns the positions to acknowledge once all of its entry is."""
        delivery = self._entries.get((ledger_id, entry_id))
        if delivery is None:
            # Of an earlier WebSocket: the rest of the batch is not known, nor, from an answer to a producer, its size.
            if batch_index >= 0 and not batch_size:
                return []
            if batch_index >= 0 and batch_size > 1:
                self.add(Delivery(-1, [Position(ledger_id, entry_id)], ack_sets.full(batch_size)))
                return self.acknowledge(ledger_id, entry_id, batch_index, batch_size)
            return [Position(ledger_id, entry_id)]
        if batch_index >= 0:
            delivery.left &= ~(1 << batch_index)
        if batch_index >= 0 and delivery.left:
            return []
        del self._entries[ledger_id, entry_id]
        return delivery.positions

    def remove(self, ledger_id: int, entry_id: int) -> list[Position]:
        """Removes an entry that is to come again; returns its positions."""
        delivery = self._entries.pop((ledger_id, entry_id), None)
        return [Position(ledger_id, entry_id)] if delivery is None else delivery.positions

    def clear(self, consumer_id: int) -> None:
        """Removes the entries of a consumer."""
        self._entries = {
            key: delivery for key, delivery in self._entries.items() if delivery.consumer_id != consumer_id
        }

    def oldest(self) -> Delivery | None:
        """Returns the entry that has been at the client for longest."""
        return next(iter(self._entries.values()), None)


def delivered_bits(batch_size: int, ack_set: int | None) -> int:
    """Returns the bits of an entry as the broker knows them: the client has acknowledged none."""
    bits = ack_sets.full(max(1, batch_size))
    return bits if ack_set is None else bits & ack_set
