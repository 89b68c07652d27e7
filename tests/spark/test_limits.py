"""Limits of a micro-batch by rows and bytes, and the least that it waits for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.micro_batches.offset_planner import OffsetPlanner
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.reading.projection import Projection
from spark_pulsar.connector.reading.range_reading import read_range
from tests.spark.flows import BATCHED, Flows, texts, values

VALUE = Projection(("value",))


class Run:
    """One run of a query without Spark, limited by its options."""

    def __init__(self, flows: Flows, topic: str, **options: Any) -> None:
        self.client: PulsarClient = flows.wire()
        base = {"service.url": flows.broker.service_url, "topic": topic, "startingOffsets": "earliest"}
        self.options: Options = parse_options(base | {name: str(value) for name, value in options.items()})
        self.planner = OffsetPlanner(self.client, self.options)
        self.at = self.planner.initial()

    def next(self) -> list[str]:
        """Rows of the next micro-batch; none if it is held back, or there is nothing."""
        limits = self.options
        most = limits.max_messages_per_trigger, limits.max_bytes_per_trigger
        start, end = self.at, self.planner.latest(self.at, *most, limits.min_messages_per_trigger)
        self.at = end if end is start else SourceOffset.from_json(json.loads(json.dumps(end.to_json())))
        rows = []
        for work in (work for task in self.planner.tasks(start, self.at) for work in task):
            for batch in read_range(self.client, self.options, work, VALUE):
                rows += [value.decode() for value in batch.column(0).to_pylist()]
        return rows


def test_bytes_of_stored_entries(flows: Flows) -> None:
    # covers READ-16
    topic = flows.broker.topic("bytes")
    flows.send(topic, [letter * 1_000 for letter in "abcdefgh"])
    run = Run(flows, topic, maxBytesPerTrigger=2_500)  # metadata are some 40 bytes
    assert [[row[0] for row in run.next()] for _ in range(5)] == [["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"], []]
    small = Run(flows, topic, maxBytesPerTrigger=10)
    assert [len(small.next()) for _ in range(8)] == [1] * 8
    assert len(Run(flows, topic, maxBytesPerTrigger=0).next()) == 8


def test_rows_and_bytes_hold_together_inside_batches_too(flows: Flows) -> None:
    # covers READ-16
    topic = flows.broker.topic("both")
    flows.send(topic, [text.ljust(990) for text in texts(30)], **BATCHED)  # three entries of ten
    by_bytes = Run(flows, topic, maxBytesPerTrigger=4_500, maxMessagesPerTrigger=99)
    sizes = [len(by_bytes.next()) for _ in range(8)]
    assert sum(sizes) == 30
    assert set(sizes[:-1]) == {4}
    by_rows = Run(flows, topic, maxBytesPerTrigger=4_500, maxMessagesPerTrigger=3)
    assert [len(by_rows.next()) for _ in range(11)] == [3] * 10 + [0]


def test_a_chunked_message_has_the_bytes_of_all_its_chunks(flows: Flows) -> None:
    # covers READ-16
    topic = flows.broker.topic("chunked")
    size = 12 << 20
    flows.send(topic, ["a", "b" * size, "c", "d"], chunking_enabled=True, batching_enabled=False)
    run = Run(flows, topic, maxBytesPerTrigger=size)
    assert [[row[0] for row in run.next()] for _ in range(4)] == [["a"], ["b"], ["c", "d"], []]


def test_a_micro_batch_waits_for_the_least_but_not_for_ever(flows: Flows, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers READ-17
    topic, now_ms = flows.broker.topic("least"), 1_000_000
    monkeypatch.setattr("spark_pulsar.connector.micro_batches.polling.monotonic_ms", lambda: now_ms)
    flows.send(topic, texts(2))
    run = Run(flows, topic, minMessagesPerTrigger=5, maxTriggerDelay="10s", maxMessagesPerTrigger=6)
    assert run.next() == texts(2)  # the first of a run does not wait
    flows.send(topic, texts(4, 2), **BATCHED)
    assert run.next() == []
    assert run.planner.report()["lag"]["entries"] == 1  # type: ignore[index]
    now_ms += 9_999
    assert run.next() == []
    flows.send(topic, texts(4, 6))
    assert run.next() == texts(6, 2)  # eight are enough, six the most
    assert run.next() == []
    now_ms += 10_000
    assert run.next() == texts(2, 8)
    now_ms += 10_000
    assert run.next() == []  # there was nothing, and the time begins anew
    flows.send(topic, texts(1, 10))
    assert run.next() == []
    run.planner.freeze()
    assert run.next() == texts(1, 10)


def test_limits_of_a_query(flows: Flows) -> None:
    # covers READ-16, READ-17
    topic = flows.broker.topic("query")
    flows.send(topic, [text.ljust(1_000) for text in texts(10)])
    frame = flows.stream(topic, maxBytesPerTrigger=4_500, minMessagesPerTrigger=100, maxTriggerDelay="1h")
    batches = flows.drain(frame, flows.checkpoint())
    assert [[value.strip() for value in values(batch)] for batch in batches] == [texts(4), texts(4, 4), texts(2, 8)]
    [all_at_once] = flows.drain(flows.stream(topic, minMessagesPerTrigger=100), flows.checkpoint())
    assert len(all_at_once) == 10
