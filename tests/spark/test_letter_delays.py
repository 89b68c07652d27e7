"""Delays of retry letters, planned against a broker without a JVM: what is not due is not read, and is no loss."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.connector.micro_batches.offset_planner import OffsetPlanner
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.reading.projection import Projection
from spark_pulsar.connector.reading.range_reading import read_range
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.brokers import Broker

VALUE = Projection(("value",))


class Clock:
    """The driver's clock, moved by hand, in ms."""

    def __init__(self) -> None:
        self.now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def client(broker: Broker) -> Iterator[PulsarClient]:
    with PulsarClient(ClientConfig(service_url=broker.service_url)) as ready:
        yield ready


def options_of(broker: Broker, topic: str, **more: str) -> Options:
    base = {"service.url": broker.service_url, "topic": topic, "subscriptionName": "s", "enableRetry": "true"}
    return parse_options(base | {"startingOffsets": "earliest"} | more)


def planner(client: PulsarClient, options: Options, clock: Clock) -> OffsetPlanner:
    made = OffsetPlanner(client, options)
    made._letters.now_ms = clock
    return made


def publish(client: PulsarClient, topic: str, letters: dict[str, int]) -> None:
    """Store letters with the time of their delivery, 0 for none."""
    with client.publisher(topic) as publisher:
        for value, deliver_at_ms in letters.items():
            metadata = MessageMetadata(publish_time=5)
            if deliver_at_ms:
                metadata.deliver_at_time = deliver_at_ms
            publisher.send(metadata, value.encode())


def read(
    client: PulsarClient, options: Options, planned: OffsetPlanner, start: SourceOffset, end: SourceOffset
) -> list[str]:
    works = [work for task in planned.tasks(start, end) for work in task]
    batches = [batch for work in works for batch in read_range(client, options, work, VALUE)]
    return [value.decode() for batch in batches for value in batch.column(0).to_pylist()]


@pytest.mark.parametrize("most", [None, 2])
def test_letters_wait_until_they_are_due(broker: Broker, client: PulsarClient, most: int | None) -> None:
    # covers LETTER-2, LETTER-3
    topic, clock = broker.topic("retry"), Clock()
    publish(client, topic, {"m": 0})
    options = options_of(broker, topic)
    planned = planner(client, options, clock)
    start = planned.initial()
    end = planned.latest(start, most)
    assert read(client, options, planned, start, end) == ["m"]
    # The retry letter topic comes while the query runs, and is read from its start; its first letter is not due.
    publish(client, f"{topic}-s-RETRY", {"a": 2_000, "b": 1_500, "c": 3_000, "d": 0})
    seen: list[list[str]] = []
    for clock.now_ms in (1_999, 2_000, 2_999, 3_000, 3_001):
        start, end = end, planned.latest(end, most)
        seen.append(read(client, options, planned, start, end))
        restarted = planner(client, options, clock)
        assert read(client, options, restarted, start, end) == seen[-1]  # a replay asks no clock
        assert planned.latest(end, most) is end or most is not None
    assert seen == [[], ["a", "b"], [], ["c", "d"], []]
    assert planned.latest(end, most) is end


def test_available_now_reads_what_is_due_when_it_begins(broker: Broker, client: PulsarClient) -> None:
    # covers LETTER-3
    topic, clock = broker.topic("retry"), Clock()
    publish(client, topic, {"m": 0})
    publish(client, f"{topic}-s-RETRY", {"a": 900, "b": 1_001})
    options = options_of(broker, topic)
    planned = planner(client, options, clock)
    planned.freeze()
    start = planned.initial()
    end = planned.latest(start, None)
    assert read(client, options, planned, start, end) == ["m", "a"]
    clock.now_ms = 5_000
    assert planned.latest(end, None) is end
    again = planner(client, options, clock)
    again.freeze()
    after = again.latest(end, None)
    assert read(client, options, again, end, after) == ["b"]
    assert again.latest(after, None) is after


def test_a_retry_letter_topic_has_partitions_and_a_name(broker: Broker, client: PulsarClient) -> None:
    # covers LETTER-2: `startingOffsets` need not name the partitions of the retry letter topic
    topic, letters, clock = broker.topic("retry"), broker.topic("again", partitions=2), Clock()
    publish(client, topic, {"m": 0})
    publish(client, f"{letters}-partition-1", {"a": 1, "b": 1_001})
    publish(client, f"{letters}-partition-0", {"c": 1_001})
    named = {"retryLetterTopic": letters, "startingOffsets": f'{{"{topic}": "latest"}}'}
    options = options_of(broker, topic, **named)
    planned = planner(client, options, clock)
    start = planned.initial()
    end = planned.latest(start, None)
    assert read(client, options, planned, start, end) == ["a"]
    clock.now_ms += 1
    start, end = end, planned.latest(end, None)
    assert sorted(read(client, options, planned, start, end)) == ["b", "c"]
    assert set(client.cursor_positions([f"{letters}-partition-1"], "s")) == {f"{letters}-partition-1"}
