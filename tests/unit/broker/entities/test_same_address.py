"""Limits of what clients on one host may have of a topic."""

from typing import Any

import pytest

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
    client.request(requests.connect("test"), BaseCommand.CONNECTED)
    return client


def open_one(client: Client, kind: str, number: int, topic: str = TOPIC, subscription: str = "s") -> Any:
    """Opens a producer or a consumer; why it was refused, None if it was not."""
    if kind == "producers":
        client.send(requests.producer(1, topic, number, None))
    else:
        client.send(requests.subscribe(1, topic, subscription, number, CommandSubscribe.Shared))
    answer = client.take()
    return (answer.error.error, answer.error.message) if answer.type == BaseCommand.ERROR else None


@pytest.mark.parametrize(
    ("kind", "refusal"),
    [
        ("consumers", (ServerError.ConsumerBusy, "Topic reached max same address consumers limit")),
        ("producers", (ServerError.ProducerBusy, f"Topic '{TOPIC}' reached max same address producers limit")),
    ],
)
def test_clients_of_one_host(kind: str, refusal: tuple[int, str]) -> None:
    # covers SUB-5, PR-13
    world = World(**QUIET, **{f"max_same_address_{kind}": 2})
    one, again, other = (connect(world, peer) for peer in ("/10.0.0.1:1", "/10.0.0.1:2", "/10.0.0.2:1"))
    assert [open_one(one, kind, 1), open_one(again, kind, 1, subscription="another")] == [None, None]
    assert open_one(again, kind, 2) == refusal
    assert open_one(other, kind, 1) is None
    one.close()
    assert open_one(again, kind, 3) is None


def test_a_system_topic_has_no_limit_of_who_uses_it() -> None:
    # covers PR-13, SUB-5, CUR-18, TN-10
    per_topic = ("producers_per_topic", "consumers_per_topic", "consumers_per_subscription", "subscriptions_per_topic")
    others = ("same_address_producers", "same_address_consumers", "topics_per_namespace")
    world = World(**QUIET, **{f"max_{name}": 1 for name in (*per_topic, *others)})
    system = TopicName.parse("__change_events")
    world.ask(lambda core: lifecycle.create(core, TopicName.parse(TOPIC)))
    world.ask(lambda core: lifecycle.create(core, system))
    client = connect(world, "/10.0.0.1:1")
    for number, subscription in enumerate(("s", "s", "another"), 1):
        assert open_one(client, "producers", number, system.full) is None
        assert open_one(client, "consumers", number, system.full, subscription) is None
    assert open_one(client, "producers", 4) is None
    assert open_one(client, "producers", 5) is not None
