"""A disk that takes no more: producers wait, consumers go on (DUR-10)."""

from collections.abc import Callable

from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.topic_log import disk_full
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.broker.turn.events import DiskFull, EntriesLost, Requested
from spark_pulsar.model.errors import ServiceNotReady
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import LATEST_ID, MessageId, Position
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, ServerError
from tests.unit.broker.world import TOPIC, Client, World, entry, producing


def with_one_entry() -> tuple[World, Client]:
    """A client that publishes and consumes, after its first entry."""
    world, client = producing()
    client.open_consumer(permits=10)
    client.store(1, entry("a"), first=0)
    return world, client


def test_producers_are_sent_away_and_come_back_when_there_is_space() -> None:
    # covers DUR-10
    world, client = with_one_entry()
    world.happen([DiskFull("No space left on device")])
    assert client.expect(BaseCommand.CLOSE_PRODUCER).producer_id == 1
    client.publish(1, entry("b"), first=1)  # was under way: dropped, its client sends it again
    assert client.take_all() == []
    refused = client.request(requests.producer(client.request_id(), TOPIC, 2), BaseCommand.ERROR)
    assert refused.error == ServerError.ServiceNotReady
    assert "No space left" in refused.message
    # An acknowledgement frees space: it is taken.
    client.request(requests.ack(1, [Position(1, 0)], request_id=client.request_id()), BaseCommand.ACK_RESPONSE)
    world.happen([DiskFull("")])
    client.open_producer(producer_id=3)
    client.publish(3, entry("b"), first=1)
    assert len(client.take_all()) == 2  # the receipt, and the message to the consumer


def test_what_is_stored_but_not_answered_is_not_waited_for_when_nothing_can_be_written() -> None:
    world, client = producing()
    world.disk_is_slow = True
    client.publish(1, entry("a"), first=0)
    world.happen([DiskFull("No space left on device", is_stalled=True)])
    client.expect(BaseCommand.CLOSE_PRODUCER)


STALLED = DiskFull("No space left on device", is_stalled=True)


def test_orders_that_cannot_be_stored_are_answered_with_an_error_and_may_be_tried_again() -> None:
    world = World()
    client = world.connect()
    world.disk_is_slow = True
    # One waits already when it shows, others come later.
    client.send(requests.subscribe(client.request_id(), TOPIC, "s", 1))
    assert client.take_all() == []
    world.happen([STALLED])
    refused = client.expect(BaseCommand.ERROR)
    assert refused.error == ServerError.ServiceNotReady
    assert "try again" in refused.message
    client.send(requests.subscribe(client.request_id(), TOPIC, "s", 1))
    assert client.expect(BaseCommand.ERROR).error == ServerError.ServiceNotReady
    assert world.subscription().consumers == []
    world.happen([DiskFull("")])
    world.disk_is_slow = False
    world.sync()
    client.request(requests.subscribe(client.request_id(), TOPIC, "s", 1), BaseCommand.SUCCESS)


def test_a_seek_that_cannot_be_stored_is_answered_with_an_error_and_a_reader_moves() -> None:
    # covers DUR-10, CUR-11, CUR-12
    world, client = with_one_entry()
    client.store(1, entry("b"), first=1)
    world.disk_is_slow = True
    # One waits already when it shows, others come later.
    client.request(requests.seek_to_id(client.request_id(), 1, MessageId(1, 0)), BaseCommand.CLOSE_CONSUMER)
    world.happen([STALLED])
    assert client.expect(BaseCommand.ERROR).error == ServerError.ServiceNotReady
    client.expect(BaseCommand.CLOSE_PRODUCER)
    client.open_consumer(consumer_id=2)
    for command in (requests.seek_to_id(5, 2, MessageId(1, 1)), requests.seek_to_time(6, 2, 1)):
        refused = client.request(command, BaseCommand.ERROR)
        assert refused.error == ServerError.ServiceNotReady
        assert "try again" in refused.message
    assert client.take_all() == []  # its consumer stays
    client.send(requests.subscribe(client.request_id(), TOPIC, "r", 3, durable=False, start=LATEST_ID))
    client.expect(BaseCommand.SUCCESS)
    client.request(requests.seek_to_id(client.request_id(), 3, MessageId(1, 1)), BaseCommand.CLOSE_CONSUMER)
    client.expect(BaseCommand.SUCCESS)
    world.happen([DiskFull("")])
    world.disk_is_slow = False
    world.sync()
    client.request(requests.seek_to_id(client.request_id(), 2, MessageId(1, 1)), BaseCommand.CLOSE_CONSUMER)
    client.expect(BaseCommand.SUCCESS)


def test_a_producer_that_was_being_opened_is_refused_once() -> None:
    world = World()
    client = world.connect()
    world.disk_is_slow = True
    client.send(requests.producer(client.request_id(), TOPIC, 1))
    world.happen([STALLED])
    assert client.expect(BaseCommand.ERROR).error == ServerError.ServiceNotReady
    assert client.take_all() == []


def test_what_is_stored_is_served_while_nothing_can_be_written() -> None:
    world, client = with_one_entry()
    world.disk_is_slow = True
    client.publish(1, entry("b"), first=1)
    world.happen([STALLED])
    client.take_all()
    told: list[object] = []

    def carry_out(request: Callable[[Core], object]) -> object:
        world.happen([Requested(lambda core: disk_full.carry_out(core, request, told.append, told.append))])
        return told.pop()

    assert carry_out(lambda _: "a question") == "a question"
    made = TopicName.parse("persistent://public/default/made")
    assert isinstance(carry_out(lambda core: lifecycle.create(core, made)), ServiceNotReady)
    client.send(requests.ack(1, [Position(1, 0)], request_id=client.request_id()))
    assert client.take_all() == []  # waits for space: it has changed what is delivered
    world.happen([DiskFull("")])
    world.disk_is_slow = False
    world.sync()
    after = client.take_all()
    assert any("ACK_RESPONSE" in str(effect) for effect in after)
    assert told == []
    assert made.full in world.restart().state.topics_by_name


def test_entries_found_lost_make_the_topic_read_only() -> None:
    world, client = producing()
    client.store(1, entry("a"), entry("b"), entry("c"), first=0)
    for _ in range(2):
        world.happen([EntriesLost([(1, 1, 2), (99, 0, 1)], "ledgers/1.ledger:0", "a block fails its checksum")])
    client.expect(BaseCommand.CLOSE_PRODUCER)
    [damage] = world.state.topics_by_name[TOPIC].damages
    assert damage[:3] == (1, 1, 2)
    client.send(requests.producer(client.request_id(), TOPIC, 2))
    assert client.expect(BaseCommand.ERROR).error == ServerError.NotAllowedError
    restarted = world.restart()
    assert restarted.state.topics_by_name[TOPIC].damages == [damage]
