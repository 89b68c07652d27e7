"""Access modes of producers: exclusive access, producers that wait for it, and epochs."""

from typing import Any

import pytest

from spark_pulsar.broker.entities import exclusive_access
from spark_pulsar.broker.entities import producer as producers
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.wire.protocol import commands, requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, ProducerAccessMode, ServerError
from tests.unit.broker.world import QUIET, TOPIC, Client, World, entry

SHARED = ProducerAccessMode.Shared
EXCLUSIVE = ProducerAccessMode.Exclusive
WAIT = ProducerAccessMode.WaitForExclusive
FENCING = ProducerAccessMode.ExclusiveWithFencing


def ask(
    client: Client, name: str, mode: Any = SHARED, *, producer_id: int = 1, epoch: int | None = None, topic: str = TOPIC
) -> None:
    command = requests.producer(client.request_id(), topic, producer_id, name, access_mode=mode)
    if epoch is not None:
        command.producer.topic_epoch = epoch
    client.send(command)


def accepted(client: Client, name: str, mode: Any = SHARED, **more: Any) -> Any:
    """Opens a producer at once; its PRODUCER_SUCCESS."""
    ask(client, name, mode, **more)
    answer = client.expect(BaseCommand.PRODUCER_SUCCESS)
    assert answer.producer_ready
    assert answer.producer_name == name
    return answer


def refused(client: Client, name: str, mode: Any = SHARED, **more: Any) -> tuple[int, str]:
    ask(client, name, mode, **more)
    error = client.expect(BaseCommand.ERROR)
    return error.error, error.message


def queued(client: Client, name: str, **more: Any) -> int:
    """Waits for the topic; the request id."""
    ask(client, name, WAIT, **more)
    answer = client.expect(BaseCommand.PRODUCER_SUCCESS)
    assert not answer.producer_ready
    assert not answer.HasField("topic_epoch")
    return int(answer.request_id)


def held(world: World) -> Client:
    """A client that has the topic alone."""
    client = world.connect()
    accepted(client, "a", EXCLUSIVE)
    return client


def let_in(client: Client, request_id: int) -> int:
    """The second answer to a waiter; its epoch."""
    answer = client.expect(BaseCommand.PRODUCER_SUCCESS)
    assert answer.producer_ready
    assert answer.request_id == request_id
    return int(answer.topic_epoch)


def test_a_shared_producer_is_told_no_epoch_before_there_is_one(world: World) -> None:
    # covers PR-7
    client = world.connect()
    assert not accepted(client, "a").HasField("topic_epoch")
    client.request(requests.close_producer(9, 1), BaseCommand.SUCCESS)
    assert accepted(client, "b", EXCLUSIVE).topic_epoch == 0
    client.request(requests.close_producer(10, 1), BaseCommand.SUCCESS)
    assert accepted(client, "c", epoch=0).topic_epoch == 0  # what a Shared producer brings means nothing (Go)


def test_a_holder_hears_of_its_epoch_when_that_is_on_disk(world: World) -> None:
    # covers PR-7
    client = world.connect()
    world.disk_is_slow = True
    ask(client, "a", EXCLUSIVE)
    assert client.take_all() == []
    world.sync()
    assert client.expect(BaseCommand.PRODUCER_SUCCESS).topic_epoch == 0


@pytest.mark.parametrize("mode", [EXCLUSIVE, WAIT, FENCING])
def test_who_had_the_topic_before_is_refused(world: World, mode: Any) -> None:
    # covers PR-7
    held(world).close()
    second = world.connect()
    assert accepted(second, "b", EXCLUSIVE).topic_epoch == 1
    second.close()
    text = "Topic epoch has already moved. Current epoch: 1, Producer epoch: 0"
    assert refused(world.connect(), "a", mode, epoch=0) == (ServerError.ProducerFenced, text)


@pytest.mark.parametrize("epoch", [1 << 63, (1 << 64) - 1, (1 << 62) + 1])
def test_an_epoch_that_no_broker_gave_is_refused(world: World, epoch: int) -> None:
    client = world.connect()
    assert refused(client, "a", EXCLUSIVE, epoch=epoch)[0] == ServerError.ProducerFenced
    assert accepted(client, "a", EXCLUSIVE, epoch=1 << 62).topic_epoch == 1 << 62


def test_a_waiter_waits_for_the_last_shared_producer(world: World) -> None:
    # covers PR-6
    one, two, waiting = (world.connect() for _ in range(3))
    accepted(one, "a")
    accepted(two, "b")
    request = queued(waiting, "c")
    one.close()
    assert waiting.take_all() == []
    text = "Topic has an existing exclusive producer: null"
    assert refused(two, "d", producer_id=2) == (ServerError.ProducerBusy, text)  # covers PR-3: waiters count
    assert refused(two, "d", EXCLUSIVE, producer_id=2) == (ServerError.ProducerFenced, text)
    two.close()
    assert let_in(waiting, request) == 0


