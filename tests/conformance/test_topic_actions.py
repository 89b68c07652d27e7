"""What is done to topics over REST: truncate, trim, missing partitions, unload while clients are busy."""

from __future__ import annotations

import json

import pulsar
import pytest
from typer.testing import CliRunner

from spark_pulsar.cli.main import app
from tests.brokers import Broker, topic_path
from tests.conformance.exchange import expect_nothing, receive_texts, send_all
from tests.eventually import eventually

EARLIEST = pulsar.InitialPosition.Earliest


def backlog(broker: Broker, topic: str) -> int:
    _, stats = broker.rest("GET", f"{topic_path(topic)}/stats")
    return sum(each["msgBacklog"] for each in stats["subscriptions"].values())


def test_a_truncated_topic_has_nothing_left_and_goes_on(broker: Broker) -> None:
    # covers REST 1.4 (truncate)
    topic = broker.topic()
    client = broker.client()
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


def test_a_topic_is_trimmed_on_demand(broker: Broker) -> None:
    # covers REST 1.4 (trim)
    topic = broker.topic()
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


def test_nothing_is_lost_when_a_topic_is_unloaded_again_and_again(broker: Broker) -> None:
    # covers PR-17
    topic = broker.topic()
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
