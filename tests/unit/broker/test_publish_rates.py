"""Rates of publishing: what comes too fast waits in its order, and its connections are not read."""

import pytest

from spark_pulsar.broker import effects as fx
from spark_pulsar.broker import topics
from spark_pulsar.broker.publish_rates import Bucket
from spark_pulsar.model.policies import MalformedPolicy, PublishRate
from spark_pulsar.wire import commands, requests
from spark_pulsar.wire.frames import payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.unit.broker.world import QUIET, TOPIC, Client, World, entry


def limited(messages: int = 0, size: int = 0) -> World:
    return World(**QUIET, max_publish_rate_messages=messages, max_publish_rate_bytes=size)


def received(client: Client) -> tuple[list[int], list[str]]:
    """Sequence ids of receipts, and what else came, by name."""
    ids: list[int] = []
    others: list[str] = []
    for effect in client.take_all():
        if isinstance(effect, (fx.SendReceipts, fx.SendScatteredReceipts)):
            ids += effect.sequence_ids
        elif isinstance(effect, fx.SendCommand):
            others.append(BaseCommand.Type.Name(effect.command.type))
        else:
            others.append(type(effect).__name__)
    return ids, others


def publish(client: Client, first: int, count: int, producer_id: int = 1) -> None:
    client.publish(producer_id, *[entry("x")] * count, first=first)


def test_a_bucket_fills_at_its_rate() -> None:
    bucket = Bucket(3)
    assert bucket.wait_ms == 0
    bucket.take(3)
    assert bucket.wait_ms == 334
    bucket.take(3)
    assert bucket.wait_ms == 1334
    bucket.refill(1333)
    assert bucket.wait_ms == 1
    bucket.refill(1)
    assert bucket.wait_ms == 0
    bucket.refill(100_000)
    assert bucket.left == 3_000
    assert Bucket(0).wait_ms == 0


def test_what_comes_too_fast_waits_and_its_connection_is_not_read() -> None:
    # covers PR-14
    world = limited(messages=20)
    client = world.connect()
    client.open_producer()
    publish(client, 0, 50)
    assert received(client) == (list(range(20)), ["PauseReading"])
    world.advance(500)
    assert received(client) == (list(range(20, 30)), [])
    world.advance(1_000)
    assert received(client) == (list(range(30, 50)), ["ResumeReading"])
    assert world.core.topics[TOPIC].publish_limit.times == 1  # type: ignore[union-attr]
    world.advance(10_000)
    publish(client, 50, 20)
    assert received(client) == (list(range(50, 70)), [])


def test_bytes_are_limited_and_a_large_entry_goes_all_the_same() -> None:
    # covers PR-14
    world = limited(size=1_000)
    client = world.connect()
    client.open_producer()
    client.publish(1, entry("x" * 3_000), entry("y"))
    assert received(client) == ([0], ["PauseReading"])
    world.advance(2_000)
    assert received(client) == ([], [])
    world.advance(100)
    assert received(client) == ([1], ["ResumeReading"])


def test_what_comes_later_stays_behind_what_waits() -> None:
    # covers PR-14, PR-9
    world = limited(messages=1)
    one, two = world.connect(), world.connect()
    one.open_producer(name="a")
    two.open_producer(name="b")
    publish(one, 0, 2)
    publish(one, 2, 1)
    publish(two, 7, 1)
    assert received(one) == ([0], ["PauseReading"])
    assert received(two) == ([], ["PauseReading"])
    for expected in ([1], [2]):
        world.advance(1_001)
        assert received(one)[0] == expected
    assert received(two) == ([], [])
    world.advance(1_001)
    assert received(two) == ([7], ["ResumeReading"])
    assert received(one) == ([], ["ResumeReading"])