def test_no_more_wait_than_a_topic_has_room_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers PR-6: a line has an end
    monkeypatch.setattr(exclusive_access, "MAX_WAITERS", 3)
    one, two = held(world), world.connect()
    requests_of = [queued(two, f"w{number}", producer_id=number) for number in range(3)]
    text = f"Topic '{TOPIC}' has 3 producers that wait for it, and takes no more"
    for _ in range(2):
        assert refused(two, "w", WAIT, producer_id=9) == (ServerError.ProducerBusy, text)
    one.send(requests.close_producer(one.request_id(), 1))
    let_in(two, requests_of[0])
    queued(two, "w", producer_id=9)
    two.close()
    assert not world.core.topics[TOPIC].access.waiters  # type: ignore[union-attr]


def test_waiters_that_are_gone_cost_no_epoch(world: World) -> None:
    # covers PR-6
    holder, (gone, closing, waiting) = held(world), (world.connect() for _ in range(3))
    queued(gone, "b")
    queued(closing, "c")
    request = queued(waiting, "d")
    gone.close()
    assert closing.request(requests.close_producer(9, 1), BaseCommand.SUCCESS).request_id == 9
    holder.close()
    assert let_in(waiting, request) == 1
    assert closing.take_all() == []


def test_a_connection_that_holds_and_waits_goes_as_a_whole(world: World) -> None:
    client, waiting = held(world), world.connect()
    queued(client, "b", producer_id=2)
    request = queued(waiting, "c")
    client.close()
    assert let_in(waiting, request) == 1


def test_fencing_takes_a_name_and_a_limited_topic_too() -> None:
    # covers PR-5
    world = World(**QUIET, max_producers_per_topic=1)
    shared, fencing = world.connect(), world.connect()
    accepted(shared, "p")
    assert accepted(fencing, "p", FENCING).topic_epoch == 0
    assert refused(shared, "q", producer_id=2)[0] == ServerError.ProducerBusy


def test_receipts_of_what_a_fenced_producer_sent_before(world: World) -> None:
    # covers PR-8
    holder, fencing = held(world), world.connect()
    world.disk_is_slow = True
    holder.publish(1, entry("before"))
    ask(fencing, "f", FENCING)
    world.sync()
    assert len(holder.receipts()) == 1
    assert fencing.expect(BaseCommand.PRODUCER_SUCCESS).topic_epoch == 1


def test_a_holder_that_comes_back_before_its_old_connection_is_gone(world: World) -> None:
    # covers PR-2, PR-4
    old, new = held(world), world.connect()
    ask(new, "a", EXCLUSIVE, epoch=0)
    assert new.take_all() == []
    world.advance(world.core.config.liveness_check_timeout_ms)
    assert old.closed
    assert new.expect(BaseCommand.PRODUCER_SUCCESS).topic_epoch == 0


def test_a_holder_whose_connection_lives_keeps_the_topic(world: World) -> None:
    # covers PR-2, PR-4
    old, new = held(world), world.connect()
    ask(new, "a", EXCLUSIVE)
    old.expect(BaseCommand.PING)
    old.send(commands.pong())
    assert new.expect(BaseCommand.ERROR).error == ServerError.ProducerFenced


def test_a_waiter_of_the_holders_name(world: World) -> None:
    # covers PR-6: with de-duplication all leaders use one name
    holder, waiting = world.connect(), world.connect()
    accepted(holder, "p", EXCLUSIVE)
    ask(waiting, "p", WAIT)
    holder.expect(BaseCommand.PING)
    holder.send(commands.pong())
    request = waiting.expect(BaseCommand.PRODUCER_SUCCESS).request_id
    holder.close()
    assert let_in(waiting, request) == 1


def test_unloading_sends_waiters_away_for_a_moment(world: World) -> None:
    # covers PR-17
    holder, waiting = held(world), world.connect()
    queued(waiting, "b")
    world.ask(lambda core: lifecycle.disconnect_all(core, core.topics[TOPIC]))
    assert waiting.expect(BaseCommand.ERROR).error == ServerError.ServiceNotReady
    assert holder.expect(BaseCommand.CLOSE_PRODUCER).producer_id == 1
    assert accepted(holder, "a", EXCLUSIVE, epoch=0).topic_epoch == 0


def test_a_holder_that_the_broker_closed_makes_room(world: World) -> None:
    # covers PR-6
    _, waiting = held(world), world.connect()
    request = queued(waiting, "b")
    world.ask(lambda core: producers.disconnect(core, core.topics[TOPIC].producers["a"]))
    assert let_in(waiting, request) == 1


def test_a_waiter_whose_turn_comes_while_the_disk_is_full_is_sent_away(world: World) -> None:
    # covers DUR-10
    _, waiting = held(world), world.connect()
    queued(waiting, "b")

    def close(core: Any) -> None:
        core.disk_full_reason = "full"
        producers.disconnect(core, core.topics[TOPIC].producers["a"])

    world.ask(close)
    assert waiting.expect(BaseCommand.ERROR).error == ServerError.ServiceNotReady
    assert not world.core.topics[TOPIC].producers
