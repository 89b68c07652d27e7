"""Reads that start at the cursor of a subscription."""

from __future__ import annotations

import pulsar
import pytest

from spark_pulsar.connector.micro_batches.offset_planner import OffsetPlanner
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.planning.batch_read import plan_batch
from spark_pulsar.model.errors import ConsumerBusy
from tests.spark.flows import Flows, texts, values


def consume(flows: Flows, topic: str, name: str, count: int) -> None:
    """Acknowledge the first messages of a topic."""
    consumer = flows.official().subscribe(topic, name, initial_position=pulsar.InitialPosition.Earliest)
    for _ in range(count):
        consumer.acknowledge(consumer.receive(30_000))
    consumer.close()


def backlog(flows: Flows, topic: str, name: str) -> int:
    wire = flows.wire()
    [end], [cursor] = wire.end_positions([topic]).values(), wire.cursor_positions([topic], name).values()
    assert end.ledger_id == cursor.ledger_id
    return end.entry_id - cursor.entry_id


def test_batch_and_stream_start_at_the_cursor(flows: Flows) -> None:
    # covers OFFSET-14
    topic = flows.broker.topic("cursor")
    flows.send(topic, texts(10))
    consume(flows, topic, "theirs", 4)
    reader = flows.reader(topic, predefinedSubscription="theirs")
    assert values(reader.load().collect()) == texts(6, 4)
    assert backlog(flows, topic, "theirs") == 6  # a batch read acknowledges nothing
    checkpoint = flows.checkpoint()
    frame = flows.stream(topic, predefinedSubscription="theirs", maxMessagesPerTrigger=4)
    assert [values(batch) for batch in flows.drain(frame, checkpoint)] == [texts(4, 4), texts(2, 8)]
    assert backlog(flows, topic, "theirs") == 0
    flows.send(topic, texts(3, 10))
    consume(flows, topic, "theirs", 2)
    assert [values(batch) for batch in flows.drain(frame, checkpoint)] == [texts(3, 10)]  # a checkpoint wins
    durable = {name for name in flows.subscriptions(topic) if not name.startswith("spark-pulsar-reader-")}
    assert durable == {"theirs"}


def test_a_subscription_that_is_missing_is_made_where_the_query_starts(flows: Flows) -> None:
    # covers OFFSET-14
    topic, wire = flows.broker.topic("missing"), flows.wire()
    flows.send(topic, texts(3))
    base = {"service.url": flows.broker.service_url, "topic": topic}
    end = wire.end_positions([topic])[topic]
    latest = OffsetPlanner(wire, parse_options(base | {"predefinedSubscription": "new"})).initial()
    assert latest.positions[topic][:2] == end.position
    [work] = plan_batch(wire, parse_options(base | {"predefinedSubscription": "other"}))
    assert work.end.entry_id - work.start.entry_id == 3


def test_a_subscription_with_consumers_is_an_error_that_names_the_option(flows: Flows) -> None:
    # covers OFFSET-14
    topic, wire = flows.broker.topic("busy"), flows.wire()
    flows.send(topic, texts(3))
    options = parse_options(
        {"service.url": flows.broker.service_url, "topic": topic, "predefinedSubscription": "theirs"}
    )
    theirs = flows.official().subscribe(topic, "theirs")
    with pytest.raises(ConsumerBusy, match="predefinedSubscription = 'theirs' is in use by others, stop their"):
        plan_batch(wire, options)
    with pytest.raises(ConsumerBusy, match="predefinedSubscription = 'theirs' is in use by others, stop their"):
        OffsetPlanner(wire, options).initial()
    theirs.close()
