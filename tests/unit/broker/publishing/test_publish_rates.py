"""Rates of publishing: what comes too fast waits in its order, and its connections are not read."""

import pytest

from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.broker.turn.token_bucket import TokenBucket
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.policies.effective_policies import PublishRate
from spark_pulsar.model.policies.json_values import MalformedPolicy
from spark_pulsar.wire.protocol import commands, requests
from spark_pulsar.wire.protocol.frames import payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.unit.broker.world import QUIET, TOPIC, Client, World, entry, producing

LIVE = TOPIC.replace("persistent", "non-persistent")
OTHER = TOPIC + "-other"


def limited(messages: int) -> World:
    return World(**QUIET, max_publish_rate_messages=messages)


def limited_together(messages: int, **config: int) -> World:
    return World(**QUIET, broker_publish_rate_messages=messages, **config)


def received(client: Client) -> tuple[list[int], list[str]]:
    """Sequence ids of receipts, and what else came, by name."""
    ids: list[int] = []
    others: list[str] = []
    for effect in client.take_all():
        if isinstance(effect, (fx.SendReceipts, fx.SendColumnarReceipts)):
            ids += effect.sequence_ids
        elif isinstance(effect, fx.SendCommand):
            others.append(BaseCommand.Type.Name(effect.command.type))
        else:
            others.append(type(effect).__name__)
    return ids, others


def publish(client: Client, first: int, count: int, producer_id: int = 1) -> None:
    client.publish(producer_id, *[entry("x")] * count, first=first)


def test_a_bucket_fills_at_its_rate() -> None:
    bucket = TokenBucket(3)
    assert bucket.wait_ms == 0
    bucket.spend(3)
    assert bucket.wait_ms == 334
    bucket.spend(3)
    assert bucket.wait_ms == 1334
    bucket.refill(1333)
    assert bucket.wait_ms == 1
    bucket.refill(1)
    assert bucket.wait_ms == 0
    bucket.refill(100_000)
    assert bucket.left == 3_000
    assert TokenBucket(0).wait_ms == 0


def test_what_comes_too_fast_waits_and_its_connection_is_not_read() -> None:
    # covers PR-14
    world = limited(messages=20)
    client = world.connect_producer()
    publish(client, 0, 50)
    assert received(client) == (list(range(20)), ["PauseReading"])
    world.advance(500)
    assert received(client) == (list(range(20, 30)), [])
    world.advance(1_000)
    assert received(client) == (list(range(30, 50)), ["ResumeReading"])
    assert world.core.topics[TOPIC].publish_limited_times == 1
    world.advance(10_000)
    publish(client, 50, 20)
    assert received(client) == (list(range(50, 70)), [])


def test_an_entry_that_says_it_holds_two_billion_messages_stops_nobody_for_long() -> None:
    # covers PR-14: it stopped the whole topic for weeks
    world = limited(messages=1_000)
    liar, other = world.connect_producer(name="a"), world.connect_producer(name="b")
    liar.publish(1, entry("x"), messages=2**31 - 1)
    publish(other, 0, 1)
    world.advance(1_000)
    publish(other, 1, 1)
    world.advance(1_000)
    assert received(other)[0] == [0, 1]


@pytest.mark.parametrize("level", ["max", "broker"])
def test_bytes_are_limited_and_a_large_entry_goes_all_the_same(level: str) -> None:
    # covers PR-14
    world, client = producing(**QUIET, **{f"{level}_publish_rate_bytes": 1_000})
    client.open_producer(OTHER if level == "broker" else TOPIC, 2, "q")
    client.publish(1, entry("x" * 3_000))
    client.publish(2, entry("y"), first=1)
    assert received(client) == ([0], ["PauseReading"])
    world.advance(2_000)
    assert received(client) == ([], [])
    world.advance(100)
    assert received(client) == ([1], ["ResumeReading"])


def test_what_comes_later_stays_behind_what_waits() -> None:
    # covers PR-14, PR-9
    world = limited(messages=1)
    one, two = world.connect_producer(name="a"), world.connect_producer(name="b")
    publish(one, 0, 2)
    publish(one, 2, 1)
    publish(two, 7, 1)
    assert received(one) == ([0], ["PauseReading"])
    assert received(two) == ([], ["PauseReading"])
    world.advance(1_001)
    assert received(one) == ([1], [])
    world.advance(1_001)
    assert received(one) == ([2], ["ResumeReading"])
    assert received(two) == ([], [])
    world.advance(1_001)
    assert received(two) == ([7], ["ResumeReading"])


@pytest.mark.parametrize("rate_of_all", [0, 1])
def test_a_close_comes_after_what_waits(rate_of_all: int) -> None:
    # covers PR-14, A18: at the rate of its topic, and at that of all topics too
    world, client = producing(**QUIET, max_publish_rate_messages=2, broker_publish_rate_messages=rate_of_all)
    frames = [payload_frame(requests.send(1, number), entry("x")) for number in range(5)]
    client.send_bytes(b"".join(frames) + payload_frame(requests.close_producer(9, 1), b""))
    assert received(client) == ([0, 1, 2, 3, 4], ["PauseReading", "SUCCESS"])
    world.advance(9_000)
    assert received(client) == ([], ["ResumeReading"])


def test_what_waits_of_a_producer_that_is_gone_is_dropped() -> None:
    # covers PR-14: its client sends again what has no receipt
    world = limited(messages=1)
    gone, client = world.connect_producer(name="gone"), world.connect_producer(name="p")
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
    client.publish_in_turn((1 + number % 2, entry("x")) for number in range(4))
    ids, others = received(client)
    assert (sorted(ids), others) == ([0, 1], ["PauseReading"])
    world.advance(1_001)
    ids, others = received(client)
    assert (sorted(ids), others) == ([2, 3], ["ResumeReading"])


