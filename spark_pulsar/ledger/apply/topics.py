"""Applies the records of topics to the durable state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.ledger.records.base import InvalidRecord, Record
from spark_pulsar.ledger.records.topics import TopicChunked, TopicEpochSet, TopicTerminated

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.durable_state import DurableState
    from spark_pulsar.ledger.state.topics import TopicState


def _epoch_set(state: DurableState, record: TopicEpochSet) -> None:
    topic = _topic(state, record.topic_id)
    topic.epoch = record.epoch
    state.dirty["topic_marks"].add(record.topic_id)


def _terminated(state: DurableState, record: TopicTerminated) -> None:
    topic = _topic(state, record.topic_id)
    topic.is_terminated = True
    state.dirty["topic_marks"].add(record.topic_id)


def _chunked(state: DurableState, record: TopicChunked) -> None:
    topic = _topic(state, record.topic_id)
    topic.has_chunks = True
    state.dirty["topic_marks"].add(record.topic_id)


def _topic(state: DurableState, topic_id: int) -> TopicState:
    topic = state.topics.get(topic_id)
    if topic is None:
        raise InvalidRecord(f"topic {topic_id} does not exist")
    return topic


TRANSITIONS: Final[Mapping[type[Record], Callable[[DurableState, Any], None]]] = {
    TopicEpochSet: _epoch_set,
    TopicTerminated: _terminated,
    TopicChunked: _chunked,
}
"""Their effects."""
