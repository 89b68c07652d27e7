"""Texts that clients send: at the limit they are taken, past it they are refused for good, and the connection lives."""

from collections.abc import Callable

import pytest

from spark_pulsar.broker.topics import name_limits
from spark_pulsar.model.errors import NotAllowed
from spark_pulsar.wire.protocol import commands, requests
from spark_pulsar.wire.protocol.replies import error_of
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandAck, CommandSubscribe, ServerError
from tests.unit.broker.world import TOPIC, World

NAME = name_limits.MAX_NAME_LENGTH
START = "persistent://public/default/"


def topic(length: int) -> str:
    return START + "t" * (length - len(START))


def subscribe(**more: object) -> BaseCommand:
    return requests.subscribe(7, TOPIC, more.pop("subscription", "s"), 1, CommandSubscribe.Failover, **more)  # type: ignore[arg-type]


def producer_with(**fields: str) -> BaseCommand:
    command = requests.producer(7, TOPIC, 1, "p")
    for field, value in fields.items():
        setattr(command.producer, field, value)
    return command


def with_pairs(command: BaseCommand, field: str, length: int) -> BaseCommand:
    content = command.producer if command.type == BaseCommand.PRODUCER else command.subscribe
    getattr(content, field).add(key="k", value="v" * (length - 1))
    return command


def lookup_for(listener: str) -> BaseCommand:
    command = requests.lookup(7, TOPIC)
    command.lookupTopic.advertised_listener_name = listener
    return command


CASES: list[tuple[str, int, Callable[[int], BaseCommand]]] = [
    ("Subscription name", NAME, lambda size: subscribe(subscription="s" * size)),
    ("Consumer name", NAME, lambda size: subscribe(consumer_name="é" * size)),
    ("Producer name", NAME, lambda size: producer_with(producer_name="p" * size)),
    ("Initial subscription name", NAME, lambda size: producer_with(initial_subscription_name="i" * size)),
    ("Topic name", name_limits.MAX_TOPIC_NAME_LENGTH, lambda size: requests.producer(7, topic(size), 1, "p")),
    ("Topic name", name_limits.MAX_TOPIC_NAME_LENGTH, lambda size: requests.lookup(7, topic(size))),
    ("Topic name", name_limits.MAX_TOPIC_NAME_LENGTH, lambda size: requests.partition_metadata(7, topic(size))),
    ("Consumer prop", name_limits.MAX_PROPERTIES_LENGTH, lambda size: with_pairs(subscribe(), "metadata", size)),
    (
        "Subscription prop",
        name_limits.MAX_PROPERTIES_LENGTH,
        lambda size: with_pairs(subscribe(), "subscription_properties", size),
    ),
    ("Producer prop", name_limits.MAX_PROPERTIES_LENGTH, lambda size: with_pairs(producer_with(), "metadata", size)),
]


@pytest.mark.parametrize(("what", "limit", "command"), CASES)
def test_a_text_at_the_limit_is_taken_and_a_longer_one_refused(
    what: str, limit: int, command: Callable[[int], BaseCommand]
) -> None:
    client = World().connect()
    client.send(command(limit + 1))
    answer = client.take()
    error = error_of(answer)
    assert error is not None
    assert int(error.code) == (ServerError.InvalidTopicName if what == "Topic name" else ServerError.NotAllowedError)
    assert error.message.startswith(what)
    assert str(limit + 1) in error.message
    assert f"more than {limit}: " in error.message
    assert len(error.message) < 200
    assert not client.closed

    client.send(command(limit))
    answers = client.take_all()
    assert answers
    assert all(
        each.command.type == BaseCommand.ACTIVE_CONSUMER_CHANGE or not error_of(each.command) for each in answers
    )


def test_a_listener_is_not_quoted_at_any_length() -> None:
    client = World().connect()
    client.send(lookup_for("l" * (NAME + 1)))
    assert len(client.take().lookupTopicResponse.message) < 200


@pytest.mark.parametrize("kind", [BaseCommand.WATCH_TOPIC_LIST, BaseCommand.GET_TOPICS_OF_NAMESPACE])
def test_a_namespace_is_not_quoted_at_any_length(kind: "BaseCommand.Type.ValueType") -> None:
    client = World().connect()
    command = BaseCommand(type=kind)
    if kind == BaseCommand.WATCH_TOPIC_LIST:
        content = command.watchTopicList
        content.watcher_id, content.topics_pattern = 1, "a"
    else:
        content = command.getTopicsOfNamespace  # type: ignore[assignment]
    content.request_id, content.namespace = 7, "public/" + "n" * NAME
    error = client.request(command, BaseCommand.ERROR)
    assert error.error == ServerError.InvalidTopicName
    assert len(error.message) < 200


def test_ranges_of_slots_that_are_more_than_there_are_slots() -> None:
    # covers KS-7: hostile input
    command = subscribe()
    one = command.subscribe.keySharedMeta.hashRanges.add(start=1, end=1)
    command.subscribe.keySharedMeta.hashRanges.extend([one] * name_limits.MAX_HASH_RANGES)
    with pytest.raises(NotAllowed, match="65537 hash ranges"):
        name_limits.check_command(command.type, command.subscribe)
    del command.subscribe.keySharedMeta.hashRanges[-1]
    name_limits.check_command(command.type, command.subscribe)


def test_an_ack_that_says_too_much_is_refused() -> None:
    # covers ACK-5: hostile input, it would be kept with the cursor
    command = BaseCommand(type=BaseCommand.ACK)
    command.ack.consumer_id, command.ack.ack_type = 1, CommandAck.Cumulative
    command.ack.properties.add(key="k" * name_limits.MAX_PROPERTIES_LENGTH, value=1)
    name_limits.check_command(command.type, command.ack)
    command.ack.properties.add(key="k", value=1)
    with pytest.raises(NotAllowed, match="65537 characters"):
        name_limits.check_command(command.type, command.ack)


def test_what_a_client_says_it_is_is_kept_in_part() -> None:
    world = World()
    client = world.open_socket()
    client.request(requests.connect("v" * 10_000), BaseCommand.CONNECTED)
    client.request(commands.ping(), BaseCommand.PONG)
    assert world.core.sessions[client.session_id].client_version == "v" * 1_000
