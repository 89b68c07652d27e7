"""Bounds of what is created of a partitioned topic at once, and copies that there cannot be: nothing is created past
them."""

import json
from typing import Any

import pytest

from spark_pulsar.broker.topics import lifecycle, partition_creation
from spark_pulsar.broker.topics.name_limits import MAX_PROPERTIES_LENGTH, MAX_TOPIC_NAME_LENGTH
from spark_pulsar.ledger.state.topics import PartitionedTopicSet
from spark_pulsar.model.errors import NotAllowed
from spark_pulsar.model.limits import INT, MAX_PARTITIONS
from spark_pulsar.model.names import TopicName
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandPartitionedTopicMetadataResponse, ServerError
from tests.unit.admin.test_app import BASE, call
from tests.unit.broker.world import TOPIC, World, entry, producing

NAMESPACE = "/admin/v2/namespaces/public/default"
START = "persistent://public/default/"
BODY = json.dumps({"ledgerId": -1, "entryId": -1, "properties": {"k": "v" * (MAX_PROPERTIES_LENGTH - 1)}}).encode()
PROPERTIES = json.dumps({"k": "v" * (MAX_PROPERTIES_LENGTH - 1)}).encode()


def auto_partitioned(count: int, **config: Any) -> World:
    """A world where topics come into being with so many partitions."""
    return World(auto_topic_creation_partitioned=True, default_num_partitions=count, **config)


def ask_partitions(world: World, topic: str) -> CommandPartitionedTopicMetadataResponse:
    client = world.connect()
    return client.request(requests.partition_metadata(7, topic), BaseCommand.PARTITIONED_METADATA_RESPONSE)


def refused(world: World, topic: str) -> tuple[int, str]:
    answer = ask_partitions(world, topic)
    assert answer.response == CommandPartitionedTopicMetadataResponse.Failed
    assert not world.state.topics
    assert not world.state.partitioned
    return answer.error, answer.message


def test_a_subscription_of_all_partitions_is_bounded_with_its_properties() -> None:
    # covers CUR-19: what one turn writes fits into one write
    world = World()
    assert call(world, "PUT", f"{BASE}/p/partitions", b"300")[0] == 204
    status, _, answer = call(world, "PUT", f"{BASE}/p/subscription/s", BODY)
    assert (status, answer["reason"][:15]) == (413, "300 partitions ")
    assert call(world, "GET", f"{BASE}/p/subscriptions")[2] == []
    assert call(world, "PUT", f"{BASE}/p/subscription/s")[0] == 204
    assert call(world, "PUT", f"{BASE}/p/subscription/s/properties", PROPERTIES)[0] == 413
    assert call(world, "GET", f"{BASE}/p/subscription/s/properties")[2] == {}
    assert call(world, "PUT", f"{BASE}/p-partition-0/subscription/s/properties", PROPERTIES)[0] == 204


def test_a_subscription_that_makes_its_topic_is_bounded_before_that() -> None:
    # covers CUR-19, TN-7
    world = auto_partitioned(300)
    assert call(world, "PUT", f"{BASE}/p/subscription/s", BODY)[0] == 413
    assert not world.state.topics
    assert call(world, "PUT", f"{BASE}/p/subscription/s")[0] == 204
    assert len(world.state.topics) == 300


def test_partitions_that_lack_are_bounded_with_the_subscriptions_they_get() -> None:
    # covers PT-7
    world = World()
    assert call(world, "PUT", f"{BASE}/p/partitions", b"2")[0] == 204
    for name in "abcd":
        assert call(world, "PUT", f"{BASE}/p/subscription/{name}")[0] == 204
        assert call(world, "PUT", f"{BASE}/p-partition-0/subscription/{name}/properties", PROPERTIES)[0] == 204
    known = TopicName.parse(f"{START}p")
    world.ask(lambda core: core.append(PartitionedTopicSet(known.full, 102, {})))
    status, _, answer = call(world, "POST", f"{BASE}/p/createMissedPartitions")
    assert (status, answer["reason"][:15]) == (413, "100 partitions ")
    assert len(world.state.topics) == 2
    world.ask(lambda core: core.append(PartitionedTopicSet(known.full, 4, {})))
    assert call(world, "POST", f"{BASE}/p/createMissedPartitions")[0] == 204
    assert [len(topic.cursors) for topic in world.state.topics.values()] == [4] * 4


@pytest.mark.parametrize(("most", "limit"), [(0, MAX_PARTITIONS), (10, 10)])
def test_partitions_of_topics_that_come_into_being_are_bounded_when_that_is_set(most: int, limit: int) -> None:
    # covers TN-7: hostile input
    world = World(max_partitions_per_topic=most)
    wanted = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": limit}
    for count in (limit + 1, INT, 2**63 - 1):
        body = json.dumps({**wanted, "defaultNumPartitions": count}).encode()
        created = json.dumps({"autoTopicCreationOverride": {**wanted, "defaultNumPartitions": count}}).encode()
        for method, path, content in (
            ("POST", f"{NAMESPACE}/autoTopicCreation", body),
            ("PUT", "/admin/v2/namespaces/public/new", created),
        ):
            status, _, answer = call(world, method, path, content)
            assert status == 406
            told = limit if count == limit + 1 else MAX_PARTITIONS
            assert answer["reason"] == f"Number of partitions should be less than or equal to {told}"
    assert call(world, "POST", f"{NAMESPACE}/autoTopicCreation", json.dumps(wanted).encode())[0] == 204


def test_more_partitions_than_a_topic_may_have_do_not_come_into_being() -> None:
    # covers TN-7
    for world in (auto_partitioned(11, max_partitions_per_topic=10), auto_partitioned(INT)):
        code, message = refused(world, f"{START}p")
        assert code == ServerError.NotAllowedError
        assert message.startswith("Number of partitions should be less than or equal to ")


