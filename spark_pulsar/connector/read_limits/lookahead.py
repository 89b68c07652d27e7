"""Look-ahead from a position: counts messages for exact limits, keeps entries for small micro-batches, reports new
ones.

Positions say nothing about how many messages lie between them, so a limited stream reads forward on the driver, with a
reader for each partition that has something (see `counting`).

The same readers wait at the end of the partitions while a query is idle, so that the broker sends new messages without
a request. The readers keep these, up to a few bytes, for `small_batches`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import OperationTimeout
from spark_pulsar.connector.planning.ranges import TopicRange
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.connector.read_limits.admission import MOST_FOLLOWED, Wanted
from spark_pulsar.connector.read_limits.counting import ArrivedRange, PartitionLookAhead, queued_bytes
from spark_pulsar.connector.read_limits.gathering import Gathering
from spark_pulsar.model.errors import PulsarError, TopicNotFound

LOG: Final = logging.getLogger("spark_pulsar")

_NEXT_ENTRY_MS: Final = 1_000
"""Wait for the entries after a micro-batch, which make a loss of them certain; most are there already."""
_KEPT_BYTES: Final = 1 << 20
"""Entries that are kept of one partition, for the next micro-batch if that is a small one."""


class LookAhead:
    """The readers that count ahead in all partitions of a query.

    With `keeps_entries` they keep the entries that they receive for small micro-batches, while there are few
    partitions.
    """

    def __init__(self, client: PulsarClient, timeout_ms: int, *, keeps_entries: bool = True) -> None:
        self._client = client
        self._keeps_entries = keeps_entries
        self._most_kept_bytes = 0
        self._most_queued_bytes = queued_bytes(1)
        self._timeout_ms = timeout_ms
        self._arrived = threading.Event()
        self._partitions: dict[str, PartitionLookAhead] = {}

    def keep(self, topics: Collection[str]) -> None:
        """Closes the readers of all other topics."""
        for topic in set(self._partitions) - set(topics):
            self._partitions.pop(topic).close()
        self._most_kept_bytes = _KEPT_BYTES if self._keeps_entries and len(topics) <= MOST_FOLLOWED else 0
        self._most_queued_bytes = queued_bytes(len(topics))
        for partition in self._partitions.values():
            partition.most_kept_bytes = self._most_kept_bytes

    def remove(self, topics: Collection[str]) -> None:
        """Closes the readers of topics, and discards their counts: others have taken their place."""
        for topic in self._partitions.keys() & set(topics):
            self._partitions.pop(topic).close()

    def partition(self, topic: str) -> PartitionLookAhead:
        """Returns the reader of a topic partition, made at the first call."""
        if topic not in self._partitions:
            self._partitions[topic] = PartitionLookAhead(self._client, topic, self._arrived)
            self._partitions[topic].most_kept_bytes = self._most_kept_bytes
            self._partitions[topic].most_queued_bytes = self._most_queued_bytes
        return self._partitions[topic]

    def known(self, topic: str) -> PartitionLookAhead | None:
        """Returns the reader of a topic partition, if there is one."""
        return self._partitions.get(topic)

    def gathering(self, end: Mapping[str, ReadPosition]) -> Gathering:
        """Begins to count for one micro-batch, which goes no further than `end`; its time-out begins now."""
        self.keep(end)
        return Gathering(self._client, self.partition, self._arrived, end, self._timeout_ms)

    def next_entries(
        self, position: Mapping[str, ReadPosition], end: Mapping[str, ReadPosition]
    ) -> dict[str, ReadPosition]:
        """Returns the next position to read in each partition whose position lies before `end`: that of an entry that
        exists.

        The first entry of the next ledger settles a position after the last entry of a ledger. Partitions that do not
        send it soon are left out.
        """
        unread = {topic for topic, at in position.items() if at < end[topic]}
        deadline = Deadline(
            min(self._timeout_ms, _NEXT_ENTRY_MS), "waiting for the next entry", self._client.config.service_url
        )
        waiting = list(unread)
        while waiting:
            self._arrived.clear()
            waiting = [t for t in waiting if not self._has_next(t, position[t], end[t], deadline)]
            if waiting and (deadline.passed or not self._arrived.wait(deadline.left_ms() / 1000)):
                break
        following = {topic: self.partition(topic).following(position[topic]) for topic in unread}
        return {topic: at for topic, at in following.items() if at is not None}

    def discard_news(self) -> None:
        """Waits anew: news is what arrives from now on."""
        self._arrived.clear()

    def follow(self, positions: Mapping[str, ReadPosition], timeout_ms: int) -> bool:
        """Attaches a reader at each position; whether the broker now sends what arrives after them."""
        self.keep(positions)
        if not positions:
            return False
        deadline = Deadline(timeout_ms, "following a topic", self._client.config.service_url)
        try:
            for topic, at in positions.items():
                self.partition(topic).follow(at, deadline)
        except PulsarError as error:
            LOG.info("the driver polls for new messages: %s", error)
            return False
        return True

    def await_news(self, timeout_ms: int) -> bool:
        """Waits for a message in a partition that is followed, or the loss of its reader; whether there was one."""
        return self._arrived.wait(timeout_ms / 1000)

    def has_all(
        self, start: Mapping[str, ReadPosition], end: Mapping[str, ReadPosition], most_messages: int, timeout_ms: int
    ) -> bool:
        """Waits for all messages from `start` to `end` in few partitions, if these are `most_messages` at most; returns
        whether all of them are kept. The first entry of each partition shows whether there are many more, so that a
        large backlog is not counted.

        Raises TopicNotFound, OperationTimeout as `PartitionLookAhead.count`.
        """
        begins = {topic: start.get(topic, EARLIEST) for topic, at in end.items() if start.get(topic, EARLIEST) < at}
        self.keep(end)
        deadline = Deadline(timeout_ms, "waiting for the next entry", self._client.config.service_url)
        wanted = Wanted(most_messages + 1)
        if self._estimate(begins, end) > most_messages or not self._await_each(
            begins, deadline, lambda topic: self.partition(topic).begins(begins[topic], deadline)
        ):
            return False
        if self._estimate(begins, end) > most_messages or not self._await_each(
            begins, deadline, lambda topic: self.partition(topic).count(begins[topic], end[topic], wanted, deadline)
        ):
            return False
        return sum(self.partition(topic).counted(at, end[topic]).total for topic, at in begins.items()) <= most_messages

    def _estimate(self, begins: Mapping[str, ReadPosition], end: Mapping[str, ReadPosition]) -> int:
        """Returns about how many messages lie between positions: what is counted is exact."""
        partitions = ((self.partition(topic), at, end[topic]) for topic, at in begins.items())
        return sum(partition.backlog(at, to, partition.counted(at, to)) for partition, at, to in partitions)

    def _await_each(
        self, begins: Mapping[str, ReadPosition], deadline: Deadline, has_arrived: Callable[[str], bool]
    ) -> bool:
        """Waits until something has arrived in each partition; returns whether it has, and all entries are kept."""
        waiting = list(begins)
        while waiting:
            self._arrived.clear()
            waiting = [topic for topic in waiting if not has_arrived(topic)]
            if not all(self.partition(topic).has_kept(at) for topic, at in begins.items()):
                return False
            if waiting and (deadline.passed or not self._arrived.wait(deadline.left_ms() / 1000)):
                return False
        return True

    def arrived_ranges(self, works: Collection[TopicRange]) -> list[ArrivedRange] | None:
        """Returns the entries of each range, None if some are not kept."""
        ranges: list[ArrivedRange] = []
        for work in works:
            known = self._partitions.get(work.topic)
            blocks = None if known is None else known.arrived_range(work)
            if blocks is None:
                return None
            ranges.append(blocks)
        return ranges

    def _has_next(self, topic: str, position: ReadPosition, end: ReadPosition, patience: Deadline) -> bool:
        try:
            return self.partition(topic).count_past(position, end, patience)
        except (TopicNotFound, OperationTimeout):
            return True  # it is left out

    def close(self) -> None:
        """Closes all readers."""
        for partition in self._partitions.values():
            partition.close()
        self._partitions.clear()
