"""Dispatch and subscribe rates: entries that come too fast wait, and consumers that come too often are refused."""

from typing import Any

import pytest

from spark_pulsar.broker.dispatch.limits.subscribe_rates import SubscribeLimit
from spark_pulsar.broker.message_lifetime import compaction
from spark_pulsar.broker.topics import lifecycle, policy_changes
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.broker.turn.token_bucket import TokenBucket
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.policies.effective_policies import DispatchRate, SubscribeRate
from spark_pulsar.model.policies.json_values import MalformedPolicy
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe, ServerError
from tests.unit.broker.key_sharing import keyed
from tests.unit.broker.world import QUIET, TOPIC, Client, World, entry

TYPES = (CommandSubscribe.Exclusive, CommandSubscribe.Shared, CommandSubscribe.Failover, CommandSubscribe.Key_Shared)
OTHER = "persistent://public/default/other"


def world_of(**rates: int | bool) -> World:
    return World(**QUIET, failover_delay_ms=0, **rates)


def publish(world: World, *entries: bytes, topic: str = TOPIC, messages: int = 1) -> None:
    client = world.connect()
    client.open_producer(topic, name=None)
    client.publish(1, *entries, messages=messages)
    client.close()


def join(world: World, kind: Any = CommandSubscribe.Shared, **more: Any) -> Client:
    client = world.connect()
    client.open_consumer(subscription_type=kind, permits=1_000, **more)
    return client


def received(client: Client) -> int:
    return sum(len(each.starts) for each in client.take_all() if isinstance(each, fx.SendMessages))


def set_policy(world: World, member: str, value: dict[str, Any] | None) -> None:
    world.ask(lambda core: policy_changes.set_of_topic(core, TopicName.parse(TOPIC), member, value))


@pytest.mark.parametrize("kind", TYPES, ids=CommandSubscribe.SubType.Name)
@pytest.mark.parametrize("level", ["topic_", "subscription_", ""])
def test_no_more_messages_are_sent_than_the_rate_allows(kind: Any, level: str) -> None:
    # covers SUB-7
    world = world_of(**{f"{level}dispatch_rate_messages": 20})
    publish(world, *(keyed(str(number % 7)) for number in range(100)))
    client = join(world, kind)
    assert received(client) == 20
    world.advance(500)
    assert 9 <= received(client) <= 11
    world.advance(2_000)
    assert 39 <= received(client) <= 41
    world.advance(2_000)
    received(client)
    world.advance(10_000)
    publish(world, *[keyed("a")] * 50)
    assert received(client) == 20, "what was not used is not saved up for longer than a period"
    name = {"topic_": "Topic", "subscription_": "Subscription", "": "Broker"}[level]
    throttled = world.core.topics[TOPIC].subscriptions["s"].throttled
    assert set(throttled) == {f"dispatchThrottledMsgEventsBy{name}Limit"}


def test_an_entry_that_says_it_holds_two_billion_messages_stops_no_other_subscription() -> None:
    # covers SUB-7: it stopped all subscriptions of the topic for weeks
    world = world_of(topic_dispatch_rate_messages=1_000)
    publish(world, entry("x", batch=2**31 - 1), messages=2**31 - 1)
    assert received(join(world)) == 1
    other = join(world, subscription="other", initial_position=0)
    publish(world, entry("y"))
    world.advance(2_000)
    assert received(other) == 1


@pytest.mark.parametrize("kind", TYPES, ids=CommandSubscribe.SubType.Name)
def test_bytes_are_limited_and_a_large_entry_goes_all_the_same(kind: Any) -> None:
    # covers SUB-7
    world = world_of(subscription_dispatch_rate_bytes=1_000)
    publish(world, entry("x" * 3_000), entry("y"))
    client = join(world, kind)
    assert received(client) == 1
    world.advance(2_000)
    assert received(client) == 0
    world.advance(200)
    assert received(client) == 1
    assert "dispatchThrottledBytesEventsBySubscriptionLimit" in world.core.topics[TOPIC].subscriptions["s"].throttled


def test_messages_of_batches_count_one_by_one() -> None:
    # covers SUB-7
    world = world_of(topic_dispatch_rate_messages=10)
    publish(world, *[entry("b", batch=30)] * 2, messages=30)
    client = join(world)
    assert received(client) == 1
    world.advance(1_900)
    assert received(client) == 0
    world.advance(300)
    assert received(client) == 1


