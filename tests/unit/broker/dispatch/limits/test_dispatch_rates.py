"""Dispatch and subscribe rates: entries that come too fast wait, and consumers that come too often are refused."""

from typing import Any

import pytest

from spark_pulsar.broker.dispatch.limits.subscribe_rates import SubscribeLimit
from spark_pulsar.broker.message_lifetime import compaction
from spark_pulsar.broker.turn.token_bucket import TokenBucket
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.policies.effective_policies import DispatchRate, SubscribeRate
from spark_pulsar.model.policies.json_values import MalformedPolicy
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe, ServerError
from tests.unit.broker.key_sharing import keyed
from tests.unit.broker.throttling import TYPES, join, publish, received, world_of
from tests.unit.broker.world import QUIET, TOPIC, Client, World, entry


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
    throttled = world.subscription().throttled
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
    assert "dispatchThrottledBytesEventsBySubscriptionLimit" in world.subscription().throttled


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


def test_a_policy_works_at_once_and_so_does_its_end() -> None:
    # covers SUB-7 (levels)
    world = world_of()
    client = join(world)
    world.set_topic_policy(policy_table.DISPATCH_RATE, DispatchRate(5, period_s=10).to_json())
    world.advance(1_000)
    publish(world, *[entry("x")] * 30)
    assert received(client) == 5
    world.advance(10_000)
    assert 4 <= received(client) <= 6
    world.set_topic_policy(policy_table.DISPATCH_RATE, None)
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
    world.set_topic_policy(member, {**rate.to_json(), "relativeToPublishRate": True})
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
    world.set_topic_policy(
        policy_table.DISPATCH_RATE, {**DispatchRate(1, 0, 3_600).to_json(), "relativeToPublishRate": True}
    )
    publish(world, *[entry("x")] * 2)
    client = join(world)
    assert received(client) == 1
    world.advance(2_500)
    assert received(client) == 1, "two a second now, not one in an hour"


def test_what_is_relative_and_no_limit_is_none() -> None:
    # covers SUB-7
    world = World(**QUIET, stats_interval_ms=1_000)
    world.set_topic_policy(
        policy_table.DISPATCH_RATE, {**DispatchRate(-1, -1).to_json(), "relativeToPublishRate": True}
    )
    publish(world, *[entry("x")] * 100)
    assert received(join(world)) == 100


def test_one_subscription_has_a_rate_of_its_own() -> None:
    # covers SUB-7 (levels)
    world = world_of(subscription_dispatch_rate_messages=20)
    publish(world, *[entry("x")] * 100)
    rates = {"slow": DispatchRate(3), "free": DispatchRate(-1, -1)}
    by_name = {name: {"dispatchRate": rate.to_json()} for name, rate in rates.items()}
    world.set_topic_policy(policy_table.SUBSCRIPTION_POLICIES, by_name)
    world.advance(10)
    clients = {name: join(world, subscription=name) for name in ("slow", "free", "other")}
    assert {name: received(client) for name, client in clients.items()} == {"slow": 3, "free": 100, "other": 20}
    world = world.restart(**QUIET)
    assert received(join(world, subscription="slow")) == 3, "after a restart, too"
    world.set_topic_policy(policy_table.SUBSCRIPTION_POLICIES, {"free": by_name["free"]})
    world.advance(10)
    assert received(join(world, subscription="slow", consumer_id=2)) == 0, "the first one has them"
    assert world.core.topics[TOPIC].dispatch_limits is None, "no limit is left"


def test_rates_of_subscriptions_are_merged_by_name() -> None:
    # covers SUB-7 (levels)
    world = World(**QUIET)
    rates = [{"dispatchRate": DispatchRate(number).to_json()} for number in (1, 2, 3)]
    member = policy_table.SUBSCRIPTION_POLICIES
    everywhere, here = {"a": rates[0], "b": rates[1]}, {"b": rates[2]}
    world.set_topic_policy(member, everywhere, for_all_clusters=True)
    world.set_topic_policy(member, here)
    found = world.core.policies_of(TopicName.parse(f"{TOPIC}-partition-1")).dispatch_rates_by_name
    assert found == {"a": DispatchRate(1), "b": DispatchRate(3)}


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
        client.request(requests.close_consumer(2, consumer_id), BaseCommand.SUCCESS)
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
    world.set_topic_policy(policy_table.SUBSCRIBE_RATE, SubscribeRate(1).to_json())
    world.advance(1_000)
    assert [subscribe(client), subscribe(client)] == [None, REFUSED]
    world.set_topic_policy(policy_table.SUBSCRIBE_RATE, None)
    world.advance(1_000)
    assert subscribe(client) is None


