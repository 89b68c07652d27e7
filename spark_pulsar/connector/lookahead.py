"""Counting messages ahead of a position, for exact row limits.

Positions say nothing about how many messages lie between them, so a limited stream reads forward on the driver: a
non-durable reader for each partition that looks at the metadata of entries only. What was counted is kept, as three
numbers an entry, until the query has passed it; so each entry is looked at once, and no further than the limit asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.fetch import Fetch
from spark_pulsar.connector.admission import advance, share
from spark_pulsar.connector.blocks import count_messages
from spark_pulsar.connector.offsets import EARLIEST, ReadPosition
from spark_pulsar.model.ids import MessageId

_QUEUED_BYTES = 1 << 20
"""Entries that may wait unread for one partition: little, for a small limit must not pull in a large backlog."""


class PartitionLookAhead:
    """Message counts of the entries ahead in one topic partition."""

    def __init__(self, client: PulsarClient, topic: str, timeout_ms: int) -> None:
        self._client = client
        self._topic = topic
        self._timeout_ms = timeout_ms
        self._fetch: Fetch | None = None
        self._entries: deque[tuple[int, int, int]] = deque()
        self._counted = 0
        self._frontier = EARLIEST
        self._seen_entries = 0
        self._seen_messages = 0

    def close(self) -> None:
        """Give up the reader; counts are forgotten."""
        if self._fetch is not None:
            self._fetch.close()
        self._fetch = None
        self._entries.clear()
        self._counted = 0

    def backlog(self, start: ReadPosition, end: ReadPosition) -> int:
        """Messages from `start` to `end`: counted as far as was looked, estimated by number of entries beyond."""
        if start >= end:
            return 0
        self._drop_before(start)
        ahead = self._counted_between(start, end)
        frontier = max(self._frontier if self._fetch is not None else EARLIEST, start)
        if frontier >= end:
            return max(ahead, 1)
        entries = end.entry_id - (frontier.entry_id if frontier.ledger_id == end.ledger_id else 0)
        entries += 1 if end.batch_index else 0
        per_entry = self._seen_messages / self._seen_entries if self._seen_entries else 1.0
        return max(ahead + int(entries * per_entry), 1)

    def take(self, start: ReadPosition, end: ReadPosition, grant: int) -> tuple[ReadPosition, int]:
        """The position `grant` messages after `start`, at most `end`, and how many messages lie before it."""
        self._look(start, end, grant)
        position, taken = advance(start, self._entries, grant)
        if taken < grant or position >= end:
            # Everything up to the end fits, or what is missing can no longer be counted: then the range is taken whole.
            return end, self._counted_between(start, end)
        return position, taken

    def _look(self, start: ReadPosition, end: ReadPosition, grant: int) -> None:
        self._drop_before(start)
        if self._fetch is None or self._frontier[:2] < start[:2]:
            self.close()
            entry = MessageId(start.ledger_id, start.entry_id, -1, -1)
            self._fetch = self._client.fetch(self._topic, entry, max_queued_bytes=_QUEUED_BYTES)
            self._frontier = ReadPosition(start.ledger_id, start.entry_id)
        while self._frontier < end and self._counted - start.batch_index < grant:
            block = self._fetch.next_block(self._timeout_ms)
            if block is None:
                return
            counts = count_messages(block)
            self._entries.extend(zip(block.ledger_ids, block.entry_ids, counts, strict=True))
            messages = sum(counts)
            self._counted += messages
            self._seen_entries += len(block)
            self._seen_messages += messages
            self._frontier = ReadPosition(block.ledger_ids[-1], block.entry_ids[-1] + 1)

    def _drop_before(self, start: ReadPosition) -> None:
        entries = self._entries
        while entries and entries[0][:2] < start[:2]:
            self._counted -= entries.popleft()[2]

    def _counted_between(self, start: ReadPosition, end: ReadPosition) -> int:
        if self._frontier <= end:
            inside = bool(self._entries) and self._entries[0][:2] == start[:2]
            return self._counted - (start.batch_index if inside else 0)
        total = 0
        for ledger_id, entry_id, count in self._entries:
            if (ledger_id, entry_id) < start[:2]:
                continue
            if (ledger_id, entry_id, 0) >= end:
                break
            stop = min(count, end.batch_index) if (ledger_id, entry_id) == end[:2] else count
            first = start.batch_index if (ledger_id, entry_id) == start[:2] else 0
            total += max(stop - first, 0)
        return total


class LookAhead:
    """Row limits for all partitions of a query."""

    def __init__(self, client: PulsarClient, timeout_ms: int) -> None:
        self._client = client
        self._timeout_ms = timeout_ms
        self._partitions: dict[str, PartitionLookAhead] = {}

    def limit(
        self, start: Mapping[str, ReadPosition], end: Mapping[str, ReadPosition], max_messages: int
    ) -> dict[str, ReadPosition]:
        """Ends for the next micro-batch: from `start` towards `end`, with at most `max_messages` messages in all.

        Partitions that only `end` knows start at their beginning. What a partition leaves of its share goes to the
        others.
        """
        for topic in set(self._partitions) - set(end):
            self._partitions.pop(topic).close()
        position = {topic: start.get(topic, EARLIEST) for topic in end}
        left, first_round = max_messages, True
        while left > 0:
            backlogs = {topic: self._of(topic).backlog(position[topic], end[topic]) for topic in end}
            grants = share(left, backlogs)
            if not grants:
                break
            for topic in sorted(grants):
                if left <= 0 and not first_round:
                    break
                position[topic], taken = self._of(topic).take(position[topic], end[topic], grants[topic])
                left -= taken
            first_round = False
        return position

    def close(self) -> None:
        """Give up all readers."""
        for partition in self._partitions.values():
            partition.close()
        self._partitions.clear()

    def _of(self, topic: str) -> PartitionLookAhead:
        if topic not in self._partitions:
            self._partitions[topic] = PartitionLookAhead(self._client, topic, self._timeout_ms)
        return self._partitions[topic]
