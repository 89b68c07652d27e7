"""Subscription of a query (`subscriptionName`): it mirrors the query's progress, and keeps unread messages; a query
without a name leaves none behind (READ-2).

Its cursor only mirrors the checkpoint, so nothing here fails a query: what the broker refuses is a warning, and the
next micro-batch tries again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.model.errors import PulsarError

LOG: Final = logging.getLogger("spark_pulsar")


class QuerySubscription:
    """Subscription of one query on all its topic partitions; with no `name` there is none, and nothing is done
    (OFFSET-10)."""

    def __init__(self, client: PulsarClient, name: str | None) -> None:
        self._client = client
        self._name = name
        self._there: set[str] = set()
        """Topic partitions that have it."""
        self._acknowledged: dict[str, ReadPosition] = {}

    @property
    def name(self) -> str | None:
        """Name of the subscription; None: there is none."""
        return self._name

    def held_on(self, topics: Collection[str]) -> str | None:
        """Returns the name if all these topic partitions have the subscription, as far as is known; else None."""
        return self._name if self._there.issuperset(topics) else None

    def missing_on(self, topics: Collection[str]) -> set[str]:
        """Returns those of `topics` that lack the subscription, and notes those that have it (OFFSET-21, OFFSET-22). It
        is made nowhere."""
        if self._name is None or not topics:
            return set()
        by_topic = self._client.subscriptions_exist(topics, self._name)
        missing = {topic for topic, exists in by_topic.items() if exists is False}
        self._there -= missing
        self._acknowledged = {topic: at for topic, at in self._acknowledged.items() if topic not in missing}
        self._there.update(topic for topic, exists in by_topic.items() if exists is True)
        return missing

    def made_on(self, topics: Collection[str]) -> None:
        """Notes the topic partitions that have the subscription since the query began."""
        self._there.update(topics)

    def follow(self, topics: Collection[str]) -> None:
        """Makes the subscription on partitions that came while the query runs, so that unread messages are not
        trimmed, and removes those that are gone: one that is made again has none."""
        self._there.intersection_update(topics)
        self._acknowledged = {topic: at for topic, at in self._acknowledged.items() if topic in topics}
        new = sorted(set(topics) - self._there)
        if self._name is None or not new:
            return
        try:
            self._client.ensure_subscription(new, self._name, initial="earliest")
        except PulsarError as error:
            LOG.warning("subscription %s was not made on %s: %s", self._name, ", ".join(new), error)
        else:
            self._there.update(new)

    def acknowledge(self, positions: Mapping[str, ReadPosition]) -> None:
        """Moves the cursor to these positions, where it is not there already (OFFSET-12)."""
        if self._name is None:
            return
        # A topic that was replaced begins anew, before the position that was acknowledged last.
        moved = {topic: at for topic, at in positions.items() if at != self._acknowledged.get(topic, EARLIEST)}
        if not moved:
            return
        try:
            self._client.advance_cursors({topic: at.message_id for topic, at in moved.items()}, self._name)
        except PulsarError as error:
            LOG.warning("subscription %s was not moved: %s", self._name, error)
        else:
            self._acknowledged.update(moved)
            self._there.update(moved)
