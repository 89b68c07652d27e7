"""Life of topics: creation, look-up, metadata, lists, partitions, deletion."""

from types import SimpleNamespace

from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.broker.turn.events import EntriesLost, Requested
from spark_pulsar.model.names import TopicName
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, ServerError
from tests.unit.broker.world import TOPIC, Client, World, entry, producing

NAME = TopicName.parse(TOPIC)


def metadata(client: Client, topic: str, *, create: bool = True) -> SimpleNamespace:
    client.send(requests.partition_metadata(client.request_id(), topic, create))
    answer = client.expect(BaseCommand.PARTITIONED_METADATA_RESPONSE)
    error = answer.error if answer.HasField("error") else None
    return SimpleNamespace(partitions=answer.partitions, error=error, present=answer.HasField("partitions"))


def test_metadata_creates_a_partitioned_topic_if_that_is_the_type() -> None:
    # covers TN-7
    world = World(auto_topic_creation_partitioned=True, default_num_partitions=3)
    client = world.connect()
    assert metadata(client, "t", create=False).error == ServerError.TopicNotFound
    world.disk_is_slow = True
    client.send(requests.partition_metadata(1, "t"))
    assert client.take_all() == []  # covers DUR-7
    world.sync()
    assert client.expect(BaseCommand.PARTITIONED_METADATA_RESPONSE).partitions == 3
    world.disk_is_slow = False
    client = world.restart().connect()
    assert metadata(client, "t").partitions == 3
    assert metadata(client, "t-partition-1").partitions == 0
    assert metadata(client, "t-partition-3").error == ServerError.TopicNotFound


def test_a_namespace_that_there_is_not_gets_no_topic() -> None:
    # covers TN-7
    client = World().connect()
    for topic in ("persistent://nobody/none/t", "persistent://public/missing/t"):
        assert client.request(requests.producer(2, topic, 1), BaseCommand.ERROR).error == ServerError.TopicNotFound
        subscribe = requests.subscribe(3, topic, "s", 1)
        assert client.request(subscribe, BaseCommand.ERROR).error == ServerError.TopicNotFound


def test_without_auto_creation_a_missing_topic_is_not_found() -> None:
    # covers TN-7
    world = World(allow_auto_topic_creation=False)
    client = world.connect()
    assert client.request(requests.producer(1, TOPIC, 1), BaseCommand.ERROR).error == ServerError.TopicNotFound
    assert client.request(requests.lookup(2, TOPIC), BaseCommand.LOOKUP_RESPONSE).brokerServiceUrl
    world.ask(lambda core: lifecycle.create(core, NAME))
    client.open_producer()


def test_subscriber_may_refuse_to_create_the_topic() -> None:
    client = World().connect()
    client.send(requests.subscribe(1, TOPIC, "s", 1, create_topic=False))
    assert client.expect(BaseCommand.ERROR).error == ServerError.TopicNotFound


def test_partition_beyond_the_count_and_base_of_a_partitioned_topic_are_refused() -> None:
    # covers TN-6
    world = World()
    client = world.connect()
    world.ask(lambda core: lifecycle.create_partitioned(core, NAME, 3, {}))
    client.send(requests.subscribe(1, f"{TOPIC}-partition-7", "s", 1))
    assert client.expect(BaseCommand.ERROR).error == ServerError.TopicNotFound
    assert client.request(requests.producer(2, TOPIC, 1), BaseCommand.ERROR).error == ServerError.NotAllowedError
    assert len(world.state.topics) == 3


def test_new_partitions_get_the_subscriptions_at_their_beginning() -> None:
    # covers PT-7
    world = World()
    client = world.connect()
    world.ask(lambda core: lifecycle.create_partitioned(core, NAME, 1, {}))
    client.open_consumer(topic=f"{TOPIC}-partition-0")
    world.ask(lambda core: lifecycle.create_partitioned(core, NAME, 3, {}))
    client.open_producer(topic=f"{TOPIC}-partition-2")
    client.store(1, entry("early"))
    client.open_consumer(topic=f"{TOPIC}-partition-2", consumer_id=2, permits=5, initial_position=0)
    assert client.deliveries()[0].partition == 2


def test_an_unloaded_topic_goes_on_in_another_ledger_unless_its_own_is_empty() -> None:
    # covers ML-1
    world, client = producing()
    client.open_consumer()
    topic = world.core.topics[TOPIC]

    def unload() -> list[int]:
        world.happen([Requested(lambda core: lifecycle.unload(core, topic))])
        return topic.ledger.ledger_ids()

    assert unload() == [1]
    client.expect(BaseCommand.CLOSE_PRODUCER)
    client.expect(BaseCommand.CLOSE_CONSUMER)
    client.open_producer(producer_id=2)
    client.publish(2, entry("a"), first=0)
    assert unload() == [1, 2]
    assert unload() == [1, 2]
    world.happen([EntriesLost([(1, 0, 1)], "ledgers/1.ledger:7", "a checksum")])
    assert unload() == [1, 2]
