"""Rows of topics in the checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_pulsar.ledger.records.topics import UNSET

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.durable_state import DurableState


def mark_values(state: DurableState, topic_id: int) -> tuple[Any, ...] | None:
    """The row of a topic that has an epoch, an end or chunks; None for all others."""
    topic = state.topics.get(topic_id)
    if topic is None or (topic.epoch == UNSET and not topic.is_terminated and not topic.has_chunks):
        return None
    return topic.epoch, int(topic.is_terminated), int(topic.has_chunks)