def test_a_topic_whose_partitions_nobody_could_name_does_not_come_into_being() -> None:
    # covers TN-7, TN-8
    world = auto_partitioned(11)
    longest = START + "t" * (MAX_TOPIC_NAME_LENGTH - len(START) - len("-partition-10"))
    code, message = refused(world, longest + "t")
    assert code == ServerError.InvalidTopicName
    assert f"{MAX_TOPIC_NAME_LENGTH + 1} characters, more than {MAX_TOPIC_NAME_LENGTH}" in message
    assert len(message) < 200
    assert ask_partitions(world, longest).partitions == 11
    local = "u" * (len(longest) - len(START) + 1)
    assert call(world, "PUT", f"{BASE}/{local}/partitions", b"11")[0] == 412
    assert call(world, "PUT", f"{BASE}/{local}/partitions", b"10")[0] == 204
    assert call(world, "POST", f"{BASE}/{local}/partitions", b"11")[0] == 412
    assert call(world, "GET", f"{BASE}/{local}/partitions")[2]["partitions"] == 10


def test_a_topic_that_nobody_could_name_in_full_does_not_come_into_being() -> None:
    # covers TN-1: the short form of a name
    client = World().connect()
    client.send(requests.producer(7, "t" * MAX_TOPIC_NAME_LENGTH, 1, "p"))
    assert client.expect(BaseCommand.ERROR).error == ServerError.InvalidTopicName


def test_names_that_are_too_much_together_do_not_come_into_being() -> None:
    # covers TN-7: hostile input
    code, message = refused(auto_partitioned(10_000), START + "t" * 10_000)
    assert (code, message[:17]) == (ServerError.NotAllowedError, "10000 partitions ")


def test_topics_that_one_turn_makes_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers TN-7: hostile input; a client that only asks is not held up
    monkeypatch.setattr(partition_creation, "MOST_MADE_BYTES", 4_000)
    world = auto_partitioned(10)
    client = world.connect()
    client.send(*(requests.partition_metadata(number, f"{START}p{number}") for number in range(5)))
    answers = [client.expect(BaseCommand.PARTITIONED_METADATA_RESPONSE) for _ in range(5)]
    answers.sort(key=lambda answer: answer.request_id)
    assert [answer.partitions for answer in answers] == [10, 10, 0, 0, 0]
    assert {answer.error for answer in answers[2:]} == {ServerError.ServiceNotReady}
    assert ask_partitions(world, f"{START}p2").partitions == 10


def test_nothing_is_made_when_the_namespace_has_no_room_for_all() -> None:
    # covers TN-10
    world = auto_partitioned(3, max_topics_per_namespace=5)
    assert ask_partitions(world, "a").partitions == 3
    answer = ask_partitions(world, "b")
    assert (answer.error, answer.message) == (
        ServerError.NotAllowedError,
        "Exceed maximum number of topics in namespace.",
    )
    assert len(world.state.topics) == 3
    assert list(world.state.partitioned) == [f"{START}a"]


def test_new_partitions_get_all_subscriptions_whatever_the_limit_is_now() -> None:
    # covers PT-7, CUR-18
    world = World()
    assert call(world, "PUT", f"{BASE}/p/partitions", b"1")[0] == 204
    for name in "ab":
        assert call(world, "PUT", f"{BASE}/p/subscription/{name}")[0] == 204
    assert call(world, "POST", f"{NAMESPACE}/maxSubscriptionsPerTopic", b"1")[0] == 204
    assert call(world, "POST", f"{BASE}/p/partitions", b"3")[0] == 204
    assert [list(topic.cursors) for topic in world.state.topics.values()] == [["a", "b"]] * 3


def test_the_core_alone_refuses_too() -> None:
    world = World(max_partitions_per_topic=10)
    with pytest.raises(NotAllowed):
        lifecycle.create_partitioned(world.core, TopicName.parse("p"), 11, {})
    assert partition_creation.most(world.core.config) == 10


THREE = b'{"bookkeeperEnsemble":3,"bookkeeperWriteQuorum":3,"bookkeeperAckQuorum":2,"managedLedgerMaxMarkDeleteRate":1}'


def test_nothing_is_created_that_wants_more_copies_than_there_can_be() -> None:
    world, client = producing()
    assert call(world, "POST", f"{NAMESPACE}/persistence", THREE)[0] == 204
    for path, body in ((f"{BASE}/new", b""), (f"{BASE}/new/partitions", b"3")):
        status, _, answer = call(world, "PUT", path, body)
        assert (status, "wants 3 (bookkeeperEnsemble)" in answer["reason"]) == (500, True), answer
    assert list(world.state.topics_by_name) == [TOPIC]
    assert not world.state.partitioned
    client.publish(1, entry("goes on"))
    assert len(client.receipts()) == 1
    restarted = world.restart()
    assert restarted.connect().open_producer().producer_name == "p"
    assert call(restarted, "DELETE", f"{NAMESPACE}/persistence")[0] == 204
    assert call(restarted, "PUT", f"{BASE}/new/partitions", b"3")[0] == 204


def test_partitions_of_a_topic_whose_own_policy_wants_more_do_not_grow() -> None:
    world = World()
    assert call(world, "PUT", f"{BASE}/t/partitions", b"1")[0] == 204
    assert call(world, "POST", f"{BASE}/t/persistence", THREE)[0] == 204
    assert call(world, "POST", f"{BASE}/t/partitions", b"2")[0] == 500
    assert call(world, "GET", f"{BASE}/t/partitions")[2]["partitions"] == 1
