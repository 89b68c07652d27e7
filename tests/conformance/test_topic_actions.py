"""What is done to topics over REST: truncate, trim, missing partitions, unload while clients are busy."""

from __future__ import annotations

import json

import pulsar
import pytest
from typer.testing import CliRunner

from spark_pulsar.cli.main import app
from tests.brokers import Broker, topic_path
from tests.conformance.exchange import EARLIEST, expect_nothing, position, receive_texts, send_all
from tests.eventually import eventually
from tests.raw import RawConnection


def backlog(broker: Broker, topic: str) -> int:
    stats = broker.stats(topic)
    return sum(each["msgBacklog"] for each in stats["subscriptions"].values())


def test_a_truncated_topic_has_nothing_left_and_goes_on(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers REST 1.4 (truncate)
    for name in ("s", "other"):
        client.subscribe(topic, name, initial_position=EARLIEST).close()
    producer = client.create_producer(topic)
    send_all(producer, ["a", "b"])
    assert broker.rest("DELETE", f"{topic_path(topic)}/truncate")[0] == 204
    eventually(lambda: backlog(broker, topic) == 0)
    send_all(producer, ["c"])
    consumer = client.subscribe(topic, "s")
    assert receive_texts(consumer, 1) == ["c"]
    expect_nothing(consumer)


def test_a_topic_is_trimmed_on_demand(broker: Broker, topic: str) -> None:
    # covers REST 1.4 (trim)
    send_all(broker.client().create_producer(topic), ["a"])
    assert broker.rest("POST", f"{topic_path(topic)}/trim") == (200, "")
    assert broker.rest("POST", f"{topic_path(broker.topic())}/trim")[0] == 404


def test_partitions_that_are_missing_are_created(broker: Broker) -> None:
    # covers REST 1.4 (createMissedPartitions)
    topic = broker.topic(partitions=3)
    assert broker.rest("DELETE", f"{topic_path(topic)}-partition-1")[0] == 204
    assert broker.rest("POST", f"{topic_path(topic)}/createMissedPartitions")[0] == 204
    _, listed = broker.rest("GET", "/admin/v2/persistent/public/default")
    assert {f"{topic}-partition-{number}" for number in range(3)} <= set(listed)
    assert broker.rest("POST", f"{topic_path(broker.topic())}/createMissedPartitions")[0] == 404
    plain = topic_path(broker.topic())
    assert broker.rest("PUT", plain)[0] == 204
    assert broker.rest("POST", f"{plain}/createMissedPartitions")[0] == 404
    assert broker.rest("DELETE", f"{plain}/permissions/nobody") == (204, ""), "none are set"


@pytest.mark.ours_only("our own command line")
def test_the_commands(broker: Broker) -> None:
    plain, parted = broker.topic(), broker.topic(partitions=2)
    send_all(broker.client().create_producer(plain), ["a"])

    def admin(*words: str) -> str:
        done = CliRunner().invoke(app, ["admin", "--admin-url", broker.admin_url, *words])
        assert (done.exit_code, done.stderr) == (0, ""), (words, done.stderr)
        return done.stdout

    assert json.loads(admin("topics", "terminate", plain))["entryId"] == 0
    assert sorted(json.loads(admin("topics", "partitioned-terminate", parted))) == ["0", "1"]
    for command in ("truncate", "trim-topic", "create-missed-partitions"):
        assert admin("topics", command, parted) == ""
    admin("topicPolicies", "set-publish-rate", plain, "-m", "5", "-b", "1000")
    rate = {"publishThrottlingRateInMsg": 5, "publishThrottlingRateInByte": 1000}
    assert json.loads(admin("topicPolicies", "get-publish-rate", plain)) == rate
    admin("topicPolicies", "remove-publish-rate", plain)


def test_nothing_is_lost_when_a_topic_is_unloaded_again_and_again(broker: Broker, topic: str) -> None:
    # covers PR-17
    client = broker.client()
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    producer = client.create_producer(topic, block_if_queue_full=True)
    results: list[pulsar.Result] = []
    for number in range(300):
        producer.send_async(str(number).encode(), lambda result, _: results.append(result))
        if number % 100 == 50:
            assert broker.rest("PUT", f"{topic_path(topic)}/unload")[0] == 204
    producer.flush()
    assert results == [pulsar.Result.Ok] * 300
    seen: set[str] = set()
    while len(seen) < 300:
        message = consumer.receive(timeout_millis=60_000)
        seen.add(message.data().decode())
        consumer.acknowledge(message)
    assert seen == {str(number) for number in range(300)}


# ---- the end of a topic


def last_id(broker: Broker, topic: str) -> tuple[int, int]:
    status, answer = broker.rest("POST", f"{topic_path(topic)}/terminate")
    assert status == 200, answer
    return answer["ledgerId"], answer["entryId"]


def test_a_topic_that_has_ended_takes_no_more_and_can_be_read(broker: Broker, topic: str) -> None:
    # covers TN-13
    client = broker.client()
    producer = client.create_producer(topic)
    ids = [producer.send(text.encode()) for text in ("a", "b")]
    assert last_id(broker, topic) == position(ids[-1])[:2]
    with pytest.raises(pulsar.TopicTerminated):
        producer.send(b"late")
    with pytest.raises(pulsar.TopicTerminated):
        broker.client().create_producer(topic)
    assert last_id(broker, topic) == position(ids[-1])[:2]
    consumer = broker.client().subscribe(topic, "s", initial_position=EARLIEST)
    assert receive_texts(consumer, 2) == ["a", "b"]
    reader = broker.client().create_reader(topic, pulsar.MessageId.earliest)
    assert [reader.read_next(5_000).data() for _ in range(2)] == [b"a", b"b"]
    assert not reader.has_message_available()


def test_a_consumer_hears_of_the_end_when_everything_is_acked(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers TN-13
    send_all(broker.client().create_producer(topic), ["a", "b"])
    raw.subscribe(topic, permits=10)
    first, second = (message.id for message in raw.expect_messages(2))
    last_id(broker, topic)
    raw.ack(second)
    raw.ack(first)
    assert raw.expect("REACHED_END_OF_TOPIC")["consumer_id"] == 1
    frames = iter(lambda: raw.next_frame(0.1), None)
    assert {frame.type for frame in frames if frame} <= {"REACHED_END_OF_TOPIC"}  # twice is possible


def test_a_consumer_that_comes_to_the_end_hears_of_it_at_once(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers TN-13
    send_all(broker.client().create_producer(topic), ["a"])
    last_id(broker, topic)
    raw.subscribe(topic, permits=10, initialPosition="Latest")
    assert raw.expect("REACHED_END_OF_TOPIC")["consumer_id"] == 1


def test_a_partitioned_topic_ends_partition_by_partition(broker: Broker, client: pulsar.Client) -> None:
    # covers TN-13, REST 1.8
    topic = broker.topic(partitions=2)
    producer = client.create_producer(topic, message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution)
    send_all(producer, ["a", "b"])
    status, answer = broker.rest("POST", f"{topic_path(topic)}/terminate")
    assert (status, answer["reason"]) == (405, "Termination of a partitioned topic is not allowed")
    status, ends = broker.rest("POST", f"{topic_path(topic)}/terminate/partitions")
    assert status == 200
    assert {number: end["entryId"] for number, end in ends.items()} == {"0": 0, "1": 0}
    for number in range(2):
        with pytest.raises(pulsar.TopicTerminated):
            client.create_producer(f"{topic}-partition-{number}")
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    assert sorted(receive_texts(consumer, 2)) == ["a", "b"]


def test_what_cannot_be_ended_and_the_end_of_nothing(broker: Broker) -> None:
    # covers TN-13
    plain = broker.topic()
    broker.client().create_producer(plain)
    status, answer = broker.rest("POST", f"{topic_path(plain)}/terminate/partitions")
    assert status == 405
    assert answer["reason"] == (
        "Termination of a non-partitioned topic is not allowed using partitioned-terminate, please use terminate "
        "commands"
    )
    assert broker.rest("POST", f"{topic_path(broker.topic())}/terminate")[0] == 404
    status, answer = broker.rest("POST", f"{topic_path(plain)}/terminate")
    assert (status, answer["entryId"], answer["partitionIndex"]) == (200, -1, -1), "an entry that is not there"
    volatile = topic_path(plain).replace("/persistent/", "/non-persistent/")
    assert broker.rest("POST", f"{volatile}/terminate")[0] in (404, 405, 406)


@pytest.mark.ours_only("TN-13: the C++ and Python clients drop their connection on it, so they are not told")
def test_a_client_that_does_not_know_the_end_keeps_its_connection(broker: Broker, client: pulsar.Client) -> None:
    topic, other = broker.topic(), broker.topic()
    send_all(client.create_producer(topic), ["a"])
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    bystander = client.create_producer(other)
    last_id(broker, topic)
    consumer.acknowledge(consumer.receive(5_000))
    bystander.send(b"x")
    stats = broker.stats(other)
    connected_since = stats["publishers"][0]["connectedSince"]
    bystander.send(b"y")
    stats = broker.stats(other)
    assert stats["publishers"][0]["connectedSince"] == connected_since
    assert stats["msgInCounter"] == 2