@pytest.mark.parametrize("kind", TYPES, ids=CommandSubscribe.SubType.Name)
@pytest.mark.parametrize("level", ["topic_", "subscription_", ""])
def test_a_batch_may_count_as_one_message(kind: Any, level: str) -> None:
    # covers SUB-7
    world = world_of(**{f"{level}dispatch_rate_messages": 10}, dispatch_rates_count_entries=True)
    publish(world, *(keyed(str(number % 7), num_messages_in_batch=5) for number in range(25)), messages=5)
    client = join(world, kind)
    assert received(client) == 10
    world.advance(500)
    assert received(client) == 5
    client.send(requests.redeliver(1))
    assert received(client) == 0
    world.advance(1_000)
    assert received(client) == 10, "what comes again counts as well"
    world.advance(10_000)
    assert received(client) >= 15


def test_a_batch_of_the_compacted_view_may_count_as_one_message() -> None:
    # covers SUB-7, CMP-C4
    world = world_of(topic_dispatch_rate_messages=2, dispatch_rates_count_entries=True)
    publish(world, *(keyed(f"k{number}", "x", num_messages_in_batch=1) for number in range(5)))
    world.ask(lambda core: compaction.request(core, core.topics[TOPIC]))
    client = join(world, CommandSubscribe.Exclusive, read_compacted=True)
    assert received(client) == 2
    world.advance(500)
    assert received(client) == 1
    world.advance(1_000)
    assert received(client) == 2


@pytest.mark.parametrize("kind", TYPES, ids=CommandSubscribe.SubType.Name)
def test_what_comes_again_is_limited_too(kind: Any) -> None:
    # covers SUB-7
    world = world_of(subscription_dispatch_rate_messages=10)
    publish(world, *[keyed("k")] * 10)
    client = join(world, kind)
    assert received(client) == 10
    client.send(requests.redeliver(1))
    assert received(client) == 0
    world.advance(500)
    assert 4 <= received(client) <= 6
    world.advance(600)
    assert received(client) >= 4


def test_subscriptions_of_a_topic_share_its_rate_and_have_their_own() -> None:
    # covers SUB-7
    world = world_of(topic_dispatch_rate_messages=100, subscription_dispatch_rate_messages=80)
    publish(world, *[entry("x")] * 900)
    one, two = join(world), join(world, subscription="t")
    assert (received(one), received(two)) == (80, 20)
    world.advance(4_000)
    counts = received(one), received(two)
    assert 398 <= sum(counts) <= 402
    assert min(counts) > 100, "each gets some"


def test_all_topics_share_the_rate_of_the_broker() -> None:
    # covers SUB-7
    world = world_of(dispatch_rate_messages=100)
    publish(world, *[entry("x")] * 900)
    publish(world, *[entry("x")] * 900, topic=OTHER)
    one, two = join(world), join(world, topic=OTHER)
    world.advance(4_000)
    counts = received(one), received(two)
    assert 498 <= sum(counts) <= 502
    assert min(counts) > 100


def test_a_policy_works_at_once_and_so_does_its_end() -> None:
    # covers SUB-7 (levels)
    world = world_of()
    client = join(world)
    set_policy(world, policy_table.DISPATCH_RATE, DispatchRate(5, period_s=10).to_json())
    world.advance(1_000)
    publish(world, *[entry("x")] * 30)
    assert received(client) == 5
    world.advance(10_000)
    assert 4 <= received(client) <= 6
    set_policy(world, policy_table.DISPATCH_RATE, None)
    world.advance(1_000)
    assert received(client) >= 19


@pytest.mark.parametrize("member", [policy_table.DISPATCH_RATE, policy_table.SUBSCRIPTION_DISPATCH_RATE])
@pytest.mark.parametrize("what", ["messages", "bytes"])
def test_a_rate_may_be_relative_to_that_of_publishing(member: str, what: str) -> None:
    # covers SUB-7
    world = World(**QUIET, stats_interval_ms=10_000)
    publish(world, *[entry("x" * 1_000)] * 500)
    size_bytes = world.core.topics[TOPIC].bytes_in // 500
    rate = DispatchRate(10, period_s=2) if what == "messages" else DispatchRate(0, 10 * size_bytes, 2)
    set_policy(world, member, {**rate.to_json(), "relativeToPublishRate": True})
    world.advance(100)
    client = join(world)
    assert received(client) in (10, 11), "nothing is known of what is published"
    world.advance(9_800)
    assert 48 <= received(client) <= 51
    world.advance(400)
    received(client)
    world.advance(2_000)
    assert 105 <= received(client) <= 115, "ten, and fifty a second: what was published in ten seconds"
    world.advance(20_000)
    received(client)
    client.send(requests.redeliver(1))
    assert received(client) in (10, 11)
    world.advance(2_000)
    assert 9 <= received(client) <= 11, "nothing was published any more"


