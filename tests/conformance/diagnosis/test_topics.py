"""Causes at topics, staged with the official client, and named by `spark-pulsar why`."""

from __future__ import annotations

import json
import socket
import time

import pulsar
import pytest
from typer.testing import CliRunner

from spark_pulsar.cli.main import app
from tests.brokers import Broker, topic_path
from tests.conformance.diagnosis.findings import among, findings, named
from tests.conformance.exchange import EARLIEST, SHARED, receive, send_numbers
from tests.eventually import eventually


@pytest.fixture(scope="module")
def client(broker: Broker) -> pulsar.Client:
    """One client for all cases."""
    return broker.client()


def test_what_is_not_there_and_what_it_may_be(broker: Broker, client: pulsar.Client) -> None:
    # covers WHY-2
    namespace = broker.namespace()
    topic = f"persistent://{namespace}/orders"
    assert named(broker, "no-topic", topic) == f"The topic {namespace}/orders does not exist in {namespace}."
    send_numbers(broker, topic, 3)
    assert named(broker, "no-topic", f"{namespace}/order") == (
        f"The topic {namespace}/order does not exist in {namespace}; did you mean {namespace}/orders?"
    )
    assert named(broker, "no-subscription", topic).startswith(
        f"{namespace}/orders holds 3 entries and has no subscription yet"
    )
    client.subscribe(topic, "billing").close()
    assert named(broker, "no-subscription", topic, "biling") == (
        f'{namespace}/orders has no subscription "biling"; did you mean "billing"?'
    )
    assert f"The namespace {namespace}x does not exist" in named(
        broker, "no-topic", f"persistent://{namespace}x/orders"
    )


def test_unread_partitions(broker: Broker, client: pulsar.Client) -> None:
    # covers WHY-2
    topic = broker.topic(partitions=3)
    client.subscribe(topic, "billing", SHARED, initial_position=EARLIEST).close()
    client.subscribe(f"{topic}-partition-0", "billing", SHARED)
    producer = client.create_producer(topic, message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution)
    for number in range(6):
        producer.send(b"%d" % number)
    eventually(lambda: sum(broker.backlog(f"{topic}-partition-{index}", "billing") for index in range(3)) == 6)
    sentence = named(broker, "unread-partitions", topic, "billing")
    assert sentence.startswith('No consumer of "billing" reads 2 partitions (1 and 2) of 3, where ')


def test_added_partitions_are_not_read_at_once(broker: Broker) -> None:
    # covers WHY-2
    topic = broker.topic(partitions=2)
    consumer = broker.client().subscribe(topic, "billing", SHARED)
    assert broker.rest("POST", f"{topic_path(topic)}/partitions", 4)[0] == 204
    broker.client().create_producer(f"{topic}-partition-3").send(b"x")
    sentence = named(broker, "unread-partitions", topic, "billing")
    assert sentence.startswith('No consumer of "billing" reads ')
    assert "3) of 4" in sentence
    consumer.close()


def test_partitions_are_one_sentence(broker: Broker, client: pulsar.Client) -> None:
    # covers WHY-2
    topic = broker.topic(partitions=4)
    client.subscribe(topic, "billing", SHARED, initial_position=EARLIEST, receiver_queue_size=1, consumer_name="a1")
    producer = client.create_producer(topic, message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution)
    for number in range(40):
        producer.send(b"%d" % number)
    values = findings(broker, topic, "billing")
    assert [value["cause"] for value in values].count("no-permits") == 1, values
    assert values[0]["cause"] == "no-permits"
    assert "40 messages wait" in values[0]["sentence"]


def test_terminated_and_deleted(broker: Broker, client: pulsar.Client) -> None:
    # covers WHY-3, WHY-6
    topic = broker.topic()
    consumer = client.subscribe(topic, "billing", SHARED)
    producer = client.create_producer(topic)
    producer.send(b"last")
    consumer.acknowledge(receive(consumer, 1)[0])
    eventually(lambda: broker.backlog(topic, "billing") == 0)
    assert broker.rest("POST", f"{topic_path(topic)}/terminate")[0] == 200
    assert "is terminated: nothing can be published" in named(broker, "terminated", topic)


def test_deleted_by_retention(broker: Broker, client: pulsar.Client) -> None:
    # covers WHY-3
    namespace = broker.namespace()
    path = f"/admin/v2/namespaces/{namespace}/retention"
    assert broker.rest("POST", path, {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0})[0] == 204
    topic = f"persistent://{namespace}/t"
    consumer = client.subscribe(topic, "first", SHARED)
    send_numbers(broker, topic, 3)
    for message in receive(consumer, 3):
        consumer.acknowledge(message)
    eventually(lambda: broker.backlog(topic, "first") == 0)
    consumer.close()

    def is_empty() -> bool:
        for call, body in (("PUT", "unload"), ("POST", "trim")):
            assert broker.rest(call, f"{topic_path(topic)}/{body}")[0] in (200, 204)
        return bool(broker.stats(topic)["storageSize"] == 0)

    eventually(is_empty, every_s=0.2)
    client.subscribe(topic, "billing", SHARED, initial_position=EARLIEST)
    sentence = named(broker, "deleted", topic, "billing")
    assert sentence.startswith('The messages of the topic are deleted, and "billing" has received none')


