"""Limits of what clients on one host may have of a topic."""

from typing import Any

from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.broker.turn.events import SessionOpened
from spark_pulsar.model.names import TopicName
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe, ServerError
from tests.unit.broker.world import QUIET, TOPIC, Client, World


def connect(world: World, peer: str) -> Client:
    client = Client(world, len(world.sessions) + 1)
    world.sessions[client.session_id] = client
    world.happen([SessionOpened(client.session_id, peer, "127.0.0.1:6650")])
    client.send(requests.connect("test"))
    client.expect(BaseCommand.CONNECTED)
    return client


def refused(client: Client) -> Any:
    """Why the last request was refused, None if it was not."""
    answer = client.take()
    return (answer.error.error, answer.error.message) if answer.type == BaseCommand.ERROR else None


def test_consumers_of_one_host() -> None:
    # covers SUB-5
    world = World(**QUIET, max_same_address_consumers=2)
    one, again, other = (connect(world, peer) for peer in ("/10.0.0.1:1", "/10.0.0.1:2", "/10.0.0.2:1"))

    def join(client: Client, consumer_id: int, subscription: str = "s") -> Any:
        client.send(requests.subscribe(1, TOPIC, subscription, consumer_id, CommandSubscribe.Shared))
        return refused(client)

    assert [join(one, 1), join(again, 1, "another")] == [None, None]
    assert join(again, 2) == (ServerError.ConsumerBusy, "Topic reached max same address consumers limit")
    assert join(other, 1) is None
    one.close()
    assert join(again, 3) is None


def test_producers_of_one_host() -> None:
    # covers PR-13
    world = World(**QUIET, max_same_address_producers=2)
    one, again, other = (connect(world, peer) for peer in ("/10.0.0.1:1", "/10.0.0.1:2", "/10.0.0.2:1"))

    def open_one(client: Client, producer_id: int) -> Any:
        client.send(requests.producer(1, TOPIC, producer_id, None))
        return refused(client)

    assert [open_one(one, 1), open_one(again, 1)] == [None, None]
    text = f"Topic '{TOPIC}' reached max same address producers limit"
    assert open_one(again, 2) == (ServerError.ProducerBusy, text)
    assert open_one(other, 1) is None
    one.close()
    assert open_one(again, 3) is None


def test_a_system_topic_has_no_limit_of_who_uses_it() -> None:
    # covers PR-13, SUB-5, CUR-18, TN-10
    world = World(
        **QUIET,
        max_same_address_producers=1,
        max_same_address_consumers=1,
        max_producers_per_topic=1,
        max_consumers_per_topic=1,
        max_consumers_per_subscription=1,
        max_subscriptions_per_topic=1,
        max_topics_per_namespace=1,
    )
    system = TopicName.parse("__change_events")
    world.ask(lambda core: lifecycle.create(core, TopicName.parse(TOPIC)))
    world.ask(lambda core: lifecycle.create(core, system))
    client = connect(world, "/10.0.0.1:1")
    for number, subscription in enumerate(("s", "s", "another"), 1):
        client.send(requests.producer(1, system.full, number, None))
        assert refused(client) is None
        client.send(requests.subscribe(1, system.full, subscription, number, CommandSubscribe.Shared))
        assert refused(client) is None
    client.send(requests.producer(1, TOPIC, 4, None))
    assert refused(client) is None
    client.send(requests.producer(1, TOPIC, 5, None))
    assert refused(client) is not None
