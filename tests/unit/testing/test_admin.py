"""The admin API of a broker under test."""

from collections.abc import Iterator

import pulsar
import pytest

import spark_pulsar
from spark_pulsar.testing.admin import AdminError, BrokerAdmin
from spark_pulsar.testing.process import BrokerProcess

TOPIC = "persistent://shop/eu/orders"


@pytest.fixture(scope="module")
def process() -> Iterator[BrokerProcess]:
    with spark_pulsar.broker_process() as running:
        yield running


@pytest.fixture
def admin(process: BrokerProcess) -> Iterator[BrokerAdmin]:
    admin = process.admin()
    admin.create_tenant("shop")
    admin.create_namespace("shop/eu")
    yield admin
    admin.delete_namespace("shop/eu", force=True)
    admin.delete("tenants/shop")


def test_topics_and_subscriptions(process: BrokerProcess, admin: BrokerAdmin) -> None:
    admin.create_topic(TOPIC)
    admin.create_topic(f"{TOPIC}-by city", partitions=2)
    assert admin.topics("shop/eu") == [TOPIC, f"{TOPIC}-by city"]
    assert (admin.partitions(TOPIC), admin.partitions(f"{TOPIC}-by city")) == (0, 2)
    client = process.client()
    every_partition = pulsar.PartitionsRoutingMode.RoundRobinDistribution
    producers = []
    for topic in (TOPIC, f"{TOPIC}-by city"):
        admin.create_subscription(topic, "a/b", "earliest")
        producer = client.create_producer(topic, message_routing_mode=every_partition)
        producers.append(producer)
        for _ in range(3):
            producer.send(b"1")
        admin.create_subscription(topic, "late")
        assert (admin.backlog(topic, "a/b"), admin.backlog(topic, "late")) == (3, 0)
        assert sorted(admin.subscriptions(topic)) == ["a/b", "late"]
        admin.delete_subscription(topic, "late")
        assert admin.subscriptions(topic) == ["a/b"]
    assert admin.internal_stats(TOPIC)["numberOfEntries"] == 3
    with pytest.raises(KeyError, match="has no subscription 'c'; it has a/b"):
        admin.backlog(TOPIC, "c")
    with pytest.raises(TimeoutError, match="a/b has a backlog of 3 after 0 s, not 2"):
        admin.wait_for_backlog(TOPIC, "a/b", 2, timeout_s=0)
    with pytest.raises(AdminError, match="412"):
        admin.delete_topic(TOPIC)
    admin.unload(TOPIC)
    client.close()  # its producers would make the topic again
    admin.delete_topic(TOPIC, force=True)
    assert admin.topics("shop/eu") == [f"{TOPIC}-by city"]


def test_policies_of_each_form(admin: BrokerAdmin) -> None:
    admin.create_topic(TOPIC)
    retention = {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1}
    for name in ("shop/eu", TOPIC):
        assert admin.policy(name, "retention") is None
        admin.set_policy(name, "retention", retention)
        assert admin.policy(name, "retention") == retention
        admin.remove_policy(name, "retention")
        assert admin.policy(name, "retention") is None
    admin.set_policy(TOPIC, "messageTTL", 60)  # a parameter of the request
    assert admin.policy(TOPIC, "messageTTL") == 60
    admin.set_policy("shop/eu", "schemaCompatibilityStrategy", "FULL")  # PUT
    assert admin.policy("shop/eu", "schemaCompatibilityStrategy") == "FULL"


def test_a_misspelt_policy_names_the_nearest(admin: BrokerAdmin) -> None:
    for call in (admin.policy, admin.remove_policy, lambda name, policy: admin.set_policy(name, policy, 1)):
        with pytest.raises(AdminError, match=r"4\d\d: .*: did you mean retention\?"):
            call("public/default", "retentionn")
    with pytest.raises(ValueError, match="topic is 5: give a name"):
        admin.create_topic(5)  # type: ignore[arg-type]


def test_a_refusal_has_its_status_and_reason(admin: BrokerAdmin) -> None:
    with pytest.raises(AdminError) as refused:
        admin.create_namespace("shop/eu")
    assert (refused.value.status, refused.value.reason) == (409, "Namespace already exists")
    assert str(refused.value).startswith(f"PUT {admin.url}/admin/v2/namespaces/shop/eu: 409: ")
    with pytest.raises(AdminError, match="no answer") as unreachable:
        BrokerAdmin("http://127.0.0.1:1").get("clusters")
    assert unreachable.value.status == 0
