"""Size limits of topics, as far as a process has learned them: a broker announces its own, but not a topic's policy
(SINK-11).

A refusal says that an entry was too large and not what the limit is, so that batches are halved until they fit. Tasks
that follow in the same worker process begin with what fitted.
"""

from __future__ import annotations

from typing import Final

from spark_pulsar.client.clock import monotonic_ms
from spark_pulsar.model.names import TopicName

REMEMBERED_MS: Final = 10 * 60 * 1000
"""A policy may be lifted: larger batches are tried again after so long."""

_LEARNED: Final[dict[tuple[str, str], tuple[int, int]]] = {}
"""Payload bytes of a batch before compression, and when they were learned, by service URL and topic."""


class TopicLimit:
    """Limit of the batches of one topic."""

    def __init__(self, service_url: str, topic: str) -> None:
        self._place = (service_url, TopicName.parse(topic).base.full)

    @property
    def batch_bytes(self) -> int | None:
        """Payload bytes of a batch, before compression, that the topic is likely to accept; None if no entry was
        refused."""
        learned = _LEARNED.get(self._place)
        if learned is None or monotonic_ms() - learned[1] > REMEMBERED_MS:
            return None
        return learned[0]

    def refused(self, payload_bytes: int) -> None:
        """Learns from the size of a refused entry's payload before compression."""
        known, halved = self.batch_bytes, max(1, payload_bytes // 2)
        _LEARNED[self._place] = (halved if known is None else min(known, halved), monotonic_ms())
