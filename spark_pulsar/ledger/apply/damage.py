"""Applies the records of what is damaged to the durable state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.ledger.records.base import Record
from spark_pulsar.ledger.records.damage import DamageAccepted, TopicDamaged
from spark_pulsar.ledger.state.topics import Damage

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.durable_state import DurableState
    from spark_pulsar.ledger.state.topics import TopicState


def _damaged(state: DurableState, record: TopicDamaged) -> None:
    topic = state.topic(record.topic_id)
    state.dirty["damages"].add(record.topic_id)
    found = (record.ledger_id, record.first, record.end)
    if all(damage[:3] != found for damage in topic.damages):
        topic.damages.append(Damage(*found, record.place, record.text))


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


def forget_ledgers(state: DurableState, topic: TopicState, ledger_ids: set[int]) -> None:
    """Ledgers are gone, and with them what was damaged in them."""
    topic.damages[:] = [damage for damage in topic.damages if damage.ledger_id not in ledger_ids]
    note_lost(topic)
    state.dirty["damages"].add(topic.topic_id)


TRANSITIONS: Final[dict[type[Record], Callable[[DurableState, Any], None]]] = {
    TopicDamaged: _damaged,
    DamageAccepted: _accepted,
}
"""Effects of the records, by type."""
