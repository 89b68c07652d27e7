"""Sequence ids that a target that de-duplicates knows of the producers of its source (MOVE-5)."""

from __future__ import annotations

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.copying.stored_entries import StoredEntry


class Sequences:
    """The last sequence id of each producer name, requested from the target where it is not empty."""

    def __init__(self, target: PulsarClient, topic: str, *, is_empty: bool) -> None:
        self._target = target
        self._topic = topic
        self._is_empty = is_empty
        self._last: dict[str, int] = {}

    def rises(self, entry: StoredEntry) -> bool:
        """Returns whether an entry is above the last sequence id of its producer, which it is then."""
        last = self._last.get(entry.producer_name)
        if last is None:
            last = self._known(entry.producer_name)
        self._last[entry.producer_name] = max(last, entry.highest_sequence_id or entry.sequence_id)
        return entry.sequence_id > last

    def _known(self, producer_name: str) -> int:
        if self._is_empty:
            return -1
        with self._target.entry_publisher(self._topic, producer_name) as producer:
            return producer.last_sequence_id
