"""Applies the records of sequence ids of producers to the durable state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.ledger.records.base import InvalidRecord, Record
from spark_pulsar.ledger.records.deduplication import SequencesForgotten, SequencesReached

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.durable_state import DurableState


def _sequences_reached(state: DurableState, record: SequencesReached) -> None:
    topics, dirty = state.topics, state.dirty["sequences"]
    topic_ids, producers, sequence_ids = record.topic_ids, record.producers, record.sequence_ids
    if len(topic_ids) > 1 and not topics.keys() >= set(topic_ids):
        raise InvalidRecord(f"sequence ids of a topic of {topic_ids} that does not exist")
    for topic_id, producer, sequence_id in zip(topic_ids, producers, sequence_ids, strict=True):
        topic = topics.get(topic_id)
        if topic is None:
            raise InvalidRecord(f"sequence ids of topic {topic_id}, which does not exist")
        topic.sequences[producer] = sequence_id
        dirty.add((topic_id, producer))


def _sequences_forgotten(state: DurableState, record: SequencesForgotten) -> None:
    sequences = state.topic(record.topic_id).sequences
    for producer in record.producers or list(sequences):
        if sequences.pop(producer, None) is not None:
            state.dirty["sequences"].add((record.topic_id, producer))


TRANSITIONS: Final[Mapping[type[Record], Callable[[DurableState, Any], None]]] = {
    SequencesReached: _sequences_reached,
    SequencesForgotten: _sequences_forgotten,
}
"""Their effects."""