def test_consumers_that_came_are_forgotten_in_time() -> None:
    # covers SUB-6: hostile input, a name for each request
    world = world_of()
    limit = SubscribeLimit(world.core, SubscribeRate(2, 30))
    for number in range(5_000):
        assert limit.try_acquire(("peer", str(number), 1))
        assert len(limit._buckets) <= 1_000


def test_what_is_no_rate() -> None:
    with pytest.raises(MalformedPolicy):
        DispatchRate.from_json({"dispatchThrottlingRateInMsg": "x"})
    with pytest.raises(MalformedPolicy):
        SubscribeRate.from_json([1])
    assert SubscribeRate.from_json({}) == SubscribeRate(-1, 30)
    assert SubscribeRate.from_json({"ratePeriodInSecond": 0}) == SubscribeRate(-1, 0)
    assert SubscribeRate(5, 0).seconds == 30
    assert [DispatchRate(3, 0, period_s).seconds for period_s in (-9, 0, 9)] == [1, 1, 9]


# ---- subscriptions without backlog may be spared ------------------------------------------------------------------

MINUTE_MS = 60_000
HOURLY = DispatchRate(3, period_s=3_600).to_json()


def set_rate(world: World, rate: object) -> None:
    world.set_topic_policy(policy_table.DISPATCH_RATE, rate)
    world.advance(10)


def sparing(rate: object = HOURLY, backlogged_entries: int = 10) -> World:
    """Three entries an hour, but for subscriptions with less than ten to get."""
    spares = {"dispatch_rates_without_backlog": False, "backlogged_cursor_entries": backlogged_entries}
    world = world_of(stats_interval_ms=MINUTE_MS, **spares)
    set_rate(world, rate)
    return world


def publish_keyed(world: World, count: int) -> None:
    publish(world, *(keyed(str(number % 5)) for number in range(count)))


@pytest.mark.parametrize("kind", TYPES, ids=CommandSubscribe.SubType.Name)
def test_who_has_a_backlog_is_not_until_statistics_are_taken(kind: Any) -> None:
    # covers SUB-7
    world = sparing()
    publish_keyed(world, 12)
    client = join(world, kind)
    assert received(client) == 3
    world.advance(MINUTE_MS // 2)
    assert received(client) == 0
    world.advance(MINUTE_MS // 2)
    assert received(client) == 9
    publish_keyed(world, 40)
    assert received(client) == 40


def test_who_falls_behind_is_limited_again() -> None:
    # covers SUB-7
    world = sparing()
    client = join(world, permits=5)
    publish_keyed(world, 40)
    assert received(client) == 5
    world.advance(MINUTE_MS)
    client.send(requests.flow(1, 1_000))
    assert received(client) == 3


def test_who_waits_does_not_once_it_is_spared_and_holds_up_nobody() -> None:
    # covers SUB-7
    world = sparing()
    publish_keyed(world, 12)
    first = join(world, subscription="first")
    assert received(first) == 3
    second = join(world, subscription="second")
    world.advance(MINUTE_MS)
    assert (received(first), received(second)) == (9, 0)
    publish_keyed(world, 100)
    world.advance(60 * MINUTE_MS)
    assert (received(first), received(second)) == (100, 3)


def test_a_new_consumer_is_a_reason_to_look() -> None:
    # covers SUB-7
    world = sparing()
    publish_keyed(world, 12)
    client = join(world)
    assert received(client) == 3
    other = join(world)
    assert received(client) + received(other) == 9


def test_a_policy_is_a_reason_to_look() -> None:
    # covers SUB-7
    world = sparing(None)
    behind, fast = join(world, subscription="behind", permits=5), join(world, subscription="fast")
    publish_keyed(world, 40)
    assert (received(behind), received(fast)) == (5, 40)
    set_rate(world, HOURLY)
    behind.send(requests.flow(1, 1_000))
    publish_keyed(world, 40)
    assert (received(behind), received(fast)) == (3, 40)
    set_rate(world, None)
    assert received(behind) == 72


def test_with_a_threshold_of_nothing_nobody_is_spared() -> None:
    # covers SUB-7
    world = sparing(backlogged_entries=0)
    client = join(world)
    publish_keyed(world, 9)
    assert received(client) == 3