def test_a_relative_rate_grows_also_for_those_that_wait_already() -> None:
    # covers SUB-7
    world = World(**QUIET, stats_interval_ms=1_000)
    set_policy(
        world, policy_table.DISPATCH_RATE, {**DispatchRate(1, 0, 3_600).to_json(), "relativeToPublishRate": True}
    )
    publish(world, *[entry("x")] * 2)
    client = join(world)
    assert received(client) == 1
    world.advance(2_500)
    assert received(client) == 1, "two a second now, not one in an hour"


def test_what_is_relative_and_no_limit_is_none() -> None:
    # covers SUB-7
    world = World(**QUIET, stats_interval_ms=1_000)
    set_policy(world, policy_table.DISPATCH_RATE, {**DispatchRate(-1, -1).to_json(), "relativeToPublishRate": True})
    publish(world, *[entry("x")] * 100)
    assert received(join(world)) == 100


def test_one_subscription_has_a_rate_of_its_own() -> None:
    # covers SUB-7 (levels)
    world = world_of(subscription_dispatch_rate_messages=20)
    publish(world, *[entry("x")] * 100)
    rates = {"slow": DispatchRate(3), "free": DispatchRate(-1, -1)}
    by_name = {name: {"dispatchRate": rate.to_json()} for name, rate in rates.items()}
    set_policy(world, policy_table.SUBSCRIPTION_POLICIES, by_name)
    world.advance(10)
    clients = {name: join(world, subscription=name) for name in ("slow", "free", "other")}
    assert {name: received(client) for name, client in clients.items()} == {"slow": 3, "free": 100, "other": 20}
    world = world.restart(**QUIET)
    assert received(join(world, subscription="slow")) == 3, "after a restart, too"
    set_policy(world, policy_table.SUBSCRIPTION_POLICIES, {"free": by_name["free"]})
    world.advance(10)
    assert received(join(world, subscription="slow", consumer_id=2)) == 0, "the first one has them"
    assert world.core.topics[TOPIC].dispatch_limits is None, "no limit is left"


def test_rates_of_subscriptions_are_merged_by_name() -> None:
    # covers SUB-7 (levels)
    world, name = World(**QUIET), TopicName.parse(TOPIC)
    rates = [{"dispatchRate": DispatchRate(number).to_json()} for number in (1, 2, 3)]
    member = policy_table.SUBSCRIPTION_POLICIES
    everywhere, here = {"a": rates[0], "b": rates[1]}, {"b": rates[2]}
    world.ask(lambda core: policy_changes.set_of_topic(core, name, member, everywhere, for_all_clusters=True))
    world.ask(lambda core: policy_changes.set_of_topic(core, name, member, here))
    found = world.core.policies_of(TopicName.parse(f"{TOPIC}-partition-1")).dispatch_rates_by_name
    assert found == {"a": DispatchRate(1), "b": DispatchRate(3)}


def test_a_non_persistent_topic_is_not_limited() -> None:
    world = world_of(dispatch_rate_messages=1, topic_dispatch_rate_messages=1)
    topic = "non-persistent://public/default/t"
    client = join(world, topic=topic)
    publish(world, *[entry("x")] * 30, topic=topic)
    assert received(client) == 30


def test_a_bucket_may_have_a_longer_period() -> None:
    bucket = TokenBucket(3, 10)
    bucket.spend(3)
    assert (bucket.tokens, bucket.wait_ms) == (0, 3_334)
    bucket.refill(3_334)
    assert (bucket.tokens, bucket.wait_ms) == (1, 0)
    bucket.refill(100_000)
    assert bucket.tokens == 3


def subscribe(client: Client, name: str = "c", consumer_id: int = 1, topic: str = TOPIC) -> Any:
    """The answer to a consumer that comes and goes."""
    client.send(requests.subscribe(1, topic, "s", consumer_id, CommandSubscribe.Shared, consumer_name=name))
    answer = client.take()
    if answer.type == BaseCommand.SUCCESS:
        client.send(requests.close_consumer(2, consumer_id))
        client.expect(BaseCommand.SUCCESS)
        return None
    return answer.error.error, answer.error.message


