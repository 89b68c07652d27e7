"""Gaps in a range that is read: distinguishes entries that were trimmed from ids that never were a message's (OFFSET-4,
OFFSET-5, OFFSET-7, TXN-7).

Ids have gaps without a loss: ledgers end, and markers of transactions and of replication are never delivered. A broker
trims from the front only. So everything from an entry on is there as long as that entry is; and the broker gets
requests for it only where ids have a gap, which costs nothing in a range of one ledger without markers.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.clock import monotonic_ms
from spark_pulsar.connector.positions import ReadPosition, entries_between
from spark_pulsar.model.errors import TopicNotFound
from spark_pulsar.model.positions.ids import MessageId

if TYPE_CHECKING:
    from spark_pulsar.connector.planning.ranges import TopicRange
    from spark_pulsar.wire.entries.entry_blocks import EntryBlock

_PROVE_AFTER_MS: Final = 1_000
"""Age of a gap after which the entry before it is requested: later it may have been trimmed after it was read."""


class RangeGaps:
    """Gaps of one range while its blocks arrive in order. Sentences about losses, for `report_losses`."""

    def __init__(self, client: PulsarClient, work: TopicRange) -> None:
        self._client = client
        self._work = work
        self._last: ReadPosition | None = None
        self._before_gap: ReadPosition | None = None
        self._seen_ms = 0

    def add(self, block: EntryBlock) -> list[str]:
        """Takes note of the next block; returns the losses that it shows."""
        first = ReadPosition(block.ledger_ids[0], block.entry_ids[0])
        losses = []
        if self._last is None:
            losses += self._front(first)
        elif first[:2] != (self._last.ledger_id, self._last.entry_id + 1):
            self._note(self._last)
        self._last = ReadPosition(block.ledger_ids[-1], block.entry_ids[-1])
        if (self._last.ledger_id, self._last.entry_id - len(block) + 1) != first[:2]:
            self._note(_before_first_gap(block))
        if self._before_gap is not None and monotonic_ms() - self._seen_ms >= _PROVE_AFTER_MS:
            losses += self._prove()
        return losses

    def end(self) -> list[str]:
        """Returns the losses that show when the range has been read."""
        losses = [] if self._last is not None else self._front(None)
        return losses + self._prove()

    def reaches_end(self) -> bool:
        """Returns whether the last entry before the end is there, though nothing of its ledger came: markers only."""
        end = self._work.end
        return self._is_there(end._replace(entry_id=end.entry_id - (0 if end.batch_index else 1)))

    def _front(self, first: ReadPosition | None) -> list[str]:
        start, known_end = self._work.start, self._work.known_end
        if known_end is None or (first is not None and first[:2] == start[:2]) or self._is_there(start):
            return []
        count = entries_between(start, known_end if first is None else min(first, known_end))
        then = f"the first that is left is {first}" if first is not None else f"nothing is left before {self._work.end}"
        return [
            f"{self._work.topic}: at least {count} entries from {start} on were removed from the broker before they "
            f"were read, or the topic was deleted and made again; {then}"
        ]

    def _note(self, before_gap: ReadPosition) -> None:
        if self._before_gap is None:
            self._before_gap, self._seen_ms = before_gap, monotonic_ms()

    def _prove(self) -> list[str]:
        before_gap, self._before_gap = self._before_gap, None
        if before_gap is None or self._is_there(before_gap):
            return []
        return [
            f"{self._work.topic}: entries after {before_gap} were removed from the broker while they were read, "
            "some may be missing"
        ]

    def _is_there(self, entry: ReadPosition) -> bool:
        """Returns whether an entry is there, also if it is of an aborted transaction, which a broker may pass over. A
        ledger goes as a whole, and never before those in front of it."""
        wanted = entry._replace(batch_index=0).message_id
        at = self._first_available(wanted)
        if at is None or at.position <= wanted.position or at.ledger_id == wanted.ledger_id:
            return at is not None
        front = self._first_available(MessageId(-1, -1))
        return front is not None and front.position <= wanted.position

    def _first_available(self, wanted: MessageId) -> MessageId | None:
        topic = self._work.topic
        at = self._client.first_available({topic: wanted})[topic]
        return None if isinstance(at, TopicNotFound) else at


def _before_first_gap(block: EntryBlock) -> ReadPosition:
    ids = list(zip(block.ledger_ids, block.entry_ids, strict=True))
    return next(ReadPosition(*entry) for entry, after in pairwise(ids) if after != (entry[0], entry[1] + 1))
