"""Ends of the partitions of a streaming query, of which an idle query requests few.

A partition that the broker watches for the query ends where it did, as long as its reader is attached and was sent
nothing (READ-38). All others are requested; and the watched ones in turn, a few in a poll, so that a message which the
broker does not announce is late, and not lost.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.clock import monotonic_ms
from spark_pulsar.connector.offsets.endpoints import end_positions_of_each
from spark_pulsar.connector.positions import ReadPosition
from spark_pulsar.model.errors import PulsarError

LOG: Final = logging.getLogger("spark_pulsar")

_WATCHING_MS: Final = 1_000
"""Time to attach the readers of one poll; a slower broker attaches the others in the next ones."""
_TRUSTED_MS: Final = 30_000
"""Time for which an end that the broker watches needs no request."""
_LEAST_AGAIN: Final = 64
_AGAIN_PART: Final = 16
"""Watched partitions that one poll requests at most: the first number, or one of so many if that is more."""


class PartitionEnds:
    """Ends of the partitions of one query, as the broker said last."""

    def __init__(self, client: PulsarClient) -> None:
        self._client = client
        self._arrived = threading.Event()
        self._ends: dict[str, ReadPosition] = {}
        self._requested_ms: dict[str, int] = {}

    def request(self, topics: Sequence[str]) -> dict[str, ReadPosition]:
        """Returns the ends of those partitions that exist. News is what arrives from now on."""
        self._arrived.clear()
        now_ms = monotonic_ms()
        known = self._client.silent_partitions(self._arrived) & self._ends.keys() & set(topics)
        old = [topic for topic in known if now_ms - self._requested_ms[topic] >= _TRUSTED_MS]
        old.sort(key=lambda topic: (self._requested_ms[topic], topic))
        known.difference_update(old[: max(_LEAST_AGAIN, len(topics) // _AGAIN_PART)])
        answers = end_positions_of_each(self._client, [topic for topic in topics if topic not in known])
        times = {topic: self._requested_ms[topic] if topic in known else now_ms for topic in topics}
        ends = {topic: self._ends[topic] if topic in known else answers.get(topic) for topic in topics}
        self._ends = {topic: end for topic, end in ends.items() if end is not None}
        self._requested_ms = {topic: times[topic] for topic in self._ends}
        return dict(self._ends)

    def watch(self, positions: Mapping[str, ReadPosition]) -> bool:
        """Attaches a reader at each position, the end of its partition; returns whether the broker announces what comes
        in all of them."""
        try:
            self._client.watch({topic: at.message_id for topic, at in positions.items()}, self._arrived, _WATCHING_MS)
        except PulsarError as error:
            LOG.info("the driver polls for new messages: %s", error)
            return False
        return True

    def await_news(self, timeout_ms: int) -> None:
        """Waits for a message in a partition that is watched, or the loss of its reader."""
        self._arrived.wait(timeout_ms / 1000)
