"""How fast consumers are served and how often they may subscribe."""

import os
import time
from typing import Any

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import receive, send_all
from tests.eventually import eventually

CLUSTER = "standalone"
RATE = {
    "dispatchThrottlingRateInMsg": 10,
    "dispatchThrottlingRateInByte": -1,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 1,
}


def namespace_with(broker: Broker, **policies: Any) -> str:
    """A namespace of the test's own: `public/NAME`."""
    name = f"public/rates-{os.urandom(4).hex()}"
    assert broker.rest("PUT", f"/admin/v2/namespaces/{name}", policies)[0] == 204
    return name


@pytest.mark.parametrize("member", ["topicDispatchRate", "subscriptionDispatchRate"])
@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared])
def test_consumers_get_no_more_than_the_rate_allows(broker: Broker, member: str, kind: pulsar.ConsumerType) -> None:
    # covers SUB-7
    topic = f"persistent://{namespace_with(broker, **{member: {CLUSTER: RATE}})}/t"
    client = broker.client()
    consumer = client.subscribe(topic, "s", kind)
    began = time.monotonic()
    send_all(client.create_producer(topic), [str(number) for number in range(25)])
    assert [message.data().decode() for message in receive(consumer, 25)] == [str(number) for number in range(25)]
    assert time.monotonic() - began > 0.9, "ten at once and the other fifteen at ten a second"


@pytest.mark.parametrize("name", ["dispatchRate", "subscriptionDispatchRate"])
def test_a_rate_is_set_read_and_removed(broker: Broker, name: str) -> None:
    # covers SUB-7, admin-rest 1.3.3, 1.9.1
    namespace = namespace_with(broker)
    topic = topic_path(f"persistent://{namespace}/t")
    assert broker.rest("PUT", topic)[0] == 204
    for path in (f"/admin/v2/namespaces/{namespace}/{name}", f"{topic}/{name}"):
        assert broker.rest("POST", path, RATE)[0] == 204
        eventually(lambda path=path: broker.rest("GET", path) == (200, RATE))
        assert broker.rest("DELETE", path)[0] == 204
        eventually(lambda path=path: not broker.rest("GET", path)[1])
    shown = {"dispatchRate": "topicDispatchRate"}.get(name, name)
    assert broker.rest("POST", f"/admin/v2/namespaces/{namespace}/{name}", RATE)[0] == 204
    assert broker.rest("GET", f"/admin/v2/namespaces/{namespace}")[1][shown] == {CLUSTER: RATE}


def test_who_subscribes_too_often_is_refused(broker: Broker) -> None:
    # covers SUB-6
    rate = {"subscribeThrottlingRatePerConsumer": 2, "ratePeriodInSecond": 600}
    namespace = namespace_with(broker, clusterSubscribeRate={CLUSTER: rate})
    assert broker.rest("GET", f"/admin/v2/namespaces/{namespace}/subscribeRate") == (200, rate)
    raw = broker.raw()
    topic = f"persistent://{namespace}/t"
    eventually(lambda: raw.request("LOOKUP", topic=topic)["response"] == "Connect", timeout_s=60)

    def subscribe(name: str) -> tuple[str, str]:
        answer = raw.request(
            "SUBSCRIBE", topic=topic, subscription="s", subType="Shared", consumer_id=1, consumer_name=name
        )
        raw.request("CLOSE_CONSUMER", consumer_id=1)
        return answer.fields.get("error", ""), answer.fields.get("message", "")

    assert [subscribe("a"), subscribe("a")] == [("", ""), ("", "")]
    assert subscribe("a") == ("NotAllowedError", "Subscribe limited by subscribe rate limit per consumer.")
    assert subscribe("b") == ("", "")