@pytest.mark.parametrize("level", ["configuration", "namespace", "broker"])
def test_a_non_persistent_topic_is_limited_too(level: str) -> None:
    # covers PR-14, NP-5
    world = World(
        **QUIET,
        max_publish_rate_messages=1 if level == "configuration" else 0,
        broker_publish_rate_messages=1 if level == "broker" else 0,
    )
    client = world.connect_producer(LIVE)
    if level == "namespace":
        world.set_policy(policy_table.PUBLISH_RATE, PublishRate(1).to_json())
    publish(client, 0, 2)
    assert received(client) == ([0], ["PauseReading"])
    world.advance(1_001)
    assert received(client) == ([1], ["ResumeReading"])


def test_a_limit_that_is_taken_away_lets_everything_go(world: World) -> None:
    # covers PR-14
    world.connect_producer()
    assert world.core.topics[TOPIC].publish_limit is None
    world = limited(messages=1)
    client = world.connect_producer()
    publish(client, 0, 9)
    assert received(client)[0] == [0]
    world.ask(lambda core: lifecycle.delete(core, core.topics[TOPIC]))
    assert received(client) == ([], ["CLOSE_PRODUCER", "ResumeReading"])
    assert world.core.publish_limits.topics == 0


def throttles(world: World, client: Client) -> int:
    """Number of rates that hold back entries of a client."""
    return world.core.sessions[client.session_id].throttles


def test_all_topics_together_have_a_rate_too() -> None:
    # covers PR-14
    world = limited_together(messages=10)
    one, two = world.connect_producer(), world.connect_producer(OTHER, name="q")
    publish(one, 0, 8)
    publish(two, 0, 8)
    publish(one, 8, 2)
    assert received(one) == (list(range(8)), ["PauseReading"])
    assert received(two) == ([0, 1], ["PauseReading"])
    world.advance(601)
    assert received(two) == (list(range(2, 8)), ["ResumeReading"])
    assert received(one) == ([], [])
    world.advance(200)
    assert received(one) == ([8, 9], ["ResumeReading"])
    assert [world.core.topics[name].publish_limited_times for name in (TOPIC, OTHER)] == [1, 1]
    world.advance(10_000)
    publish(two, 8, 10)
    assert received(two) == (list(range(8, 18)), [])


def test_nobody_gets_more_of_it_because_he_sends_more() -> None:
    # covers PR-14
    world = limited_together(messages=1)
    greedy, modest = world.connect_producer(), world.connect_producer(OTHER, name="q")
    publish(greedy, 0, 3)
    publish(modest, 0, 1)
    publish(greedy, 3, 500)
    world.advance(3_003)
    assert received(modest)[0] == [0]
    assert received(greedy)[0] == [0, 1, 2]


def test_a_topic_with_a_rate_of_its_own_keeps_to_both() -> None:
    # covers PR-14, PR-9
    world = limited_together(messages=5, max_publish_rate_messages=2)
    client = world.connect_producer()
    client.open_producer(OTHER, 2, "q")
    publish(client, 0, 6)
    assert received(client) == ([0, 1], ["PauseReading"])
    publish(client, 0, 6, producer_id=2)
    publish(client, 6, 1)
    assert received(client) == ([0, 1], [])
    for expected in ([2, 3], [4, 5], [6]):
        world.advance(1_001)
        ids, _ = received(client)
        assert [number for number in ids if number in expected] == sorted(expected * (2 if expected[0] < 6 else 1))
    assert not throttles(world, client)


def test_the_rate_of_all_stays_when_that_of_a_topic_comes_and_goes() -> None:
    # covers PR-14, PR-9
    world = limited_together(messages=10)
    client = world.connect_producer()
    topic = world.core.topics[TOPIC]
    for rate in ({"publishThrottlingRateInMsg": 2}, None):
        publish(client, 0, 30)
        assert throttles(world, client)
        world.set_topic_policy("publish_rate", rate, topic.name)
        world.advance(20_000)
        assert received(client)[0] == list(range(30))
        assert (topic.publish_limit is world.core.publish_limits.of_all) is (rate is None)
    assert world.core.publish_limits.topics == 1


def test_what_is_held_of_producers_that_left_is_dropped_at_once() -> None:
    # covers PR-14: whoever connects, sends and goes does not fill the broker
    world = limited_together(messages=1, max_publish_rate_messages=1)
    limit = world.core.publish_limits.of_all
    assert limit is not None
    for number in range(40):
        client = world.connect_producer(f"{TOPIC}{number % 3}", name=f"p{number}")
        publish(client, 0, 20)
        client.close()
        limits = [limit, *(topic.publish_limit for topic in world.core.topics.values() if topic.publish_limit)]
        assert sum(len(each._held) for each in limits) <= 3
    world.advance(2_000)
    client = world.connect_producer()
    publish(client, 0, 1)
    assert received(client)[0] == [0]


def test_a_connection_that_waits_for_the_disk_too_is_read_when_both_allow_it() -> None:
    # covers PR-14, PR-15
    world, client = producing(**QUIET, max_publish_rate_messages=2, max_pending_publishes_per_session=2)
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
    assert PublishRate.from_json({"publishThrottlingRateInMsg": 5}) == PublishRate(5, -1)
    assert PublishRate.from_json(None) == PublishRate.from_json({}) == PublishRate(-1, -1)
    assert not PublishRate.from_json({"publishThrottlingRateInMsg": -1, "publishThrottlingRateInByte": 0}).is_limited
    assert PublishRate(5, 0).to_json() == {"publishThrottlingRateInMsg": 5, "publishThrottlingRateInByte": 0}
    with pytest.raises(MalformedPolicy):
        PublishRate.from_json({"publishThrottlingRateInMsg": "many"})