def test_backlog_quota(broker: Broker, client: pulsar.Client) -> None:
    # covers WHY-6
    namespace = broker.namespace()
    topic = f"persistent://{namespace}/t"
    client.subscribe(topic, "billing", SHARED, initial_position=EARLIEST).close()
    client.create_producer(topic).send(b"x" * 2_000)
    body = {"limitSize": 1_000, "limitTime": -1, "policy": "producer_exception"}
    assert broker.rest("POST", f"/admin/v2/namespaces/{namespace}/backlogQuota", body)[0] == 204
    finding = among(broker, "backlog-quota", topic)
    assert "beyond the quota of 1,000 bytes (producer_exception): producers are refused" in finding["sentence"]
    assert 'billing" has the largest backlog (1)' in finding["sentence"]


def test_producer_has_the_topic_for_itself(broker: Broker, client: pulsar.Client) -> None:
    # covers WHY-6
    topic = broker.topic()
    client.create_producer(topic, producer_name="p1", access_mode=pulsar.ProducerAccessMode.Exclusive)
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(topic)
    assert 'Producer "p1" from 127.0.0.1:' in among(broker, "producer-exclusive", topic)["sentence"]


def test_schema_and_types_and_limits(broker: Broker, client: pulsar.Client) -> None:
    # covers WHY-6, WHY-7
    namespace = broker.namespace()
    policies = f"/admin/v2/namespaces/{namespace}"
    topic = f"persistent://{namespace}/t"
    schema = {"type": "STRING", "schema": "", "properties": {}}
    assert broker.rest("POST", f"/admin/v2/schemas/{namespace}/t/schema", schema)[0] == 200
    client.subscribe(topic, "billing", SHARED).close()
    assert broker.rest("POST", f"{policies}/isAllowAutoUpdateSchema", False)[0] == 204
    assert broker.rest("POST", f"{policies}/subscriptionTypesEnabled", ["Exclusive"])[0] == 204
    assert (
        "has a schema of type STRING, version 0: a producer with another schema is refused"
        in (among(broker, "schema", topic)["sentence"])
    )
    assert "Only subscriptions of type Exclusive are enabled" in among(broker, "types-disabled", topic)["sentence"]
    assert broker.rest("POST", f"{policies}/maxConsumersPerSubscription", 1)[0] == 204
    client.subscribe(topic, "alone")
    assert (
        '"alone" has 1 consumer, the most that it may have'
        in (among(broker, "max-consumers", topic, "alone")["sentence"])
    )


def test_publish_rate(broker: Broker) -> None:
    # covers WHY-6
    namespace = broker.namespace()
    rate = {"publishThrottlingRateInMsg": 5, "publishThrottlingRateInByte": -1}
    assert broker.rest("POST", f"/admin/v2/namespaces/{namespace}/publishRate", rate)[0] == 204
    topic = f"persistent://{namespace}/t"
    client = broker.client()  # whose connection the broker stops reading
    client.subscribe(topic, "billing", SHARED).close()
    producer = client.create_producer(topic, batching_enabled=False)
    for _ in range(30):
        producer.send_async(b"x", lambda result, message_id: None)
    assert "The publish rate of 5 messages a second held producers" in among(broker, "publish-rate", topic)["sentence"]


def test_non_persistent(broker: Broker, client: pulsar.Client) -> None:
    # covers WHY-3
    topic = broker.topic().replace("persistent://", "non-persistent://")
    client.subscribe(topic, "billing", SHARED)
    assert "A non-persistent topic stores nothing" in among(broker, "not-stored", topic, "billing")["sentence"]


def test_text_has_the_sentence_and_the_command(broker: Broker, client: pulsar.Client) -> None:
    # covers WHY-1
    topic = broker.topic()
    client.subscribe(topic, "it's", SHARED).close()
    done = CliRunner().invoke(app, ["why", topic, "--admin-url", broker.admin_url])
    assert done.exit_code == 1
    cause, sentence, advice = done.stdout.splitlines()[0].split("\t")
    assert (cause, sentence) == ("no-consumer", 'No consumer is connected to "it\'s"; it has no backlog.')
    assert advice == "Start its consumer"


def test_a_silent_peer_ends_in_seconds() -> None:
    # covers WHY-1
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        done = CliRunner().invoke(app, ["why", "orders", "--admin-url", url])
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "it accepts connections and does not answer" in done.stderr
    assert time.monotonic() - began < 15


def test_values_are_json(broker: Broker) -> None:
    # covers WHY-1
    done = CliRunner().invoke(app, ["why", broker.topic(), "-o", "json", "--admin-url", broker.admin_url])
    (value,) = json.loads(done.stdout)
    assert value.keys() == {"state", "cause", "sentence", "advice", "topic", "subscription", "partitions"}
