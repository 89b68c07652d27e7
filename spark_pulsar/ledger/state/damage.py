"""Damage of topics: entries that storage found unreadable, and the operator's decision to go on without them.

A damaged topic is read-only until the damage is accepted (`spark-pulsar check DIR --repair`): nothing is skipped in
silence, and nothing new is built upon what may be missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from spark_pulsar.ledger.records import DeclaredRecord, Record, Table

if TYPE_CHECKING:
    from .durable_state import DurableState
    from .topics import TopicState


class Damage(NamedTuple):
    """Something of a topic that was durable and is not there any more.

    Entries `first … end - 1` of the ledger cannot be read; none when they are equal: then something else may be
    missing (acks, the newest entries). `place` is `file:offset`, `text` describes the damage there. With `accepted`,
    consumers skip the entries and producers go on.
    """

    ledger_id: int
    first: int
    end: int
    place: str
    text: str
    accepted: bool = False

    def holds(self, ledger_id: int, entry_id: int) -> bool:
        """Returns whether the entry is among the lost ones."""
        return ledger_id == self.ledger_id and self.first <= entry_id < self.end

    @property
    def loss(self) -> str:
        """The loss in words."""
        if self.end == self.first:
            return "its last changes may be lost"
        return f"entries {self.ledger_id}:{self.first} to {self.ledger_id}:{self.end - 1} are lost"

    def __str__(self) -> str:
        return f"{self.loss} ({self.place}: {self.text})"


@dataclass(frozen=True, slots=True)
class TopicDamaged(DeclaredRecord):
    """Damage of the topic was found; see `Damage`. The same damage found again changes nothing."""

    topic_id: int
    ledger_id: int
    first: int
    end: int
    place: str
    text: str
    TYPE: ClassVar[int] = 90


@dataclass(frozen=True, slots=True)
class DamageAccepted(DeclaredRecord):
    """All damage of the topic that is known now is accepted: every cursor passes over the lost entries."""

    topic_id: int
    TYPE: ClassVar[int] = 91


def _damaged(state: DurableState, record: TopicDamaged) -> None:
    topic = state.topic(record.topic_id)
    state.dirty["damages"].add(record.topic_id)
    entry_range = (record.ledger_id, record.first, record.end)
    if all(damage[:3] != entry_range for damage in topic.damages):
        topic.damages.append(Damage(*entry_range, record.place, record.text))


def _accepted(state: DurableState, record: DamageAccepted) -> None:
    topic = state.topic(record.topic_id)
    state.dirty["damages"].add(record.topic_id)
    topic.damages[:] = [damage._replace(accepted=True) for damage in topic.damages]
    note_lost(topic)
    for cursor in topic.cursors.values():
        cursor.acknowledge(topic.ledger.lost)
        state.dirty["cursors"].add(cursor.cursor_id)


def note_lost(topic: TopicState) -> None:
    """Lets the topic's ledger know the entries that every cursor passes over."""
    accepted = [damage for damage in topic.damages if damage.accepted and damage.end > damage.first]
    # Cursors know nothing of a compacted ledger.
    topic.ledger.lost = [damage[:3] for damage in accepted if damage.ledger_id in topic.ledger.ledgers]


def remove_ledgers(state: DurableState, topic: TopicState, ledger_ids: set[int]) -> None:
    """Removes the damage of ledgers that are removed."""
    topic.damages[:] = [damage for damage in topic.damages if damage.ledger_id not in ledger_ids]
    note_lost(topic)
    state.dirty["damages"].add(topic.topic_id)


TRANSITIONS: Final[dict[type[Record], Callable[[DurableState, Any], None]]] = {
    TopicDamaged: _damaged,
    DamageAccepted: _accepted,
}
"""Effects of the records, by type."""


def _values(state: DurableState, topic_id: int) -> tuple[Any, ...] | None:
    topic = state.topics.get(topic_id)
    return (json.dumps(topic.damages),) if topic is not None and topic.damages else None


def load(state: DurableState, rows: Iterable[tuple[int, str]]) -> None:
    """Gives topics the damage of their rows."""
    for topic_id, damages in rows:
        topic = state.topics[topic_id]
        topic.damages = [Damage(*values) for values in json.loads(damages)]
        note_lost(topic)


TABLES: Final = (Table("damages", 1, ("topic_id INTEGER", "damages TEXT"), _values),)
