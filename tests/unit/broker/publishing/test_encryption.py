"""Namespaces whose topics take encrypted messages only (PR-12)."""

from __future__ import annotations

import pytest

from spark_pulsar.broker.topics import lifecycle, policy_changes
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.ledger.state.documents import NamespaceSet
from spark_pulsar.model.policies import policy_table
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, MessageMetadata, ProducerAccessMode, ServerError
from tests.unit.broker.world import QUIET, START_MS, TOPIC, Client, World, entry

NAMESPACE = "public/default"
REFUSED = "Messages must be encrypted"
LIVE = "non-persistent://public/default/n"


def secret(text: str = "secret", **more: int) -> bytes:
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=START_MS, **more)
    metadata.encryption_keys.add(key="k", value=b"v")
    return build_entry(metadata, text.encode())


def require(world: World, required: bool | None = True) -> None:
    world.ask(lambda core: policy_changes.set_of_namespace(core, NAMESPACE, policy_table.ENCRYPTION_REQUIRED, required))


def requiring(**config: object) -> World:
    world = World(**QUIET, **config)
    require(world)
    return world


def ask_to_produce(
    client: Client,
    name: str = "p",
    producer_id: int = 1,
    *,
    topic: str = TOPIC,
    encrypted: bool = True,
    mode: ProducerAccessMode.ValueType = ProducerAccessMode.Shared,
) -> None:
    command = requests.producer(client.request_id(), topic, producer_id, name, access_mode=mode)
    command.producer.encrypted = encrypted
    client.send(command)


def open_encrypting(client: Client, name: str = "p", producer_id: int = 1, topic: str = TOPIC) -> None:
    ask_to_produce(client, name, producer_id, topic=topic)
    client.expect(BaseCommand.PRODUCER_SUCCESS)


def answers(client: Client) -> list[tuple[int, str]]:
    """Sequence ids with what they were answered, in order."""
    found: list[tuple[int, str]] = []
    for effect in client.take_all():
        if isinstance(effect, fx.SendReceipts):
            found += [(sequence_id, "stored") for sequence_id in effect.sequence_ids]
        else:
            error = effect.command.send_error
            assert error.error == ServerError.MetadataError
            found.append((error.sequence_id, error.message))
    return found


@pytest.mark.parametrize("topic", [TOPIC, LIVE])
def test_a_message_without_keys_is_refused_in_its_place(topic: str) -> None:
    # covers PR-12
    world = requiring()
    client = world.connect()
    open_encrypting(client, topic=topic)
    world.disk_is_slow = True
    client.publish(1, secret("a"), entry("b"), entry("c"), secret("d"), entry("e"))
    world.sync()
    assert answers(client) == [(0, "stored"), (1, REFUSED), (2, REFUSED), (3, "stored"), (4, REFUSED)]
    assert world.core.topics[topic].messages_in == 2


def test_what_looks_like_keys_is_none() -> None:
    # covers PR-12
    client = requiring().connect()
    open_encrypting(client)
    named = MessageMetadata(producer_name="jjj", sequence_id=0, publish_time=START_MS, partition_key="j\x05\n\x01k")
    broken = secret()[:10] + b"\xff" * 4 + secret()[14:]
    client.publish(1, build_entry(named, b"j\x05\n\x01k"), secret("x", num_messages_in_batch=1))
    assert answers(client) == [(0, REFUSED), (1, "stored")]
    client.send_bytes(payload_frame(requests.send(1, 2), broken[6:]))
    assert answers(client) == [(2, REFUSED)]


def test_a_refused_message_leaves_its_sequence_id_free() -> None:
    # covers PR-12, DED-2
    client = requiring(deduplication=True).connect()
    open_encrypting(client)
    client.publish(1, secret(), entry("plain"), first=3)
    assert answers(client) == [(3, "stored"), (4, REFUSED)]
    client.publish(1, secret(), first=4)
    assert answers(client) == [(4, "stored")]


def test_sends_of_many_producers_at_once() -> None:
    # covers PR-12
    world = requiring()
    world.ask(lambda core: core.append(NamespaceSet("public/free", "{}")))
    client = world.connect()
    open_encrypting(client, "a", 1)
    open_encrypting(client, "b", 2)
    open_encrypting(client, "c", 3, "persistent://public/free/t")
    sends = [(1, secret()), (2, entry("x")), (3, entry("x")), (1, entry("x")), (2, secret()), (3, secret())]
    client.send_bytes(
        b"".join(payload_frame(requests.send(each, number), data) for number, (each, data) in enumerate(sends))
    )
    stored = [(0, "stored"), (2, "stored"), (4, "stored"), (5, "stored")]
    assert sorted(answers(client)) == sorted([*stored, (1, REFUSED), (3, REFUSED)])


def test_who_waits_for_a_topic_may_come_too_late() -> None:
    # covers PR-6, PR-12
    world = World(**QUIET)
    holder, waiter = world.connect(), world.connect()
    ask_to_produce(holder, "holder", mode=ProducerAccessMode.Exclusive)
    holder.expect(BaseCommand.PRODUCER_SUCCESS)
    ask_to_produce(waiter, "waiter", encrypted=False, mode=ProducerAccessMode.WaitForExclusive)
    assert not waiter.expect(BaseCommand.PRODUCER_SUCCESS).producer_ready
    require(world)
    holder.close()
    assert waiter.expect(BaseCommand.ERROR).error == ServerError.MetadataError
    assert not world.core.topics[TOPIC].producers


def test_the_policy_is_there_after_a_restart() -> None:
    # covers PR-12
    world = World(**QUIET)
    client = world.connect()
    client.open_producer()
    require(world)
    client = world.restart(**QUIET).connect()
    ask_to_produce(client, encrypted=False)
    assert client.expect(BaseCommand.ERROR).error == ServerError.MetadataError
    open_encrypting(client)
    client.publish(1, entry("plain"))
    assert answers(client) == [(0, REFUSED)]


def test_held_back_by_a_rate_and_refused_when_its_turn_comes() -> None:
    # covers PR-12, PR-14
    world = World(**QUIET, max_publish_rate_messages=1)
    client = world.connect()
    open_encrypting(client)
    client.publish(1, entry("now"), entry("later"), secret())
    require(world)
    world.advance(10_000)
    found = [each for each in client.take_all() if isinstance(each, fx.SendReceipts | fx.SendCommand)]
    client.effects = found
    assert answers(client) == [(0, "stored"), (1, REFUSED), (2, "stored")]


def test_the_key_of_the_configuration_is_about_producers_only() -> None:
    # covers PR-12
    client = World(**QUIET, encryption_required_of_producers=True).connect()
    ask_to_produce(client, encrypted=False)
    assert client.expect(BaseCommand.ERROR).error == ServerError.MetadataError
    open_encrypting(client)
    client.publish(1, entry("plain"))
    assert answers(client) == [(0, "stored")]


def test_a_topic_that_is_gone_is_not_remembered() -> None:
    world = requiring()
    client = world.connect()
    open_encrypting(client)
    assert [topic.full_name for topic in world.core.encryption.topics] == [TOPIC]
    world.ask(lambda core: lifecycle.delete(core, core.topics[TOPIC]))
    assert not world.core.encryption.topics
