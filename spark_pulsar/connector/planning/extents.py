"""Extents of ranges that were not counted: how many entries they have in each ledger, and about how many messages.

Entries of one ledger follow one another, so a range inside one is arithmetic. The broker reports the sizes of ledgers
in between, from the last one backwards: a reader that is moved to the first entry of a ledger stands behind the last
one of the ledger before. Messages are estimated by samples of entries at three places of a range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import EndNotReached, OperationTimeout
from spark_pulsar.connector.planning.ranges import TopicRange
from spark_pulsar.connector.planning.splitting import Extents
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.model.errors import TopicNotFound
from spark_pulsar.model.positions.ids import MessageId
from spark_pulsar.wire.entries.entry_blocks import message_count_of

_MOST_LEDGERS: Final = 1_000
"""Ledgers of a range whose sizes are requested; what lies before them is left to the first task."""
_MOST_SAMPLED: Final = 16
"""Ranges of which samples are taken; the others are taken to be like them."""
_SAMPLED_ENTRIES: Final = 200
_AT_ONCE: Final = 8

Spans = list[tuple[int, int, int]]
"""Ledger, first entry and number of entries, in order."""


def measured_extents(
    client: PulsarClient, ranges: Sequence[TopicRange], timeout_ms: int, *, in_messages: bool
) -> dict[str, Extents]:
    """Returns the extents of ranges that begin at an entry; in entries, or in messages as far as samples show them.

    A range whose topic is gone is not in the answer. Extents that are not known when half of `timeout_ms` is over are
    left out.
    """
    deadline = Deadline(timeout_ms // 2, "requesting the sizes of ledgers", client.config.service_url)
    spans = _spans(client, [work for work in ranges if work.start != EARLIEST], deadline)
    per_entry: Mapping[str, float] = {}
    if in_messages:
        per_entry = _messages_per_entry(client, [work for work in ranges if work.topic in spans], spans, deadline)
    return {
        topic: _extents(topic_spans, per_entry.get(topic, 1.0)) for topic, topic_spans in spans.items() if topic_spans
    }


def _extents(spans: Spans, per_entry: float) -> Extents:
    import numpy as np

    ledgers, firsts, entries = (np.array(column, np.int64) for column in zip(*spans, strict=True))
    messages = np.maximum((entries * per_entry).astype(np.int64), np.minimum(entries, 1))
    return Extents(ledgers, firsts, entries, messages, is_exact=False)


def _spans(client: PulsarClient, ranges: Sequence[TopicRange], deadline: Deadline) -> dict[str, Spans]:
    spans: dict[str, Spans] = {}
    for work in ranges:
        first = work.start.entry_id if work.start.ledger_id == work.end.ledger_id else 0
        entries = work.end.entry_id + (1 if work.end.batch_index else 0) - first
        spans[work.topic] = [(work.end.ledger_id, first, entries)] if entries > 0 else []
    starts = {work.topic: work.start for work in ranges}
    ledger = {work.topic: work.end.ledger_id for work in ranges if work.start.ledger_id < work.end.ledger_id}
    for _ in range(_MOST_LEDGERS):
        if not ledger or deadline.passed:
            break
        firsts = {topic: MessageId(ledger_id, 0) for topic, ledger_id in ledger.items()}
        for topic, at in client.first_available(firsts).items():
            start, before = starts[topic], ledger.pop(topic)
            if isinstance(at, TopicNotFound):
                del spans[topic]
                continue
            if not start.ledger_id <= at.ledger_id < before:
                continue  # nothing of the range is there before
            first = start.entry_id if at.ledger_id == start.ledger_id else 0
            if at.entry_id > first:
                spans[topic].insert(0, (at.ledger_id, first, at.entry_id - first))
            if at.ledger_id > start.ledger_id:
                ledger[topic] = at.ledger_id
    return spans


def _messages_per_entry(
    client: PulsarClient, ranges: Sequence[TopicRange], spans: Mapping[str, Spans], deadline: Deadline
) -> dict[str, float]:
    """Returns the messages of an entry, the largest average of the samples."""
    every = max(-(-len(ranges) // _MOST_SAMPLED), 1)
    places = [
        (work, place)
        for work in ranges[::every]
        for place in dict.fromkeys(_place(spans[work.topic], third) for third in range(3) if spans[work.topic])
    ]
    if not places:
        return {}
    with ThreadPoolExecutor(min(_AT_ONCE, len(places)), "samples") as readers:
        averages = list(readers.map(lambda one: _sample(client, one[0], one[1], deadline), places))
    by_topic: dict[str, float] = {}
    for (work, _), average in zip(places, averages, strict=True):
        by_topic[work.topic] = max(by_topic.get(work.topic, 1.0), average)
    return {work.topic: by_topic.get(work.topic, max(by_topic.values())) for work in ranges}


def _place(spans: Spans, third: int) -> ReadPosition:
    """Returns the first entry, the one in the middle, or one near the end."""
    entries = [span[2] for span in spans]
    wanted = (0, sum(entries) // 2, max(sum(entries) - _SAMPLED_ENTRIES, 0))[third]
    for (ledger_id, first, _), count in zip(spans, entries, strict=True):
        if wanted < count:
            return ReadPosition(ledger_id, first + wanted)
        wanted -= count
    raise AssertionError("beyond the end")


def _sample(client: PulsarClient, work: TopicRange, place: ReadPosition, deadline: Deadline) -> float:
    """Returns the messages of an entry, on average of those that come first at a place."""
    try:
        with client.fetch(work.topic, place.message_id, work.end.message_id, max_queued_bytes=1) as fetch:
            block = fetch.next_block_by(deadline)
    except (EndNotReached, TopicNotFound, OperationTimeout):
        return 1.0
    if block is None:
        return 1.0
    count = min(len(block), _SAMPLED_ENTRIES)
    return sum(message_count_of(block, index) for index in range(count)) / count
