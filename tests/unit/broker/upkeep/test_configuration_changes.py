"""Dynamic keys: what they change in a running core, and after its next start."""

import pytest

from spark_pulsar.broker.configuration.broker_config import BrokerConfig
from spark_pulsar.broker.configuration.dynamic_config import DYNAMIC_KEYS, configured, notes
from spark_pulsar.broker.entities.meters import published
from spark_pulsar.broker.upkeep import configuration_changes
from spark_pulsar.ledger.state.documents import DYNAMIC_CONFIGURATION, DocumentSet
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.policies.effective_policies import PublishRate
from spark_pulsar.model.policies.resource_groups import RESOURCE_GROUP, ResourceGroup
from tests.unit.broker.publishing.test_publish_rates import publish, received, throttles
from tests.unit.broker.world import QUIET, TOPIC, Client, World, entry, producing

OTHER = f"{TOPIC}-other"


def set_key(world: World, name: str, text: str) -> None:
    world.ask(lambda core: configuration_changes.set_key(core, name, text))


def delete_key(world: World, name: str) -> None:
    world.ask(lambda core: configuration_changes.delete_key(core, name))


@pytest.mark.parametrize("name", DYNAMIC_KEYS)
def test_each_key_takes_its_default_at_once_and_gives_it_back(world: World, name: str) -> None:
    # covers ADM-1
    world.connect().open_producer()
    field, key = DYNAMIC_KEYS[name]
    before = world.core.config
    text = key.default or "5"
    text = {"true": "false", "false": "true"}.get(text, f"{text}1" if text.isdigit() else text)
    set_key(world, name, text)
    assert getattr(world.core.config, field) == key.read(text)
    delete_key(world, name)
    assert world.core.config == before == world.core.static_config


def test_a_key_outlives_the_core_and_wins_over_the_file() -> None:
    # covers ADM-2
    world = World(max_producers_per_topic=7)
    set_key(world, "maxProducersPerTopic", "3")
    world = world.restart(max_producers_per_topic=9)
    assert world.core.config.max_producers_per_topic == 3
    delete_key(world, "maxProducersPerTopic")
    assert world.core.config.max_producers_per_topic == 9
    assert world.restart(max_producers_per_topic=9).core.config.max_producers_per_topic == 9


def test_texts_of_another_version_have_no_effect_and_are_told(world: World) -> None:
    # covers ADM-2
    for name, text in (("nope", "1"), ("maxTopicsPerNamespace", "many"), ("clusterName", "x")):
        world.ask(lambda core, name=name, text=text: core.append(DocumentSet(DYNAMIC_CONFIGURATION, name, text)))
    texts = world.core.state.documents[DYNAMIC_CONFIGURATION]
    config = BrokerConfig()
    assert configured(config, texts) is config
    assert len([line for line in notes(texts) if "no effect" in line]) == 3
    assert world.restart().core.config.max_topics_per_namespace == 0


def test_the_rate_of_all_topics_comes_changes_and_goes(world: World) -> None:
    # covers ADM-1, PR-14, PR-9
    world = World(**QUIET)
    client, second = world.connect_producer(), world.connect_producer(OTHER, name="q")
    key = "brokerPublisherThrottlingMaxMessageRate"
    set_key(world, key, "10")
    publish(client, 0, 30)
    publish(second, 0, 5)
    assert (len(received(client)[0]), throttles(world, client), throttles(world, second)) == (10, 1, 1)
    set_key(world, key, "1")
    world.advance(1_000)
    slow = len(received(client)[0])
    assert slow <= 3
    set_key(world, key, "100")
    world.advance(1_000)
    assert received(client)[0] == list(range(10 + slow, 30))
    assert received(second)[0] == list(range(5))
    set_key(world, key, "2")
    publish(client, 30, 30)
    delete_key(world, key)
    publish(client, 60, 5)
    assert received(client)[0] == list(range(30, 65)), "in their order"
    assert not throttles(world, client)
    assert world.core.publish_limits.of_all is None
    assert world.core.publish_limits.topics == 0


def test_topics_with_a_rate_of_their_own_keep_to_a_new_one_of_all(world: World) -> None:
    # covers ADM-1, PR-14, PR-9
    world, client = producing(**QUIET, max_publish_rate_messages=50)
    set_key(world, "brokerPublisherThrottlingMaxMessageRate", "10")
    publish(client, 0, 40)
    assert received(client)[0] == list(range(10))
    delete_key(world, "brokerPublisherThrottlingMaxMessageRate")
    publish(client, 40, 5)
    assert received(client)[0] == list(range(10, 45))
    set_key(world, "maxPublishRatePerTopicInMessages", "2")
    limit = world.core.topics[TOPIC].publish_limit
    assert limit is not None
    assert limit.rate == PublishRate(2, 0)


