"""Producers: receipts, order, refusals, back-pressure; one that is closed before it is open keeps no name."""

from spark_pulsar.broker.entities import producer as producers
from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.wire.protocol import commands, requests
from spark_pulsar.wire.protocol.frames import payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, ProducerAccessMode, ServerError
from tests.unit.broker.world import QUIET, TOPIC, Client, World, entry, producing


def test_receipt_comes_when_the_entry_is_on_disk_and_not_before() -> None:
    # covers DUR-1, ML-5
    world, client = producing()
    client.open_consumer(permits=10)
    world.disk_is_slow = True
    client.publish(1, entry("a"), entry("b"), first=7)
    assert client.take_all() == []
    world.sync()
    receipt, delivery = client.take_all()
    assert isinstance(receipt, fx.SendReceipts)
    assert (list(receipt.sequence_ids), receipt.first_entry_id) == ([7, 8], 0)
    assert isinstance(delivery, fx.SendMessages)
    assert len(delivery.starts) == 2


def test_receipts_keep_the_order_of_sends_over_groups() -> None:
    # covers PR-9
    world, client = producing()
    world.disk_is_slow = True
    client.publish(1, entry("a"), first=0)
    client.publish(1, entry("b"), entry("c"), first=1)
    client.publish(1, entry("d"), first=3)
    world.sync(1)
    world.sync()
    assert client.receipts() == [(0, (1, 0)), (1, (1, 1)), (2, (1, 2)), (3, (1, 3))]


def test_producer_and_sends_in_one_read() -> None:
    # covers A12: the answer to PRODUCER goes out before the receipts
    client = World().connect()
    frames = [commands.ping(), requests.producer(1, TOPIC, 1, "p")]
    data = b"".join(payload_frame(each, b"") for each in frames) + payload_frame(requests.send(1, 0), entry("a"))
    client.send_bytes(data)
    kinds = [each.command.type if isinstance(each, fx.SendCommand) else "receipts" for each in client.take_all()]
    assert kinds == [BaseCommand.PONG, BaseCommand.PRODUCER_SUCCESS, "receipts"]


def test_newcomer_that_leaves_while_the_holder_is_checked_gets_nothing() -> None:
    world = World()
    _old, new = world.connect_producer(), world.connect()
    new.send(requests.producer(9, TOPIC, 1, "p"))
    new.close()
    world.advance(world.core.config.liveness_check_timeout_ms)
    assert new.take_all() == []
    assert not world.core.topics[TOPIC].producers


def test_send_for_a_producer_that_the_broker_closed_is_dropped() -> None:
    # covers A13
    world, client = producing()
    world.ask(lambda core: producers.disconnect(core, core.topics[TOPIC].producers["p"]))
    assert client.expect(BaseCommand.CLOSE_PRODUCER).producer_id == 1
    client.publish(1, entry("a"))
    assert client.take_all() == []
    assert client.open_producer().producer_name == "p"
    client.publish(1, entry("a"), first=4)
    assert client.receipts() == [(4, (1, 0))]


def test_session_with_too_much_in_flight_is_not_read_until_half_of_it_is_on_disk() -> None:
    # covers PR-15
    world, client = producing(max_pending_publishes_per_session=4)
    world.disk_is_slow = True
    for number in range(4):
        client.publish(1, entry("x"), first=number)
    assert [type(each) for each in client.take_all()] == [fx.PauseReading]
    world.sync(1)
    assert [type(each) for each in client.take_all()] == [fx.SendReceipts]
    world.sync(1)
    assert [type(each) for each in client.take_all()] == [fx.SendReceipts, fx.ResumeReading]


def test_bytes_of_all_sessions_in_flight_are_bounded() -> None:
    # covers PR-15
    world = World(max_pending_publish_bytes=1000)
    first, second = world.connect_producer(name="a"), world.connect_producer(name="b")
    world.disk_is_slow = True
    first.publish(1, entry("x" * 900))
    second.publish(1, entry("y" * 900))
    assert [type(each) for each in second.take_all()] == [fx.PauseReading]
    world.sync()
    assert [type(each) for each in second.take_all()] == [fx.SendReceipts, fx.ResumeReading]


def test_producer_that_asks_for_what_is_not_built() -> None:
    client = World().connect()
    command = requests.producer(1, TOPIC, 1, "p")
    command.producer.txn_enabled = True
    refused = client.request(command, BaseCommand.ERROR)
    assert refused.error == ServerError.NotAllowedError
    assert "Transactions" in refused.message


UNANSWERED_MS = 10_000
"""Time after which a PING without a PONG is over."""


def world_with_a_silent_holder(*names: str) -> World:
    """Producers of these names, whose connection answers nothing."""
    world = World(**QUIET)
    silent = world.connect()
    for number, name in enumerate(names, 1):
        silent.open_producer(producer_id=number, name=name)
    return world


def open_producer(client: Client, request_id: int, name: str, mode: int = ProducerAccessMode.Shared) -> None:
    command = requests.producer(request_id, TOPIC, 7, name)
    command.producer.producer_access_mode = ProducerAccessMode.ValueType(mode)
    client.send(command)


def test_who_asks_again_under_another_name_while_the_holder_is_checked_opens_once() -> None:
    # covers PR-2
    world = world_with_a_silent_holder("x", "y")
    newcomer = world.connect()
    open_producer(newcomer, 1, "x")
    open_producer(newcomer, 2, "y")
    refused = newcomer.expect(BaseCommand.ERROR)
    assert (refused.request_id, refused.error) == (2, ServerError.ServiceNotReady)
    world.advance(UNANSWERED_MS)
    assert newcomer.expect(BaseCommand.PRODUCER_SUCCESS).request_id == 1
    newcomer.close()
    assert not world.core.topics[TOPIC].producers


def test_who_closes_while_the_holder_is_checked_does_not_open() -> None:
    # covers PR-2, PR-17
    world = world_with_a_silent_holder("x")
    newcomer = world.connect()
    open_producer(newcomer, 1, "x")
    assert newcomer.request(requests.close_producer(2, 7), BaseCommand.SUCCESS).request_id == 2
    world.advance(UNANSWERED_MS)
    assert newcomer.take_all() == []
    assert not world.core.topics[TOPIC].producers
    open_producer(newcomer, 3, "x")
    assert newcomer.expect(BaseCommand.PRODUCER_SUCCESS).request_id == 3


def test_who_asks_twice_for_exclusive_access_waits_once() -> None:
    # covers PR-6
    world = world_with_a_silent_holder("x")
    newcomer = world.connect()
    for request_id in (1, 2):
        open_producer(newcomer, request_id, "x", ProducerAccessMode.WaitForExclusive)
    world.advance(UNANSWERED_MS)
    newcomer.close()
    topic = world.core.topics[TOPIC]
    assert not topic.producers
    assert topic.access is None or (topic.access.holder is None and not topic.access.waiters)


def test_who_is_closed_before_it_is_on_disk_is_not_told_that_it_is_there() -> None:
    # covers PR-17
    world = World(**QUIET)
    world.disk_is_slow = True
    client = world.connect()
    client.send(requests.producer(1, TOPIC, 7, "x"))

    def unload(core: Core) -> None:
        for producer in list(core.topics[TOPIC].producers.values()):
            producers.disconnect(core, producer)

    world.ask(unload)
    world.quicken()
    told = [effect.command.type for effect in client.effects]
    assert BaseCommand.CLOSE_PRODUCER in told
    assert BaseCommand.PRODUCER_SUCCESS not in told
    assert BaseCommand.ERROR in told
