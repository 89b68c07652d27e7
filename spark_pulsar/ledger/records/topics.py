"""Records of what a topic is to its producers: the epoch of exclusive access (PR-7), its end (TN-13), whether it
takes chunks (CHK-6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from .base import DeclaredRecord, InvalidRecord, Record
from .codec import I64

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.durable_state import DurableState
    from spark_pulsar.ledger.state.topics import TopicState

UNSET: Final = -1
"""In place of an epoch: nobody ever had the topic alone."""


@dataclass(frozen=True, slots=True)
class TopicEpochSet(DeclaredRecord):
    """Somebody has the topic alone from now on, in this epoch; who held it in an earlier one has lost it."""

    topic_id: int
    epoch: int
    TYPE: ClassVar[int] = 17
    LAYOUT: ClassVar = (("topic_id", I64), ("epoch", I64))


@dataclass(frozen=True, slots=True)
class TopicTerminated(DeclaredRecord):
    """The topic takes no more entries, for good."""

    topic_id: int
    TYPE: ClassVar[int] = 18
    LAYOUT: ClassVar = (("topic_id", I64),)


@dataclass(frozen=True, slots=True)
class TopicChunked(DeclaredRecord):
    """The topic takes its first chunk of a large message."""

    topic_id: int
    TYPE: ClassVar[int] = 19
    LAYOUT: ClassVar = (("topic_id", I64),)


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


def mark_values(state: DurableState, topic_id: int) -> tuple[Any, ...] | None:
    """The row of a topic that has an epoch, an end or chunks; None for all others."""
    topic = state.topics.get(topic_id)
    if topic is None or (topic.epoch == UNSET and not topic.is_terminated and not topic.has_chunks):
        return None
    return topic.epoch, int(topic.is_terminated), int(topic.has_chunks)
