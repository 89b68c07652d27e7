"""Entries that are refused in their place: those that are not encrypted where they must be (PR-12), and those that are
larger than their topic allows (ADM-55)."""

import pytest

from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.ledger.state.documents import NamespaceSet
from spark_pulsar.model.policies import policy_table
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, MessageMetadata, ProducerAccessMode, ServerError
from tests.unit.broker.world import QUIET, START_MS, TOPIC, Client, World, entry, producing

REFUSED = "Messages must be encrypted"
TOO_LARGE = "Exceed maximum message size"
CODES = {REFUSED: ServerError.MetadataError, TOO_LARGE: ServerError.NotAllowedError}
LIVE = "non-persistent://public/default/n"


def secret(text: str = "secret", **more: int) -> bytes:
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=START_MS, **more)
    metadata.encryption_keys.add(key="k", value=b"v")
    return build_entry(metadata, text.encode())


def require(world: World, required: bool | None = True) -> None:
    world.set_policy(policy_table.ENCRYPTION_REQUIRED, required)


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
        if isinstance(effect, fx.SendReceipts | fx.SendColumnarReceipts):
            found += [(sequence_id, "stored") for sequence_id in effect.sequence_ids]
        elif isinstance(effect, fx.SendCommand):
            error = effect.command.send_error
            assert error.error == CODES[error.message]
            found.append((error.sequence_id, error.message))
    return found


# Of each gate: an entry that it lets pass, one that it does not, and the refusal.
GATES = {"encryption": (secret(), entry("x" * 200), REFUSED), "size": (entry("x"), entry("x" * 200), TOO_LARGE)}
OF_EACH_GATE = pytest.mark.parametrize("gate", GATES)


def close_gate(world: World, gate: str, topic: str = TOPIC, *, is_closed: bool = True) -> None:
    if gate == "encryption":
        require(world, is_closed)
    else:
        size_bytes = len(GATES[gate][0]) if is_closed else None
        world.set_topic_policy(policy_table.MAX_MESSAGE_SIZE, size_bytes, topic)


@OF_EACH_GATE
@pytest.mark.parametrize("topic", [TOPIC, LIVE])
def test_a_message_is_refused_in_its_place(topic: str, gate: str) -> None:
    # covers PR-12, ADM-55
    good, bad, text = GATES[gate]
    world = World(**QUIET)
    client = world.connect()
    open_encrypting(client, topic=topic)
    close_gate(world, gate, topic)
    world.disk_is_slow = True
    client.publish(1, good, bad, bad, good, bad)
    world.sync()
    assert answers(client) == [(0, "stored"), (1, text), (2, text), (3, "stored"), (4, text)]
    assert world.core.topics[topic].messages_in == 2
    world.disk_is_slow = False
    close_gate(world, gate, topic, is_closed=False)
    client.publish(1, bad, first=5)
    assert answers(client) == [(5, "stored")]


@OF_EACH_GATE
def test_sends_of_many_producers_at_once(gate: str) -> None:
    # covers PR-12, ADM-55
    good, bad, text = GATES[gate]
    world = World(**QUIET)
    world.ask(lambda core: core.append(NamespaceSet("public/free", "{}")))
    client = world.connect()
    for number in range(20):
        open_encrypting(client, f"p{number}", number, TOPIC if number == 3 else f"persistent://public/free/t{number}")
    close_gate(world, gate)
    client.publish_in_turn([*((number, bad) for number in range(20)), (3, good)])
    assert sorted(answers(client)) == sorted((number, text if number == 3 else "stored") for number in range(21))


@pytest.mark.parametrize("size_bytes", [0, 5 * 1024 * 1024])
def test_the_limit_of_size_of_the_broker_is_none_of_the_topic(size_bytes: int) -> None:
    # covers ADM-55
    world, client = producing(**QUIET)
    world.set_topic_policy(policy_table.MAX_MESSAGE_SIZE, size_bytes)
    client.publish(1, entry("x" * 200))
    assert answers(client) == [(0, "stored")]
    assert not world.core.message_sizes.limits


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
    world, client = producing(**QUIET)
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