REFUSED = (ServerError.NotAllowedError, "Subscribe limited by subscribe rate limit per consumer.")


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_who_subscribes_too_often_is_refused(domain: str) -> None:
    # covers SUB-6
    world = world_of(subscribe_rate=2, subscribe_rate_period_s=30)
    client, topic = world.connect(), f"{domain}://public/default/t"
    assert [subscribe(client, topic=topic) for _ in range(3)] == [None, None, REFUSED]
    assert subscribe(client, "another", topic=topic) is None
    assert subscribe(client, consumer_id=2, topic=topic) is None
    world.advance(15_000)
    assert [subscribe(client, topic=topic) for _ in range(2)] == [None, REFUSED]


def test_a_rate_of_subscribing_is_a_policy_too() -> None:
    # covers SUB-6 (levels)
    world = world_of()
    client = world.connect()
    assert subscribe(client) is None
    set_policy(world, policy_table.SUBSCRIBE_RATE, SubscribeRate(1).to_json())
    world.advance(1_000)
    assert [subscribe(client), subscribe(client)] == [None, REFUSED]
    set_policy(world, policy_table.SUBSCRIBE_RATE, None)
    world.advance(1_000)
    assert subscribe(client) is None


def test_a_topic_that_comes_into_being_refuses_nobody() -> None:
    # covers SUB-6, TN-7: a rate of one in ten minutes
    world = world_of(subscribe_rate=1, subscribe_rate_period_s=600)
    client = world.connect()
    assert [subscribe(client), subscribe(client)] == [None, REFUSED]
    world.ask(lambda core: lifecycle.delete(core, core.topics[TOPIC]))
    assert [subscribe(client), subscribe(client)] == [None, REFUSED]


def test_consumers_that_an_unload_closed_may_come_back() -> None:
    # covers SUB-6
    world = world_of(subscribe_rate=1, subscribe_rate_period_s=600)
    client = world.connect()
    assert [subscribe(client), subscribe(client)] == [None, REFUSED]
    world.ask(lambda core: lifecycle.unload(core, core.topics[TOPIC]))
    assert [subscribe(client), subscribe(client)] == [None, REFUSED]


def test_consumers_that_came_are_forgotten_in_time() -> None:
    # covers SUB-6: hostile input, a name for each request
    world = world_of()
    limit = SubscribeLimit(world.core, SubscribeRate(2, 30))
    for number in range(5_000):
        assert limit.try_acquire(("peer", str(number), 1))
        assert len(limit._buckets) <= 1_000


@pytest.mark.parametrize(
    ("body", "rate"),
    [
        ({}, DispatchRate(0, 0, 0)),
        (None, DispatchRate(0, 0, 0)),
        ({"dispatchThrottlingRateInMsg": -1, "dispatchThrottlingRateInByte": "7"}, DispatchRate(-1, 7, 0)),
        ({"dispatchThrottlingRateInMsg": 3, "ratePeriodInSecond": 9}, DispatchRate(3, 0, 9)),
        ({"dispatchThrottlingRateInMsg": 3, "ratePeriodInSecond": -9}, DispatchRate(3, 0, -9)),
        ({"dispatchThrottlingRateInByte": 1 << 40}, DispatchRate(0, 1 << 40, 0)),
        ({"dispatchThrottlingRateInMsg": 3, "relativeToPublishRate": True}, DispatchRate(3, 0, 0, is_relative=True)),
        ({"dispatchThrottlingRateInMsg": 3, "relativeToPublishRate": None}, DispatchRate(3, 0, 0)),
    ],
)
def test_rates_as_they_are_written(body: Any, rate: DispatchRate) -> None:
    # covers SUB-7
    assert DispatchRate.from_json(body) == rate
    assert DispatchRate.from_json(rate.to_json()) == rate
    assert rate.seconds == max(1, rate.period_s)


def test_what_is_no_rate() -> None:
    with pytest.raises(MalformedPolicy):
        DispatchRate.from_json({"dispatchThrottlingRateInMsg": "x"})
    with pytest.raises(MalformedPolicy):
        SubscribeRate.from_json([1])
    assert SubscribeRate.from_json({}) == SubscribeRate(-1, 30)
    assert SubscribeRate.from_json({"ratePeriodInSecond": 0}) == SubscribeRate(-1, 0)
    assert SubscribeRate(5, 0).seconds == 30