def test_a_close_comes_after_what_waits() -> None:
    # covers PR-14; wire-protocol 5.4
    world = limited(messages=1)
    client = world.connect()
    client.open_producer()
    frames = [payload_frame(requests.send(1, number), entry("x")) for number in range(3)]
    client.send_bytes(b"".join(frames) + payload_frame(requests.close_producer(9, 1), b""))
    assert received(client) == ([0, 1, 2], ["PauseReading", "SUCCESS"])
    world.advance(5_000)
    assert received(client) == ([], ["ResumeReading"])


def test_what_waits_of_a_producer_that_is_gone_is_dropped() -> None:
    # covers PR-14: its client sends again what has no receipt
    world = limited(messages=1)
    gone, client = world.connect(), world.connect()
    gone.open_producer(name="gone")
    client.open_producer(name="p")
    publish(gone, 0, 5)
    publish(client, 0, 1)
    gone.close()
    received(client)
    world.advance(2_000)
    assert received(client) == ([0], ["ResumeReading"])
    assert world.core.topics[TOPIC].ledger.total_entries == 2


def test_many_producers_in_turn_are_limited_each_by_its_topic() -> None:
    # covers PR-14
    world = limited(messages=1)
    client = world.connect()
    for number in (1, 2):
        client.open_producer(f"{TOPIC}{number}", number, f"p{number}")
    frames = [payload_frame(requests.send(1 + number % 2, number), entry("x")) for number in range(4)]
    client.send_bytes(b"".join(frames))
    ids, others = received(client)
    assert (sorted(ids), others) == ([0, 1], ["PauseReading"])
    world.advance(1_001)
    ids, others = received(client)
    assert (sorted(ids), others) == ([2, 3], ["ResumeReading"])


def test_a_non_persistent_topic_is_limited_too() -> None:
    # covers PR-14
    world = limited(messages=1)
    client = world.connect()
    client.open_producer(TOPIC.replace("persistent", "non-persistent"))
    publish(client, 0, 2)
    assert received(client) == ([0], ["PauseReading"])
    world.advance(1_001)
    assert received(client) == ([1], ["ResumeReading"])


def test_a_limit_that_is_taken_away_lets_everything_go(world: World) -> None:
    # covers PR-14
    client = world.connect()
    client.open_producer()
    topic = world.core.topics[TOPIC]
    assert topic.publish_limit is None
    world = limited(messages=1)
    client = world.connect()
    client.open_producer()
    publish(client, 0, 9)
    assert received(client)[0] == [0]
    world.ask(lambda core: topics.delete(core, core.topics[TOPIC]))
    assert received(client) == ([], ["CLOSE_PRODUCER", "ResumeReading"])
    assert world.core.publish_limits == 0


def test_a_connection_that_waits_for_the_disk_too_is_read_when_both_allow_it() -> None:
    # covers PR-14, PR-15
    world = World(**QUIET, max_publish_rate_messages=2, max_pending_publishes_per_session=2)
    client = world.connect()
    client.open_producer()
    world.disk_is_slow = True
    publish(client, 0, 3)
    assert received(client) == ([], ["PauseReading"])
    world.sync()
    assert received(client) == ([0, 1], [])
    world.disk_is_slow = False
    world.advance(1_000)
    assert received(client) == ([2], ["ResumeReading"])
    client.send(commands.ping())
    assert received(client) == ([], ["PONG"])


def test_rates_as_they_are_written() -> None:
    # covers PR-14
    assert PublishRate.from_json({"publishThrottlingRateInMsg": 5}) == PublishRate(5, 0)
    assert PublishRate.from_json(None) == PublishRate.from_json({}) == PublishRate()
    assert not PublishRate.from_json({"publishThrottlingRateInMsg": -1, "publishThrottlingRateInByte": 0}).is_limited
    assert PublishRate(5).to_json() == {"publishThrottlingRateInMsg": 5, "publishThrottlingRateInByte": -1}
    with pytest.raises(MalformedPolicy):
        PublishRate.from_json({"publishThrottlingRateInMsg": "many"})