def test_rates_of_dispatch_come_and_go(world: World) -> None:
    # covers ADM-1, SUB-7
    world = World(**QUIET)
    producer, client = world.connect_producer(), world.connect_consumer(permits=1_000)
    producer.publish(1, entry("x"))
    assert len(client.messages()) == 1
    for key in (
        "dispatchThrottlingRateInMsg",
        "dispatchThrottlingRatePerTopicInMsg",
        "dispatchThrottlingRatePerSubscriptionInMsg",
    ):
        set_key(world, key, "5")
        producer.publish(1, *[entry("x")] * 5)
        producer.publish(1, *[entry("x")] * 20)
        some = len(client.messages())
        assert some < 25, key
        set_key(world, key, "10")
        more = len(client.messages())
        assert some + more < 25, key
        delete_key(world, key)
        assert some + more + len(client.messages()) == 25, key


def test_subscriptions_without_backlog_are_spared_and_limited_again(world: World) -> None:
    # covers ADM-1, SUB-7
    world = World(**QUIET, topic_dispatch_rate_messages=5)
    producer, client = world.connect_producer(), world.connect_consumer(permits=1_000)
    set_key(world, "dispatchThrottlingOnNonBacklogConsumerEnabled", "false")
    producer.publish(1, *[entry("x")] * 20)
    assert len(client.messages()) == 20
    delete_key(world, "dispatchThrottlingOnNonBacklogConsumerEnabled")
    world.advance(2_000)
    producer.publish(1, *[entry("x")] * 20)
    producer.publish(1, *[entry("x")] * 20)
    assert len(client.messages()) < 40


def expiring(world: World) -> Client:
    client = world.connect_producer()
    client.open_consumer()
    client.publish(1, entry("x", world.now_ms))
    return client


def test_a_default_of_policies_holds_for_topics_in_use(world: World) -> None:
    # covers ADM-1, TTL-1
    expiring(world)
    (subscription,) = world.core.topics[TOPIC].subscriptions.values()
    world.advance(10_000)
    assert subscription.backlog == 1
    set_key(world, "ttlDurationDefaultInSeconds", "5")
    assert subscription.backlog == 0
    assert world.core.policies_of(TopicName.parse(TOPIC)).message_ttl_s == 5


def test_an_interval_holds_from_now_on(world: World) -> None:
    # covers ADM-1
    world, client = producing(**QUIET, stats_interval_ms=3_600_000, quota_check_interval_ms=3_600_000)
    client.publish(1, *[entry("x")] * 100)
    topic = world.core.topics[TOPIC]
    set_key(world, "statsUpdateFrequencyInSecs", "2")
    world.advance(2_000)
    client.publish(1, *[entry("x")] * 100)
    world.advance(2_000)
    assert published(topic).messages == 50
    timers = sum(timer.call is not None for _, _, timer in world.core._timers)
    for seconds in ("3", "4", "5"):
        for name in ("statsUpdateFrequencyInSecs", "backlogQuotaCheckIntervalInSeconds"):
            set_key(world, name, seconds)
    assert sum(timer.call is not None for _, _, timer in world.core._timers) == timers, "one for each round"
    set_key(world, "backlogQuotaCheckEnabled", "false")
    assert sum(timer.call is not None for _, _, timer in world.core._timers) == timers - 1


def test_a_smaller_cache_drops_the_oldest_entries(world: World) -> None:
    # covers ADM-1
    client = world.connect_producer()
    client.open_consumer(permits=0)
    client.publish(1, entry("x" * 100_000))
    assert world.core.cache.size_bytes > 100_000
    set_key(world, "managedLedgerCacheSizeMB", "0")
    assert world.core.cache.size_bytes == 0


def set_group(world: World, messages: int | None) -> None:
    group = None if messages is None else ResourceGroup(publish_messages=messages)
    world.ask(lambda core: configuration_changes.set_resource_group(core, "g", group))


def join(world: World, group: str | None) -> None:
    world.set_policy(RESOURCE_GROUP, group)


@pytest.mark.parametrize("others", [{}, {"broker_publish_rate_messages": 15}, {"max_publish_rate_messages": 8}])
def test_topics_of_a_resource_group_share_its_rate_and_keep_their_order(others: dict[str, int]) -> None:
    # covers ADM-5, PR-14, PR-9
    world = World(**QUIET, **others)
    one, two = world.connect_producer(), world.connect_producer(OTHER, name="q")
    set_group(world, 10)
    join(world, "g")
    publish(one, 0, 30)
    publish(two, 0, 30)
    done = [received(each)[0] for each in (one, two)]
    assert len(done[0]) + len(done[1]) <= 10
    set_group(world, 5)
    join(world, None)
    publish(one, 30, 5)
    join(world, "g")
    publish(two, 30, 5)
    set_group(world, None)
    publish(two, 35, 1)
    world.advance(60_000)
    assert done[0] + received(one)[0] == list(range(35))
    assert done[1] + received(two)[0] == list(range(36))
    assert not throttles(world, one) + throttles(world, two)
    assert world.core.publish_limits.of_groups == {}


def test_a_resource_group_outlives_the_core() -> None:
    # covers ADM-5
    world = World(**QUIET)
    set_group(world, 10)
    join(world, "g")
    world = world.restart(**QUIET)
    client = world.connect_producer()
    publish(client, 0, 30)
    assert len(received(client)[0]) == 10
