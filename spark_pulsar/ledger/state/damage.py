"""What is damaged of a topic."""

from __future__ import annotations

from typing import NamedTuple


class Damage(NamedTuple):
    """Something of a topic that was durable and is not there any more.

    Entries `first … end - 1` of the ledger cannot be read; none when they are equal: then something else may be
    missing (acks, the newest entries). `place` is `file:offset`, `text` says what was found there. With `accepted`,
    consumers skip the entries and producers go on.
    """

    ledger_id: int
    first: int
    end: int
    place: str
    text: str
    accepted: bool = False

    def holds(self, ledger_id: int, entry_id: int) -> bool:
        """Whether the entry is among those that cannot be read."""
        return ledger_id == self.ledger_id and self.first <= entry_id < self.end

    @property
    def loss(self) -> str:
        """What is lost, in words."""
        if self.end == self.first:
            return "its last changes may be lost"
        return f"entries {self.ledger_id}:{self.first} to {self.ledger_id}:{self.end - 1} are lost"

    def __str__(self) -> str:
        return f"{self.loss} ({self.place}: {self.text})"
