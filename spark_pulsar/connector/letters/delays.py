"""Delays of retry letters as they are read (a delay that is written is a column, SINK-5): a micro-batch ends before the
first letter of a partition that is not due (LETTER-3).

A retry letter is to be delivered after its delay, which brokers keep for Shared subscriptions only: readers, as Spark's
tasks have them, get it at once (DEL-2). So the driver reads the times of the letters ahead, up to the first that is
not due, and plans no further. Letters are read in order: one with a longer delay holds those behind it until it is due.
The plan is in the offsets, as ever, so that a replay reads the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.clock import wall_ms
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import EndNotReached
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.model.errors import TopicNotFound
from spark_pulsar.model.names import TopicName
from spark_pulsar.wire.entries.delivery_times import delays_in
from spark_pulsar.wire.entries.entry_blocks import EntryBlock
from spark_pulsar.wire.entries.entry_bytes import BROKER_METADATA_MAGIC

LOG: Final = logging.getLogger("spark_pulsar")

_QUEUED_BYTES: Final = 1 << 20
_READ_MS: Final = 2_000
"""Time after which a micro-batch begins with the letters that the driver has read by then."""


@dataclass(slots=True)
class _Partition:
    """Knowledge of one partition: what lies before `due` may be read, `waiting` is the first letter that is not due."""

    due: ReadPosition = EARLIEST
    read_to: ReadPosition = EARLIEST
    waiting: ReadPosition | None = None
    due_at_ms: int = 0


@dataclass(slots=True)
class DelayedLetters:
    """The letters ahead of one query in the retry letter topics `topics` (full names, without partitions)."""

    client: PulsarClient
    topics: frozenset[str]
    timeout_ms: int
    now_ms: Callable[[], int] = wall_ms
    _frozen_ms: int | None = None
    _partitions: dict[str, _Partition] = field(default_factory=dict)

    def freeze(self) -> None:
        """Takes letters that are due now for the only ones that will be (Trigger.AvailableNow)."""
        self._frozen_ms = self.now_ms()

    def due_ends(self, start: Mapping[str, ReadPosition], end: Mapping[str, ReadPosition]) -> dict[str, ReadPosition]:
        """Returns `end`, in retry letter topics before the first letter after `start` that is not due.

        Reads only letters that came since the last call, those of a large backlog in several calls. Raises
        OperationTimeout when the broker does not send any in time.
        """
        if not self.topics:
            return dict(end)
        now_ms = self._frozen_ms if self._frozen_ms is not None else self.now_ms()
        ends = dict(end)
        letters = [topic for topic in end if TopicName.parse(topic).base.full in self.topics]
        self._partitions = {topic: self._partitions.get(topic, _Partition()) for topic in letters}
        for topic in letters:
            if end[topic] < self._partitions[topic].read_to:  # another topic has taken the place of this one
                self._partitions[topic] = _Partition()
            begin = start.get(topic, EARLIEST)
            self._read_letters(topic, begin, end[topic], now_ms)
            ends[topic] = max(begin, self._partitions[topic].due)
        return ends

    @property
    def deliveries_ms(self) -> dict[str, int]:
        """Time of delivery, in ms, of the first letter that is not due in each partition that has one."""
        return {topic: known.due_at_ms for topic, known in self._partitions.items() if known.waiting is not None}

    def _read_letters(self, topic: str, begin: ReadPosition, end: ReadPosition, now_ms: int) -> None:
        """Reads the letters up to `end`, or to the first that is not due."""
        known = self._partitions[topic]
        if known.waiting is not None and known.due_at_ms > now_ms:
            return
        first = max(begin, known.read_to)
        known.waiting = None
        where = self.client.config.service_url
        deadline = Deadline(self.timeout_ms, f"searching for the retry letters of {topic} that are due", where)
        enough = Deadline(min(self.timeout_ms, _READ_MS), deadline.what, where)
        try:
            with self.client.fetch(topic, first.message_id, end.message_id, max_queued_bytes=_QUEUED_BYTES) as fetch:
                while not fetch.finished:
                    block = fetch.next_block_by(deadline)
                    if block is not None:
                        _note_block(known, block, now_ms)
                    elif not fetch.finished:
                        raise deadline.error()
                    if known.waiting is not None or enough.passed:
                        return
        except (EndNotReached, TopicNotFound) as error:
            LOG.info("retry letters of %s are left to the task, which reports the reason: %s", topic, error)
        known.due = known.read_to = end


def _note_block(known: _Partition, block: EntryBlock, now_ms: int) -> None:
    """Takes note of a block's letters up to the first that is not due."""
    for delay in delays_in(block.buffer, _starts(block), block.ends):
        if delay.deliver_at_ms > now_ms:
            known.waiting = ReadPosition(block.ledger_ids[delay.number], block.entry_ids[delay.number])
            known.due_at_ms = delay.deliver_at_ms
            if delay.number:
                known.due = _after(block, delay.number - 1)
            known.read_to = known.waiting
            return
    known.due = known.read_to = _after(block, len(block) - 1)


def _after(block: EntryBlock, index: int) -> ReadPosition:
    return ReadPosition(block.ledger_ids[index], block.entry_ids[index] + 1)


def _starts(block: EntryBlock) -> list[int]:
    """Returns the starts of entries behind what the broker has put in front of them."""
    if not block.buffer.startswith(BROKER_METADATA_MAGIC, block.starts[0]):
        return block.starts
    starts = []
    for start in block.starts:
        has_more = block.buffer.startswith(BROKER_METADATA_MAGIC, start)
        starts.append(start + 6 + int.from_bytes(block.buffer[start + 2 : start + 6]) if has_more else start)
    return starts
