"""Producers: names, receipts, order, refusals, back-pressure."""

from spark_pulsar.broker.entities import producer as producers
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.protocol import commands, requests
from spark_pulsar.wire.protocol.frames import payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, ServerError
from tests.unit.broker.world import TOPIC, World, entry


def test_receipt_comes_when_the_entry_is_on_disk_and_not_before() -> None:
    # covers DUR-1, ML-5
    world = World()
    client = world.connect()
    client.open_producer()
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
    world = World()
    client = world.connect()
    client.open_producer()
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
    old, new = world.connect(), world.connect()
    old.open_producer()
    new.send(requests.producer(9, TOPIC, 1, "p"))
    new.close()
    world.advance(world.core.config.liveness_check_timeout_ms)
    assert new.take_all() == []
    assert not world.core.topics[TOPIC].producers


def test_send_for_a_producer_that_the_broker_closed_is_dropped() -> None:
    # covers A13
    world = World()
    client = world.connect()
    client.open_producer()
    world.ask(lambda core: producers.disconnect(core, core.topics[TOPIC].producers["p"]))
    assert client.expect(BaseCommand.CLOSE_PRODUCER).producer_id == 1
    client.publish(1, entry("a"))
    assert client.take_all() == []
    assert client.open_producer().producer_name == "p"
    client.publish(1, entry("a"), first=4)
    assert client.receipts() == [(4, (1, 0))]


def test_session_with_too_much_in_flight_is_not_read_until_half_of_it_is_on_disk() -> None:
    # covers PR-15
    world = World(max_pending_publishes_per_session=4)
    client = world.connect()
    client.open_producer()
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
    first, second = world.connect(), world.connect()
    first.open_producer(name="a")
    second.open_producer(name="b")
    world.disk_is_slow = True
    first.publish(1, entry("x" * 900))
    second.publish(1, entry("y" * 900))
    assert [type(each) for each in second.take_all()] == [fx.PauseReading]
    world.sync()
    assert [type(each) for each in second.take_all()] == [fx.SendReceipts, fx.ResumeReading]


def test_restart_opens_a_new_ledger_with_the_first_entry() -> None:
    # covers ML-1, A5
    world = World()
    client = world.connect()
    client.open_producer()
    client.publish(1, entry("a"), entry("b"))
    client.take_all()
    client = world.restart().connect()
    client.open_producer()
    client.publish(1, entry("c"))
    ((_, position),) = client.receipts()
    assert position > Position(1, 1)
    assert position.entry_id == 0


def test_producer_that_asks_for_what_is_not_built() -> None:
    client = World().connect()
    command = requests.producer(1, TOPIC, 1, "p")
    command.producer.txn_enabled = True
    client.send(command)
    refused = client.expect(BaseCommand.ERROR)
    assert refused.error == ServerError.NotAllowedError
    assert "Transactions" in refused.message
