"""Offsets of a query against a broker that the test plays: what falls between two questions."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.errors import OperationTimeout
from spark_pulsar.connector.errors import DataLossError
from spark_pulsar.connector.micro_batches.offset_planner import OffsetPlanner
from spark_pulsar.connector.micro_batches.small_batches import SmallBatches
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.connector.reading.projection import Projection
from spark_pulsar.model.errors import TopicNotFound
from spark_pulsar.model.positions.ids import MessageId, Position
from spark_pulsar.wire.protocol.commands import last_message_id, partition_metadata, success, topics_of_namespace
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.unit.client.peer import Caller, Peer, message

KEPT, GONE = "persistent://public/default/kept", "persistent://public/default/gone"


@pytest.fixture
def peer() -> Iterator[Peer]:
    """A broker that knows partitions of both topics, and then only one of them."""
    one = Peer()
    one.last = MessageId(1, 9)

    def subscribed(caller: Caller, command: BaseCommand, _: bytes) -> None:
        if command.subscribe.topic in (GONE, f"{KEPT}-partition-7"):
            caller.refuse(command, TopicNotFound("no such topic"))
        else:
            caller.send(success(command.subscribe.request_id))

    one.handlers[BaseCommand.SUBSCRIBE] = subscribed
    yield one
    one.close()


def test_a_topic_deleted_between_its_partitions_and_its_end(peer: Peer, client: PulsarClient) -> None:
    base = {"service.url": peer.url, "topics": f"{KEPT},{GONE}"}
    start = SourceOffset({KEPT: ReadPosition(1, 5), GONE: ReadPosition(1, 7)})
    strict = OffsetPlanner(client, parse_options(base))
    with pytest.raises(DataLossError, match=f"{GONE} no longer exists.* read up to 1:7:0. Set failOnDataLoss"):
        strict.latest(start, None)
    with pytest.raises(TopicNotFound, match=f"topic {GONE} not found"):
        strict.latest(SourceOffset({KEPT: ReadPosition(1, 5)}), None)
    tolerant = OffsetPlanner(client, parse_options(base | {"failOnDataLoss": "false"}))
    assert tolerant.latest(start, None).positions == {KEPT: ReadPosition(1, 10)}


def test_a_partition_that_is_named_must_exist_whatever_others_there_are(peer: Peer, client: PulsarClient) -> None:
    named = [f"{KEPT}-partition-{index}" for index in (0, 7)]
    peer.answer(
        BaseCommand.PARTITIONED_METADATA,
        lambda asked: partition_metadata(asked.request_id, 8 if asked.topic == KEPT else 0),
    )
    peer.answer(BaseCommand.FLOW, lambda asked: message(asked.consumer_id, MessageId(1, 0)))
    start = SourceOffset({named[0]: ReadPosition(1, 5)})
    base = {"service.url": peer.url}
    both = OffsetPlanner(client, parse_options(base | {"topics": ",".join(named)}))
    with pytest.raises(TopicNotFound, match=f"topic {named[1]} not found"):
        both.latest(start, None)
    # One of a topic's own partitions may be on its way: partitions are being added.
    whole = OffsetPlanner(client, parse_options(base | {"topic": KEPT}))
    assert named[1] not in whole.latest(start, None).positions


def test_first_entries_that_do_not_come_are_an_error_in_time(peer: Peer, client: PulsarClient) -> None:
    peer.answer(BaseCommand.PARTITIONED_METADATA, lambda asked: partition_metadata(asked.request_id, 7))
    base = {"service.url": peer.url, "topic": KEPT, "startingOffsets": "earliest", "operationTimeoutMs": "400"}
    planner = OffsetPlanner(client, parse_options(base))
    begun = time.monotonic()
    with pytest.raises(OperationTimeout, match=r"first entries of .*-0 and 6 more .*set by operationTimeoutMs"):
        planner.latest(planner.initial(), None)
    assert time.monotonic() - begun < 5


def test_topics_that_vanish_from_a_pattern_are_forgotten(peer: Peer, client: PulsarClient) -> None:
    listed = [KEPT, f"{KEPT}-too"]
    peer.answer(BaseCommand.GET_TOPICS_OF_NAMESPACE, lambda asked: topics_of_namespace(asked.request_id, listed, ""))
    peer.last = MessageId(-1, -1)
    options = {"service.url": peer.url, "topicsPattern": "kept.*", "failOnDataLoss": "false"}

    def looked_up() -> int:
        return sum(1 for command in peer.of(BaseCommand.LOOKUP) if command.lookupTopic.topic == f"{KEPT}-too")

    planner = OffsetPlanner(client, parse_options(options))
    end = planner.latest(SourceOffset({}), None)
    assert set(end.positions) == set(listed)
    reader = next(one.subscribe for one in peer.of(BaseCommand.SUBSCRIBE) if one.subscribe.topic == f"{KEPT}-too")
    listed.pop()
    end = planner.latest(end, None)
    [closed] = peer.wait_for(BaseCommand.CLOSE_CONSUMER)
    assert closed.close_consumer.consumer_id == reader.consumer_id
    assert looked_up() == 1
    listed.append(f"{KEPT}-too")
    assert set(planner.latest(end, None).positions) == set(listed)
    assert looked_up() == 2
    planner.close()


def test_a_topic_made_again_gets_its_subscription_at_once(peer: Peer, client: PulsarClient) -> None:
    topics = [KEPT, f"{KEPT}-too"]
    gone: set[str] = set()

    def subscribed(caller: Caller, command: BaseCommand, _: bytes) -> None:
        if command.subscribe.topic in gone:
            caller.refuse(command, TopicNotFound("no such topic"))
        else:
            caller.send(success(command.subscribe.request_id))

    peer.handlers[BaseCommand.SUBSCRIBE] = subscribed
    options = {"service.url": peer.url, "topics": ",".join(topics), "failOnDataLoss": "false", "subscriptionName": "s"}

    def made() -> int:
        wanted = [command.subscribe for command in peer.of(BaseCommand.SUBSCRIBE)]
        return sum(1 for one in wanted if one.topic == topics[1] and one.subscription == "s")

    peer.last = MessageId(-1, -1)
    at = SourceOffset(dict.fromkeys(topics, EARLIEST))
    planner = OffsetPlanner(client, parse_options(options))
    assert planner.latest(at, None) is at
    assert made() == 1
    gone.update(topics)
    for caller in peer.callers:
        caller.close()
    left = planner.latest(at, None)
    assert left.positions == {}
    gone.clear()
    planner.latest(left, None)
    assert made() == 2
    planner.close()


def test_the_rows_of_a_topic_made_again_are_not_those_of_the_old_one(peer: Peer, client: PulsarClient) -> None:
    topics = [f"{KEPT}-{name}" for name in "abc"]
    readers: dict[tuple[int, int], tuple[str, int]] = {}
    last = {topics[0]: MessageId(7, 1)}

    def subscribed(caller: Caller, command: BaseCommand, _: bytes) -> None:
        request = command.subscribe
        if request.topic in last:
            readers[(caller.number, request.consumer_id)] = (request.topic, last[request.topic].ledger_id)
            caller.send(success(request.request_id))
        else:
            caller.refuse(command, TopicNotFound("no such topic"))

    def two_messages(caller: Caller, command: BaseCommand, _: bytes) -> None:
        consumer_id = command.flow.consumer_id
        _, ledger_id = readers[(caller.number, consumer_id)]
        caller.send(*[message(consumer_id, MessageId(ledger_id, number)) for number in range(2)])

    def last_id(caller: Caller, command: BaseCommand, _: bytes) -> None:
        topic, _ledger_id = readers[(caller.number, command.getLastMessageId.consumer_id)]
        caller.send(last_message_id(command.getLastMessageId.request_id, last[topic], Position(-1, -1)))

    peer.handlers |= {
        BaseCommand.SUBSCRIBE: subscribed,
        BaseCommand.FLOW: two_messages,
        BaseCommand.GET_LAST_MESSAGE_ID: last_id,
    }
    base = {"service.url": peer.url, "topics": ",".join(topics), "waitingForNonExistedTopic": "true"}
    options = parse_options(base | {"failOnDataLoss": "false"})
    planner = OffsetPlanner(client, options, SmallBatches(client, options, Projection(("value",))))
    at = SourceOffset({})
    end = planner.latest(at, None)
    [works] = planner.tasks(at, end)
    assert sum(batch.num_rows for batch in planner.rows(works, end) or []) == 2
    last.update(dict.fromkeys(topics, MessageId(1, 1)))  # on a broker that began anew
    newer = planner.latest(end, None)
    tasks = planner.tasks(end, newer)
    assert [work.topic for works in tasks for work in works] == topics
    rows = planner.rows(tasks[0], newer)
    assert rows is None or sum(batch.num_rows for batch in rows) == 6
    planner.close()
