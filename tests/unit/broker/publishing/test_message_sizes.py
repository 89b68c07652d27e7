"""Topics that limit the size of an entry (ADM-55)."""

from __future__ import annotations

import pytest

from spark_pulsar.broker.topics import policy_changes
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.policies.policy_table import MAX_MESSAGE_SIZE
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, ServerError
from tests.unit.broker.world import QUIET, TOPIC, Client, World, entry

SMALL, LARGE = entry("x"), entry("x" * 200)
LIVE = "non-persistent://public/default/n"
REFUSED = "Exceed maximum message size"


def limit(world: World, size_bytes: int | None, topic: str = TOPIC) -> None:
    name = TopicName.parse(topic)
    world.ask(lambda core: policy_changes.set_of_topic(core, name, MAX_MESSAGE_SIZE, size_bytes))


def opened(world: World, *topics: str) -> Client:
    client = world.connect()
    for number, topic in enumerate(topics, 1):
        client.send(requests.producer(client.request_id(), topic, number, f"p{number}"))
        client.expect(BaseCommand.PRODUCER_SUCCESS)
    return client


def answers(client: Client) -> list[tuple[int, str]]:
    """Sequence ids with what they were answered, in order."""
    found: list[tuple[int, str]] = []
    for effect in client.take_all():
        if isinstance(effect, fx.SendReceipts | fx.SendColumnarReceipts):
            found += [(sequence_id, "stored") for sequence_id in effect.sequence_ids]
        else:
            error = effect.command.send_error
            assert error.error == ServerError.NotAllowedError
            found.append((error.sequence_id, error.message))
    return found


@pytest.mark.parametrize("topic", [TOPIC, LIVE])
def test_what_is_too_large_is_refused_in_its_place(topic: str) -> None:
    # covers ADM-55
    world = World(**QUIET)
    client = opened(world, topic)
    limit(world, len(SMALL), topic)
    world.disk_is_slow = True
    client.publish(1, SMALL, LARGE, LARGE, SMALL)
    world.sync()
    assert answers(client) == [(0, "stored"), (1, REFUSED), (2, REFUSED), (3, "stored")]
    assert world.core.topics[topic].messages_in == 2
    world.disk_is_slow = False
    limit(world, None, topic)
    client.publish(1, LARGE, first=4)
    assert answers(client) == [(4, "stored")]


@pytest.mark.parametrize("size_bytes", [0, 5 * 1024 * 1024])
def test_the_limit_of_the_broker_is_none_of_the_topic(size_bytes: int) -> None:
    # covers ADM-55
    world = World(**QUIET)
    client = opened(world, TOPIC)
    limit(world, size_bytes)
    client.publish(1, LARGE)
    assert answers(client) == [(0, "stored")]
    assert not world.core.message_sizes.limits


def test_sends_of_many_producers_at_once() -> None:
    # covers ADM-55
    world = World(**QUIET)
    topics = [f"persistent://public/default/t{number}" for number in range(20)]
    client = opened(world, *topics)
    limit(world, len(SMALL), topics[3])
    sends = [(number, LARGE) for number in range(1, 21)]
    client.send_bytes(
        b"".join(payload_frame(requests.send(each, number), data) for number, (each, data) in enumerate(sends))
    )
    wanted = [(number, REFUSED if number == 3 else "stored") for number in range(20)]
    assert sorted(answers(client)) == sorted(wanted)
