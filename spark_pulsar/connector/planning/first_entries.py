"""First entries of ranges: what there is at, or first after, a start that may not be the position of an entry.

The start of a topic, and the end of a ledger that was read to its end, say nothing about what comes next. What did come
next is requested once, when a range is planned, and noted in the offset or the range: if it is gone when the range is
read, or read again, that is a loss for certain. It costs a reader for each partition, only at the start of a query, for
new partitions, and where a range crosses into another ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import EndNotReached
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.planning.ranges import TopicRange
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.model.errors import TopicNotFound
from spark_pulsar.model.fingerprints import Fingerprint
from spark_pulsar.model.positions.ids import MessageId

_AT_ONCE: Final = 8
"""Readers that are attached at the same time, on one connection to each broker, to find what is not sent at once."""
_PATIENCE_MS: Final = 1_000
_PATIENCE_EACH_MS: Final = 2
"""Wait for the first entries of many ranges, and what each range adds to it."""


def first_entries(client: PulsarClient, ranges: Sequence[TopicRange], timeout_ms: int) -> dict[str, ReadPosition]:
    """Returns the first entry of each range whose start says nothing about it (`known_end` is None).

    A range without any, or whose topic was deleted, is not in the answer: its task reports that. The driver requests it
    anew for each range; an answer holds for the offset that it is noted in. Raises OperationTimeout when the broker has
    not sent all of them after `timeout_ms`: a range without its first entry could lose it without a word.
    """
    unknown = [work for work in ranges if work.known_end is None]
    if not unknown:
        return {}
    deadline = Deadline(timeout_ms, f"searching for the first entries of {_topics(unknown)}", client.config.service_url)
    first = _sent_entries(client, unknown, timeout_ms) if len(unknown) > _AT_ONCE else {}
    left = [work for work in unknown if work.topic not in first]
    if len(left) == 1:
        positions = [_first_entry(client, left[0], deadline)]
    else:
        with ThreadPoolExecutor(_AT_ONCE, "first-entries") as readers:
            positions = list(readers.map(lambda work: _first_entry(client, work, deadline), left))
    return first | {work.topic: at for work, at in zip(left, positions, strict=True) if at is not None}


def _sent_entries(client: PulsarClient, ranges: Sequence[TopicRange], timeout_ms: int) -> dict[str, ReadPosition]:
    """Returns the first entries of many ranges, as far as the broker sends them soon: by readers that are all attached
    before the first is waited for."""
    starts = {work.topic: MessageId(work.start.ledger_id, work.start.entry_id, -1, -1) for work in ranges}
    patience_ms = min(timeout_ms // 2, _PATIENCE_MS + _PATIENCE_EACH_MS * len(ranges))
    entries = client.fingerprints(starts, patience_ms)
    first: dict[str, ReadPosition] = {}
    for work in ranges:
        entry = entries[work.topic]
        if isinstance(entry, Fingerprint) and work.start[:2] <= entry[:2] and ReadPosition(*entry[:2]) < work.end:
            first[work.topic] = work.start if entry[:2] == work.start[:2] else ReadPosition(*entry[:2])
    return first


def _topics(ranges: Sequence[TopicRange]) -> str:
    more = f" and {len(ranges) - 1} more" if len(ranges) > 1 else ""
    return f"{ranges[0].topic}{more}"


def _first_entry(client: PulsarClient, work: TopicRange, deadline: Deadline) -> ReadPosition | None:
    try:
        with client.fetch(
            work.topic, work.start.message_id, work.end.message_id, max_queued_bytes=1, is_shared=True
        ) as fetch:
            block = fetch.next_block_by(deadline)
            if block is None and not fetch.finished:
                raise deadline.error()
    except (EndNotReached, TopicNotFound):
        return None
    if block is None:
        return None
    entry = ReadPosition(block.ledger_ids[0], block.entry_ids[0])
    return work.start if entry[:2] == work.start[:2] else entry


def beginning_at(ranges: Sequence[TopicRange], first: Mapping[str, ReadPosition]) -> list[TopicRange]:
    """Returns the ranges, those in `first` beginning at their first entry."""
    return [
        replace(work, start=first[work.topic], known_end=work.end) if work.topic in first else work for work in ranges
    ]


def passed_over(
    client: PulsarClient, ranges: Sequence[TopicRange], first: Mapping[str, ReadPosition]
) -> dict[str, ReadPosition]:
    """Returns the first entries of those ranges of `ranges` whose start is a position of a ledger that is gone.

    Where the ledger of a start has ended there, both it and one that was trimmed are followed by the first entry of
    another. The entry before the start distinguishes the two, as long as it is there.
    """
    jumped = [
        work
        for work in ranges
        if work.topic in first and work.start != EARLIEST and first[work.topic].ledger_id != work.start.ledger_id
    ]
    before = {
        work.topic: work.start._replace(entry_id=max(work.start.entry_id - 1, 0), batch_index=0).message_id
        for work in jumped
    }
    there = client.first_available(before) if before else {}
    return {
        work.topic: first[work.topic]
        for work in jumped
        if isinstance(at := there[work.topic], TopicNotFound) or at.position > before[work.topic].position
    }


def named_starts_gone(
    client: PulsarClient, options: Options, ranges: Sequence[TopicRange], first: Mapping[str, ReadPosition]
) -> list[str]:
    """Losses between the positions that the user named and what there is (OFFSET-9)."""
    if not isinstance(options.starting_offsets, Mapping):
        return []
    starts = {work.topic: work.start for work in ranges}
    return [
        f"startingOffsets of {topic} ({starts[topic]}) is in a ledger that is gone; the first entry after it is {at}"
        for topic, at in passed_over(client, ranges, first).items()
    ]
